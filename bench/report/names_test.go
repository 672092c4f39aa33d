package report

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/bench"
)

// The page describes every family of benchmarks, except ceilings, which have their own table, and the
// choice of screens, which is a test of the ranker.
func TestFamilies(t *testing.T) {
	described := map[string]bool{"Ceiling": true, "ScreenChoice": true}
	for _, f := range families {
		described[f.name] = true
	}
	all, err := bench.All()
	require.NoError(t, err)
	for _, b := range all {
		family, _, _, _ := split(b.Name)
		assert.True(t, described[family], b.Name)
	}
}
