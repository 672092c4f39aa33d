// Package modeltest checks that a model satisfies the contract of package model. Begin with
// [Conform].
package modeltest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/exactly"
	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/checkpoint"
	"github.com/mquine/mquine/model/internal/unrounded"
)

// Subject is a model under test.
type Subject struct {
	// Spec must be registered.
	Spec *model.Spec
	// Definition computes the reference score of a triple for queries of a side, in float64, from
	// the stored parameters, in the order of operations that the model's file states. It must share
	// no code with the model.
	Definition func(m model.Model, side kg.Side, t kg.Triple) float64
	// Hyper returns hyper-parameters that suit parameters of the given size. If it is nil, Conform
	// uses the values of a new model.
	Hyper func(size float64) map[string]float64
	// Reciprocal selects the variant with reciprocal relations.
	Reciprocal bool
	// InverseWeight is the weight of the inverse triple (model.Config).
	InverseWeight float64
	// Approximate lists parameters whose gradients training only approximates. Conform does not check
	// these gradients.
	Approximate []string
}

const (
	entities  = 40
	relations = 3
)

var sides = []kg.Side{kg.Tail, kg.Head}

// Row returns row i of a tensor with n rows, as float64 numbers. Definitions use it.
func Row(tensor []float32, n int, i int32) []float64 {
	width := len(tensor) / n
	row := make([]float64, width)
	for k, v := range tensor[int(i)*width:][:width] {
		row[k] = float64(v)
	}
	return row
}

// Conform checks a model on every backend of this machine: the bits of its reference score, its
// slack, what its vectors depend on, batches, equal entities, allocations and, if the model can be
// trained, the gradients of its score and of its penalties, and Training.EntityRows. It also checks
// printed scores, constraints, sizes, initial parameters and checkpoints.
func Conform(t *testing.T, s Subject) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	for _, b := range backends {
		t.Run(b.Tier.String(), func(t *testing.T) {
			t.Run("reference", func(t *testing.T) { s.reference(t, b) })
			t.Run("slack", func(t *testing.T) { s.slack(t, b) })
			t.Run("dependence", func(t *testing.T) { s.dependence(t, b) })
			t.Run("batches", func(t *testing.T) { s.batches(t, b) })
			t.Run("identity", func(t *testing.T) { s.identity(t, b) })
			t.Run("allocations", func(t *testing.T) { s.allocations(t, b) })
			t.Run("gradients", func(t *testing.T) { s.gradients(t, b) })
			t.Run("penalties", func(t *testing.T) { s.penalties(t, b) })
			t.Run("entity rows", func(t *testing.T) { s.entityRows(t, b) })
		})
	}
	t.Run("score", func(t *testing.T) { s.score(t, backends[0]) })
	t.Run("constraints", s.constraints)
	t.Run("sizes", s.sizes)
	t.Run("initial", s.initial)
	t.Run("checkpoint", s.checkpoint)
}

// dims lists the dimensions that the tests use.
func (s Subject) dims() (list []int) {
	for _, d := range []int{1, 3, 8, 18, 38} {
		if d <= s.Spec.MaxDim && !(testing.Short() && d > 18) {
			list = append(list, d)
		}
	}
	return list
}

// filling draws parameters of roughly the given size.
type filling struct {
	name string
	size float64
	next func(rng *rand.Rand, column int) float64
}

func normal(size float64) filling {
	return filling{fmt.Sprintf("normal %g", size), size,
		func(rng *rand.Rand, _ int) float64 { return size * rng.NormFloat64() }}
}

// halfWay draws rows that are equal to s or s(1 + 2⁻¹²), for few numbers s. Then many products are half way
// between two float32 numbers, and candidates lie on both sides of ψ, so the roundings of ψ do not cancel.
func halfWay() filling {
	var entry float64
	return filling{"products half way", 1, func(rng *rand.Rand, column int) float64 {
		if column == 0 {
			entry = []float64{0x1p-6, 1, 1.5}[rng.IntN(3)] * (1 + 0x1p-12*float64(rng.IntN(2)))
		}
		return entry
	}}
}

