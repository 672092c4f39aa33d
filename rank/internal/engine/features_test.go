package engine

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/model"
)

// hashed is a model with other hashes. It calls compared, if not nil, when it compares entities.
type hashed struct {
	model.Model
	hash     func(e int32) uint64
	compared func()
}

func (h *hashed) HashEntity(e int32) uint64 { return h.hash(e) }

func (h *hashed) SameEntity(a, b int32) bool {
	if h.compared != nil {
		h.compared()
	}
	return h.Model.SameEntity(a, b)
}

// entityJob returns a job whose candidates are all n entities of a model. Entity e has the parameter
// value(e).
func entityJob(t *testing.T, n int, value func(e int) float32) (*Job, *hashed) {
	x := make([]float32, n)
	for e := range x {
		x[e] = value(e)
	}
	m, err := model.New(model.Config{Model: "distmult", Dim: 1, Entities: n, Relations: 1}, [][]float32{x, {1}})
	require.NoError(t, err)
	h := &hashed{m, m.HashEntity, nil}
	return &Job{Model: h, Threads: 2, Plan: Plan{Passes: []Pass{{Candidates: Range(0, n)}}}}, h
}

// TestFindRepresentatives compares FindRepresentatives with a map, for good hashes and for hashes that
// many entities share. An entity whose hash belongs to an earlier, different entity represents
// itself.
func TestFindRepresentatives(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, n := range []int{1, 2, 300, 5000} {
		for name, draw := range map[string]func(e int) float32{
			"distinct": func(e int) float32 { return float32(e) },
			"equal":    func(int) float32 { return 1 },
			"some":     func(int) float32 { return float32(rng.IntN(n/3 + 1)) },
		} {
			j, h := entityJob(t, n, draw)
			good := h.hash
			for hashes, hash := range map[string]func(e int32) uint64{
				"good":    good,
				"equal":   func(int32) uint64 { return 7 },
				"largest": func(int32) uint64 { return math.MaxUint64 },
				"few":     func(e int32) uint64 { return good(e) % 11 },
				"high":    func(e int32) uint64 { return good(e) << 55 },
			} {
				h.hash = hash
				var want []int32
				seen := map[uint64]int32{}
				repeats := false
				for e := range int32(n) {
					want = append(want, e)
					if first, ok := seen[hash(e)]; !ok {
						seen[hash(e)] = e
					} else if h.SameEntity(e, first) {
						want[e], repeats = first, true
					}
				}
				if !repeats {
					want = nil
				}
				got, err := FindRepresentatives(t.Context(), j)
				require.NoError(t, err)
				require.Equal(t, want, got, "%d entities, %s, %s hashes", n, name, hashes)
			}
		}
	}
}

// TestFindRepresentativesStops checks that FindRepresentatives stops if the context ends while it
// compares entities.
func TestFindRepresentativesStops(t *testing.T) {
	j, h := entityJob(t, 20_000, func(int) float32 { return 1 })
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	h.compared = func() { calls++; cancel() }
	_, err := FindRepresentatives(ctx, j)
	require.ErrorIs(t, err, context.Canceled)
	require.Less(t, calls, 5000)
}

// TestRepresentativeBytes compares the memory of FindRepresentatives with its estimate.
func TestRepresentativeBytes(t *testing.T) {
	const n = 200_000
	j, _ := entityJob(t, n, func(e int) float32 { return float32(e) })
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	reps, err := FindRepresentatives(t.Context(), j)
	require.NoError(t, err)
	require.Nil(t, reps)
	runtime.ReadMemStats(&after)
	require.InEpsilon(t, RepresentativeBytes*n, after.TotalAlloc-before.TotalAlloc, 0.15)
}

// TestSortBy compares SortBy with a stable sort by comparisons.
func TestSortBy(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	special := []float64{
		0, math.SmallestNonzeroFloat64, 0x1p-1022, 1, math.Nextafter(1, 2), math.MaxFloat64, math.Inf(1),
	}
	for name, draw := range map[string]func() float64{
		"equal":   func() float64 { return 2.5 },
		"special": func() float64 { return special[rng.IntN(len(special))] },
		"float32": func() float64 { return float64(float32(1 + 0.1*rng.Float64())) },
		"bits":    func() float64 { return math.Float64frombits(rng.Uint64N(0x7ff0000000000000)) },
	} {
		for _, n := range []int{0, 1, 2, 255, 1000} {
			f := NewFeatures(8, n, false)
			f.N = n
			keys, want := make([]float64, n), make([]int32, n)
			for i := range keys {
				keys[i], want[i] = draw(), int32(i)
			}
			slices.SortStableFunc(want, func(x, y int32) int { return cmp.Compare(keys[x], keys[y]) })
			f.SortBy(keys)
			require.Equal(t, want, f.RowAt, "%s, %d", name, n)
			for at, row := range want {
				require.EqualValues(t, at, f.PositionOf[row], "%s, %d", name, n)
			}
		}
	}
}
