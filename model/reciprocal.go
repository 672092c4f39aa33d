package model

import (
	"context"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model/initial"
)

// A model with reciprocal relations (Lacroix et al., 2018) has two relations r and r⁻¹ for each
// relation of the graph. It answers (h, r, ?) with r, and (?, r, t) as (t, r⁻¹, ?), so the two
// sides score a triple differently. Every model has this variant: the underlying model, with 2R
// relations, answers only tail queries.
//
// Row r of a tensor of relations holds the rows of r and of r⁻¹, so they have the indices 2r and
// 2r + 1 in the underlying model.

// inner returns the configuration of the underlying model.
func (c Config) inner() Config {
	if c.Reciprocal {
		c.Relations, c.Reciprocal, c.tailsOnly = 2*c.Relations, false, c.InverseWeight == 0
		c.InverseWeight = 0
	}
	return c
}

// withReciprocal turns the description of a parameter of the underlying model into the description
// for the model with reciprocal relations.
func (p Parameter) withReciprocal() Parameter {
	if p.Axis != PerRelation {
		return p
	}
	row, draw := p.Row, p.Initial
	p.Row = append([]int{2}, row...)
	if draw != nil {
		p.Initial = func(ctx context.Context, s *initial.Source, _ []int, values []float32) error {
			return draw(ctx, s, row, values)
		}
	}
	if constrain := p.Constrain; constrain != nil {
		p.Constrain = func(both []float32) {
			constrain(both[:len(both)/2])
			constrain(both[len(both)/2:])
		}
	}
	return p
}

// newReciprocal returns m, a model with 2R relations, as a model with R relations and their
// inverses.
func newReciprocal(c Config, m Model) (Model, error) {
	outer := &reciprocal{Model: m, config: c}
	if c.InverseWeight > 0 {
		var err error
		if outer.directions, err = outer.bothDirections(); err != nil {
			return nil, err
		}
	}
	t, ok := m.(Trainable)
	if !ok {
		return outer, nil
	}
	trainable := &trainableReciprocal{outer, t}
	if n, ok := m.(Network); ok {
		return &reciprocalNetwork{trainable, n}, nil
	}
	return trainable, nil
}

type reciprocal struct {
	Model
	config Config
	// directions is nil unless the score is a mean of both directions (Config.InverseWeight).
	directions []Member
}

// reciprocalOf returns the relation of the underlying model for queries of one side.
func reciprocalOf(side kg.Side, relation int32) int32 {
	if side == kg.Head {
		return 2*relation + 1
	}
	return 2 * relation
}

// Scored returns the triple that the model scores for an answer to a query. With reciprocal
// relations, it is a triple of the underlying model: its head is the anchor, and its relation is
// one of 2R.
func (c Config) Scored(q kg.Query, answer int32) kg.Triple {
	if c.Reciprocal {
		q.Relation, q.Side = reciprocalOf(q.Side, q.Relation), kg.Tail
	}
	return q.Triple(answer)
}

// Asked returns the side and the relation of the queries that score triples with a relation of
// Scored. Without reciprocal relations, queries of both sides do, and Asked returns its arguments.
func (c Config) Asked(side kg.Side, scored int32) (kg.Side, int32) {
	switch {
	case !c.Reciprocal:
		return side, scored
	case scored%2 == 0:
		return kg.Tail, scored / 2
	}
	return kg.Head, scored / 2
}

func (m *reciprocal) Config() Config { return m.config }

func (m *reciprocal) Tower(kg.Side) Tower {
	t := m.Model.Tower(kg.Tail)
	t.Features &^= OnSide
	if t.Features&OnRelation != 0 { // the underlying relation depends on the side
		t.Features |= OnSide
	}
	return t
}

func (m *reciprocal) NewWorker(b *kernel.Backend) Worker {
	if m.directions != nil {
		return &directionsWorker{ensembleWorker: newEnsembleWorker(m.directions, b)}
	}
	return reciprocalWorker{m.Model.NewWorker(b)}
}

type reciprocalWorker struct{ inner Worker }