func fillings() []filling {
	return []filling{
		normal(1), normal(1e-3), normal(1e5), normal(1e-22), halfWay(),
		{"integers of all scales", 1, func(rng *rand.Rand, column int) float64 {
			return math.Ldexp(float64(rng.IntN(1<<10)-1<<9), column*7%31-20)
		}},
		{"one sign and size", 1, func(rng *rand.Rand, _ int) float64 { return 0.3 * (1 + 1e-6*rng.NormFloat64()) }},
	}
}

// model returns a model with parameters drawn by f, and descriptions of the parameters.
func (s Subject) model(t testing.TB, d int, f filling) (model.Model, []model.Parameter) {
	c := model.Config{
		Model: s.Spec.Name, Dim: d, Entities: entities, Relations: relations, Reciprocal: s.Reciprocal,
		InverseWeight: s.InverseWeight,
	}
	if s.Hyper != nil {
		c.Hyper = s.Hyper(f.size)
	}
	c = s.Spec.Initial(c)
	parameters, err := s.Spec.Parameters(c)
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(uint64(d), 9))
	var tensors [][]float32
	for _, p := range parameters {
		x := make([]float32, p.Len())
		for i := range x {
			x[i] = float32(f.next(rng, i%p.Width()))
			if p.NonNegative {
				x[i] = max(x[i], -x[i])
			}
		}
		tensors = append(tensors, x)
	}
	m, err := s.Spec.New(c, tensors)
	require.NoError(t, err)
	return m, parameters
}

// each calls the function check with a model of every dimension and filling.
func (s Subject) each(t *testing.T, check func(m model.Model, f filling, name string)) {
	for _, d := range s.dims() {
		for _, f := range fillings() {
			m, _ := s.model(t, d, f)
			check(m, f, fmt.Sprintf("d = %d, %s", d, f.name))
		}
	}
}

// reference compares reference scores with the definition, bit for bit, even after the worker has
// done other work. A model that is not sided has one definition for both sides.
func (s Subject) reference(t *testing.T, b *kernel.Backend) {
	s.each(t, func(m model.Model, f filling, name string) {
		sided := s.Spec.IsSided(m.Config())
		used := newVectors(m, b)
		different := false
		for i := range 30 {
			triple := kg.Triple{Head: int32(i * 7 % entities), Tail: int32(i / 2 % entities)}
			triple.Relation = int32(i / 4 % relations)
			var scores [2]float64
			var want float64
			for _, side := range sides {
				q, answer := triple.Query(side)
				if side == kg.Tail || sided {
					want = s.Definition(m, side, triple)
				}
				scores[side] = m.NewWorker(b).Reference(q, answer)
				at := fmt.Sprintf("%s, %v %v", name, side, triple)
				same(t, want, scores[side], at)
				same(t, want, used.worker.Reference(q, answer), at+", a used worker")
				if i%3 == 0 { // otherwise the next call has the same query
					used.query(kg.Query{Side: kg.Side(i % 2), Relation: int32(i % relations), Anchor: int32(i % 5)})
					used.feature(side, triple.Relation, int32(i%7))
					same(t, want, used.worker.Reference(q, answer), at+", after another ψ and φ")
				}
			}
			if !sided {
				same(t, scores[kg.Tail], scores[kg.Head], fmt.Sprintf("%s, %v: both sides", name, triple))
			}
			different = different || scores[kg.Tail] != scores[kg.Head]
		}
		// In groups of one coordinate, the reflections of HousE do not depend on the relation.
		if sided && f.name == normal(1).name && m.Config().Dim > 1 {
			assert.True(t, different, "%s: the model is declared as sided, but its sides have equal scores", name)
		}
	})
}

// same compares the bits of two scores.
func same(t *testing.T, want, got float64, message string) {
	t.Helper()
	require.Equal(t, math.Float64bits(want), math.Float64bits(got), "%s: %v is not %v", message, got, want)
}

