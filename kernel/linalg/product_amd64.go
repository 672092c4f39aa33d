//go:build !noasm

package linalg

import (
	"unsafe"

	"github.com/mquine/mquine/asm"
)

var (
	gemmAVX2 = gemm{
		mr: 6, nr: 16, multiple: 1, strips: floatStrips, microkernels: []gemmKernel{asm.Gemm6x8AVX2, asm.Gemm6x16AVX2},
		packRows: packKernels{
			func(dst, src *float32, stride, k int) { asm.Transpose6AVX2(dst, src, 6, stride, k) },
			asm.CopyColumns6AVX2,
		},
		packCols: packKernels{
			func(dst, src *float32, stride, k int) { transposeEights(dst, src, 16, stride, k) },
			asm.CopyColumns16AVX2,
		},
	}
	gemmAVX512 = gemm{
		mr: 8, nr: 48, multiple: 1, strips: floatStrips,
		microkernels: []gemmKernel{asm.Gemm8x16AVX512, asm.Gemm8x32AVX512, asm.Gemm8x48AVX512},
		packRows: packKernels{
			func(dst, src *float32, stride, k int) { asm.Transpose8AVX2(dst, src, 8, stride, k) },
			asm.CopyColumns8AVX2,
		},
		packCols: packKernels{
			func(dst, src *float32, stride, k int) { transposeEights(dst, src, 48, stride, k) },
			asm.CopyColumns48AVX2,
		},
	}
)

func floatsAfter(p *float32, n int) *float32 { return (*float32)(unsafe.Add(unsafe.Pointer(p), 4*n)) }

// transposeEights transposes n rows, a multiple of 8: dst[t*n+i] = src[i*stride+t], i < n, t < k.
func transposeEights(dst, src *float32, n, stride, k int) {
	for i := 0; i < n; i += 8 {
		asm.Transpose8AVX2(floatsAfter(dst, i), floatsAfter(src, i*stride), n, stride, k)
	}
}
