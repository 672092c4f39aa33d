package report

import (
	"cmp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/bench"
)

// The page has a name for every ceiling, and a benchmark measures every ceiling of a panel.
func TestCeilings(t *testing.T) {
	all, err := bench.All()
	require.NoError(t, err)
	measured := map[string]bool{}
	for _, b := range all {
		family, _, _, shape := split(b.Name)
		if of, _, found := strings.Cut(shape, " threads="); found && family == "Ceiling" {
			of = strings.TrimPrefix(of, "of=")
			measured[of] = true
			assert.NotEmpty(t, ceilingNames[of], of)
		}
	}
	others := map[string]string{"dot": "fma32", "int16": "int8-tiles"} // whose name differs from the comparison
	for _, b := range all {
		family, _, _, shape := split(b.Name)
		if compare, _, found := strings.Cut(shape, " k="); found && family == "Panel" {
			compare = strings.TrimPrefix(compare, "compare=")
			assert.True(t, measured[cmp.Or(others[compare], compare)], compare)
		}
	}
}

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
