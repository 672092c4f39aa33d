package train

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"

	"github.com/dustin/go-humanize"

	"github.com/mquine/mquine/internal/proc"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank"
	"github.com/mquine/mquine/train/recipe"
)

// The estimates in this file should not exceed the memory of a run, so a run that would fit is not
// refused. Where a size depends on random draws, they use its expected value or a lower bound. They
// do not count Z-samples, whose number is known only once they are drawn.

const (
	floatBytes = 4
	// perTriple is the memory that a trainer needs for a training triple in addition to the data set: its
	// two entries in the index.
	perTriple = 2 * 5
	// perItem is the memory for the place of a triple in the order of an epoch.
	perItem = 4
	// perWeight is the memory for the weight of a triple with subsampling.
	perWeight = 8

	// perQueryPart is the memory for a queryPart and its place in the order of an epoch.
	perQueryPart = 32 + perItem
)

// Memory estimates, by purpose, the memory that a run with the recipe needs in addition to the data
// set, for a model with the given configuration. The first purpose is the parameters.
func Memory(
	ctx context.Context, c *recipe.Recipe, config model.Config, g *kg.Graph, m Machine,
) ([]proc.Need, error) {
	if err := g.CheckIdentifiers(kg.Train); err != nil {
		return nil, err
	}
	return memoryOfModel(ctx, c, config, newCensus(g), m)
}

// CheckMemory returns an error if a run with the recipe needs more memory than is available, or if m
// lacks a backend or threads.
func CheckMemory(ctx context.Context, g *kg.Graph, m Machine, c recipe.Recipe) error {
	return CheckLargest(ctx, g, m, slices.Values([]recipe.Recipe{c}))
}

// CheckLargest is like CheckMemory for the recipe that needs the most memory.
func CheckLargest(ctx context.Context, g *kg.Graph, m Machine, recipes iter.Seq[recipe.Recipe]) error {
	if err := cmp.Or(m.check(), g.CheckIdentifiers(kg.Train)); err != nil {
		return err
	}
	var largest recipe.Recipe
	var needs []proc.Need
	census := newCensus(g)
	for c := range recipes {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := memoryOf(ctx, &c, census, m)
		if err != nil {
			return err
		}
		if needs == nil || proc.Total(n) > proc.Total(needs) {
			largest, needs = c, n
		}
	}
	if needs == nil {
		return nil
	}
	advice := "lower dim or batch"
	if largest.Negatives.Sampled() {
		advice = "lower dim, batch or negative_count"
	}
	work := fmt.Sprintf("training %s, d = %d, on %s", largest.Model, largest.Dim,
		cmp.Or(g.Name, "the data set"))
	return proc.CheckMemory(work, advice+", or make more memory available", needs...)
}

// census holds the sizes of a data set that determine the memory of a run.
type census struct {
	entities, relations int
	triples, valid      int   // numbers of triples in the training and the validation split
	perRelation         []int // training triples of each relation
	degrees             []int // degree of each entity in the training triples
	graph               *kg.Graph
	// queries holds the number of distinct queries of each relation for tails, and then for heads. It is nil
	// until countQueries sets it, because only k-vs-all needs it.
	queries []int
}

func newCensus(g *kg.Graph) *census {
	s := &census{
		entities: g.Entities.Len(), relations: g.Relations.Len(),
		triples: len(g.Splits[kg.Train]), valid: len(g.Splits[kg.Valid]),
		perRelation: make([]int, g.Relations.Len()), degrees: make([]int, g.Entities.Len()), graph: g,
	}
	for _, t := range g.Splits[kg.Train] {
		s.perRelation[t.Relation]++
		s.degrees[t.Head]++
		s.degrees[t.Tail]++
	}
	return s
}

// countQueries sets queries. It lists the anchors of each relation together, so one mark for each entity
// tells which of them are new.
func (s *census) countQueries(ctx context.Context) error {
	if s.queries != nil {
		return nil
	}
	queries := make([]int, 2*s.relations)
	anchors, next := make([]int32, s.triples), make([]int, s.relations) // next is the end of a relation's anchors
	seenIn := make([]int32, s.entities)                                 // the last group with the anchor, from 1
	for i, side := range []kg.Side{kg.Tail, kg.Head} {
		end := 0
		for r, n := range s.perRelation {
			next[r] = end
			end += n
		}
		for _, t := range s.graph.Splits[kg.Train] {
			q, _ := t.Query(side)
			anchors[next[q.Relation]] = q.Anchor
			next[q.Relation]++
		}
		for r, n := range s.perRelation {
			if err := ctx.Err(); err != nil {
				return err
			}
			group := i*s.relations + r
			for _, e := range anchors[next[r]-n : next[r]] {
				if seenIn[e] != int32(group+1) {
					seenIn[e] = int32(group + 1)
					queries[group]++
				}
			}
		}
	}
	s.queries = queries
	return nil
}

