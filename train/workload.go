package train

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/zpattern"
	"github.com/mquine/mquine/train/internal/stream"
	"github.com/mquine/mquine/train/recipe"
)

// workload is what a step computes: queries, feature rows, and which are scored against which.
type workload struct {
	epoch, step int
	positives   []kg.Triple // with kvsall, all training triples that answer the queries

	// queries are those of the positives first, block by block and ordered by relation within one,
	// and then the distinct ones of the Z-samples.
	queries []kg.Query
	main    int
	// For each of the main queries: its answer, unless kvsall has them all, and its weight in the loss. The
	// weights add up to 1.
	answers []int32
	weights []float64
	// penaltyCounts has the number of times that each main query's penalty counts: once, and with kvsall, where no
	// other query counts that of the other side, twice for each answer.
	penaltyCounts []float64

	// blocks are the parts that are scored densely.
	blocks []block
	// rows has the entity of each feature row; those of a block come first, block by block.
	rows []int32

	// The pairs of query i are those from pairs[i] up to pairs[i+1]: a feature row each. A main
	// query has none if its block has all entities; otherwise the answer and its own negatives.
	pairs    []int32
	pairRows []int32
	// zWeights belong to the pairs of the Z-queries, from pairs[main] on.
	zWeights []float64
}

// block is a run of main queries and a run of feature rows, all scored against each other.
type block struct{ query, lastQuery, row, lastRow int }

// blockQueries and blockRows return how many queries and feature rows are in blocks: the first ones.
func (w *workload) blockQueries() int {
	if len(w.blocks) == 0 {
		return 0
	}
	return w.blocks[len(w.blocks)-1].lastQuery
}

func (w *workload) blockRows() int {
	if len(w.blocks) == 0 {
		return 0
	}
	return w.blocks[len(w.blocks)-1].lastRow
}

// pairsOf returns the first pair of query i and the one after its last.
func (w *workload) pairsOf(i int) (first, last int32) { return w.pairs[i], w.pairs[i+1] }

// preparer makes workloads.
type preparer struct {
	config  *recipe.Recipe
	seed    uint64
	threads int
	triples []kg.Triple
	known   *kg.Index
	sampler *sampler
	z       *zpattern.Index // nil without Z-samples
	// headShare is, of each relation, the probability of a query for the head; nil unless it varies.
	headShare []float64
	// weight of a positive under subsampling; nil without.
	weight map[kg.Triple]float64

	work     workload
	rowOf    []int32 // of an entity, −1 outside of prepare
	taken    []bool
	scratch  []drawing // of each thread
	own      [][]int32 // negatives of each main query
	zTriples [][]kg.Triple
	zPairs   []zPair
}

// drawing is the memory of a goroutine that draws.
type drawing struct {
	pcg        *rand.PCG
	rng        *rand.Rand
	z          *zpattern.Sampler
	candidates []int32
}

// zPair is a Z-sample as a query and its answer.
type zPair struct {
	kg.Query
	answer int32
	weight float64
}

func newPreparer(c *recipe.Recipe, g *kg.Graph, triples []kg.Triple, known *kg.Index, threads int) (*preparer, error) {
	n := g.Entities.Len()
	p := &preparer{
		config: c, seed: c.Seed, threads: threads, triples: triples, known: known,
		sampler: newSampler(c, n, triples, known),
		rowOf:   make([]int32, n), taken: make([]bool, n), scratch: make([]drawing, threads),
	}
	for e := range p.rowOf {
		p.rowOf[e] = -1
	}
	if c.ZSamples > 0 {
		var err error
		if p.z, err = zpattern.NewIndex(g); err != nil {
			return nil, err
		}
	}
	for i := range p.scratch {
		pcg := rand.NewPCG(0, 0)
		p.scratch[i] = drawing{pcg: pcg, rng: rand.New(pcg)}
		if p.z != nil {
			p.scratch[i].z = p.z.NewSampler()
		}
	}
	if c.Distribution == recipe.Bernoulli {
		p.headShare = headShares(triples, g.Relations.Len())
	}
	if c.Subsampling {
		p.weight = subsamplingWeights(triples)
	}
	return p, nil
}

