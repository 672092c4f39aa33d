package bench

import (
	"context"
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/ceiling"
)

// A benchmark that runs again, as with -count 2, measures each of its limits as often as before.
func TestPairAgain(t *testing.T) {
	flags := flag.Lookup("test.benchtime").Value
	previous := flags.String()
	defer func() { require.NoError(t, flags.Set(previous)) }()
	require.NoError(t, flags.Set("1x"))
	backends, err := kernel.Available()
	require.NoError(t, err)
	samples := 0
	s := &suite{backends: backends[:1], reading: map[ceiling.Level]func(int){
		ceiling.Memory: func(int) {
			samples++
			for start := threadTime(); threadTime()-start < time.Millisecond; { // long enough for a sample
			}
		},
	}}
	list := pairs(s)
	i := slices.IndexFunc(list, func(x Benchmark) bool {
		return x.Name == name("Pair", "tier", backends[0].Tier, "compare", kernel.L1, "k", 352)
	})
	require.GreaterOrEqual(t, i, 0)
	for range 2 {
		samples = 0
		testing.Benchmark(func(b *testing.B) { require.NoError(t, list[i].run(context.Background(), b)) })
		assert.Equal(t, 2, samples, "before and after the only slice")
	}
}
