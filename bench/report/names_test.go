package report

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/bench"
)

// The page describes every family of benchmarks, except ceilings, which have their own table.
func TestFamilies(t *testing.T) {
	all, err := bench.All()
	require.NoError(t, err)
	names := []string{"ScreenChoice/data=small"} // All has none on machines without AVX2
	for _, b := range all {
		names = append(names, b.Name)
	}
	assert.Empty(t, unknownFamilies(names))
	assert.Equal(t, []string{"New", "Old"}, unknownFamilies([]string{"New/d=1", "Panel/k=2", "Old", "New/d=2"}))
}
