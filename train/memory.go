package train

import (
	"fmt"
	"math"

	"github.com/dustin/go-humanize"

	"github.com/mquine/mquine/internal/proc"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank"
	"github.com/mquine/mquine/train/recipe"
)

// What is counted here is certain to be allocated, so that nothing is refused that would succeed. What depends on
// the draws is left out where little of it is certain, as with Z-samples.

const (
	floatBytes = 4
	// perTriple is what a trainer keeps of a training triple: itself, and its two entries in the index.
	perTriple = 12 + 2*5
)

// Memory lists what a training with the recipe allocates beside the data set.
func Memory(c *recipe.Recipe, g *kg.Graph, m Machine) ([]proc.Need, error) {
	return memoryOf(c, newCensus(g), m)
}

// CheckMemory says whether the largest training of the recipes needs more memory than the machine and its limits leave.
func CheckMemory(g *kg.Graph, m Machine, recipes ...recipe.Recipe) error {
	var largest *recipe.Recipe
	var needs []proc.Need
	census := newCensus(g)
	for i := range recipes {
		n, err := memoryOf(&recipes[i], census, m)
		if err != nil {
			return err
		}
		if largest == nil || proc.Total(n) > proc.Total(needs) {
			largest, needs = &recipes[i], n
		}
	}
	if largest == nil {
		return nil
	}
	advice := "lower dim or batch"
	if largest.Negatives.Sampled() {
		advice = "lower dim, batch or negative_count"
	}
	work := fmt.Sprintf("training %s, d = %d, on %s", largest.Model, largest.Dim, g.Name)
	return proc.CheckMemory(work, advice+", or give it more memory", needs...)
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

// memoryOf lists what a training allocates beside the data set.
func memoryOf(c *recipe.Recipe, s *census, m Machine) ([]proc.Need, error) {
	config, err := model.StartConfig(c.ModelConfig(s.entities, s.relations), c.Start())
	if err != nil {
		return nil, err
	}
	list, err := model.Parameters(config)
	if err != nil {
		return nil, err
	}
	parameters := parameterBytes(list)
	needs := []proc.Need{{For: "parameters", Bytes: parameters}}
	switch c.Optimiser {
	case recipe.Adam:
		needs = append(needs, proc.Need{For: "optimiser", Bytes: 2 * parameters})
	case recipe.Adagrad:
		needs = append(needs, proc.Need{For: "optimiser", Bytes: parameters})
	}
	if c.EMA > 0 {
		needs = append(needs, proc.Need{For: "average", Bytes: parameters})
	}
	bare, err := model.Unfilled(config)
	if err != nil {
		return nil, err
	}
	needs = append(needs, stepMemory(c, s, bare, m.Threads)...)
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

// stepMemory lists the buffers of the largest step: those of newStepper, stepper.run and preparer.
func stepMemory(c *recipe.Recipe, s *census, m model.Trainable, threads int) []proc.Need {
	n, towers, tables := stepSizeOf(c, s, threads), m.Training(), tablesOf(m)
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

func stepSizeOf(c *recipe.Recipe, s *census, threads int) (n stepSize) {
	n.queries = 2 * float64(min(c.Batch, s.triples))
	switch {
	case c.Negatives == recipe.KvsAll:
		n.queries = float64(min(c.Batch, s.anchors))
	case c.Distribution == recipe.Bernoulli:
		n.queries /= 2
	}
	for _, triples := range s.perRelation {
		// The queries of a relation make groups for each side, not all of them full.
		queries := n.queries * float64(triples) / float64(max(s.triples, 1))
		n.groups += 2 * max(queries/2/groupSize, 1-math.Exp(-queries/2))
		n.relations += 1 - math.Exp(-queries)
	}
	if c.Negatives == recipe.KvsAll { // which draws queries, not triples
		n.groups, n.relations = n.queries/groupSize, 1
	}

	switch drawn := min(c.NegativeCount, s.entities); c.Negatives {
	case recipe.OneVsAll, recipe.KvsAll:
		n.entities, n.rows, n.blockRows = float64(s.entities), float64(s.entities), float64(s.entities)
		n.scores = n.queries * float64(stride(s.entities))
	case recipe.SharedNegatives: // a block for each side
		other := 1 - float64(drawn)/float64(s.entities)
		n.entities, n.rows, n.blockRows = float64(s.entities)*(1-other*other), 2*float64(drawn), 2*float64(drawn)
		n.scores = n.queries / 2 * float64(stride(drawn))
		if threads%2 == 0 && c.Distribution != recipe.Bernoulli { // both at once
			n.scores *= 2
		}
	case recipe.IndependentNegatives:
		n.pairs = n.queries * float64(c.NegativeCount)
		n.entities = s.distinct(c.Distribution, n.pairs)
		n.rows = n.entities
	}
	return n
}

// distinct returns how many different entities are expected among so many drawn ones.
func (s *census) distinct(distribution recipe.Distribution, draws float64) (n float64) {
	weights, sum := make([]float64, s.entities), 0.0
	for e, degree := range s.degrees {
		weights[e] = 1
		if distribution == recipe.Degree {
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
