package train

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/mquine/mquine/internal/sample"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/zpattern"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/train/internal/stream"
	"github.com/mquine/mquine/train/recipe"
)

// preparer creates workloads.
type preparer struct {
	config       *recipe.Recipe
	seed         uint64
	threads      int
	triples      []kg.Triple
	known        *kg.Index
	sampler      *sampler
	depends      model.Dependence // what features depend on
	numRelations int              // number of relations of the data set
	z            *zpattern.Index  // nil without Z-samples
	// headProbability holds the probability of a head query for each relation. It is nil unless the
	// distribution is bernoulli.
	headProbability []float64
	// subsampling holds the weight of each training triple. It is nil without subsampling.
	subsampling []float64
	// degreeWeights holds the weight of each entity as a target. It is nil without such weights.
	degreeWeights []float64

	work  workload
	items []int32 // the numbers of work.positives in triples; unused with kvsall
	// rowOf holds the feature row of each entity for queries that share features with listedFor, or
	// −1. All entries are −1 between calls to prepare.
	rowOf     []int32
	listedFor kg.Query
	listed    [2]span // the rows that rowOf lists
	taken     []bool  // scratch memory of the sampler
	scratch   []drawScratch
	own       [][]int32 // the independent negatives of each main query
	zTriples  [][]kg.Triple
	zSamples  []zSample
	maxPairs  int // largest number of pairs in a step
	// takenRelations is scratch memory of drawRelations. All entries are false between its calls.
	takenRelations []bool
}

// drawScratch is the memory of a goroutine that draws random numbers.
type drawScratch struct {
	pcg        *rand.PCG
	rng        *rand.Rand // draws from pcg
	z          *zpattern.Sampler
	candidates []int32
}

// zSample is a Z-sample in the form of a query and its answer.
type zSample struct {
	kg.Query
	answer int32
	weight float64
}

func newPreparer(
	ctx context.Context, c *recipe.Recipe, g *kg.Graph, triples []kg.Triple, known *kg.Index,
	depends model.Dependence, threads int,
) (*preparer, error) {
	n := g.Entities.Len()
	p := &preparer{
		config: c, seed: c.Seed, threads: threads, triples: triples, known: known,
		sampler: newSampler(c, n, triples, known), depends: depends, numRelations: g.Relations.Len(),
		rowOf: make([]int32, n), taken: make([]bool, n), scratch: make([]drawScratch, threads),
		maxPairs: math.MaxInt32,
	}
	for e := range p.rowOf {
		p.rowOf[e] = -1
	}
	if c.ZSamples > 0 {
		var err error
		if p.z, err = zpattern.NewIndex(ctx, g); err != nil {
			return nil, err
		}
	}
	for i := range p.scratch {
		pcg := rand.NewPCG(0, 0)
		p.scratch[i] = drawScratch{pcg: pcg, rng: rand.New(pcg)}
		if p.z != nil {
			p.scratch[i].z = p.z.NewSampler()
		}
	}
	if c.DegreeWeights {
		p.degreeWeights = degreeWeights(degrees(n, triples))
	}
	var err error
	if c.Distribution == recipe.Bernoulli {
		p.headProbability, err = headProbabilities(ctx, triples, known)
	}
	if err == nil && c.Subsampling {
		p.subsampling, err = subsamplingWeights(ctx, triples, known)
	}
	return p, err
}

// The uses of random numbers. Each use has its own streams.
const (
	useShuffle uint64 = iota + 1
	useSides
	useShared
	useIndependent
	useZ
	useDropout
	useEntityDropout
	useLayerDropout // plus the model.Layer

	// Uses that were added later have numbers above the layers.
	useRelationDropout   = 32
	useRelationNegatives = 33
	useQueryParts        = 34
)

// startStream sets d to the start of a stream of the step's random numbers: number i of those for use.
func (p *preparer) startStream(d *drawScratch, use uint64, i int) {
	stream.Seed(d.pcg, p.seed, use, p.work.epoch, p.work.step, i)
}