// headShares returns tph/(tph + hpt) of each relation, with the mean numbers of tails of a head and
// of heads of a tail (Wang et al. 2014, TransH).
func headShares(triples []kg.Triple, relations int) []float64 {
	count := make([]float64, relations)
	anchors := [2][]float64{make([]float64, relations), make([]float64, relations)}
	seen := map[kg.Query]bool{}
	for _, t := range triples {
		count[t.Relation]++
		for _, side := range []kg.Side{kg.Tail, kg.Head} {
			if q, _ := t.Query(side); !seen[q] {
				seen[q] = true
				anchors[side][t.Relation]++
			}
		}
	}
	shares := make([]float64, relations)
	for r := range shares {
		if count[r] > 0 {
			tph, hpt := count[r]/anchors[kg.Tail][r], count[r]/anchors[kg.Head][r]
			shares[r] = tph / (tph + hpt)
		}
	}
	return shares
}

// subsamplingWeights returns 1/√(n(h, r) + n(r, t)), with counts that begin at 3 for a query that
// no triple asks, as the RotatE code has them (dataloader.py, count_frequency).
func subsamplingWeights(triples []kg.Triple) map[kg.Triple]float64 {
	const start = 3
	counts := map[kg.Query]int{}
	for _, t := range triples {
		for _, side := range []kg.Side{kg.Tail, kg.Head} {
			q, _ := t.Query(side)
			counts[q]++
		}
	}
	weights := make(map[kg.Triple]float64, len(triples))
	for _, t := range triples {
		tail, _ := t.Query(kg.Tail)
		head, _ := t.Query(kg.Head)
		weights[t] = 1 / math.Sqrt(float64(counts[tail]+counts[head]+2*start))
	}
	return weights
}

// The uses of random numbers, each with streams of its own.
const (
	useShuffle uint64 = iota + 1
	useSides
	useShared
	useIndependent
	useZ
	useDropout
	useEntityDropout
)

// prepare makes the workload of a step from its positives. It is valid until the next call.
func (p *preparer) prepare(ctx context.Context, positives []kg.Triple, epoch, step int) (*workload, error) {
	w := p.reset(epoch, step)
	w.positives = append(w.positives, positives...)
	slices.SortFunc(w.positives, func(a, b kg.Triple) int {
		return cmp.Or(cmp.Compare(a.Relation, b.Relation), cmp.Compare(a.Head, b.Head), cmp.Compare(a.Tail, b.Tail))
	})
	tails := p.addQueries(epoch, step)
	return w, p.complete(ctx, tails, epoch, step)
}

// prepareKvsAll makes the workload of a step from distinct queries. It is valid until the next call.
func (p *preparer) prepareKvsAll(ctx context.Context, queries []kg.Query, epoch, step int) (*workload, error) {
	w := p.reset(epoch, step)
	w.queries = append(w.queries, queries...)
	slices.SortFunc(w.queries, func(a, b kg.Query) int {
		return cmp.Or(cmp.Compare(a.Side, b.Side), cmp.Compare(a.Relation, b.Relation), cmp.Compare(a.Anchor, b.Anchor))
	})
	w.main = len(w.queries)
	var answers []int32
	var sum float64
	for _, q := range w.queries {
		answers = trainAnswers(answers[:0], p.known.Answers(q))
		weight := 1.0
		if p.config.AnswerWeights {
			weight = float64(len(answers))
		}
		sum += weight
		w.weights = append(w.weights, weight)
		for _, e := range answers {
			t := kg.Triple{Head: q.Anchor, Relation: q.Relation, Tail: e}
			if q.Side == kg.Head {
				t.Head, t.Tail = t.Tail, t.Head
			}
			w.positives = append(w.positives, t)
		}
		w.penaltyCounts = append(w.penaltyCounts, 2*float64(len(answers)))
	}
	for i := range w.weights {
		w.weights[i] /= sum
	}
	return w, p.complete(ctx, 0, epoch, step) // all queries share a block
}

// trainAnswers appends the answers that the training split knows to dst.
func trainAnswers(dst []int32, known kg.Answers) []int32 {
	for i, e := range known.Entities {
		if known.Splits[i].Has(kg.Train) {
			dst = append(dst, e)
		}
	}
	return dst
}

