package model

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/kerneltest"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model/internal/unrounded"
)

// rangeOf returns hyper-parameters that set the embedding range to scale, or nil for a model
// without one.
func rangeOf(name string, scale float64) map[string]float64 {
	spec, err := Lookup(name)
	if err != nil || !slices.ContainsFunc(spec.Hyper, func(h *HyperParameter) bool { return h.Key == EmbeddingRange }) {
		return nil
	}
	return map[string]float64{EmbeddingRange: scale}
}

// single returns the SingleWorker of a model.
func single(m Model, b *kernel.Backend) SingleWorker { return m.NewWorker(b).(SingleWorker) }

func entityRow(m Model, e int32) []float32 {
	return m.(interface {
		Row(parameter int, i int32) []float32
	}).Row(0, e)
}

// random returns a model with normal entries of the given scale, which is also the embedding range.
func random(t testing.TB, name string, d, n, r int, scale float64, seed uint64) Model {
	rng := rand.New(rand.NewPCG(seed, 9))
	c := Config{Model: name, Dim: d, Entities: n, Relations: r, Hyper: rangeOf(name, scale)}
	parameters, err := Parameters(c)
	require.NoError(t, err)
	var tensors [][]float32
	for _, s := range parameters {
		x := make([]float32, s.Len())
		for i := range x {
			x[i] = float32(rng.NormFloat64() * scale)
		}
		tensors = append(tensors, x)
	}
	m, err := New(c, tensors)
	require.NoError(t, err)
	return m
}

// If float32 holds ψ and φ exactly, the slack alone must cover the roundings of the reference. Here
// the entries of every coordinate are 10-bit numbers times the coordinate's scale.
func TestSlackOfReference(t *testing.T) {
	backend := kerneltest.Best(t)
	for _, name := range []string{"transe-l1", "distmult", "complex"} {
		const d, n = 64, 200
		m := random(t, name, d, n, 1, 0, 1)
		rng := rand.New(rand.NewPCG(1, 3))
		for _, tensor := range m.Tensors() {
			for i := range tensor {
				tensor[i] = float32(math.Ldexp(float64(rng.IntN(1<<10)-1<<9), i%d*7%61-30))
			}
		}
		w := single(m, backend)
		psi, phi := make([]float32, m.Tower(kg.Tail).Psi), make([]float32, m.Tower(kg.Tail).Phi)
		errors := 0
		for _, side := range []kg.Side{kg.Tail, kg.Head} {
			q := kg.Query{Side: side, Anchor: 3}
			slack := w.Query(q, psi)
			for e := range int32(n) {
				size := w.Feature(side, 0, e, phi)
				compared, _ := unrounded.Compare(m.Tower(side).Compare, psi, phi)
				diff := new(big.Float).SetPrec(300).SetFloat64(w.Reference(q, e))
				at, _ := diff.Sub(diff, compared).Float64()
				require.LessOrEqual(t, math.Abs(at), slack.At(size), "%s, %v", name, side)
				if at != 0 {
					errors++
				}
			}
		}
		assert.NotZero(t, errors, "%s: there is nothing to cover", name)
	}
}

// A query has an infinite slack if its ψ exceeds the range of float32.
func TestSlackBeyondFloat32(t *testing.T) {
	kerneltest.Each(t, 0, func(t *testing.T, b *kernel.Backend) {
		for _, name := range []string{"transe-l1", "rotate"} {
			m := random(t, name, 3, 2, 1, 1, 1)
			for _, tensor := range m.Tensors() {
				for i := range tensor {
					tensor[i] = 0
				}
			}
			// Every query has sums beyond the range of float32. In rotate, the relation turns the
			// anchor by π/4, or by −π/4 for heads.
			for i := range entityRow(m, 0) {
				entityRow(m, 0)[i] = math.MaxFloat32
			}
			for _, side := range []kg.Side{kg.Tail, kg.Head} {
				value := float32(math.MaxFloat32)
				if name == "rotate" {
					value = 0.25
				} else if side == kg.Head {
					value = -value
				}
				for i := range m.Tensors()[1] {
					m.Tensors()[1][i] = value
				}
				psi := make([]float32, m.Tower(side).Psi)
				slack := single(m, b).Query(kg.Query{Side: side}, psi)
				assert.True(t, math.IsInf(slack.At(1), 1), "%s, %v: %v", name, side, psi)
			}
		}
	})
}

func TestNewRefuses(t *testing.T) {
	_, err := New(Config{Model: "mquine", Dim: 2, Entities: 3, Relations: 1},
		[][]float32{make([]float32, 9), make([]float32, 4), make([]float32, 4)})
	assert.EqualError(t, err, "model mquine has 4 tensors, not 3")
	_, err = New(Config{Model: "mquade", Dim: 2, Entities: 3, Relations: 1},
		[][]float32{make([]float32, 8), make([]float32, 4), make([]float32, 4)})
	assert.EqualError(t, err, "model mquade: tensor entity must have 9 elements ([3 3]), not 8")
	_, err = New(Config{Model: "complex", Dim: 2, Entities: 3, Relations: 2},
		[][]float32{make([]float32, 12), make([]float32, 4)})
	assert.EqualError(t, err, "model complex: tensor relation must have 8 elements ([2 4]), not 4")
	for _, c := range []struct {
		config  Config
		message string
	}{
		{Config{Model: "transd", Dim: 2}, "unknown model"},
		{Config{Model: "mquine", Dim: 0}, "out of range"},
		{Config{Model: "mquine", Dim: 513}, "dimension 513 is out of range: it must be from 1 to 512"},
		{Config{Model: "complex", Dim: 1 << 16}, "dimension 65536 is out of range: it must be from 1 to 32768"},
		{Config{Model: "rotate", Dim: 2}, "model rotate: embedding_range is missing: it must be from 1e-30 to 1e+30"},
		{Config{Model: "rotate", Dim: 2, Hyper: map[string]float64{EmbeddingRange: 0}},
			"model rotate: embedding_range is 0: it must be from 1e-30 to 1e+30"},
		{Config{Model: "mquine", Dim: 2, Hyper: map[string]float64{Gamma: 1}},
			"model mquine has no hyper-parameter gamma: it has blocks"},
	} {
		_, err = Parameters(c.config)
		assert.ErrorContains(t, err, c.message)
	}
}

// TestNewCopiesHyper checks that a model does not change with the map of hyper-parameters that it was
// made from.
func TestNewCopiesHyper(t *testing.T) {
	for _, reciprocal := range []bool{false, true} {
		c := Config{
			Model: "rotate", Dim: 2, Entities: 2, Relations: 1, Reciprocal: reciprocal,
			Hyper: map[string]float64{Gamma: 3, EmbeddingRange: 1},
		}
		parameters, err := Parameters(c)
		require.NoError(t, err)
		var tensors [][]float32
		for _, p := range parameters {
			tensors = append(tensors, make([]float32, p.Len()))
		}
		m, err := New(c, tensors)
		require.NoError(t, err)
		c.Hyper[Gamma] = 100
		assert.Equal(t, 3.0, m.Config().Hyper[Gamma])
		assert.Equal(t, 3.0, m.Score(0))
	}
}