// score checks that printed scores are finite and in the order of the reference scores. If training
// compares by a distance and the model has a margin γ, γ must be the printed score of the distance 0.
func (s Subject) score(t *testing.T, b *kernel.Backend) {
	s.each(t, func(m model.Model, _ filling, name string) {
		w := m.NewWorker(b)
		var references []float64
		for e := range int32(entities) {
			for _, side := range sides {
				q := kg.Query{Side: side, Relation: e % relations, Anchor: e * 7 % entities}
				references = append(references, w.Reference(q, e))
			}
		}
		margin := s.margin(m)
		if margin != nil {
			references = append(references, 0)
		}
		require.NoError(t, checkScore(m.Score, references, margin), name)
	})
}

// margin returns the value of γ if training compares by a distance and the model has a margin.
// Otherwise, it returns nil.
func (s Subject) margin(m model.Model) *float64 {
	trainable, ok := m.(model.Trainable)
	i := slices.IndexFunc(s.Spec.Hyper, func(h *model.HyperParameter) bool { return h.Key == model.Gamma })
	if !ok || trainable.Training().Distance == nil || i < 0 {
		return nil
	}
	gamma := s.Spec.Hyper[i].Of(m.Config())
	return &gamma
}

// checkScore checks the printed scores of reference scores, which it sorts. A margin that is not nil
// is the printed score of 0.
func checkScore(score func(reference float64) float64, references []float64, margin *float64) error {
	if margin != nil && score(0) != *margin {
		return fmt.Errorf("the distance 0 has the printed score %v instead of the margin %v", score(0), *margin)
	}
	slices.Sort(references)
	last := math.Inf(-1)
	for _, r := range references {
		v := score(r)
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("the reference score %v has the printed score %v, which is not finite", r, v)
		}
		if v < last {
			return fmt.Errorf("the reference score %v has the printed score %v, but a lower one has %v", r, v, last)
		}
		last = v
	}
	return nil
}

// constraints checks that a row satisfies its constraint after one call to Constrain: a second call
// changes it by rounding errors at most.
func (s Subject) constraints(t *testing.T) {
	for _, d := range s.dims() {
		for _, f := range fillings() {
			m, parameters := s.model(t, d, f)
			for i, p := range parameters {
				row := slices.Clone(m.Tensors()[i][:p.Width()])
				require.NoError(t, checkConstrain(p.Constrain, row), "d = %d, %s: tensor %s", d, f.name, p.Name)
			}
		}
	}
}

// checkConstrain applies a constraint to a row twice and checks the effect of the second call. A nil
// constraint satisfies it.
func checkConstrain(constrain func(row []float32), row []float32) error {
	if constrain == nil {
		return nil
	}
	constrain(row)
	once := slices.Clone(row)
	constrain(row)
	largest := 0.0
	for _, v := range once {
		largest = max(largest, math.Abs(float64(v)))
	}
	for k, v := range row {
		if change := math.Abs(float64(v) - float64(once[k])); !(change <= 1e-6*largest) {
			return fmt.Errorf("a second call to Constrain changes column %d from %v to %v", k, once[k], v)
		}
	}
	return nil
}

// vectors computes single vectors with a worker.
type vectors struct {
	worker model.Worker
	model  model.Model
}

func newVectors(m model.Model, b *kernel.Backend) vectors { return vectors{m.NewWorker(b), m} }

func (v vectors) query(q kg.Query) ([]float32, model.Slack) {
	psi, slacks := rows(1, v.model.Tower(q.Side).Psi, 0), make([]model.Slack, 1)
	v.worker.Queries(q.Side, q.Relation, []int32{q.Anchor}, psi, slacks)
	return psi.Row(0), slacks[0]
}

func (v vectors) feature(side kg.Side, relation, e int32) ([]float32, float64) {
	phi, sizes := rows(1, v.model.Tower(side).Phi, 0), make([]float64, 1)
	v.worker.Features(side, relation, []int32{e}, phi, sizes)
	return phi.Row(0), sizes[0]
}

// rows returns n rows with the given number of unused entries between them. Every entry is a
// canary.
func rows(n, width, between int) model.Rows {
	r := model.Rows{Values: make([]float32, n*(width+between)), Width: width, Stride: width + between}
	for i := range r.Values {
		r.Values[i] = canary
	}
	return r
}