func (w reciprocalWorker) Features(side kg.Side, relation int32, entities []int32, phi Rows, sizes []float64) {
	w.inner.Features(kg.Tail, reciprocalOf(side, relation), entities, phi, sizes)
}

func (w reciprocalWorker) Queries(side kg.Side, relation int32, anchors []int32, psi Rows, slacks []Slack) {
	w.inner.Queries(kg.Tail, reciprocalOf(side, relation), anchors, psi, slacks)
}

func (w reciprocalWorker) Reference(q kg.Query, e int32) float64 {
	q.Relation, q.Side = reciprocalOf(q.Side, q.Relation), kg.Tail
	return w.inner.Reference(q, e)
}

type trainableReciprocal struct {
	*reciprocal
	inner Trainable
}

func (m *trainableReciprocal) Training() Training { return m.inner.Training() }

func (m *trainableReciprocal) NewTrainingWorker(b *linalg.Backend, p Penalty) TrainingWorker {
	w := &reciprocalTraining{TrainingWorker: m.inner.NewTrainingWorker(b, p), widths: m.relationWidths()}
	w.gradient = make([]float32, w.widths.sum())
	batch, isBatch := w.TrainingWorker.(BatchWorker)
	switch {
	case p.IsDura() && isBatch:
		return struct {
			*reciprocalDual
			BatchWorker
		}{m.newDual(w, b, p), batch}
	case p.IsDura():
		return m.newDual(w, b, p)
	case isBatch:
		return struct {
			*reciprocalTraining
			BatchWorker
		}{w, batch}
	}
	return w
}

func (m *trainableReciprocal) newDual(w *reciprocalTraining, b *linalg.Backend, p Penalty) *reciprocalDual {
	return &reciprocalDual{
		reciprocalTraining: w, worker: m.inner.NewTrainingWorker(b, p),
		psi: linalg.NewMatrix(MaxBatch, m.inner.Training().PsiWidth()),
	}
}

// relationWidths holds the widths of a relation's rows in the tensors of an underlying model.
type relationWidths []int

func (m *trainableReciprocal) relationWidths() (widths relationWidths) {
	parameters, err := Parameters(m.inner.Config())
	if err != nil {
		panic(err) // the model has passed the same checks
	}
	for _, p := range parameters {
		if p.Axis == PerRelation {
			widths = append(widths, p.Width())
		}
	}
	return widths
}

func (w relationWidths) sum() (n int) {
	for _, width := range w {
		n += width
	}
	return n
}

// place writes gradient, which belongs to r or, if inverse is 1, to r⁻¹, tensor by tensor to its place
// in both, and zeros to all other places.
func (w relationWidths) place(both, gradient []float32, inverse int) {
	for _, n := range w {
		copy(both[inverse*n:][:n], gradient)
		clear(both[(1-inverse)*n:][:n])
		gradient, both = gradient[n:], both[2*n:]
	}
}

// add is like place, but adds gradient.
func (w relationWidths) add(both, gradient []float32, inverse int) {
	for _, n := range w {
		to := both[inverse*n:][:n]
		for i, g := range gradient[:n] {
			to[i] += g
		}
		gradient, both = gradient[n:], both[2*n:]
	}
}

// reciprocalTraining maps queries and the gradients of relations to the underlying worker, which
// provides all other methods.
type reciprocalTraining struct {
	TrainingWorker
	widths   relationWidths
	gradient []float32
	inverse  int // 1 for head queries, otherwise 0
}

func (w *reciprocalTraining) Begin(side kg.Side, relation int32) {
	w.inverse = int(reciprocalOf(side, 0))
	w.TrainingWorker.Begin(kg.Tail, reciprocalOf(side, relation))
}

// End writes the gradients of the relation that the queries used, r or r⁻¹, and zeros for the other
// relation.
func (w *reciprocalTraining) End(dRelation []float32) {
	w.TrainingWorker.End(w.gradient)
	w.widths.place(dRelation, w.gradient, w.inverse)
}

