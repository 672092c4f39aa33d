package train

import (
	"context"
	"math/rand/v2"

	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/train/recipe"
)

// networkStep extends stepper for a model.Network. A network computes all query vectors together,
// before the losses. After all losses, it propagates all their gradients back together.
type networkStep struct {
	worker     model.NetworkWorker
	dropout    *networkDropout
	anchors    linalg.Matrix // the embedding of each query's anchor, after dropout
	dRelations linalg.Matrix // gradients of each query's relation
	dGlobals   []float32     // gradients of all global tensors
}

// newNetworkStep returns nil unless m is a network.
func newNetworkStep(
	c *recipe.Recipe, b *linalg.Backend, threads int, m model.Trainable, globalWidth int,
) *networkStep {
	network, ok := m.(model.Network)
	if !ok {
		return nil
	}
	d := &networkDropout{}
	for l, probability := range c.LayerDropout() {
		d.layers[l] = dropout{probability, c.Seed, useLayerDropout + uint64(l)}
	}
	return &networkStep{
		worker: network.NewNetworkWorker(b, threads, d), dropout: d, dGlobals: make([]float32, globalWidth),
	}
}

// begin allocates the memory for a step.
func (n *networkStep) begin(w *workload, entityWidth, relationSize int) {
	n.anchors.Resize(len(w.queries), entityWidth)
	n.dRelations.Resize(len(w.queries), relationSize)
	n.dropout.epoch, n.dropout.step = w.epoch, w.step
}

// networkDropout is the model.NetworkDropout of a step.
type networkDropout struct {
	layers      [model.Layers]dropout
	epoch, step int
}

func (d *networkDropout) Drops(l model.Layer) bool { return d.layers[l].probability > 0 }

func (d *networkDropout) Drop(l model.Layer, query int, x []float32) {
	var pcg rand.PCG
	d.layers[l].apply(x, &pcg, d.epoch, d.step, query)
}

// forward computes ψ of all queries of a network, and the scores of all pairs that are not in score
// matrices.
func (s *stepper) forward(ctx context.Context, w *workload) error {
	if s.network == nil {
		return nil
	}
	n := s.network
	err := s.pool.parallel(ctx, len(w.queries), func(c *stepScratch, q int) {
		copy(n.anchors.Row(q), s.anchor(c, w, q))
		s.constants[q], s.queryPenalties[q] = 0, 0
	})
	if err != nil {
		return err
	}
	if err := n.worker.Forward(ctx, w.queries, n.anchors, s.psi); err != nil {
		return err
	}
	return s.pool.parallel(ctx, len(w.queries), func(c *stepScratch, q int) {
		psi := s.psi.Row(q)
		s.queryDropout.apply(psi, c.pcg, w.epoch, w.step, q)
		s.scorePairsOf(w, q)
	})
}

// backward computes the gradients of a network's anchors, relations and global tensors from dPsi, which
// already contains the contributions of score matrices.
func (s *stepper) backward(ctx context.Context, w *workload) error {
	if s.network == nil {
		return nil
	}
	n, dense := s.network, w.denseQueries()
	err := s.pool.parallel(ctx, len(w.queries), func(c *stepScratch, q int) {
		s.completeDPsi(c, w, q, dense)
	})
	if err != nil {
		return err
	}
	dAnchors := s.dPsi.Columns(0, s.tables[0].width)
	if err := n.worker.Backward(ctx, dAnchors, n.dRelations, n.dGlobals, s.dPsi); err != nil {
		return err
	}
	err = s.pool.parallel(ctx, len(w.queries), func(c *stepScratch, q int) {
		s.anchorDropout.apply(s.dAnchor(q), c.pcg, w.epoch, w.step, q)
	})
	if err != nil {
		return err
	}
	width := n.dRelations.Cols
	return s.pool.parallel(ctx, len(s.querySegments), func(_ *stepScratch, i int) {
		sum, g := s.dRelations[i*width:(i+1)*width], s.querySegments[i]
		copy(sum, n.dRelations.Row(g.first))
		for q := g.first + 1; q < g.last; q++ {
			s.backend.Axpy(sum, 1, n.dRelations.Row(q))
		}
	})
}

// settle updates the running statistics of a network after a step.
func (s *stepper) settle() {
	if s.network != nil {
		s.network.worker.Settle()
	}
}
