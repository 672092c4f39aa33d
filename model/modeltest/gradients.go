package modeltest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
)

// RequireDerivative checks that the derivative of f with respect to x, which training computed in
// float32, equals the central difference of f. It leaves x as it was.
func RequireDerivative(t testing.TB, derivative float32, x *float32, f func() float64, message string, args ...any) {
	t.Helper()
	v, got := *x, float64(derivative)
	var difference, tolerance float64
	for _, step := range []float32{1e-4, 1e-5, 1e-6, 1e-7} { // a smaller step if this one crosses a kink
		*x = v + step
		above, width := f(), float64(*x)
		*x = v - step
		below := f()
		width -= float64(*x)
		*x = v
		difference = (above - below) / width
		tolerance = 2e-4 * max(1, math.Abs(difference))
		if math.Abs(difference-got) <= tolerance {
			return
		}
	}
	require.InDelta(t, difference, got, tolerance, append([]any{message}, args...)...)
}

// trainingPair is a pair of an anchor and a candidate, whose score has a weight in a loss.
type trainingPair struct {
	anchor, candidate int32
	weight            float32
}

// trainingPairs share anchors and candidates, and one pair is a loop. The weights add up to 0, so a
// margin in the score does not matter.
var trainingPairs = []trainingPair{{3, 5, 1}, {4, 5, -0.5}, {3, 2, 0.75}, {6, 6, -1.25}}

// gradients checks that the gradients of the training worker equal central differences of the
// reference score, for the queries of both sides. It leaves out models that training treats
// differently: a Network, whose gradients TestGradients of package train checks, and a score that is
// a mean over both directions, because only one of them is trained.
func (s Subject) gradients(t *testing.T, b *kernel.Backend) {
	for _, d := range []int{1, 3, 9} {
		if d > s.Spec.MaxDim || testing.Short() && d > 3 {
			continue
		}
		m, parameters := s.model(t, d, normal(0.3))
		trainable, ok := m.(model.Trainable)
		if _, network := m.(model.Network); !ok || network || s.InverseWeight > 0 {
			return
		}
		// The worker begins with other parameters, and must not keep them.
		other, _ := s.model(t, d, normal(0.2))
		swap(m, other)
		worker := trainable.NewTrainingWorker(linalg.New(b), model.NoPenalty)
		newGradients(trainable, parameters, b).compute(worker, kg.Tail, 1, false)
		swap(m, other)
		ways := []bool{false}
		if _, ok := worker.(model.BatchWorker); ok {
			ways = append(ways, true)
		}
		for _, side := range sides {
			for _, batch := range ways {
				g, relation := newGradients(trainable, parameters, b), int32(d%relations)
				g.compute(worker, side, relation, batch)
				s.checkGradients(t, g, side, relation, fmt.Sprintf("d = %d, %v, in a batch: %v", d, side, batch))
			}
		}
	}
}

// trainingAllocations checks that a training worker does not allocate.
func (s Subject) trainingAllocations(t *testing.T, b *kernel.Backend) {
	m, parameters := s.model(t, 9, normal(1))
	trainable, ok := m.(model.Trainable)
	if _, network := m.(model.Network); !ok || network {
		return
	}
	training, width := trainable.Training(), parameters[0].Width()
	w := trainable.NewTrainingWorker(linalg.New(b), training.Penalties[len(training.Penalties)-1])
	phi, dPhi := make([]float32, training.Width), make([]float32, training.Width)
	psi, dPsi := make([]float32, training.PsiWidth()), make([]float32, training.PsiWidth())
	anchor, dEntity := m.Tensors()[0][3*width:4*width], make([]float32, width)
	dRelation := make([]float32, relationWidth(parameters))
	r := int32(0)
	for _, side := range sides {
		assert.Zero(t, testing.AllocsPerRun(20, func() {
			r = (r + 1) % relations
			w.Begin(side, r)
			w.Features(phi, 4)
			w.Query(psi, anchor)
			w.QueryGradient(dEntity, dPsi, anchor, 0.5, 0.5)
			w.FeatureGradient(dEntity, dPhi, phi, 4)
			w.End(dRelation)
			w.EntityPenalty(dEntity, 4, 0.5)
			w.RelationPenalty(dRelation, r, 0.5)
		}), "training, %v", side)
	}
}

// swap exchanges the parameters of two models.
func swap(m, other model.Model) {
	for i, x := range m.Tensors() {
		y := other.Tensors()[i]
		for k := range x {
			x[k], y[k] = y[k], x[k]
		}
	}
}