// reset empties the workload.
func (p *preparer) reset(epoch, step int) *workload {
	w := &p.work
	w.epoch, w.step = epoch, step
	w.positives = w.positives[:0]
	w.queries, w.answers, w.weights = w.queries[:0], w.answers[:0], w.weights[:0]
	w.penaltyCounts = w.penaltyCounts[:0]
	w.blocks, w.rows = w.blocks[:0], w.rows[:0]
	w.pairs, w.pairRows, w.zWeights = w.pairs[:0], w.pairRows[:0], w.zWeights[:0]
	return w
}

// complete adds to the main queries what they are scored against.
func (p *preparer) complete(ctx context.Context, tails, epoch, step int) error {
	p.addBlocks(tails, epoch, step)
	if err := p.draw(ctx, epoch, step); err != nil {
		return err
	}
	p.addPairs()
	if p.z != nil {
		p.addZ()
	}
	for _, e := range p.work.rows {
		p.rowOf[e] = -1
	}
	return nil
}

// addQueries makes the main queries, and returns how many of them ask for the tail.
func (p *preparer) addQueries(epoch, step int) (tails int) {
	w := &p.work
	asksHead := func(int, kg.Triple) bool { return true }
	asksTail := asksHead
	if p.headShare != nil {
		rng := p.scratch[0].rng
		stream.Seed(p.scratch[0].pcg, p.seed, useSides, epoch, step, 0)
		heads := make([]bool, len(w.positives))
		for i, t := range w.positives {
			heads[i] = rng.Float64() < p.headShare[t.Relation]
		}
		asksHead = func(i int, _ kg.Triple) bool { return heads[i] }
		asksTail = func(i int, _ kg.Triple) bool { return !heads[i] }
	}
	var sum float64
	for side, asks := range [...]func(int, kg.Triple) bool{kg.Tail: asksTail, kg.Head: asksHead} {
		for i, t := range w.positives {
			if !asks(i, t) {
				continue
			}
			q, answer := t.Query(kg.Side(side))
			weight := 1.0
			if p.weight != nil {
				weight = p.weight[t]
			}
			sum += weight
			w.queries, w.answers, w.weights = append(w.queries, q), append(w.answers, answer), append(w.weights, weight)
			w.penaltyCounts = append(w.penaltyCounts, 1)
		}
		if kg.Side(side) == kg.Tail {
			tails = len(w.queries)
		}
	}
	w.main = len(w.queries)
	for i := range w.weights {
		w.weights[i] /= sum
	}
	return tails
}

// addBlocks draws the shared candidates.
func (p *preparer) addBlocks(tails, epoch, step int) {
	w := &p.work
	switch p.config.Negatives {
	case recipe.OneVsAll, recipe.KvsAll:
		w.rows = p.sampler.shared(w.rows, len(p.rowOf), nil, nil)
		w.blocks = append(w.blocks, block{0, w.main, 0, len(w.rows)})
	case recipe.SharedNegatives:
		for side, queries := range [...][2]int{{0, tails}, {tails, w.main}} {
			if queries[0] == queries[1] {
				continue
			}
			stream.Seed(p.scratch[0].pcg, p.seed, useShared, epoch, step, side)
			first := len(w.rows)
			w.rows = p.sampler.shared(w.rows, p.config.NegativeCount, p.taken, p.scratch[0].rng)
			if p.config.AnchorNegatives {
				for _, q := range w.queries[queries[0]:queries[1]] {
					w.rows = append(w.rows, q.Anchor)
				}
				slices.Sort(w.rows[first:])
				w.rows = w.rows[:first+len(slices.Compact(w.rows[first:]))]
			}
			w.blocks = append(w.blocks, block{queries[0], queries[1], first, len(w.rows)})
		}
	}
	// An entity with rows in two blocks is known by the last.
	for i, e := range w.rows {
		p.rowOf[e] = int32(i)
	}
}

