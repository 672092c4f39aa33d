package train

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
)

// schedule is the work of the optimiser: so many steps on batches of so many triples, of a size
// that falls from rate to 0 in a straight line.
type schedule struct {
	steps, batch int
	rate         float64
}

// fit changes the parameters of m in place, to lower the mean over triples and sides of
//
//	−log softmax_e(score(q, e))[answer]
//
// with all entities e as the candidates of every query q, by steps of Adam on shuffled batches.
func fit(ctx context.Context, m model.Model, triples []kg.Triple, sch schedule, o Options) error {
	if len(triples) == 0 {
		return nil
	}
	order := slices.Clone(triples)
	rng := rand.New(rand.NewPCG(o.Seed, streamBatches))
	s := newSoftmax(m, min(sch.batch, len(triples)), o)
	at := len(order)
	for step := range sch.steps {
		if at == len(order) {
			rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
			at = 0
		}
		to := min(at+sch.batch, len(order))
		s.take(order[at:to])
		at = to
		if err := s.gradient(ctx); err != nil {
			return err
		}
		if err := s.step(ctx, sch.rate*float64(sch.steps-step)/float64(sch.steps)); err != nil {
			return err
		}
		if o.Progress != nil {
			o.Progress(step+1, sch.steps)
		}
	}
	return nil
}

// softmax computes the gradient of the loss of a batch. The two towers make it three matrix
// products: the scores ΨΦᵀ and, with W = ∂L/∂scores, the gradients WΦ of the queries and WᵀΨ of
// the candidates.
type softmax struct {
	model   model.Model
	options Options
	// entities and relations are the tensors.
	entities  *adam
	relations []*adam

	answers int // of the batch
	queries []query
	blocks  []span  // queries with the same relation
	asked   [][]int // by entity: the queries of which it is the anchor

	phi, phiT *table    // [entity][width] and its transpose
	psi, psiT *table    // [query][width] and its transpose
	w, wT     *table    // [query][entity] and its transpose
	anchors   []float64 // [query][triangle], the gradients of the anchors

	all     []int32 // 0, 1, 2, …
	scratch []scratch
}

// query is a distinct query of a batch with its answers, one for each triple that asks it.
type query struct {
	kg.Query
	answers []int32
}

// span is the queries from first up to last.
type span struct{ first, last int }

// scratch is the memory of a goroutine.
type scratch struct {
	worker model.Worker
	wide   []float64 // a row of a product
	matrix *matrixGradient
}

func newSoftmax(m model.Model, batch int, o Options) *softmax {
	c := m.Config()
	width, triangle, queries := m.Tower(kg.Tail).Width, model.Triangle(c.Dim), 2*batch
	s := &softmax{
		model: m, options: o,
		entities: newAdam(m.Tensors()[0], c.Entities, triangle),
		asked:    make([][]int, c.Entities),
		phi:      newTable(c.Entities, width), phiT: newTable(width, c.Entities),
		psi: newTable(queries, width), psiT: newTable(width, queries),
		w: newTable(queries, c.Entities), wT: newTable(c.Entities, queries),
		anchors: make([]float64, queries*triangle),
		all:     make([]int32, max(width, c.Entities)),
		scratch: make([]scratch, o.Threads),
	}
	for _, t := range m.Tensors()[1:] {
		s.relations = append(s.relations, newAdam(t, c.Relations, c.Dim*c.Dim))
	}
	for i := range s.all {
		s.all[i] = int32(i)
	}
	for i := range s.scratch {
		s.scratch[i].wide = make([]float64, len(s.all))
		s.scratch[i].matrix = newMatrixGradient(o.Backend, c.Dim)
	}
	return s
}

// take makes the triples, asked from both sides, the batch.
func (s *softmax) take(triples []kg.Triple) {
	type asked struct {
		kg.Query
		answer int32
	}
	s.answers = 2 * len(triples)
	all := make([]asked, 0, s.answers)
	for _, t := range triples {
		for _, side := range [...]kg.Side{kg.Tail, kg.Head} {
			q, answer := t.Query(side)
			all = append(all, asked{q, answer})
		}
	}
	slices.SortFunc(all, func(a, b asked) int {
		return cmp.Or(cmp.Compare(a.Relation, b.Relation), cmp.Compare(a.Side, b.Side),
			cmp.Compare(a.Anchor, b.Anchor), cmp.Compare(a.answer, b.answer))
	})

	s.queries, s.blocks = s.queries[:0], s.blocks[:0]
	for e := range s.asked {
		s.asked[e] = s.asked[e][:0]
	}
	for i, a := range all {
		n := len(s.queries)
		if i == 0 || a.Relation != all[i-1].Relation {
			s.blocks = append(s.blocks, span{n, n})
		}
		if i == 0 || a.Query != all[i-1].Query {
			s.queries = append(s.queries, query{Query: a.Query})
			s.blocks[len(s.blocks)-1].last++
			s.asked[a.Anchor] = append(s.asked[a.Anchor], n)
		}
		q := &s.queries[len(s.queries)-1]
		q.answers = append(q.answers, a.answer)
	}
	// Large items first keep the goroutines busy to the end.
	slices.SortStableFunc(s.blocks, func(a, b span) int { return (b.last - b.first) - (a.last - a.first) })
}