// canary is a value that no model computes.
const canary = 0x1.234567p+99

// slack checks that the comparison of ψ and φ equals the reference score minus a constant of the
// query, within the slack and, for dot products, the rounding of the vectors.
func (s Subject) slack(t *testing.T, b *kernel.Backend) {
	number := int32(0)
	s.each(t, func(m model.Model, f filling, name string) {
		v := newVectors(m, b)
		for _, side := range sides {
			number++
			q := kg.Query{Side: side, Relation: number % relations, Anchor: number * 7 % entities}
			tower := m.Tower(side)
			psi, slack := v.query(q)
			require.Less(t, slack.At(1), math.Inf(1))
			lowest, highest := math.Inf(1), math.Inf(-1)
			for e := range int32(entities / 2) {
				phi, size := v.feature(side, q.Relation, e)
				require.GreaterOrEqual(t, size, 0.0)
				compared, magnitude := unrounded.Compare(tower.Compare, psi, phi)
				if compared == nil {
					continue
				}
				band := slack.At(size)
				if tower.Compare == model.Dot {
					underflow := 0x1p-148 * float64(len(psi)) * (1 + fmath.Norm(psi) + fmath.Norm(phi))
					band += magnitude*2.01*kernel.U32 + underflow
				}
				// The constant lies within the band around this difference.
				at, _ := exactly.Sub(exactly.Of(v.worker.Reference(q, e)), compared).Float64()
				lowest, highest = min(lowest, at+band), max(highest, at-band)
			}
			assert.LessOrEqual(t, highest, lowest, "%s, %v: no constant fits every candidate", name, q)
		}
	})
}

// dependence checks that φ depends on the side and the relation if and only if the tower declares
// it.
func (s Subject) dependence(t *testing.T, b *kernel.Backend) {
	m, _ := s.model(t, s.dims()[len(s.dims())-1], normal(1))
	Shared(t, m, b)
	if m.Tower(kg.Tail) != m.Tower(kg.Head) {
		return // rankings always prepare candidates for each side
	}
	v := newVectors(m, b)
	type shared struct{ side, relation bool }
	equal := map[shared]bool{{true, true}: true, {true, false}: true, {false, true}: true, {false, false}: true}
	for e := range int32(entities) {
		for _, p := range sides {
			for _, q := range sides {
				for r := range int32(relations) {
					x, xSize := v.feature(p, 0, e)
					y, ySize := v.feature(q, r, e)
					if xSize != ySize || !assert.ObjectsAreEqual(x, y) {
						equal[shared{p == q, r == 0}] = false
					}
				}
			}
		}
	}
	for with, got := range equal {
		want := m.Tower(kg.Tail).Features.Shares(with.side, with.relation)
		assert.Equal(t, want, got, "φ for the same side: %v, the same relation: %v", with.side, with.relation)
	}
}

// Shared checks that queries have φ with the same bits if the towers of their sides are equal and
// declare that the queries share φ (model.Dependence.Shares). Rankings compute such φ once.
func Shared(t *testing.T, m model.Model, b *kernel.Backend) {
	v := newVectors(m, b)
	type group struct {
		side     kg.Side
		relation int32
	}
	var groups []group
	for _, side := range sides {
		for r := range int32(m.Config().Relations) {
			groups = append(groups, group{side, r})
		}
	}
	for _, p := range groups {
		for _, q := range groups {
			tower := m.Tower(p.side)
			if tower != m.Tower(q.side) || !tower.Features.Shares(p.side == q.side, p.relation == q.relation) {
				continue
			}
			for e := range int32(m.Config().Entities) {
				x, xSize := v.feature(p.side, p.relation, e)
				y, ySize := v.feature(q.side, q.relation, e)
				require.Equal(t, bits(x), bits(y), "φ of entity %d for %v and %v", e, p, q)
				require.Equal(t, xSize, ySize, "the size of entity %d for %v and %v", e, p, q)
			}
		}
	}
}

// bits returns the bits of float32 numbers.
func bits(x []float32) (all []uint32) {
	for _, v := range x {
		all = append(all, math.Float32bits(v))
	}
	return all
}

