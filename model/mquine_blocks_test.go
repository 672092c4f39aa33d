package model

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel/kerneltest"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
)

// blocksOf returns a random model with k blocks, and each of its blocks as a separate model.
func blocksOf(t *testing.T, name string, d, k int) (whole *blockModel, blocks []*matrixModel) {
	rng := rand.New(rand.NewPCG(uint64(d), uint64(k)))
	c := Config{Model: name, Dim: d, Entities: 5, Relations: 2, Hyper: map[string]float64{"blocks": float64(k)}}
	parameters, err := Parameters(c)
	require.NoError(t, err)
	var tensors [][]float32
	parts := make([][][]float32, k)
	for _, p := range parameters {
		x := make([]float32, p.Len())
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		tensors = append(tensors, x)
		n := p.Width() / k
		for b := range k {
			var of []float32
			for row := range p.Rows {
				of = append(of, x[(row*k+b)*n:][:n]...)
			}
			parts[b] = append(parts[b], of)
		}
	}
	m, err := New(c, tensors)
	require.NoError(t, err)
	whole = m.(*blockModel)
	c.Hyper = nil
	for _, tensors := range parts {
		m, err := New(c, tensors)
		require.NoError(t, err)
		blocks = append(blocks, m.(*matrixModel))
	}
	return whole, blocks
}

// Training a model with blocks changes each block, bit for bit, as training a model of this block
// alone does.
func TestBlocksTrainLikeSingleModels(t *testing.T) {
	const d, k = 5, 3
	b := linalg.New(kerneltest.Best(t))
	p := Triangle(d)
	for _, name := range []string{"mquine", "mquade"} {
		whole, blocks := blocksOf(t, name, d, k)
		assert.Equal(t, k*blocks[0].Training().Width, whole.Training().Width)
		for _, penalty := range whole.Training().Penalties {
			rng := rand.New(rand.NewPCG(1, 2))
			normals := func(n int) []float32 {
				x := make([]float32, n)
				for i := range x {
					x[i] = float32(rng.NormFloat64())
				}
				return x
			}
			w := whole.NewTrainingWorker(b, penalty)
			matrices := len(whole.tensors) - 1
			for _, side := range []kg.Side{kg.Tail, kg.Head} {
				anchor, dPsi, dPhi := normals(k*p), normals(k*2*p), normals(k*2*p)
				psi, phi, dEntity := make([]float32, k*2*p), make([]float32, k*2*p), make([]float32, k*p)
				dRelation := make([]float32, matrices*k*d*d)
				w.Begin(side, 1)
				c, share := w.Query(psi, anchor)
				dAnchor := slices.Clone(dPsi)
				w.QueryGradient(dAnchor[:k*p], dAnchor, anchor, 0.7, 0.3) // in place
				w.End(dRelation)
				w.Features(phi, 3)
				w.FeatureGradient(dEntity, dPhi, phi, 3)
				sum := w.EntityPenalty(dEntity, 3, 0.2)
				sum += w.RelationPenalty(dRelation, 1, 0.4)

				var wantC, wantShare, wantSum float64
				for i, block := range blocks {
					v := block.NewTrainingWorker(b, penalty)
					one, gradient := make([]float32, 2*p), make([]float32, p)
					v.Begin(side, 1)
					blockC, blockShare := v.Query(one, ofBlock(anchor, i, k))
					wantC += blockC
					wantShare += blockShare
					require.Equal(t, one, ofBlock(psi, i, k), "ψ")
					v.QueryGradient(gradient, slices.Clone(ofBlock(dPsi, i, k)), ofBlock(anchor, i, k), 0.7, 0.3)
					require.Equal(t, gradient, dAnchor[i*p:(i+1)*p], "∂anchor")
					relation := make([]float32, matrices*d*d)
					v.End(relation)
					wantSum += v.RelationPenalty(relation, 1, 0.4)
					for j := range matrices {
						of := ofBlock(dRelation, j, matrices)
						require.Equal(t, ofBlock(relation, j, matrices), ofBlock(of, i, k), "∂relation")
					}
					v.Features(one, 3)
					require.Equal(t, one, ofBlock(phi, i, k), "φ")
					v.FeatureGradient(gradient, ofBlock(dPhi, i, k), one, 3)
					wantSum += v.EntityPenalty(gradient, 3, 0.2)
					require.Equal(t, gradient, ofBlock(dEntity, i, k), "∂entity")
				}
				require.Equal(t, wantC, c)
				require.Equal(t, wantShare, share)
				require.InEpsilon(t, 1+wantSum, 1+sum, 1e-12)
			}
		}
	}
}

func TestBlocksAreWholeNumbers(t *testing.T) {
	for value, message := range map[float64]string{
		0: "it must be from 1 to 64", 65: "it must be from 1 to 64", 2.5: "it must be a whole number",
	} {
		_, err := Parameters(Config{
			Model: "mquine", Dim: 2, Entities: 1, Relations: 1, Hyper: map[string]float64{"blocks": value},
		})
		assert.ErrorContains(t, err, message)
	}
}