// gradient computes the gradients of all entities and of the batch's relations.
func (s *softmax) gradient(ctx context.Context) error {
	for i := range s.scratch {
		// A worker may remember the relation of its last query, whose parameters have changed.
		s.scratch[i].worker = s.model.NewWorker(s.options.Backend)
	}
	s.psi.resize(len(s.queries), s.phi.cols)
	s.w.resize(len(s.queries), s.phi.rows)
	parallel := func(items int, work func(c *scratch, i int)) func() error {
		return func() error {
			return kernel.Parallel(ctx, s.options.Threads, items, func(w, i int) { work(&s.scratch[w], i) })
		}
	}
	transpose := func(dst, src *table) func() error {
		return func() error { return dst.transposeOf(ctx, s.options.Threads, src) }
	}
	for _, stage := range []func() error{
		parallel(s.phi.rows, func(c *scratch, e int) { c.worker.Features(kg.Tail, 0, int32(e), s.phi.row(e)) }),
		parallel(len(s.queries), s.score),
		transpose(s.phiT, s.phi), transpose(s.psiT, s.psi), transpose(s.wT, s.w),
		parallel(len(s.blocks), s.relationGradient),
		parallel(s.phi.rows, s.entityGradient),
	} {
		if err := stage(); err != nil {
			return err
		}
	}
	return nil
}

// product returns the scalar products of row i of x with all rows of y, until the next call.
func (s *softmax) product(c *scratch, x *table, i int, y *table) []float64 {
	out := c.wide[:y.rows]
	s.options.Backend.Pair(kernel.Dot, out, x.data[i*x.stride:(i+1)*x.stride], y.data, y.stride, s.all[:y.rows])
	return out
}

// score computes ψ of query i, and ∂L/∂scores = (softmax of the scores · answers of the query −
// times that a candidate is the answer) / answers of the batch.
func (s *softmax) score(c *scratch, i int) {
	q := s.queries[i]
	c.worker.Query(q.Query, s.psi.row(i))
	scores := s.product(c, s.psi, i, s.phi)
	top := slices.Max(scores)
	var sum float64
	for e, v := range scores {
		scores[e] = exp(v - top)
		sum += scores[e]
	}
	scale := float64(len(q.answers)) / sum
	for e, v := range scores {
		scores[e] = float64(v * scale)
	}
	for _, e := range q.answers {
		scores[e]--
	}
	for e, v := range scores {
		s.w.row(i)[e] = float32(v / float64(s.answers))
	}
}

// relationGradient computes the gradients of a relation and of its queries' anchors.
func (s *softmax) relationGradient(c *scratch, i int) {
	b := s.blocks[i]
	r := int(s.queries[b.first].Relation)
	for _, t := range s.relations {
		clear(t.row(r))
	}
	width := s.entities.width
	for i := b.first; i < b.last; i++ {
		q := s.queries[i]
		if i == b.first || q.Side != s.queries[i-1].Side {
			c.matrix.begin(q.Side, s.relations, r)
		}
		psi := s.product(c, s.w, i, s.phiT)
		c.matrix.query(s.anchors[i*width:(i+1)*width], s.model.EntityRow(q.Anchor), psi)
		if i+1 == b.last || q.Side != s.queries[i+1].Side {
			c.matrix.end(s.relations, r)
		}
	}
}

// entityGradient computes the gradient of an entity, as a candidate and as an anchor.
func (s *softmax) entityGradient(c *scratch, e int) {
	out := s.entities.row(e)
	c.matrix.candidate(out, s.model.EntityRow(int32(e)), s.product(c, s.wT, e, s.psiT))
	width := s.entities.width
	for _, i := range s.asked[e] {
		for j, v := range s.anchors[i*width : (i+1)*width] {
			out[j] += v
		}
	}
}

// step moves the parameters that have a gradient.
func (s *softmax) step(ctx context.Context, rate float64) error {
	return kernel.Parallel(ctx, s.options.Threads, s.phi.rows+len(s.blocks), func(_, i int) {
		if i < s.phi.rows {
			s.entities.step(i, rate)
			return
		}
		r := int(s.queries[s.blocks[i-s.phi.rows].first].Relation)
		for _, t := range s.relations {
			t.step(r, rate)
		}
	})
}