// batches checks that a batch gives the same vectors as single calls and writes nothing between the
// rows.
func (s Subject) batches(t *testing.T, b *kernel.Backend) {
	for _, d := range s.dims() {
		m, _ := s.model(t, d, normal(1))
		var batch []int32
		for _, e := range rand.New(rand.NewPCG(uint64(d), 3)).Perm(entities)[:17] {
			batch = append(batch, int32(e))
		}
		many, one := m.NewWorker(b), newVectors(m, b)
		for _, side := range sides {
			for r := range int32(relations) {
				tower := m.Tower(side)
				psi, slacks := rows(len(batch), tower.Psi, 3), make([]model.Slack, len(batch))
				phi, sizes := rows(len(batch), tower.Phi, 3), make([]float64, len(batch))
				many.Queries(side, r, batch, psi, slacks)
				many.Features(side, r, batch, phi, sizes)
				for i, e := range batch {
					wantPsi, wantSlack := one.query(kg.Query{Side: side, Relation: r, Anchor: e})
					wantPhi, wantSize := one.feature(side, r, e)
					require.Equal(t, wantPsi, psi.Row(i), "ψ, d = %d, %v", d, side)
					require.Equal(t, wantPhi, phi.Row(i), "φ, d = %d, %v", d, side)
					require.Equal(t, wantSlack, slacks[i])
					require.Equal(t, wantSize, sizes[i])
					for _, r := range []model.Rows{psi, phi} {
						between := r.Values[i*r.Stride+r.Width:][:3]
						require.Equal(t, []float32{canary, canary, canary}, between, "between the rows")
					}
				}
			}
		}
	}
}

// identity checks that SameEntity returns true if and only if all parameters of two entities are
// equal, and that equal entities have equal φ and scores as candidates.
func (s Subject) identity(t *testing.T, b *kernel.Backend) {
	m, parameters := s.model(t, 3, normal(1))
	const a, z = 2, entities - 1
	type pair struct {
		name string
		a, z []float32
	}
	var pairs []pair
	for i, p := range parameters {
		if p.Axis == model.PerEntity {
			row := func(e int) []float32 { return m.Tensors()[i][e*p.Width():][:p.Width()] }
			pairs = append(pairs, pair{p.Name, row(a), row(z)})
		}
	}
	for _, p := range pairs {
		copy(p.z, p.a)
	}
	require.True(t, m.SameEntity(a, z))
	assert.Equal(t, m.HashEntity(a), m.HashEntity(z))
	v := newVectors(m, b)
	for _, side := range sides {
		for r := range int32(relations) {
			q := kg.Query{Side: side, Relation: r, Anchor: 7}
			same(t, v.worker.Reference(q, a), v.worker.Reference(q, z), "equal entities")
			x, xSize := v.feature(side, r, a)
			y, ySize := v.feature(side, r, z)
			assert.Equal(t, x, y)
			assert.Equal(t, xSize, ySize)
		}
	}
	for _, p := range pairs {
		for k, old := range p.z {
			p.z[k] = math.Nextafter32(old, 100)
			assert.False(t, m.SameEntity(a, z), "tensor %s differs in column %d", p.name, k)
			assert.NotEqual(t, m.HashEntity(a), m.HashEntity(z))
			p.z[k] = old
		}
	}
}

// allocations checks that workers do not allocate after their first calls.
func (s Subject) allocations(t *testing.T, b *kernel.Backend) {
	m, _ := s.model(t, 9, normal(1))
	w := m.NewWorker(b)
	batch := []int32{4, 1, 3}
	slacks, sizes := make([]model.Slack, len(batch)), make([]float64, len(batch))
	r := int32(0)
	for _, side := range sides {
		psi, phi := rows(len(batch), m.Tower(side).Psi, 0), rows(len(batch), m.Tower(side).Phi, 0)
		assert.Zero(t, testing.AllocsPerRun(20, func() {
			r = (r + 1) % relations
			w.Features(side, r, batch, phi, sizes)
			w.Queries(side, r, batch, psi, slacks)
			w.Reference(kg.Query{Side: side, Relation: r, Anchor: r}, 5)
		}), side)
	}
	s.trainingAllocations(t, b)
}

