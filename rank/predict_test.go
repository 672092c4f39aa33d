package rank

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
)

// Every list is what sorting all candidates by the brute force's scores gives.
func TestPredict(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(3, 1))
	g := randomGraph(rng, 130, 3, 400, 20, 20)
	index := kg.NewIndex(g)
	var queries []kg.Query
	for i := range 37 {
		queries = append(queries, kg.Query{Side: kg.Side(i % 2), Relation: int32(rng.IntN(3)), Anchor: int32(rng.IntN(130))})
	}
	for _, kind := range checkpointKinds {
		m := newModel(t, "mquine", 7, g, 11, kind)
		score := newBruteScorer(m)
		for _, k := range []int{1, 10, 200} {
			for _, filter := range []bool{false, true} {
				var want [][]Prediction
				for _, q := range queries {
					var list []Prediction
					for e := range int32(130) {
						tr := kg.Triple{Head: q.Anchor, Relation: q.Relation, Tail: e}
						if q.Side == kg.Head {
							tr.Head, tr.Tail = e, q.Anchor
						}
						known := false
						for _, split := range g.Splits {
							known = known || slices.Contains(split, tr)
						}
						if !(known && filter) {
							list = append(list, Prediction{e, -score(tr.Head, tr.Relation, tr.Tail), known})
						}
					}
					slices.SortStableFunc(list, func(a, b Prediction) int { return cmp.Compare(b.Score, a.Score) })
					want = append(want, list[:min(k, len(list))])
				}
				for _, b := range backends {
					for _, o := range []Options{{Threads: 1}, {Threads: 3, FeatureMemory: 50 * featureBytes(56)}} {
						o.Backend = b
						got, err := Predict(context.Background(), m, index, queries, k, filter, o)
						require.NoError(t, err)
						if !assert.Equal(t, want, got, "%s, k = %d, filter %v, %s, %d threads", kind.name, k, filter, b.Tier, o.Threads) {
							return
						}
					}
				}
			}
		}
	}
}
