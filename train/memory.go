package train

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/dustin/go-humanize"

	"github.com/mquine/mquine/internal/proc"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank"
)

// What is counted here is certain to be allocated, so that nothing is refused that would succeed. What depends on
// the draws is left out where little of it is certain, as with Z-samples.

const (
	floatBytes = 4
	// perTriple is what a trainer keeps of a training triple: itself, and its two entries in the index.
	perTriple = 12 + 2*5
)

// CheckMemory says whether a training with the options needs more memory than the machine and its limits leave.
func (c *Config) CheckMemory(g *kg.Graph, m Machine) error {
	needs, err := c.Memory(g, m)
	if err != nil {
		return err
	}
	advice := "lower dim or batch"
	if !c.oneBlock() {
		advice = "lower dim, batch or negative_count"
	}
	work := fmt.Sprintf("training %s, d = %d, on %s", c.Model, c.Dim, g.Name)
	return proc.CheckMemory(work, advice+", or give it more memory", needs...)
}

// Memory lists what a training with the options allocates beside the data set.
func (c *Config) Memory(g *kg.Graph, m Machine) ([]proc.Need, error) {
	return c.memory(newCensus(g), m)
}

// CheckMemory is that of the largest configuration of the space.
func (s *Space) CheckMemory(g *kg.Graph, m Machine) error {
	var largest Config
	var most int64
	census := newCensus(g)
	for _, c := range s.corners() {
		if c.Check() != nil {
			continue // it is never drawn
		}
		needs, err := c.memory(census, m)
		if err != nil {
			return err
		}
		if n := proc.Total(needs); n > most {
			largest, most = c, n
		}
	}
	if most == 0 {
		return nil // as a search will tell
	}
	if err := largest.CheckMemory(g, m); err != nil {
		return fmt.Errorf("the space has configurations that do not fit: %w", err)
	}
	return nil
}

// memoryKeys are the options on which the memory depends: it grows with each number of them.
var memoryKeys = []string{
	"model", "dim", "batch", "negatives", "negative_count", "distribution", "optimiser", "clip", "average",
}

// corners lists configurations of the space with one among them that needs the most memory.
func (s *Space) corners() []Config {
	corners := []Config{s.fixed}
	for _, d := range s.open {
		if !slices.Contains(memoryKeys, d.key) {
			continue
		}
		var next []Config
		for _, c := range corners {
			for _, text := range d.extremes() {
				o, _ := c.option(d.key)
				if err := o.Value.Set(text); err != nil {
					panic(err) // the ends and the choices are values of the option
				}
				next = append(next, c)
			}
		}
		corners = next
	}
	return corners
}

// extremes returns the largest number, or all words.
func (d dimension) extremes() []string {
	if d.choices == nil {
		return []string{strconv.FormatFloat(d.max, 'f', -1, 64)}
	}
	largest, most := "", math.Inf(-1)
	for _, text := range d.choices {
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return d.choices
		}
		if x > most {
			largest, most = text, x
		}
	}
	return []string{largest}
}

// census is what the memory of a training depends on in a data set.
type census struct {
	entities, relations int
	triples, valid      int   // of the splits
	perRelation         []int // training triples
	anchors             int   // heads, and tails, of training triples
	degrees             []int // of the entities in training triples
}

func newCensus(g *kg.Graph) *census {
	s := &census{
		entities: g.Entities.Len(), relations: g.Relations.Len(),
		triples: len(g.Splits[kg.Train]), valid: len(g.Splits[kg.Valid]),
		perRelation: make([]int, g.Relations.Len()), degrees: make([]int, g.Entities.Len()),
	}
	seen := [2][]bool{make([]bool, s.entities), make([]bool, s.entities)}
	for _, t := range g.Splits[kg.Train] {
		s.perRelation[t.Relation]++
		for side, e := range [2]int32{t.Head, t.Tail} {
			s.degrees[e]++
			if !seen[side][e] {
				seen[side][e] = true
				s.anchors++
			}
		}
	}
	return s
}

// memory is Memory, for a data set of which the census is known.
func (c *Config) memory(s *census, m Machine) ([]proc.Need, error) {
	config := c.modelConfig(s.entities, s.relations)
	list, err := model.Parameters(config)
	if err != nil {
		return nil, err
	}
	parameters := parameterBytes(list)
	needs := []proc.Need{{For: "parameters", Bytes: parameters}}
	switch c.Optimiser {
	case adamOptimiser:
		needs = append(needs, proc.Need{For: "optimiser", Bytes: 2 * parameters})
	case adagradOptimiser:
		needs = append(needs, proc.Need{For: "optimiser", Bytes: parameters})
	}
	if c.Average > 0 {
		needs = append(needs, proc.Need{For: "average", Bytes: parameters})
	}
	bare, err := unfilledModel(config)
	if err != nil {
		return nil, err
	}
	needs = append(needs, c.stepMemory(s, bare, m.Threads)...)
	needs = append(needs, proc.Need{For: "training triples and their index", Bytes: perTriple * int64(s.triples)})
	if c.ValidEvery > 0 {
		validation := rank.LeastMemory(bare, s.valid, rank.Options{Backend: m.Backend, Threads: m.Threads})
		needs = append(needs, proc.Need{For: "validation", Bytes: proc.Total(validation)})
	}
	return needs, nil
}