// sizes checks that New rejects tensors of wrong sizes, and that Check rejects invalid
// configurations.
func (s Subject) sizes(t *testing.T) {
	m, _ := s.model(t, 3, normal(1))
	c := m.Config()
	_, err := s.Spec.New(c, m.Tensors()[1:])
	assert.ErrorContains(t, err, "tensors, not")
	for i := range m.Tensors() {
		tensors := append([][]float32{}, m.Tensors()...)
		tensors[i] = append([]float32{0}, tensors[i]...)
		_, err := s.Spec.New(c, tensors)
		assert.ErrorContains(t, err, "elements")
	}
	for _, d := range []int{-1, 0, s.Spec.MaxDim + 1} {
		c.Dim = d
		assert.ErrorContains(t, s.Spec.Check(c), "out of range")
	}
	c = m.Config()
	c.Hyper = map[string]float64{"no such key": 1}
	assert.ErrorContains(t, s.Spec.Check(c), "no hyper-parameter no such key")
	for _, h := range s.Spec.Hyper {
		below, above := math.Nextafter(h.Least, math.Inf(-1)), math.Nextafter(h.Most, math.Inf(1))
		for _, v := range []float64{math.NaN(), below, above} {
			c.Hyper = s.Spec.Initial(m.Config()).Hyper
			c.Hyper[h.Key] = v
			assert.ErrorContains(t, s.Spec.Check(c), h.Key+" is")
		}
	}
}

// initial checks random models: a seed determines them, their parameters are finite, and two
// entities differ.
func (s Subject) initial(t *testing.T) {
	random := func(seed uint64) model.Model {
		c := model.Config{Model: s.Spec.Name, Dim: 5, Entities: 20, Relations: 4, Reciprocal: s.Reciprocal}
		m, err := model.Random(t.Context(), c, seed)
		require.NoError(t, err)
		return m
	}
	first := random(1)
	assert.Equal(t, first.Tensors(), random(1).Tensors())
	assert.NotEqual(t, first.Tensors(), random(2).Tensors())
	assert.False(t, first.SameEntity(0, 1))
	for _, tensor := range first.Tensors() {
		for _, v := range tensor {
			require.False(t, math.IsNaN(float64(v)) || math.IsInf(float64(v), 0))
		}
	}
}

// checkpoint checks that a checkpoint preserves parameters and hyper-parameters, and that Save
// rejects NaN in every tensor.
func (s Subject) checkpoint(t *testing.T) {
	m, parameters := s.model(t, 4, normal(1))
	v := vocabularies(m.Config())
	save := func(dir string) error {
		return checkpoint.Save(t.Context(), dir, m, v[0], v[1], map[string]string{"dataset": "toy"})
	}
	dir := filepath.Join(t.TempDir(), "whole")
	require.NoError(t, save(dir))
	c, err := checkpoint.Open(t.Context(), dir)
	require.NoError(t, err)
	defer c.Close()
	assert.Equal(t, m.Tensors(), c.Model.Tensors())
	assert.Equal(t, s.Reciprocal, c.Model.Config().Reciprocal)
	for _, h := range s.Spec.Hyper {
		assert.Equal(t, h.Of(m.Config()), h.Of(c.Model.Config()), h.Key)
	}
	for i, p := range parameters {
		last := p.Len() - 1
		old := m.Tensors()[i][last]
		m.Tensors()[i][last] = float32(math.NaN())
		assert.ErrorContains(t, save(filepath.Join(t.TempDir(), "damaged")),
			fmt.Sprintf("tensor %q has NaN in row %d, column %d", p.Name, p.Rows-1, p.Width()-1))
		m.Tensors()[i][last] = old
	}
}

// vocabularies returns a vocabulary of the entities and one of the relations.
func vocabularies(c model.Config) (v [2]*kg.Vocabulary) {
	for i, n := range []int{c.Entities, c.Relations} {
		v[i] = kg.NewVocabulary()
		for k := range n {
			v[i].Add(fmt.Sprint(k))
		}
	}
	return v
}