// queryParts returns the number of distinct queries or, if maxAnswers is not 0, a lower bound on the number of
// their parts. It takes all training triples to be distinct. countQueries must come first.
func (s *census) queryParts(maxAnswers int) (n int) {
	for _, queries := range s.queries {
		n += queries
	}
	if maxAnswers == 0 {
		return n
	}
	return max(n, 2*s.triples/maxAnswers)
}

// groupsOfParts returns the expected number of pairs of a relation and a side that have queries in a step
// with the given number of parts of queries. countQueries must come first.
func (s *census) groupsOfParts(parts float64, maxAnswers int) (n float64) {
	var list []float64 // parts of each group
	total := 0.0
	for i, queries := range s.queries {
		all := float64(queries)
		if maxAnswers > 0 {
			all = max(all, float64(s.perRelation[i%s.relations])/float64(maxAnswers))
		}
		list, total = append(list, all), total+all
	}
	absent := 1 - min(1, parts/total) // probability that the step lacks a part
	for _, all := range list {
		n += 1 - math.Pow(absent, all)
	}
	return n
}

// memoryOf is like Memory, for the model that the recipe starts with, and needs only the census of the
// data set.
func memoryOf(ctx context.Context, c *recipe.Recipe, s *census, m Machine) ([]proc.Need, error) {
	config, err := model.StartConfig(c.ModelConfig(s.entities, s.relations), c.Start())
	if err != nil {
		return nil, err
	}
	return memoryOfModel(ctx, c, config, s, m)
}

