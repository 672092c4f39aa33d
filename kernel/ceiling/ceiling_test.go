package ceiling

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/kerneltest"
	"github.com/mquine/mquine/kernel/linalg"
)

// TestSum compares the reading loops with a plain sum, on memory that ends at a guard page.
func TestSum(t *testing.T) {
	kerneltest.Each(t, kernel.FeatureVNNI|kernel.FeatureAVXVNNI, func(t *testing.T, b *kernel.Backend) {
		rng := rand.New(rand.NewPCG(1, 1))
		for _, n := range []int{64, 128, 192, 512, 4096} {
			words := kerneltest.Guarded[uint64](t, n)
			var want uint64
			for i := range words {
				words[i] = rng.Uint64()
				want += words[i]
			}
			out := [8]uint64{1, 2, 3, 4, 5, 6, 7, 8}
			before := out
			loopsOf(b).read(&words[0], n, &out[0])
			lanes := map[kernel.Tier]int{kernel.Generic: 4, kernel.AVX2: 4, kernel.AVX512: 8}[b.Tier]
			for i, s := range out {
				var lane uint64
				for j := i; j < n && i < lanes; j += lanes {
					lane += words[j]
				}
				assert.Equal(t, before[i]+lane, s, "sum %d of %d words", i, n)
			}
		}
	})
}

// TestReadsEverything counts the words that the reading loop reads, over several passes and odd
// numbers of rounds.
func TestReadsEverything(t *testing.T) {
	var read, longest int
	loop := reading(3<<18, func(_ *uint64, n int, _ *uint64) {
		read, longest = read+8*n, max(longest, 8*n)
	}).Loop()
	total := 0
	for _, rounds := range []int{1, 7, 200, 1000, 3} {
		loop(rounds)
		total += rounds
	}
	assert.Equal(t, total*4096, read)
	assert.Equal(t, readingMost, longest)
	assert.Panics(t, func() { Read(kerneltest.Generic(t), 100) })
}

// TestCeilings checks the known ratios between the rates of loops. Each rate is the best of several
// short runs; on a busy machine there are more runs.
func TestCeilings(t *testing.T) {
	kerneltest.Each(t, kernel.FeatureVNNI|kernel.FeatureAVXVNNI, func(t *testing.T, b *kernel.Backend) {
		loops := []Ceiling{Terms(b, kernel.Dot), FMA64(b), MulAdd64(b), Int8(b), Read(b, 4096)}
		half := b.Features.Has(kernel.FeatureAVX512BF16)
		if half {
			loops = append(loops, BFloat16(b))
		}
		best := make([]float64, len(loops))
		var wrong string
		for range 50 {
			for i, c := range loops {
				best[i] = max(best[i], c.Rate(1, time.Millisecond))
			}
			fma32, fma64, mulAdd, bytes := 2*best[0], best[1], best[2], best[3]
			switch ratio := fma32 / fma64; {
			case b.Tier == kernel.Generic: // the rates of the Go loops have no such ratios
				wrong = ""
			case math.Abs(ratio-2) > 0.4:
				wrong = "float64 has half the lanes of float32"
			case mulAdd > 1.2*fma64:
				wrong = "two instructions cannot beat a fused one"
			case bytes < fma32:
				wrong = "bytes are no slower than float32"
			case half && !(0.4*fma32 < best[5] && best[5] < 2.4*fma32):
				wrong = "an instruction for bfloat16 has two products for each product of float32"
			default:
				wrong = ""
			}
			if wrong == "" {
				break
			}
		}
		t.Logf("10⁹ per second: float32 terms %.1f, float64 operations fused %.1f, separate %.1f, "+
			"operations on bytes %.1f, bytes read %.1f",
			best[0]/1e9, best[1]/1e9, best[2]/1e9, best[3]/1e9, best[4]/1e9)
		require.Empty(t, wrong)
		require.Positive(t, slices.Min(best))
	})
}

func TestLevels(t *testing.T) {
	for _, threads := range []int{1, 2, 64} {
		last := 0
		for l := range NumLevels {
			size := l.Reading(threads)
			if size == 0 {
				continue
			}
			assert.Zero(t, size%4096)
			assert.Greater(t, size, last, "%v on %d threads", l, threads)
			last = size
		}
		assert.Positive(t, Memory.Reading(threads))
	}
	assert.Equal(t, "dram", Memory.String())
}

// TestHolding checks that Holding returns the fastest level that holds the bytes, or the first of unknown
// size before it.
func TestHolding(t *testing.T) {
	const kib, mib = 1 << 10, 1 << 20
	for _, test := range []struct {
		bytes, l1, l2 int
		want          Level
	}{
		{3 * 24 * 24 * 8, 32 * kib, mib, L1Cache},
		{3 * 40 * 40 * 8, 32 * kib, mib, L2Cache}, // d = 38
		{3 * 40 * 40 * 8, 48 * kib, mib, L1Cache},
		{3 * 64 * 64 * 8, 48 * kib, mib, L2Cache},
		{2 * mib, 32 * kib, mib, L3Cache},
		{64 * mib, 32 * kib, mib, Memory},
		{100, -1, -1, L1Cache},
		{2 * mib, 32 * kib, -1, L2Cache},
	} {
		require.Equal(t, test.want, holding(test.bytes, test.l1, test.l2, 32*mib), test)
	}
}