// prepare returns the workload of a step whose positives are the training triples with the given
// numbers. The next call overwrites it.
func (p *preparer) prepare(ctx context.Context, items []int32, epoch, step int) (*workload, error) {
	w := p.reset(epoch, step)
	p.items = append(p.items[:0], items...)
	slices.SortFunc(p.items, func(i, j int32) int {
		a, b := p.triples[i], p.triples[j]
		return cmp.Or(cmp.Compare(a.Relation, b.Relation), cmp.Compare(a.Head, b.Head), cmp.Compare(a.Tail, b.Tail))
	})
	for _, i := range p.items {
		w.positives = append(w.positives, p.triples[i])
	}
	tails := p.addQueries()
	return w, p.complete(ctx, tails)
}

// prepareKvsAll returns the workload of a step with the given parts of queries. It sorts them. The next
// call overwrites the workload.
func (p *preparer) prepareKvsAll(
	ctx context.Context, queries *queryParts, asked []queryPart, epoch, step int,
) (*workload, error) {
	w := p.reset(epoch, step)
	slices.SortFunc(asked, func(a, b queryPart) int {
		return cmp.Or(cmp.Compare(a.Side, b.Side), cmp.Compare(a.Relation, b.Relation),
			cmp.Compare(a.Anchor, b.Anchor), cmp.Compare(a.first, b.first))
	})
	w.main = len(asked)
	for _, q := range asked {
		targets := queries.targets(q)
		weight := float64(len(targets))
		if !p.config.AnswerWeights {
			weight /= float64(q.total)
		}
		w.queries = append(w.queries, q.Query)
		w.answers = append(w.answers, targets...)
		w.firstAnswer = append(w.firstAnswer, int32(len(w.answers)))
		w.weights = append(w.weights, weight)
		w.penaltyCounts = append(w.penaltyCounts, 2*float64(len(targets)))
		for _, e := range targets {
			w.positives = append(w.positives, q.Triple(e))
		}
	}
	normalise(w.weights)
	return w, p.complete(ctx, 0) // one score matrix contains the queries of both sides
}

// normalise divides weights by their sum.
func normalise(weights []float64) {
	var sum float64
	for _, w := range weights {
		sum += w
	}
	for i := range weights {
		weights[i] /= sum
	}
}

// trainAnswers appends to dst the answers in the training split.
func trainAnswers(dst []int32, known kg.Answers) []int32 {
	for i, e := range known.Entities {
		if known.Splits[i].Has(kg.Train) {
			dst = append(dst, e)
		}
	}
	return dst
}

// reset empties the workload and returns it.
func (p *preparer) reset(epoch, step int) *workload {
	w := &p.work
	*w = workload{
		epoch: epoch, step: step,
		positives: w.positives[:0],
		queries:   w.queries[:0], answers: w.answers[:0], firstAnswer: append(w.firstAnswer[:0], 0),
		weights: w.weights[:0], penaltyCounts: w.penaltyCounts[:0],
		matrices: w.matrices[:0], rows: w.rows[:0], rowSegments: w.rowSegments[:0],
		pairs: w.pairs[:0], pairRows: w.pairRows[:0], zWeights: w.zWeights[:0],
		relationCandidates: w.relationCandidates[:0],
	}
	return w
}

// complete adds everything except the main queries to the workload. The argument tails is the
// number of tail queries, which come first.
func (p *preparer) complete(ctx context.Context, tails int) error {
	p.addMatrices(tails)
	if err := p.draw(ctx); err != nil {
		return err
	}
	p.addPairs()
	if p.z != nil {
		if err := p.checkZ(); err != nil {
			return err
		}
		p.addZ()
	}
	p.forget()
	p.drawRelations()
	return nil
}

