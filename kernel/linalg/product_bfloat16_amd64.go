//go:build !noasm

package linalg

import "github.com/mquine/mquine/asm"

// gemmBFloat16 holds the kernels of products in bfloat16.
var gemmBFloat16 = gemm{
	mr: 8, nr: 48, multiple: 2, pairs: true, strips: bfloat16Strips,
	microkernels: []gemmKernel{asm.Gemm8x16AVX512BF16, asm.Gemm8x32AVX512BF16, asm.Gemm8x48AVX512BF16},
	packRows: packKernels{
		func(dst, src *float32, stride, k int) { roundRows(dst, src, 8, stride, k) },
		asm.RoundColumns8AVX512BF16,
	},
	packCols: packKernels{
		func(dst, src *float32, stride, k int) { roundRows(dst, src, 48, stride, k) },
		asm.RoundColumns48AVX512BF16,
	},
}

// roundRows rounds and transposes n rows, a multiple of 8, of k ≤ ProductChunk terms:
// dst[t*n+i] = the word of src[i*stride+2t] and src[i*stride+2t+1], i < n, t < k/2.
func roundRows(dst, src *float32, n, stride, k int) {
	const rows = 8
	var words [rows * ProductChunk / 2]float32
	for i := 0; i < n; i += rows {
		asm.RoundRowsAVX512BF16(&words[0], floatsAfter(src, i*stride), k/2, stride, rows, k)
		asm.Transpose8AVX2(floatsAfter(dst, i), &words[0], n, k/2, k/2)
	}
}