// TestRateOfNoTime checks that a rate includes the completed work even if the time is over before a
// thread starts.
func TestRateOfNoTime(t *testing.T) {
	kerneltest.Each(t, kernel.FeatureVNNI|kernel.FeatureAVXVNNI, func(t *testing.T, b *kernel.Backend) {
		assert.Positive(t, Terms(b, kernel.Dot).Rate(3, 0))
	})
}

// TestDistanceCeilings checks that no microkernel is much faster than the loop with its arithmetic.
// Otherwise a round of the loop would compute more than Terms terms.
func TestDistanceCeilings(t *testing.T) {
	kerneltest.Each(t, 0, func(t *testing.T, b *kernel.Backend) {
		if b.Tier == kernel.Generic {
			t.Skip("its loop is the microkernel itself")
		}
		kernels := linalg.New(b)
		for _, kind := range linalg.DistanceKinds() {
			t.Run(kind.String(), func(t *testing.T) {
				const n, k = 192, 256
				rng := rand.New(rand.NewPCG(1, 1))
				random := func(rows, cols int) linalg.Matrix {
					m := linalg.NewMatrix(rows, cols)
					for i := range m.Data {
						m.Data[i] = float32(rng.NormFloat64())
					}
					return m
				}
				psi, phi, g := random(n, k), random(n, k), random(n, n)
				s, dPsi, dPhi := linalg.NewMatrix(n, n), linalg.NewMatrix(n, k), linalg.NewMatrix(n, k)
				d := kernels.NewDistance(kind, 1)
				require.NoError(t, d.Scores(t.Context(), s, psi, phi))
				scores, gradients := DistanceTerms(kernels, kind)
				compareWithCeiling(t, "scores", scores, n*n*k, func() time.Duration {
					start := time.Now()
					require.NoError(t, d.Scores(t.Context(), s, psi, phi))
					return time.Since(start)
				})
				compareWithCeiling(t, "gradients", gradients, 2*n*n*k, func() time.Duration {
					start := time.Now()
					require.NoError(t, d.Gradients(t.Context(), dPsi, dPhi, g, s, psi, phi))
					return time.Since(start)
				})
			})
		}
	})
}

// compareWithCeiling checks that a computation of the given number of terms is neither much faster
// nor far slower than its ceiling. compute returns the time of the computation.
func compareWithCeiling(t *testing.T, name string, c Ceiling, terms float64, compute func() time.Duration) {
	t.Helper()
	var ceiling, reached float64
	for range 50 {
		ceiling = max(ceiling, c.Rate(1, time.Millisecond))
		reached = max(reached, terms/compute().Seconds())
		if ceiling > 0.8*reached && reached > 0.2*ceiling {
			break
		}
	}
	assert.Greater(t, ceiling, 0.8*reached, name)
	assert.Greater(t, reached, 0.2*ceiling, name)
}

// TestRegionCeilings is TestDistanceCeilings for the kernels of regions.
func TestRegionCeilings(t *testing.T) {
	kerneltest.Each(t, 0, func(t *testing.T, b *kernel.Backend) {
		if b.Tier == kernel.Generic {
			t.Skip("its loops run the kernels themselves")
		}
		kernels := linalg.New(b)
		for _, kind := range linalg.RegionKinds() {
			t.Run(kind.String(), func(t *testing.T) {
				const queries, features = 64, 256
				region := linalg.Region{Kind: kind, Coordinates: 128}
				rng := rand.New(rand.NewPCG(1, 1))
				random := func(rows, cols int) linalg.Matrix {
					m := linalg.NewMatrix(rows, cols)
					for i := range m.Data {
						m.Data[i] = rng.Float32()
					}
					return m
				}
				k := region.Width()
				psi, phi, g := random(queries, 3*k), random(features, k), random(queries, features)
				s := linalg.NewMatrix(queries, features)
				dPsi, dPhi := linalg.NewMatrix(queries, 3*k), linalg.NewMatrix(features, k)
				r := kernels.NewRegions(region, 1)
				score := func() time.Duration {
					start := time.Now()
					require.NoError(t, r.Scores(t.Context(), s, psi, phi))
					return time.Since(start)
				}
				scores, gradients := RegionTerms(kernels, kind)
				terms := float64(queries * features * k)
				compareWithCeiling(t, "scores", scores, terms, score)
				compareWithCeiling(t, "gradients", gradients, 2*terms, func() time.Duration {
					score() // Gradients needs the scores
					start := time.Now()
					require.NoError(t, r.Gradients(t.Context(), dPsi, dPhi, g, psi, phi))
					return time.Since(start)
				})
			})
		}
	})
}
