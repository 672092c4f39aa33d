package metrics

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank"
)

// The progress of several comparisons increases with every call and ends at the total.
func TestCompareProgress(t *testing.T) {
	g := familyGraph()
	ranks := familyRanks(g)
	keys, err := NewKeys(t.Context(), g, []string{"category"}, KeyOptions{})
	require.NoError(t, err)
	calls, before, total := 0, 0, 0
	_, err = CompareAll(t.Context(), g, kg.Test, []ComparedCheckpoint{
		{Name: "a", Ranks: ranks}, {Name: "b", Ranks: ranks}, {Name: "c", Ranks: ranks},
	}, CompareOptions{
		Sides: rank.BothSides, Filter: rank.All, Keys: keys, Threads: 4,
		Progress: func(done, of int) {
			calls++
			require.Greater(t, done, before)
			before, total = done, of
		},
	})
	require.NoError(t, err)
	assert.Equal(t, total, before)
	assert.Greater(t, calls, 100)
}
