package train

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/mquine/mquine/kernel/linalg"
	"github.com/stretchr/testify/require"
)

// The pairs of a block have the block's scores, and the sums of their gradients are the block's.
func TestPairsOfDistances(t *testing.T) {
	const queries, features, width = 5, 7, 18
	rng := rand.New(rand.NewPCG(3, 0))
	normals := func(rows, cols int) (m linalg.Matrix) {
		size(&m, rows, cols)
		for i := range m.Data {
			m.Data[i] = float32(rng.NormFloat64())
		}
		return m
	}
	for _, kind := range linalg.DistanceKinds() {
		t.Run(fmt.Sprint(kind), func(t *testing.T) {
			d := newDistances(kind, linalg.New(bestBackend(t)), 1)
			psi, phi, dScores := normals(queries, width), normals(features, width), normals(queries, features)
			copy(psi.Row(1), phi.Row(2)) // where L1 and the norms have no gradient
			var scores, dPsi, dPhi linalg.Matrix
			size(&scores, queries, features)
			size(&dPsi, queries, width)
			size(&dPhi, features, width)
			require.NoError(t, d.scores(t.Context(), scores, psi, phi))
			require.NoError(t, d.gradients(t.Context(), dPsi, dPhi, dScores, psi, phi))

			rows, all := make([]int32, features), []int32{}
			for j := range rows {
				rows[j] = int32(j)
			}
			var ofPairs []float32
			var ofQueries []int32
			for i := range queries {
				got, gradient := make([]float32, features), make([]float32, width)
				d.pairScores(got, psi.Row(i), phi, rows)
				require.InDeltaSlice(t, scores.Row(i), got, 2e-5)
				d.addQueryGradient(gradient, dScores.Row(i), psi.Row(i), phi, rows)
				require.InDeltaSlice(t, dPsi.Row(i), gradient, 2e-5)
				ofPairs = append(ofPairs, dScores.Row(i)...)
				for range features {
					ofQueries = append(ofQueries, int32(i))
				}
				all = append(all, int32(i*features))
			}
			for j := range features {
				pairs, gradient := make([]int32, queries), make([]float32, width)
				for i, first := range all {
					pairs[i] = first + int32(j)
				}
				d.addFeatureGradient(gradient, phi.Row(j), psi, pairs, ofQueries, ofPairs)
				require.InDeltaSlice(t, dPhi.Row(j), gradient, 2e-5)
			}
		})
	}
}