// drawRelations draws the candidates of relation prediction.
func (p *preparer) drawRelations() {
	if p.config.RelationWeight == 0 {
		return
	}
	w, d, n := &p.work, &p.scratch[0], p.config.RelationNegatives
	all := p.numRelations * relationsPer(p.config)
	if n == 0 || n >= all {
		w.relationCandidates = appendRange(w.relationCandidates, all)
		return
	}
	p.startStream(d, useRelationNegatives, 0)
	p.takenRelations = resize(p.takenRelations, all)
	w.relationCandidates = sample.AppendDistinct(w.relationCandidates, d.rng, all, n, p.takenRelations)
}

// span is the range first ≤ i < last.
type span struct{ first, last int }

// forget sets all entries of rowOf to −1.
func (p *preparer) forget() {
	p.listed[1].last = len(p.work.rows)
	for _, list := range p.listed {
		for _, e := range p.work.rows[list.first:list.last] {
			p.rowOf[e] = -1
		}
	}
	p.listed = [2]span{}
}

// addQueries adds the queries of the positives, tail queries first. It returns the number of tail
// queries.
func (p *preparer) addQueries() (tails int) {
	w := &p.work
	asksHead := p.drawSides()
	for _, side := range []kg.Side{kg.Tail, kg.Head} {
		for i := range w.positives {
			if asksHead == nil || asksHead[i] == (side == kg.Head) {
				p.addQuery(i, side)
			}
		}
		if side == kg.Tail {
			tails = len(w.queries)
		}
	}
	w.main = len(w.queries)
	normalise(w.weights)
	return tails
}

// drawSides draws, for each positive, whether its query is the head query rather than the tail
// query. It returns nil if every positive has both queries.
func (p *preparer) drawSides() (head []bool) {
	if p.headProbability == nil {
		return nil
	}
	d := &p.scratch[0]
	p.startStream(d, useSides, 0)
	head = make([]bool, len(p.work.positives))
	for i, t := range p.work.positives {
		head[i] = d.rng.Float64() < p.headProbability[t.Relation]
	}
	return head
}

// addQuery adds the query of positive i for one side.
func (p *preparer) addQuery(i int, side kg.Side) {
	w := &p.work
	q, answer := w.positives[i].Query(side)
	weight := 1.0
	if p.subsampling != nil {
		weight = p.subsampling[p.items[i]]
	}
	if p.degreeWeights != nil {
		weight *= p.degreeWeights[answer]
	}
	w.queries = append(w.queries, q)
	w.answers = append(w.answers, answer)
	w.firstAnswer = append(w.firstAnswer, int32(len(w.answers)))
	w.weights = append(w.weights, weight)
	w.penaltyCounts = append(w.penaltyCounts, 1)
}

// addMatrices adds the score matrices: one with all entities, or one for each side with its shared
// negatives. Queries with different features have separate matrices.
func (p *preparer) addMatrices(tails int) {
	w := &p.work
	switch p.config.Negatives {
	case recipe.OneVsAll, recipe.KvsAll:
		w.rows = p.sampler.shared(w.rows, len(p.rowOf), nil, nil)
		p.addRows(0, w.main, w.rows)
	case recipe.SharedNegatives:
		p.addShared(kg.Tail, 0, tails)
		p.addShared(kg.Head, tails, w.main)
	}
	if p.depends == model.OnEntity {
		// An entity that is in both matrices has its row in the second one.
		for i, e := range w.rows {
			p.rowOf[e] = int32(i)
		}
	}
}

// addRows adds the score matrices of main queries first ≤ i < last. The argument entities holds their
// candidates, which are the last rows. If the queries have different features, every matrix after the
// first gets copies of these rows.
func (p *preparer) addRows(first, last int, entities []int32) {
	w := &p.work
	row := len(w.rows) - len(entities)
	for i := first; i < last; {
		next := i + 1
		for next < last && p.share(w.queries[i], w.queries[next]) {
			next++
		}
		if i > first {
			row = len(w.rows)
			w.rows = append(w.rows, entities...)
		}
		w.matrices = append(w.matrices, scoreMatrix{i, next, row, len(w.rows)})
		if p.depends != model.OnEntity {
			q := w.queries[i]
			w.rowSegments = append(w.rowSegments, rowSegment{q.Side, q.Relation, row, len(w.rows)})
		}
		i = next
	}
}