func parameterBytes(list []model.Parameter) (bytes int64) {
	for _, p := range list {
		bytes += floatBytes * int64(p.Len())
	}
	return bytes
}

// unfilled is a model without parameters, for the sake of its sizes.
type unfilled struct {
	model.Trainable
	config model.Config
}

func (u unfilled) Config() model.Config { return u.config }

func unfilledModel(c model.Config) (unfilled, error) {
	empty := c
	empty.Entities, empty.Relations = 0, 0
	list, err := model.Parameters(empty)
	if err != nil {
		return unfilled{}, err
	}
	m, err := model.New(empty, make([][]float32, len(list)))
	if err != nil {
		return unfilled{}, err
	}
	trainable, ok := m.(model.Trainable)
	if !ok {
		return unfilled{}, fmt.Errorf("model %s cannot be trained", c.Model)
	}
	return unfilled{trainable, c}, nil
}

// stepMemory lists the buffers of the largest step: those of newStepper, stepper.run and preparer.
func (c *Config) stepMemory(s *census, m unfilled, threads int) []proc.Need {
	n, towers, tables := c.stepSize(s, threads), m.Training(), tablesOf(m)
	width, relation := float64(tables[0].width), float64(relationWidth(tables))
	features := float64(stride(towers.Width)) * (n.rows + n.blockRows + 2*n.queries)
	gradients := n.groups * relation
	if c.Clip > 0 { // they wait for their norm
		gradients += n.entities*width + n.relations*relation
	}
	// Of a pair its row, its score, its query, its place in the order of the rows, and the draw.
	const perPair = 5
	scratch := float64(threads) * (float64(towers.Scratch+towers.Width) + 2*width)
	return []proc.Need{
		{For: "features, queries and gradients of a step", Bytes: int64(floatBytes * (features + gradients))},
		{For: "scores of a step", Bytes: int64(floatBytes * n.scores)},
		{For: "negatives of a step", Bytes: int64(floatBytes * perPair * n.pairs)},
		{For: "scratch memory of the threads", Bytes: int64(floatBytes * scratch)},
	}
}

// stepSize has the numbers of what a full step is expected to have, or a lower bound of them.
type stepSize struct {
	queries, groups, relations float64
	rows, blockRows, entities  float64 // entities are the different ones of the rows
	scores, pairs              float64
}

func (c *Config) stepSize(s *census, threads int) (n stepSize) {
	n.queries = 2 * float64(min(c.Batch, s.triples))
	switch {
	case c.Negatives == kvsAllNegatives:
		n.queries = float64(min(c.Batch, s.anchors))
	case c.Distribution == bernoulliDistribution:
		n.queries /= 2
	}
	for _, triples := range s.perRelation {
		// The queries of a relation make groups for each side, not all of them full.
		queries := n.queries * float64(triples) / float64(max(s.triples, 1))
		n.groups += 2 * max(queries/2/groupSize, 1-math.Exp(-queries/2))
		n.relations += 1 - math.Exp(-queries)
	}
	if c.Negatives == kvsAllNegatives { // which draws queries, not triples
		n.groups, n.relations = n.queries/groupSize, 1
	}

	switch drawn := min(c.NegativeCount, s.entities); c.Negatives {
	case allNegatives, kvsAllNegatives:
		n.entities, n.rows, n.blockRows = float64(s.entities), float64(s.entities), float64(s.entities)
		n.scores = n.queries * float64(stride(s.entities))
	case sharedNegatives: // a block for each side
		other := 1 - float64(drawn)/float64(s.entities)
		n.entities, n.rows, n.blockRows = float64(s.entities)*(1-other*other), 2*float64(drawn), 2*float64(drawn)
		n.scores = n.queries / 2 * float64(stride(drawn))
		if threads%2 == 0 && c.Distribution != bernoulliDistribution { // both at once
			n.scores *= 2
		}
	case independentNegatives:
		n.pairs = n.queries * float64(c.NegativeCount)
		n.entities = s.distinct(c.Distribution, n.pairs)
		n.rows = n.entities
	}
	return n
}

// distinct returns how many different entities are expected among so many drawn ones.
func (s *census) distinct(distribution string, draws float64) (n float64) {
	weights, sum := make([]float64, s.entities), 0.0
	for e, degree := range s.degrees {
		weights[e] = 1
		if distribution == degreeDistribution {
			weights[e] = math.Pow(float64(degree), degreePower)
		}
		sum += weights[e]
	}
	for _, w := range weights {
		n += 1 - math.Exp(-draws*w/sum)
	}
	return n
}

// CheckParameters says whether the parameters of a model need more memory than there is.
func CheckParameters(c model.Config) error {
	list, err := model.Parameters(c)
	if err != nil {
		return err
	}
	work := fmt.Sprintf("making %s, d = %d, for %s entities and %s relations", c.Model, c.Dim,
		humanize.Comma(int64(c.Entities)), humanize.Comma(int64(c.Relations)))
	return proc.CheckMemory(work, "lower its dimension, or give it more memory",
		proc.Need{For: "parameters", Bytes: parameterBytes(list)})
}
