package bench

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
)

// The work of a step counts the products of all blocks of a model.
func TestWorkOfBlocks(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	g := skewedGraph(100, 3, 2000)
	terms := func(hyper string) float64 {
		x := newStepShape("mquine", 4)
		for _, o := range x.config.Options() {
			if o.Key == "hyper" {
				require.NoError(t, o.Set(hyper))
			}
		}
		list, ofProducts, err := x.work(backends[0], g)
		require.NoError(t, err)
		require.True(t, ofProducts)
		require.Len(t, list, 1)
		return list[0].terms
	}
	require.Equal(t, 2*terms("none"), terms("blocks=2"))
}

// TestWorkOfRegions checks that the work of a step with regions is the terms of their scores and
// gradients, not matrix products.
func TestWorkOfRegions(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	g := skewedGraph(100, 3, 2000)
	for _, name := range []string{"boxe", "expressive"} {
		x := newStepShape(name, 16)
		list, ofProducts, err := x.work(backends[0], g)
		require.NoError(t, err)
		require.False(t, ofProducts, name)
		require.Len(t, list, 2, name)
		pairs, _ := x.pairs(g)
		require.GreaterOrEqual(t, list[0].terms, 16*pairs, name)
		require.Equal(t, 2*list[0].terms, list[1].terms, name)
	}
}
