package bench_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/bench"
)

func BenchmarkCeiling(b *testing.B)    { family(b) }
func BenchmarkPanel(b *testing.B)      { family(b) }
func BenchmarkPair(b *testing.B)       { family(b) }
func BenchmarkMatMulFMA(b *testing.B)  { family(b) }
func BenchmarkMatMul(b *testing.B)     { family(b) }
func BenchmarkFrobenius(b *testing.B)  { family(b) }
func BenchmarkPackRows(b *testing.B)   { family(b) }
func BenchmarkFeatures(b *testing.B)   { family(b) }
func BenchmarkQuery(b *testing.B)      { family(b) }
func BenchmarkReference(b *testing.B)  { family(b) }
func BenchmarkLoad(b *testing.B)       { family(b) }
func BenchmarkIndex(b *testing.B)      { family(b) }
func BenchmarkOpen(b *testing.B)       { family(b) }
func BenchmarkPack(b *testing.B)       { family(b) }
func BenchmarkEvaluate(b *testing.B)   { family(b) }
func BenchmarkPredict(b *testing.B)    { family(b) }
func BenchmarkProduct(b *testing.B)    { family(b) }
func BenchmarkDistance(b *testing.B)   { family(b) }
func BenchmarkRegion(b *testing.B)     { family(b) }
func BenchmarkSmall(b *testing.B)      { family(b) }
func BenchmarkRows(b *testing.B)       { family(b) }
func BenchmarkTrainStep(b *testing.B)  { family(b) }
func BenchmarkPresetStep(b *testing.B) { family(b) }

func BenchmarkScreenChoice(b *testing.B)      { family(b) }
func BenchmarkBFloat16Product(b *testing.B)   { family(b) }
func BenchmarkBFloat16TrainStep(b *testing.B) { family(b) }
func BenchmarkTileProduct(b *testing.B)       { family(b) }
func BenchmarkTileTrainStep(b *testing.B)     { family(b) }
func BenchmarkSplitProduct(b *testing.B)      { family(b) }
func BenchmarkSplitTrainStep(b *testing.B)    { family(b) }

var all = sync.OnceValues(bench.All)

// ran reports whether a benchmark has run.
var ran bool

// family runs the benchmarks of the family that b is named after. With -short, it runs only the quick
// subset.
func family(b *testing.B) {
	list, err := all()
	require.NoError(b, err)
	for _, x := range list {
		rest, ours := strings.CutPrefix("Benchmark"+x.Name, b.Name()+"/")
		if ours && (x.Quick || !testing.Short()) {
			b.Run(rest, func(b *testing.B) {
				ran = true
				if x.Missing != "" {
					b.Skipf("the training split of %s is not installed: run mquine data get %[1]s", x.Missing)
				}
				x.Run(b)
			})
		}
	}
}