// entityRows checks that with Training.EntityRows, the features of an entity are its row on both sides,
// and the gradient of the row is the gradient of the features.
func (s Subject) entityRows(t *testing.T, b *kernel.Backend) {
	m, parameters := s.model(t, min(9, s.Spec.MaxDim), normal(0.3))
	trainable, ok := m.(model.Trainable)
	if !ok || !trainable.Training().EntityRows {
		return
	}
	worker, width := trainable.NewTrainingWorker(linalg.New(b), model.NoPenalty), parameters[0].Width()
	require.Equal(t, width, trainable.Training().Width)
	if _, network := m.(model.Network); !network { // networks train only with reciprocal relations
		require.Equal(t, model.OnEntity, model.DependenceOf(m))
	}
	phi, dPhi, dEntity := make([]float32, width), make([]float32, width), make([]float32, width)
	for i := range dPhi {
		dPhi[i] = float32(i + 1)
	}
	for _, side := range sides {
		for e := range int32(entities) {
			worker.Begin(side, 1)
			worker.Features(phi, e)
			worker.FeatureGradient(dEntity, dPhi, phi, e)
			require.Equal(t, m.Tensors()[0][int(e)*width:][:width], phi, "side %v, entity %d", side, e)
			require.Equal(t, dPhi, dEntity, "side %v, entity %d", side, e)
		}
	}
}

// checkGradients compares the loss and its gradients with the reference score.
func (s Subject) checkGradients(t *testing.T, g *gradients, side kg.Side, relation int32, name string) {
	loss := func() (sum float64) {
		w := g.model.NewWorker(g.backend)
		for _, p := range trainingPairs {
			q := kg.Query{Side: side, Relation: relation, Anchor: p.anchor}
			sum += float64(p.weight) * g.model.Score(w.Reference(q, p.candidate))
		}
		return sum
	}
	require.InDelta(t, loss(), g.loss, 1e-4*max(1, math.Abs(g.loss)), "%s: the weighted sum of the scores", name)
	for i, p := range g.parameters {
		if p.Frozen || slices.Contains(s.Approximate, p.Name) {
			continue
		}
		for _, row := range usedRows[p.Axis] {
			from, width := int(row)*p.Width(), p.Width()
			for k := 0; k < width; k += 1 + width/40 {
				RequireDerivative(t, g.tensors[i][from+k], &g.model.Tensors()[i][from+k], loss,
					"%s: tensor %s, row %d, column %d", name, p.Name, row, k)
			}
		}
	}
}

// usedRows lists the rows that the scores of trainingPairs use, and all relations. Only a Network computes
// gradients of global parameters, so a different model fails if its score depends on one that is not frozen.
var usedRows = map[model.Axis][]int32{
	model.PerEntity: {2, 3, 4, 5, 6}, model.PerRelation: {0, 1, 2}, model.Global: {0},
}

// gradients holds a loss, the weighted sum of the scores of trainingPairs, and its gradients.
type gradients struct {
	model      model.Trainable
	parameters []model.Parameter
	backend    *kernel.Backend
	loss       float64
	tensors    [][]float32
}

func newGradients(m model.Trainable, parameters []model.Parameter, b *kernel.Backend) *gradients {
	g := &gradients{model: m, parameters: parameters, backend: b}
	for _, p := range parameters {
		g.tensors = append(g.tensors, make([]float32, p.Len()))
	}
	return g
}

