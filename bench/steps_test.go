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