// share reports whether two queries have the same features.
func (p *preparer) share(a, b kg.Query) bool {
	return p.depends.Shares(a.Side == b.Side, a.Relation == b.Relation)
}

// enter prepares rowOf for the pairs of a query. The query is main query i or, if i < 0, the query of
// a Z-sample. All main queries must come first.
func (p *preparer) enter(q kg.Query, i int) {
	if p.depends == model.OnEntity || i != 0 && p.share(p.listedFor, q) {
		return
	}
	if i != 0 {
		p.forget()
	}
	p.listedFor, p.listed[1].first = q, len(p.work.rows)
	if i >= 0 && len(p.work.matrices) > 0 {
		m := p.work.matrixOf(i)
		p.listed[0] = span{m.row, m.lastRow}
		for row := m.row; row < m.lastRow; row++ {
			p.rowOf[p.work.rows[row]] = int32(row)
		}
	}
}

// addShared adds the score matrix of main queries first ≤ i < last, which are all queries for one
// side.
func (p *preparer) addShared(side kg.Side, first, last int) {
	if first == last {
		return
	}
	w, d := &p.work, &p.scratch[0]
	p.startStream(d, useShared, int(side))
	row := len(w.rows)
	w.rows = p.sampler.shared(w.rows, p.config.NegativeCount, p.taken, d.rng)
	if p.config.AnchorNegatives {
		for _, q := range w.queries[first:last] {
			w.rows = append(w.rows, q.Anchor)
		}
		slices.Sort(w.rows[row:])
		w.rows = w.rows[:row+len(slices.Compact(w.rows[row:]))]
	}
	p.addRows(first, last, w.rows[row:])
}

// draw draws the independent negatives and the Z-samples of the main queries.
func (p *preparer) draw(ctx context.Context) error {
	w := &p.work
	if p.config.Negatives != recipe.IndependentNegatives && p.z == nil {
		return nil
	}
	for len(p.own) < w.main {
		p.own = append(p.own, nil)
		p.zTriples = append(p.zTriples, nil)
	}
	return kernel.Parallel(ctx, p.threads, w.main, func(worker, i int) {
		d := &p.scratch[worker]
		d.candidates = p.negatives(d.candidates[:0], d, i)
		if p.z != nil {
			p.startStream(d, useZ, i)
			p.zTriples[i], _ = d.z.Sample(p.zTriples[i][:0], w.queries[i], d.candidates, p.config.ZSamples, d.rng)
		}
	})
}

// negatives appends the negatives of main query i to dst. If they are independent, it draws them.
func (p *preparer) negatives(dst []int32, d *drawScratch, i int) []int32 {
	w, c, q := &p.work, p.config, p.work.queries[i]
	if c.Negatives != recipe.IndependentNegatives {
		m := w.matrixOf(i)
		return unobserved(dst, w.rows[m.row:m.lastRow], p.known.Answers(q))
	}
	p.startStream(d, useIndependent, i)
	own := slices.Grow(p.own[i][:0], c.NegativeCount)
	p.own[i] = p.sampler.independent(own, q, w.answers[i], c.NegativeCount, c.Filter, d.rng)
	return append(dst, p.own[i]...)
}

// hubAnswers is the number of known answers for each candidate from which binary searches for the candidates take
// less time than a pass over the answers.
const hubAnswers = 64

// unobserved appends to dst the entities that are not training answers. The entities must be in
// ascending order.
func unobserved(dst, entities []int32, known kg.Answers) []int32 {
	if len(known.Entities) > hubAnswers*len(entities) {
		for _, e := range entities {
			if !isTrainAnswer(known, e) {
				dst = append(dst, e)
			}
		}
		return dst
	}
	k := 0
	for _, e := range entities {
		for k < len(known.Entities) && known.Entities[k] < e {
			k++
		}
		if k == len(known.Entities) || known.Entities[k] != e || !known.Splits[k].Has(kg.Train) {
			dst = append(dst, e)
		}
	}
	return dst
}

