package bench

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// All values of a metric have the same unit, 0 and infinity too.
func TestUnitsOfResults(t *testing.T) {
	results, err := ParseResults(strings.NewReader(`BenchmarkA 1 1 ns/op 1 wait-ns/op 3 MB/s 2 B/op
BenchmarkA 1 0 ns/op 0 wait-ns/op 0 MB/s 0 B/op
BenchmarkA 1 Inf ns/op +Inf wait-ns/op Inf MB/s 2 B/op
`), "results")
	require.NoError(t, err)
	require.Len(t, results, 3)
	for i, want := range []map[string]float64{
		{"sec/op": 1e-9, "wait-sec/op": 1e-9, "B/s": 3e6, "B/op": 2},
		{"sec/op": 0, "wait-sec/op": 0, "B/s": 0, "B/op": 0},
		{"sec/op": math.Inf(1), "wait-sec/op": math.Inf(1), "B/s": math.Inf(1), "B/op": 2},
	} {
		assert.Equal(t, want, results[i].Values)
	}
}