func (w *reciprocalTraining) RelationPenalty(dRelation []float32, r int32, weight float64) float64 {
	var sum float64
	for inverse := range 2 {
		clear(w.gradient)
		sum += w.TrainingWorker.RelationPenalty(w.gradient, 2*r+int32(inverse), weight)
		w.widths.add(dRelation, w.gradient, inverse)
	}
	return sum
}

// reciprocalDual is a reciprocalTraining for the penalties Dura and Dura3. A second worker answers
// head queries with the relation that the first one uses for tail queries.
type reciprocalDual struct {
	*reciprocalTraining
	worker TrainingWorker
	psi    linalg.Matrix // scratch memory
	used   bool          // DualGradients was called since Begin
}

func (w *reciprocalDual) Begin(side kg.Side, relation int32) {
	w.used = false
	w.reciprocalTraining.Begin(side, relation)
	w.worker.Begin(kg.Head, reciprocalOf(side, relation))
}

func (w *reciprocalDual) DualPenalties(penalties []float64, targets linalg.Matrix) {
	psi := w.psi.Slice(0, targets.Rows)
	if batch, ok := w.worker.(BatchWorker); ok {
		batch.Queries(psi, targets, penalties)
		return
	}
	for i := range targets.Rows {
		_, penalties[i] = w.worker.Query(psi.Row(i), targets.Row(i))
	}
}

func (w *reciprocalDual) DualGradients(dTargets, targets linalg.Matrix, dPenalties []float64) {
	w.used = true
	dPsi := w.psi.Slice(0, targets.Rows)
	for i := range dPsi.Rows {
		clear(dPsi.Row(i))
	}
	if batch, ok := w.worker.(BatchWorker); ok {
		batch.QueryGradients(dTargets, dPsi, targets, dPenalties)
		return
	}
	for i := range targets.Rows {
		w.worker.QueryGradient(dTargets.Row(i), dPsi.Row(i), targets.Row(i), 0, dPenalties[i])
	}
}

func (w *reciprocalDual) End(dRelation []float32) {
	w.reciprocalTraining.End(dRelation)
	if w.used {
		w.worker.End(w.gradient)
		w.widths.add(dRelation, w.gradient, w.inverse)
	}
}

type reciprocalNetwork struct {
	*trainableReciprocal
	network Network
}

func (m *reciprocalNetwork) NewNetworkWorker(b *linalg.Backend, threads int, d NetworkDropout) NetworkWorker {
	inner := m.network.NewNetworkWorker(b, threads, d)
	return &reciprocalNetworkWorker{NetworkWorker: inner, widths: m.relationWidths()}
}

// reciprocalNetworkWorker maps queries and the gradients of relations to the underlying worker.
type reciprocalNetworkWorker struct {
	NetworkWorker
	widths     relationWidths
	queries    []kg.Query
	sides      []kg.Side
	dRelations linalg.Matrix
}

func (w *reciprocalNetworkWorker) Forward(
	ctx context.Context, queries []kg.Query, anchors, psi linalg.Matrix,
) error {
	w.queries, w.sides = w.queries[:0], w.sides[:0]
	for _, q := range queries {
		w.sides = append(w.sides, q.Side)
		q.Relation, q.Side = reciprocalOf(q.Side, q.Relation), kg.Tail
		w.queries = append(w.queries, q)
	}
	return w.NetworkWorker.Forward(ctx, w.queries, anchors, psi)
}

func (w *reciprocalNetworkWorker) Backward(
	ctx context.Context, dAnchors, dRelations linalg.Matrix, dGlobals []float32, dPsi linalg.Matrix,
) error {
	if w.dRelations.Rows < dRelations.Rows {
		w.dRelations = linalg.NewMatrix(dRelations.Rows, w.widths.sum())
	}
	inner := w.dRelations.Slice(0, dRelations.Rows)
	if err := w.NetworkWorker.Backward(ctx, dAnchors, inner, dGlobals, dPsi); err != nil {
		return err
	}
	for i, side := range w.sides {
		clear(dRelations.Row(i))
		w.widths.add(dRelations.Row(i), inner.Row(i), int(reciprocalOf(side, 0)))
	}
	return nil
}