// compute computes the loss of trainingPairs with one relation, and its gradients, in the order in which a
// training step does. If batch is true, it uses the methods of model.BatchWorker.
func (g *gradients) compute(w model.TrainingWorker, side kg.Side, relation int32, batch bool) {
	t, n, width := g.model.Training(), len(trainingPairs), g.parameters[0].Width()
	depends := model.DependenceOf(g.model) != model.OnEntity
	anchors, psi, phi := linalg.NewMatrix(n, width), linalg.NewMatrix(n, t.PsiWidth()), linalg.NewMatrix(n, t.Width)
	gradients, dPhi := linalg.NewMatrix(n, max(width, t.PsiWidth())), linalg.NewMatrix(n, t.Width)
	dPsi, dAnchors := gradients.Columns(0, t.PsiWidth()), gradients.Columns(0, width) // they overlap
	constants, penalties := make([]float64, n), make([]float64, n)

	w.Begin(side, relation)
	for k, p := range trainingPairs {
		copy(anchors.Row(k), g.model.Tensors()[0][int(p.anchor)*width:][:width])
		w.Features(phi.Row(k), p.candidate)
	}
	w.Begin(side, relation)
	if batch {
		w.(model.BatchWorker).Queries(psi, anchors, penalties)
	} else {
		for k := range n {
			constants[k], _ = w.Query(psi.Row(k), anchors.Row(k))
		}
	}
	for k, p := range trainingPairs {
		score := compare(linalg.New(g.backend), t, k, p.weight, dPsi, dPhi, psi, phi)
		g.loss += float64(p.weight) * (score + constants[k])
	}

	w.Begin(side, relation)
	if batch {
		w.(model.BatchWorker).QueryGradients(dAnchors, dPsi, anchors, make([]float64, n))
	} else {
		for k, p := range trainingPairs {
			w.QueryGradient(dAnchors.Row(k), dPsi.Row(k), anchors.Row(k), float64(p.weight), 0)
		}
	}
	g.addRelation(w, relation)
	if depends {
		w.Begin(side, relation)
	}
	dEntity := make([]float32, width)
	for k, p := range trainingPairs {
		w.FeatureGradient(dEntity, dPhi.Row(k), phi.Row(k), p.candidate)
		add(g.tensors[0][int(p.candidate)*width:], dEntity)
		add(g.tensors[0][int(p.anchor)*width:], dAnchors.Row(k))
	}
	if depends {
		g.addRelation(w, relation)
	}
}

// addRelation adds the gradient of a relation that a worker computes.
func (g *gradients) addRelation(w model.TrainingWorker, relation int32) {
	gradient := make([]float32, relationWidth(g.parameters))
	for i := range gradient {
		gradient[i] = canary
	}
	w.End(gradient)
	g.add(gradient, relation)
}

// add adds the gradient of a relation, with the relation's rows of all tensors one after another.
func (g *gradients) add(gradient []float32, relation int32) {
	for i, p := range g.parameters {
		if p.Axis == model.PerRelation {
			add(g.tensors[i][int(relation)*p.Width():], gradient[:p.Width()])
			gradient = gradient[p.Width():]
		}
	}
}

// relationWidth returns the number of entries of the gradient of a relation.
func relationWidth(parameters []model.Parameter) (n int) {
	for _, p := range parameters {
		if p.Axis == model.PerRelation {
			n += p.Width()
		}
	}
	return n
}

func add(to, from []float32) {
	for i, x := range from {
		to[i] += x
	}
}

// compare returns the score of row k of ψ and row k of φ without the constant of the query, and adds
// the gradients of weight times the score to rows k of dPsi and dPhi.
func compare(
	b *linalg.Backend, t model.Training, k int, weight float32, dPsi, dPhi, psi, phi linalg.Matrix,
) float64 {
	row, g, score := []int32{int32(k)}, []float32{weight}, make([]float32, 1)
	switch {
	case t.Region != nil:
		b.RegionScores(*t.Region, score, psi.Row(k), phi, row)
		b.AddRegionPsi(*t.Region, dPsi.Row(k), g, psi.Row(k), phi, row)
		b.AddRegionPhi(*t.Region, dPhi.Row(k), g, phi.Row(k), psi, row)
	case t.Rest != nil:
		first, second := t, t
		first.Rest, second.Rest, second.Distance = nil, nil, &t.Rest.Distance
		at := t.Rest.From
		before := func(m linalg.Matrix) linalg.Matrix { return m.Columns(0, at) }
		after := func(m linalg.Matrix) linalg.Matrix { return m.Columns(at, m.Cols) }
		return compare(b, first, k, weight, before(dPsi), before(dPhi), before(psi), before(phi)) +
			compare(b, second, k, weight, after(dPsi), after(dPhi), after(psi), after(phi))
	case t.Distance != nil:
		b.DistanceScores(*t.Distance, score, psi.Row(k), phi, row)
		b.AddDistanceGradient(*t.Distance, dPsi.Row(k), g, psi.Row(k), phi, row)
		b.AddDistanceGradient(*t.Distance, dPhi.Row(k), g, phi.Row(k), psi, row)
	default:
		b.Dots(score, psi.Row(k), phi, row)
		b.AddRows(dPsi.Row(k), g, phi, row)
		b.AddRows(dPhi.Row(k), g, psi, row)
	}
	return float64(score[0])
}
