package train

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/initial"
)

// plainLoss is the loss by definition, from reference scores: the mean over triples and sides of
// the cross-entropy.
func plainLoss(b *kernel.Backend, m model.Model, triples []kg.Triple) float64 {
	w := m.NewWorker(b)
	var sum float64
	for _, t := range triples {
		for _, side := range []kg.Side{kg.Tail, kg.Head} {
			q, answer := t.Query(side)
			var z float64
			for e := range m.Config().Entities {
				z += math.Exp(w.Reference(q, int32(e)))
			}
			sum += math.Log(z) - w.Reference(q, answer)
		}
	}
	return sum / float64(2*len(triples))
}

// Every gradient is the central difference of the loss by definition.
func TestMatrixGradient(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	for _, name := range []string{"mquine", "mquade"} {
		for _, d := range []int{1, 2, 5, 9} {
			cfg := model.Config{Model: name, Dim: d, Entities: 6, Relations: 3}
			m, err := Random(t.Context(), cfg, uint64(d))
			require.NoError(t, err)
			draws := initial.NewSource(uint64(d), 99)
			for _, tensor := range m.Tensors() {
				for i := range tensor {
					tensor[i] += float32(0.2 * draws.Normal())
				}
			}
			// Relation 2 has no triple; some triples and some queries repeat.
			rng := rand.New(rand.NewPCG(uint64(d), 1))
			var triples []kg.Triple
			for range 20 {
				triples = append(triples, kg.Triple{Head: rng.Int32N(6), Relation: rng.Int32N(2), Tail: rng.Int32N(6)})
			}
			triples = append(triples, triples[:3]...)

			var got [][]*adam // of each backend, by tensor
			for _, b := range backends {
				s := newMatrixLoss(m, len(triples), Options{Backend: b, Threads: 2})
				s.take(triples)
				require.NoError(t, s.gradient(t.Context()))
				got = append(got, append([]*adam{s.entities}, s.relations...))
			}
			for k, tensor := range m.Tensors() {
				for i, v := range tensor {
					const step = 1e-3
					above, below := v+step, v-step
					tensor[i] = above
					want := plainLoss(backends[0], m, triples)
					tensor[i] = below
					want -= plainLoss(backends[0], m, triples)
					tensor[i] = v
					want /= float64(above) - float64(below)
					for j, b := range backends {
						require.InDelta(t, want, got[j][k].gradient[i], 2e-5, "%s, d = %d, %v: tensor %d, element %d", name, d, b.Tier, k, i)
					}
				}
			}
		}
	}
}

// A row takes Adam's steps as the paper writes them, whatever other rows do.
func TestAdam(t *testing.T) {
	a := newAdam([]float32{1, 2, 3, 4}, 2, 2)
	x, m, v := 3.0, 0.0, 0.0
	for step := 1; step <= 5; step++ {
		g := float64(step) - 2.5
		a.row(1)[0] = g
		a.step(1, 0.1)
		m = 0.9*m + 0.1*g
		v = 0.99*v + 0.01*g*g
		x -= 0.1 * (m / (1 - math.Pow(0.9, float64(step)))) / (math.Sqrt(v/(1-math.Pow(0.99, float64(step)))) + 1e-8)
		assert.InDelta(t, x, a.values[2], 1e-6)
	}
	assert.Equal(t, []float32{1, 2}, a.values[:2], "a row without steps")
	assert.Equal(t, float32(4), a.values[3], "an entry without a gradient")
}

// Every gradient of the models of tables is the central difference of the loss by definition.
func TestTableGradient(t *testing.T) {
	backend, err := kernel.For(kernel.Generic)
	require.NoError(t, err)
	for name := range forms {
		for _, d := range []int{1, 2, 5} {
			cfg := model.Config{Model: name, Dim: d, Entities: 6, Relations: 3, EmbeddingRange: 1}
			m, err := Random(t.Context(), cfg, uint64(d))
			require.NoError(t, err)
			// Relation 2 has no triple; some triples and some queries repeat.
			rng := rand.New(rand.NewPCG(uint64(d), 1))
			var triples []kg.Triple
			for range 20 {
				triples = append(triples, kg.Triple{Head: rng.Int32N(6), Relation: rng.Int32N(2), Tail: rng.Int32N(6)})
			}
			triples = append(triples, triples[:3]...)
			l := newTableLoss(m, len(triples), Options{Backend: backend, Threads: 2})
			l.take(triples)
			require.NoError(t, l.gradient(t.Context()))
			for k, p := range []*parameters{l.entities, l.relations} {
				tensor := m.Tensors()[k]
				for i, v := range tensor {
					const step = 1e-3
					above, below := v+step, v-step
					tensor[i] = above
					want := plainLoss(backend, m, triples)
					tensor[i] = below
					want -= plainLoss(backend, m, triples)
					tensor[i] = v
					want /= float64(above) - float64(below)
					require.InDelta(t, want, p.gradient[i], 5e-4, "%s, d = %d: tensor %d, element %d", name, d, k, i)
				}
			}
		}
	}
}
