package model

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mquine/mquine/kernel/kerneltest"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
)

// The elements of the group are distinct and closed under multiplication, and the quarter turn is
// exact.
func TestDihedralGroup(t *testing.T) {
	for _, order := range []int{1, 2, 3, 4, 5, 8, 64} {
		m := random(t, "dihedral", 1, 1, 1, 1, 1).(*dihEdralModel)
		config := m.Config()
		config.Hyper = map[string]float64{groupOrder.Key: float64(order)}
		elements := newDihEdral(Tables{config: config}).elements
		assert.Len(t, elements, 2*order)
		find := func(x block) (found int) {
			for _, y := range elements {
				if max(math.Abs(x.a-y.a), math.Abs(x.b-y.b), math.Abs(x.c-y.c), math.Abs(x.d-y.d)) < 1e-14 {
					found++
				}
			}
			return found
		}
		for _, x := range elements {
			for _, y := range elements {
				product := block{
					x.a*y.a + x.b*y.c, x.a*y.b + x.b*y.d,
					x.c*y.a + x.d*y.c, x.c*y.b + x.d*y.d,
				}
				assert.Equal(t, 1, find(product), "K = %d: %v times %v", order, x, y)
			}
		}
		if order%4 == 0 {
			assert.Equal(t, block{0, -1, 1, 0}, elements[order/4])
		}
	}
}

// The weights get the gradient of Σ_m p_m hᵀD_m t, where p is the softmax of the weights.
func TestStraightThrough(t *testing.T) {
	const k, order = 5, 4
	m := random(t, "dihedral", k, 2, 1, 1, 7).(*dihEdralModel)
	rng := rand.New(rand.NewPCG(1, 8))
	h, r := m.Row(entityTable, 0), m.Row(relationTable, 0)
	g := make([]float32, 2*k) // takes the place of the tail
	for i := range g {
		g[i] = float32(rng.NormFloat64())
	}
	relaxed := func(head, tail []float32) (score float64) {
		for i := range k {
			weights := r[i*2*order:][:2*order]
			var sum, mean float64
			for j, w := range weights {
				angle := 2 * math.Pi * float64(j) / order
				sin, cos := math.Sincos(angle)
				h0, h1, t0, t1 := float64(head[i]), float64(head[k+i]), float64(tail[i]), float64(tail[k+i])
				term := h0*(cos*t0-sin*t1) + h1*(sin*t0+cos*t1)
				if j >= order {
					term = h0*(cos*t0+sin*t1) + h1*(sin*t0-cos*t1)
				}
				sum += math.Exp(float64(w))
				mean += math.Exp(float64(w)) * term
			}
			score += mean / sum
		}
		return score
	}
	for _, side := range []kg.Side{kg.Tail, kg.Head} {
		w := m.NewTrainingWorker(linalg.New(kerneltest.Best(t)), NoPenalty)
		w.Begin(side, 0)
		dAnchor, dRelation := make([]float32, 2*k), make([]float32, len(r))
		w.QueryGradient(dAnchor, append([]float32{}, g...), h, 0, 0)
		w.End(dRelation)
		head, tail := h, g
		if side == kg.Head {
			head, tail = tail, head
		}
		for i, v := range r {
			const step = 1e-3
			r[i] = v + step
			above, width := relaxed(head, tail), float64(r[i])
			r[i] = v - step
			below := relaxed(head, tail)
			width -= float64(r[i])
			r[i] = v
			assert.InDelta(t, (above-below)/width, dRelation[i], 1e-5, "%v, weight %d", side, i)
		}
	}
}
