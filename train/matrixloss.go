package train

import (
	"context"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
)

// matrixLoss is the loss of MQuinE and MQuadE. Their two towers make it three matrix products: the
// scores ΨΦᵀ and, with W = ∂L/∂scores, the gradients WΦ of the queries and WᵀΨ of the candidates.
type matrixLoss struct {
	model   model.Model
	options Options
	// entities and relations are the tensors.
	entities  *adam
	relations []*adam

	batch
	phi, phiT *table    // [entity][width] and its transpose
	psi, psiT *table    // [query][width] and its transpose
	w, wT     *table    // [query][entity] and its transpose
	anchors   []float64 // [query][triangle], the gradients of the anchors

	all     []int32 // 0, 1, 2, …
	scratch []scratch
}

// scratch is the memory of a goroutine.
type scratch struct {
	worker model.SingleWorker
	wide   []float64 // a row of a product
	matrix *matrixGradient
}

func newMatrixLoss(m model.Model, triples int, o Options) *matrixLoss {
	c := m.Config()
	width, triangle, queries := m.Tower(kg.Tail).Phi, model.Triangle(c.Dim), 2*triples
	s := &matrixLoss{
		model: m, options: o,
		entities: newAdam(m.Tensors()[0], c.Entities, triangle),
		batch:    newBatch(c.Entities),
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

// gradient computes the gradients of all entities and of the batch's relations.
func (s *matrixLoss) gradient(ctx context.Context) error {
	for i := range s.scratch {
		// A worker may remember the relation of its last query, whose parameters have changed.
		s.scratch[i].worker = s.model.NewWorker(s.options.Backend).(model.SingleWorker)
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
		parallel(s.phi.rows, func(c *scratch, e int) { c.worker.Feature(kg.Tail, 0, int32(e), s.phi.row(e)) }),
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
func (s *matrixLoss) product(c *scratch, x *table, i int, y *table) []float64 {
	out := c.wide[:y.rows]
	s.options.Backend.Pair(kernel.Dot, out, x.data[i*x.stride:(i+1)*x.stride], y.data, y.stride, s.all[:y.rows])
	return out
}

// score computes ψ of query i and ∂L/∂scores.
func (s *matrixLoss) score(c *scratch, i int) {
	q := s.queries[i]
	c.worker.Query(q.Query, s.psi.row(i))
	scores := s.product(c, s.psi, i, s.phi)
	softmax(scores, q.answers)
	for e, v := range scores {
		s.w.row(i)[e] = float32(v / float64(s.answers))
	}
}

// relationGradient computes the gradients of a relation and of its queries' anchors.
func (s *matrixLoss) relationGradient(c *scratch, i int) {
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
		c.matrix.query(s.anchors[i*width:(i+1)*width], rowOf(s.model.Tensors()[0], s.phi.rows, int(q.Anchor)), psi)
		if i+1 == b.last || q.Side != s.queries[i+1].Side {
			c.matrix.end(s.relations, r)
		}
	}
}

// entityGradient computes the gradient of an entity, as a candidate and as an anchor.
func (s *matrixLoss) entityGradient(c *scratch, e int) {
	out := s.entities.row(e)
	c.matrix.candidate(out, rowOf(s.model.Tensors()[0], s.phi.rows, e), s.product(c, s.wT, e, s.psiT))
	width := s.entities.width
	for _, i := range s.asked[e] {
		for j, v := range s.anchors[i*width : (i+1)*width] {
			out[j] += v
		}
	}
}

// step moves the parameters that have a gradient.
func (s *matrixLoss) step(ctx context.Context, rate float64) error {
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