// row returns the feature row of an entity, which it adds if there is none.
func (p *preparer) row(e int32) int32 {
	if p.rowOf[e] < 0 {
		p.rowOf[e] = int32(len(p.work.rows))
		p.work.rows = append(p.work.rows, e)
		if p.depends != model.OnEntity {
			p.work.extendSegment(p.listedFor)
		}
	}
	return p.rowOf[e]
}

// addPairs adds the pairs of the main queries.
func (p *preparer) addPairs() {
	w := &p.work
	independent := p.config.Negatives == recipe.IndependentNegatives
	if independent { // there may be many pairs
		pairs := w.main
		for _, own := range p.own[:w.main] {
			pairs += len(own)
		}
		w.pairRows = slices.Grow(w.pairRows, pairs)
	}
	w.pairs = append(w.pairs, 0)
	for i := range w.main {
		p.enter(w.queries[i], i)
		if p.config.Negatives.Sampled() {
			w.pairRows = append(w.pairRows, p.row(w.answers[i]))
		}
		if independent {
			for _, e := range p.own[i] {
				w.pairRows = append(w.pairRows, p.row(e))
			}
		}
		w.pairs = append(w.pairs, int32(len(w.pairRows)))
	}
}

// checkZ returns an error if the Z-samples could give the step more pairs than 32 bits can count. Their
// number is known only after they are drawn, because Z-patterns may have few triples.
func (p *preparer) checkZ() error {
	pairs := len(p.work.pairRows)
	for _, samples := range p.zTriples[:p.work.main] {
		pairs += len(samples)
	}
	if pairs <= p.maxPairs {
		return nil
	}
	return fmt.Errorf("a step with batch %d and up to %d Z-samples for each query has %d pairs, more than %d: "+
		"lower batch or z_samples", p.config.Batch, p.config.ZSamples, pairs, p.maxPairs)
}

// addZ adds the distinct queries of the Z-samples and their pairs. It merges equal pairs and adds
// up their weights.
func (p *preparer) addZ() {
	w := &p.work
	p.listZ()
	for i, z := range p.zSamples {
		first := i == 0
		if !first && z.Query == p.zSamples[i-1].Query && z.answer == p.zSamples[i-1].answer {
			w.zWeights[len(w.zWeights)-1] += z.weight
			continue
		}
		if first || z.Query != p.zSamples[i-1].Query {
			if !first {
				w.pairs = append(w.pairs, int32(len(w.pairRows)))
			}
			w.queries = append(w.queries, z.Query)
			p.enter(z.Query, -1)
		}
		w.pairRows = append(w.pairRows, p.row(z.answer))
		w.zWeights = append(w.zWeights, z.weight)
	}
	if len(p.zSamples) > 0 {
		w.pairs = append(w.pairs, int32(len(w.pairRows)))
	}
}

// listZ lists the Z-samples of all main queries, sorted by query and answer. The weight of each is
// λ_Z/k times the weight of its main query, where k is the number of the query's samples.
func (p *preparer) listZ() {
	w := &p.work
	p.zSamples = p.zSamples[:0]
	for i, q := range w.queries[:w.main] {
		samples := p.zTriples[i]
		weight := p.config.LambdaZ * w.weights[i] / float64(len(samples))
		for _, t := range samples {
			query, answer := t.Query(q.Side)
			p.zSamples = append(p.zSamples, zSample{query, answer, weight})
		}
	}
	// A stable sort keeps equal pairs in the order of their main queries, so their weights are
	// always added in this order.
	slices.SortStableFunc(p.zSamples, func(a, b zSample) int {
		return cmp.Or(cmp.Compare(a.Side, b.Side), cmp.Compare(a.Relation, b.Relation),
			cmp.Compare(a.Anchor, b.Anchor), cmp.Compare(a.answer, b.answer))
	})
}