func memoryOfModel(
	ctx context.Context, c *recipe.Recipe, config model.Config, s *census, m Machine,
) ([]proc.Need, error) {
	if c.Negatives == recipe.KvsAll {
		if err := s.countQueries(ctx); err != nil {
			return nil, err
		}
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
		needs = append(needs, proc.Need{For: "moving average", Bytes: parameters})
	}
	bare, err := model.Unfilled(config)
	if err != nil {
		return nil, err
	}
	if err := checkLayout(bare); err != nil {
		return nil, err
	}
	needs = append(needs, stepMemory(c, s, bare, m.Threads)...)
	triple := int64(perTriple)
	if c.Negatives != recipe.KvsAll {
		triple += perItem
	}
	if c.Subsampling {
		triple += perWeight
	}
	needs = append(needs, proc.Need{For: "training triples and their index", Bytes: triple * int64(s.triples)})
	if c.Negatives == recipe.KvsAll {
		parts, answers := int64(s.queryParts(c.MaxAnswers)), 2*int64(s.triples)
		needs = append(needs, proc.Need{For: "queries and their answers", Bytes: perQueryPart*parts + 4*answers})
	}
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

// stepMemory estimates the memory that stepper and preparer allocate for a full step.
func stepMemory(c *recipe.Recipe, s *census, m model.Trainable, threads int) []proc.Need {
	n, towers, tables := stepSizeOf(c, s, model.DependenceOf(m), threads), m.Training(), tablesOf(m)
	width, relation := float64(tables[0].width), float64(relationSize(tables))
	phiRows := n.rows + n.denseRows // of Φ and its gradient
	if !c.Negatives.Sampled() && multipliesTable(towers) {
		phiRows = n.denseRows // Φ is the table of entities
	}
	features := float64(linalg.LineStride(towers.Width)) * phiRows
	features += float64(linalg.LineStride(towers.PsiWidth())) * 2 * n.queries
	gradients := n.querySegments * relation
	if model.DependenceOf(m) != model.OnEntity { // gradients of entities, by feature row
		gradients += n.rows * float64(linalg.LineStride(tables[0].width))
	}
	if c.Clip > 0 { // kept until their norm is known
		gradients += n.entities*width + n.relations*relation
	}
	if _, ok := m.(model.Network); ok { // see networkStep
		features += n.queries*(float64(linalg.LineStride(tables[0].width)+towers.PerQuery)) +
			n.relationSides*float64(towers.PerRelation)
		gradients += n.queries*float64(linalg.LineStride(relationSize(tables))) +
			float64(totalWidth(tablesWith(model.Global, tables)))
	}
	chunk, chunks := 0.0, 0.0 // memory of a thread for a chunk of relationQueries, and the number of chunks
	switch form := towers.Relations; {
	case c.RelationWeight > 0 && form == nil: // see relationQueries
		targets, candidates := n.queries, c.RelationNegatives
		if !isSided(m.Config()) && c.Distribution != recipe.Bernoulli {
			targets /= 2 // a triple's two queries are scored once
		}
		if all := s.relations * relationsPer(c); candidates == 0 || candidates > all {
			candidates = all
		}
		chunks = max(1, math.Min(maxChunks, math.Floor(targets/leastChunk)))
		features += 2 * targets * float64(linalg.LineStride(tables[0].width))
		gradients += chunks * float64(candidates) * relation
		chunk = targets / chunks * float64(linalg.LineStride(candidates+1)+linalg.LineStride(towers.Width))
	case c.RelationWeight > 0 || c.DuraPair > 0: // see linearRelations
		features += n.queries * float64(2*linalg.LineStride(form.Width)+2*linalg.LineStride(tables[0].width))
		if c.RelationWeight > 0 {
			rows := s.relations * tables[1].width / form.Width
			features += n.queries * float64(linalg.LineStride(rows))
			gradients += float64(rows * linalg.LineStride(form.Width))
		}
	}
	scores := n.scores
	if r := towers.Region; r != nil && n.denseRows > 0 {
		candidates := n.scores / n.scoredQueries
		scores += float64(r.Scratch(int(n.scoredQueries), int(candidates)))
	}
	if d := towers.Distance; d != nil {
		scores += n.scores * copiesOfScores(*d)
	}
	if r := towers.Rest; r != nil { // see twoDistances
		scores += n.scores * (1 + copiesOfScores(r.Distance))
	}
	// The row of a pair, its query, position in the order of rows, negative sample, and scores.
	perPair := float64(4 + lossBlocks(c, towers))
	scratch := float64(threads) * (float64(towers.Scratch+towers.Width) + 2*width)
	scratch += min(float64(threads), chunks) * chunk
	if newDuals(c) != nil { // each query has at least one target
		gradients += n.queries * float64(linalg.LineStride(tables[0].width))
		scratch += float64(threads * (towers.Scratch + towers.PsiWidth()))
	}
	if c.RelationDropout > 0 { // see relationCopy
		scratch += float64(threads) * (float64(towers.Scratch) + relation)
	}
	return []proc.Need{
		{For: "features, queries and gradients of a step", Bytes: int64(floatBytes * (features + gradients))},
		{For: "scores of a step", Bytes: int64(floatBytes * scores)},
		{For: "negatives of a step", Bytes: int64(floatBytes * perPair * n.pairs)},
		{For: "scratch memory of the threads", Bytes: int64(floatBytes * scratch)},
	}
}

// copiesOfScores returns how many matrices with the shape of the scores distances needs.
func copiesOfScores(kind linalg.DistanceKind) float64 {
	copies := float64(kind.Scratch())
	if kind.Root() {
		copies++ // distances.kept
	}
	return copies
}

// relationsPer returns the number of relations of the model for each relation of the data set.
func relationsPer(c *recipe.Recipe) int {
	if c.Reciprocal {
		return 2
	}
	return 1
}

// stepSize holds the expected sizes of a full step, or lower bounds on them.
type stepSize struct {
	queries, querySegments, relations float64
	relationSides                     float64 // pairs of a relation and a side with queries
	rows, denseRows, entities         float64 // feature rows, and their distinct entities
	scores, pairs                     float64
	scoredQueries                     float64 // queries whose scores are in memory at the same time
}

// stepSizeOf returns the sizes of a full step of a model with the given features.
func stepSizeOf(c *recipe.Recipe, s *census, depends model.Dependence, threads int) (n stepSize) {
	n.queries = 2 * float64(min(c.Batch, s.triples))
	switch {
	case c.Negatives == recipe.KvsAll:
		n.queries = float64(min(c.Batch, s.queryParts(c.MaxAnswers)))
	case c.Distribution == recipe.Bernoulli:
		n.queries /= 2
	}
	for _, triples := range s.perRelation {
		// Each side of a relation has its own segments, and not all of them are full.
		queries := n.queries * float64(triples) / float64(max(s.triples, 1))
		n.querySegments += 2 * max(queries/2/querySegmentSize, 1-math.Exp(-queries/2))
		n.relations += 1 - math.Exp(-queries)
		n.relationSides += 2 * (1 - math.Exp(-queries/2))
	}
	if c.Negatives == recipe.KvsAll { // a step may contain queries of any relation
		n.querySegments, n.relations = n.queries/querySegmentSize, 1
		n.relationSides = s.groupsOfParts(n.queries, c.MaxAnswers)
	}

	groups := 1.0 // groups of queries with the same features
	if depends&model.OnRelation != 0 {
		groups = max(1, n.relationSides)
	}

	switch sampled := min(c.NegativeCount, s.entities); c.Negatives {
	case recipe.OneVsAll, recipe.KvsAll:
		n.rows = float64(s.entities)
		n.denseRows = n.rows
		n.entities = n.rows
		n.scoredQueries = n.queries
		n.scores = n.scoredQueries * float64(linalg.LineStride(s.entities))
	case recipe.SharedNegatives: // a score matrix for each side
		n.rows = 2 * float64(sampled)
		n.denseRows = n.rows
		absent := 1 - float64(sampled)/float64(s.entities) // probability that a matrix lacks an entity
		n.entities = float64(s.entities) * (1 - absent*absent)
		n.scoredQueries = n.queries / 2
		if threads%2 == 0 && c.Distribution != recipe.Bernoulli { // both matrices at once
			n.scoredQueries *= 2
		}
		n.scores = n.scoredQueries * float64(linalg.LineStride(sampled))
	case recipe.IndependentNegatives:
		negatives, classes := float64(c.NegativeCount), s.classes(c.Distribution)
		n.pairs = n.queries * negatives
		n.entities = distinctNegatives(classes, n.queries, negatives)
		n.rows = n.entities
		if depends&model.OnRelation == 0 {
			break
		}
		n.rows = 0 // each side of a relation has separate rows
		for _, triples := range s.perRelation {
			queries := n.queries * float64(triples) / float64(max(s.triples, 1))
			if c.Distribution == recipe.Bernoulli { // most queries may be for one side
				n.rows += distinctNegatives(classes, queries, negatives)
			} else {
				n.rows += 2 * distinctNegatives(classes, queries/2, negatives)
			}
		}
	}
	if depends&model.OnRelation != 0 && n.denseRows > 0 {
		// Each side of a relation has a separate score matrix, with copies of the rows. The matrices
		// share memory.
		n.scores /= n.queries
		switch c.Negatives {
		case recipe.OneVsAll, recipe.KvsAll:
			n.rows *= groups
		case recipe.SharedNegatives: // the rows already count for two sides
			n.rows *= max(1, groups/2)
		}
		n.denseRows = n.rows
	}
	return n
}

// class is a number of entities that a sampler draws with the same probability.
type class struct{ entities, probability float64 }

// classes returns the classes of all entities.
func (s *census) classes(distribution recipe.Distribution) (list []class) {
	if distribution != recipe.Degree {
		return []class{{float64(s.entities), 1 / float64(s.entities)}}
	}
	numbers, sum := map[int]int{}, 0.0
	for _, degree := range s.degrees {
		numbers[degree]++
		sum += math.Pow(float64(degree), degreePower)
	}
	for _, degree := range slices.Sorted(maps.Keys(numbers)) {
		list = append(list, class{float64(numbers[degree]), math.Pow(float64(degree), degreePower) / sum})
	}
	return list
}

// distinctNegatives returns the expected number of distinct negatives of queries whose number
// has a Poisson distribution with the given mean.
func distinctNegatives(classes []class, queries, negatives float64) (n float64) {
	for _, c := range classes {
		drawn := -math.Expm1(-negatives * c.probability) // probability that a query has the entity
		n += c.entities * -math.Expm1(-queries*drawn)
	}
	return n
}

// CheckParameters returns an error if the parameters of a model need more memory than is available.
func CheckParameters(c model.Config) error {
	list, err := model.Parameters(c)
	if err != nil {
		return err
	}
	work := fmt.Sprintf("creating %s, d = %d, for %s entities and %s relations", c.Model, c.Dim,
		humanize.Comma(int64(c.Entities)), humanize.Comma(int64(c.Relations)))
	return proc.CheckMemory(work, "lower its dimension, or make more memory available",
		proc.Need{For: "parameters", Bytes: parameterBytes(list)})
}