// draw draws the main queries' own negatives, and Z-samples.
func (p *preparer) draw(ctx context.Context, epoch, step int) error {
	w, c := &p.work, p.config
	if c.Negatives != recipe.IndependentNegatives && p.z == nil {
		return nil
	}
	for len(p.own) < w.main {
		p.own = append(p.own, nil)
		p.zTriples = append(p.zTriples, nil)
	}
	return kernel.Parallel(ctx, p.threads, w.main, func(worker, i int) {
		d := &p.scratch[worker]
		q := w.queries[i]
		candidates := d.candidates[:0]
		if c.Negatives == recipe.IndependentNegatives {
			stream.Seed(d.pcg, p.seed, useIndependent, epoch, step, i)
			own := slices.Grow(p.own[i][:0], c.NegativeCount)
			p.own[i] = p.sampler.independent(own, q, w.answers[i], c.NegativeCount, c.Filter, d.rng)
			candidates = append(candidates, p.own[i]...)
		} else {
			b := w.blockOf(i)
			candidates = unobserved(candidates, w.rows[b.row:b.lastRow], p.known.Answers(q))
		}
		d.candidates = candidates
		if p.z != nil {
			stream.Seed(d.pcg, p.seed, useZ, epoch, step, i)
			p.zTriples[i], _ = d.z.Sample(p.zTriples[i][:0], q, candidates, c.ZSamples, d.rng)
		}
	})
}

// unobserved appends the entities, in ascending order, that the training split does not know as answers.
func unobserved(dst, entities []int32, known kg.Answers) []int32 {
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

// blockOf returns the block of main query i; there must be one.
func (w *workload) blockOf(i int) block {
	for _, b := range w.blocks {
		if i >= b.query && i < b.lastQuery {
			return b
		}
	}
	return block{}
}

// row returns the feature row of an entity, a new one if it has none.
func (p *preparer) row(e int32) int32 {
	if p.rowOf[e] < 0 {
		p.rowOf[e] = int32(len(p.work.rows))
		p.work.rows = append(p.work.rows, e)
	}
	return p.rowOf[e]
}

// addPairs lists the pairs of the main queries.
func (p *preparer) addPairs() {
	w := &p.work
	if p.config.Negatives == recipe.IndependentNegatives { // there may be many
		pairs := w.main
		for _, own := range p.own[:w.main] {
			pairs += len(own)
		}
		w.pairRows = slices.Grow(w.pairRows, pairs)
	}
	w.pairs = append(w.pairs, 0)
	for i := range w.main {
		if p.config.Negatives.Sampled() {
			w.pairRows = append(w.pairRows, p.row(w.answers[i]))
		}
		if p.config.Negatives == recipe.IndependentNegatives {
			for _, e := range p.own[i] {
				w.pairRows = append(w.pairRows, p.row(e))
			}
		}
		w.pairs = append(w.pairs, int32(len(w.pairRows)))
	}
}

// addZ adds the distinct queries of the Z-samples, with their pairs. A Z-sample counts
// λ_Z/k of the weight of its positive, with the number k of that positive's samples.
func (p *preparer) addZ() {
	w := &p.work
	all := p.zPairs[:0]
	for i := range w.main {
		samples := p.zTriples[i]
		weight := p.config.LambdaZ * w.weights[i] / float64(len(samples))
		for _, t := range samples {
			q, answer := t.Query(w.queries[i].Side)
			all = append(all, zPair{q, answer, weight})
		}
	}
	// Stable, so that equal pairs are added up in the order of their positives.
	slices.SortStableFunc(all, func(a, b zPair) int {
		return cmp.Or(cmp.Compare(a.Side, b.Side), cmp.Compare(a.Relation, b.Relation),
			cmp.Compare(a.Anchor, b.Anchor), cmp.Compare(a.answer, b.answer))
	})
	for i, z := range all {
		switch {
		case i > 0 && z.Query == all[i-1].Query && z.answer == all[i-1].answer:
			w.zWeights[len(w.zWeights)-1] += z.weight
			continue
		case i == 0 || z.Query != all[i-1].Query:
			if i > 0 {
				w.pairs = append(w.pairs, int32(len(w.pairRows)))
			}
			w.queries = append(w.queries, z.Query)
		}
		w.pairRows = append(w.pairRows, p.row(z.answer))
		w.zWeights = append(w.zWeights, z.weight)
	}
	if len(all) > 0 {
		w.pairs = append(w.pairs, int32(len(w.pairRows)))
	}
	p.zPairs = all
}
