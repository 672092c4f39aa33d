//go:build !noasm

package linalg

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/kerneltest"
)

// TestPacking tests the packing for both tiers on AVX2, because the code that packs the wide panels
// of AVX-512 also uses only AVX2.
func TestPacking(t *testing.T) {
	kerneltest.SkipWithout(t, kerneltest.Backends(t, 0)[0], kernel.FeatureAVX2)
	for _, g := range []gemm{gemmAVX2, gemmAVX512} {
		for _, width := range []int{g.mr, g.nr} {
			kernels := g.packRows
			if width == g.nr {
				kernels = g.packCols
			}
			for k := 1; k <= 35; k++ {
				t.Run(fmt.Sprintf("width=%d/k=%d", width, k), func(t *testing.T) {
					n := float32(0)
					next := func() float32 { n++; return n }
					rows := guardedMatrix(t, width, k, k+3, next)
					cols := guardedMatrix(t, k, width, width+5, next)
					for i, m := range []Matrix{rows, cols} {
						dst := kerneltest.Guarded[float32](t, k*width)
						kernels[i](&dst[0], &m.Data[0], m.Stride, k)
						for v := range width {
							for term := range k {
								want := rows.Data[v*rows.Stride+term]
								if i == 1 {
									want = cols.Data[term*cols.Stride+v]
								}
								require.Equal(t, want, dst[term*width+v], "vector %d, term %d", v, term)
							}
						}
					}
				})
			}
		}
	}
}
