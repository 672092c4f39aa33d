package model

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/exactly"
	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel/kerneltest"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model/internal/unrounded"
)

// TestExpressiveBoundary tries candidates whose x₁ differs from the width δ_h by a few units in the
// last place. The comparison of ψ and φ must leave a pair undecided or agree with the reference
// score within the slack. Agreement shows that both use the same formula, because the two formulas
// differ by far more than the slack.
func TestExpressiveBoundary(t *testing.T) {
	rng := rand.New(rand.NewPCG(46, 1))
	inside, outside, undecided := 0, 0, 0
	for range 300 {
		const around = 24
		c := Config{Model: "expressive", Dim: 1, Entities: 2*around + 2, Relations: 1}
		// The entries are d_h, d_t, c_h, c_t, s_h and s_t. d_t is large enough for every candidate.
		relation := []float32{
			float32(0.2 + rng.Float64()), 4, float32(0.1 * rng.NormFloat64()), 0,
			float32(0.1 * rng.NormFloat64()), float32(1 + rng.Float64()),
		}
		side := kg.Side(rng.IntN(2))
		anchor := float32(0.3 * rng.NormFloat64())
		m := expressiveModel{Tables: newTables(c, expressiveTensors(6)(c), [][]float32{nil, relation})}
		p := newParallelogram(1)
		p.compute(&m, relation)
		a, s, _, _ := p.terms(side, fmath.Tanh(float64(anchor)), 0)
		edge := math.Atanh((a + p.widthH[0]) / s)
		if math.IsNaN(edge) || math.Abs(edge) > 3 {
			continue
		}
		entity := []float32{anchor}
		for k := -around; k <= around; k++ {
			bits := int64(math.Float32bits(float32(edge))) + int64(k)
			entity = append(entity, math.Float32frombits(uint32(bits)))
		}
		built, err := New(c, [][]float32{entity[:c.Entities], relation})
		require.NoError(t, err)
		w := single(built, kerneltest.Best(t))
		q := kg.Query{Side: side}
		psi, phi := make([]float32, built.Tower(side).Psi), make([]float32, 1)
		slack := w.Query(q, psi)
		for e := int32(1); int(e) < c.Entities; e++ {
			size := w.Feature(side, 0, e, phi)
			score, _ := unrounded.Compare(Expressive, psi, phi)
			reference := w.Reference(q, e)
			if score == nil {
				undecided++
				continue
			}
			difference, _ := exactly.Sub(exactly.Of(reference), score).Float64()
			require.LessOrEqual(t, math.Abs(difference), slack.At(size), "%v: candidate %v", relation, entity[e])
			if x := math.Abs(a - s*fmath.Tanh(float64(entity[e]))); x <= p.widthH[0] {
				inside++
			} else {
				outside++
			}
		}
	}
	for _, n := range []int{inside, outside, undecided} {
		assert.Greater(t, n, 100, "%d inside, %d outside, %d undecided", inside, outside, undecided)
	}
}
