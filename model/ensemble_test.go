package model

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/exactly"
	"github.com/mquine/mquine/kernel/kerneltest"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model/internal/unrounded"
)

// ensembleError is scoreError for an ensemble.
func ensembleError(t *testing.T, members []Member, c float64, ratio *exactly.Ratio) {
	m, err := NewEnsemble(members)
	require.NoError(t, err)
	scoreError(t, m, c, ratio)
}

// scoreError compares the slack with an error: the difference between the reference score of the
// triple (1, 0, 2), minus the constant c, and the comparison of its float32 vectors.
func scoreError(t *testing.T, m Model, c float64, ratio *exactly.Ratio) {
	w, q, tower := m.NewWorker(kerneltest.Best(t)), kg.Query{Side: kg.Tail, Anchor: 1}, m.Tower(kg.Tail)
	psi, phi := make([]float32, tower.Psi), make([]float32, tower.Phi)
	var slacks [1]Slack
	var sizes [1]float64
	w.Queries(q.Side, 0, []int32{1}, Rows{psi, len(psi), len(psi)}, slacks[:])
	w.Features(q.Side, 0, []int32{2}, Rows{phi, len(phi), len(phi)}, sizes[:])
	compared, _ := unrounded.Compare(tower.Compare, psi, phi)
	difference := exactly.Sub(exactly.Sub(exactly.Of(w.Reference(q, 2)), exactly.Of(c)), compared)
	ratio.See(difference, slacks[0].At(sizes[0]))
}

// Multiplication by the weight rounds every entry of ψ down by almost half a unit in the last place.
func TestEnsembleSlackOfWeights(t *testing.T) {
	const d = 64
	ones, zeros := vector(d, 1, 1), make([]float32, d)
	m := rows(t, Config{Model: "distmult", Dim: d}, [][]float32{zeros, ones, ones}, [][]float32{ones})
	var ratio exactly.Ratio
	ensembleError(t, []Member{{Model: m, Weight: 1 + 0x1p-24*0.999}}, 0, &ratio)
	ratio.Check(t, 0.99)
}

// Every sum after the first loses half a unit in the last place: the first member scores 1 and the
// others 2⁻⁵³.
func TestEnsembleSlackOfSums(t *testing.T) {
	const members = 64
	var list []Member
	for i := range members {
		value := float32(1)
		if i > 0 {
			value = 0x1p-53
		}
		m := rows(t, Config{Model: "distmult", Dim: 1}, [][]float32{{0}, {value}, {1}}, [][]float32{{1}})
		list = append(list, Member{Model: m, Weight: 1})
	}
	var ratio exactly.Ratio
	ensembleError(t, list, 0, &ratio)
	ratio.Check(t, 0.91)
}

// With MQuinE, every sum after the first loses a quarter of a unit in the last place. The scores
// are constants of the query here, because ψ is 0.
func TestEnsembleSlackOfConstants(t *testing.T) {
	const members = 256
	var list []Member
	exact := 0.0
	for i := range members {
		value := float32(0.5) // the diagonal of a packed triangle is half the matrix's diagonal
		if i > 0 {
			value = float32(math.Sqrt(0x1p-54)) / 2 // (2·value)² is a quarter of a unit in the last place of 1
		}
		square := float64(2*value) * float64(2*value)
		exact -= square
		m, err := New(Config{Model: "mquine", Dim: 1, Entities: 3, Relations: 1},
			[][]float32{{0, value, 0}, {1}, {0}, {0}})
		require.NoError(t, err)
		list = append(list, Member{Model: m, Weight: 1})
	}
	require.Equal(t, -1.0, exact, "every sum is rounded")
	var ratio exactly.Ratio
	ensembleError(t, list, -1-(members-1)*0x1p-54, &ratio)
	ratio.Check(t, 0.4)
}

func TestEnsembleErrors(t *testing.T) {
	small := func(name string, entities int) Model { return random(t, name, 2, entities, 2, 1, 1) }
	for want, members := range map[string][]Member{
		"needs at least one model":                                 nil,
		"model 1 of the ensemble is nil: give each member a model": {{}},
		"model 2 of the ensemble is nil: give each member a model": {{Model: small("complex", 5), Weight: 1}, {}},
		"model 2 of the ensemble, transe-l1, uses comparison": {
			{Model: small("complex", 5), Weight: 1}, {Model: small("transe-l1", 5), Weight: 1},
		},
		"model 2 of the ensemble, cp, has 6 entities and 2 relations, but the first has 5 and 2": {
			{Model: small("complex", 5), Weight: 1}, {Model: small("cp", 6), Weight: 1},
		},
		"model 1 of the ensemble, complex, has the weight -1":   {{Model: small("complex", 5), Weight: -1}},
		"model 1 of the ensemble, complex, has the weight NaN":  {{Model: small("complex", 5), Weight: math.NaN()}},
		"model 1 of the ensemble, complex, has the weight +Inf": {{Model: small("complex", 5), Weight: math.Inf(1)}},
		"all weights of the ensemble are 0":                     {{Model: small("complex", 5)}},
		"model 1 of the ensemble, cp, has 3 entities, but its list of 2 identifiers does not contain each": {
			{Model: small("cp", 3), Weight: 1, Entities: []int32{1, 0}},
		},
		"model 1 of the ensemble, cp, has 3 entities, but its list of 3 ": {
			{Model: small("cp", 3), Weight: 1, Entities: []int32{1, 2, 1}},
		},
		"model 1 of the ensemble, cp, has 4 entities, but its list of 4 ": {
			{Model: small("cp", 4), Weight: 1, Entities: []int32{0, 1, 2, -1}},
		},
		"model 1 of the ensemble, cp, has 2 relations, but its list of 2 ": {
			{Model: small("cp", 5), Relations: []int32{2, 1}}, // checked even with weight 0
		},
	} {
		_, err := NewEnsemble(members)
		assert.ErrorContains(t, err, want)
	}
}

// Workers do not allocate after their first queries.
func TestEnsembleAllocations(t *testing.T) {
	m, err := NewEnsemble([]Member{
		{Model: random(t, "complex", 3, 20, 2, 1, 1), Weight: 1},
		{Model: random(t, "mquine", 3, 20, 2, 1, 1), Weight: 2},
	})
	require.NoError(t, err)
	w, tower, list := m.NewWorker(kerneltest.Best(t)), m.Tower(kg.Tail), []int32{4, 5, 6}
	x, slacks, sizes := make([]float32, 3*tower.Psi), make([]Slack, 3), make([]float64, 3)
	assert.Zero(t, testing.AllocsPerRun(10, func() {
		w.Queries(kg.Head, 1, list, Rows{x, tower.Psi, tower.Psi}, slacks)
		w.Features(kg.Head, 1, list, Rows{x, tower.Psi, tower.Psi}, sizes)
		w.Reference(kg.Query{Side: kg.Head, Relation: 1, Anchor: 3}, 4)
	}))
}
