package kernel

import (
	"fmt"
	"math"
	"sync"
	"unsafe"

	"github.com/mquine/mquine/asm"
)

var (
	groupNormsMu sync.Mutex
	groupNorms   = map[int]Comparison{1: L1, 2: GroupNorm}
)

// GroupNormOf returns the comparison −Σ_g ‖ψ_g − φ_g‖ of groups g of the given number of consecutive
// coordinates, with Euclidean norms. Calls with the same size return the same comparison. For size
// 1 the result is L1, and for size 2 it is GroupNorm. GroupNormOf panics if size < 1.
func GroupNormOf(size int) Comparison {
	if size < 1 {
		panic(fmt.Sprintf("kernel: groups of %d coordinates", size))
	}
	groupNormsMu.Lock()
	defer groupNormsMu.Unlock()
	c, known := groupNorms[size]
	if !known {
		c = newGroupNorm(size)
		groupNorms[size] = c
	}
	return c
}

// newGroupNorm returns the comparison of groups of size > 2.
func newGroupNorm(size int) Comparison {
	pair := func(kernel groupPairFunc) pairFunc {
		return func(x *float32, n int, table *float32, stride int, ids *int32, count int, out *float64) {
			if n < size { // no whole group
				clear(unsafe.Slice(out, count))
				return
			}
			kernel(x, n/size, size, table, stride, ids, count, out)
		}
	}
	peak := func(kernel func(n, group int, x *float32)) func(n int, x *float32) {
		return func(n int, x *float32) { kernel(n, size, x) }
	}
	return define(spec{
		kind: KindGroupNormOf, name: fmt.Sprintf("group-norm-%d", size),
		group: size, psi: 1, phi: 1, falling: true, distance: true,
		limit: 0x1p60,
		// Each coordinate needs a difference, a square and a sum. A group adds a root and the sum
		// over groups, but needs one fewer sum of squares.
		flops: 3 + 1/float64(size),
		// There are size + 2 roundings under the root: two for the difference, one for the square
		// and size − 1 for the sum. The root halves them (docs/numerics.md, "Panel scores").
		panelError: func(n, k int, root float64) (relative, absolute float64) {
			sums := Gamma(n+(size+3)/2, U32)
			return sums + root*(1+sums), float64(k) * 0x1p-63
		},
		// Under the root, there are two roundings for the difference, one for the square, one for
		// each sum of a lane, and three to join the lanes. The root halves them and rounds once.
		pairRoundings: (5+(size+7)/8+1)/2 + 1,
		pairSums:      func(n int) int { return n / size },
		scores: func(psi, phi []float32, query int) (sums [genericNR]float32) {
			for t := 0; len(phi) > 0; t, phi = t+size, phi[size*genericNR:] {
				var squares [genericNR]float32
				for u := range size {
					w := psi[(t+u)*genericMR+query]
					for j, v := range phi[u*genericNR:][:genericNR] {
						d := w - v
						squares[j] += float32(d * d)
					}
				}
				for j, s := range squares {
					sums[j] -= float32(math.Sqrt(float64(s)))
				}
			}
			return sums
		},
		pair: func(x, row []float32) (sum float64) {
			for ; len(x) >= size; x, row = x[size:], row[size:] {
				var squares [8]float64
				for u, v := range x[:size] {
					d := float64(v) - float64(row[u])
					squares[u%8] += float64(d * d)
				}
				sum -= math.Sqrt(addEights(squares))
			}
			return sum
		},
		tiers: [numTiers]comparer{
			AVX2: {
				6, asm.GroupNormPanel6x16AVX2, pair(asm.PairGroupNormAVX2), peak(asm.GroupNormPeakAVX2), size * 64,
			},
			AVX512: {
				4, asm.GroupNormPanel4x48AVX512, pair(asm.PairGroupNormAVX512), peak(asm.GroupNormPeakAVX512),
				size * 192,
			},
		},
	})
}

// groupPairFunc is the signature of a pair kernel for groups of any size.
type groupPairFunc func(
	x *float32, groups, group int, table *float32, stride int, ids *int32, count int, out *float64,
)
