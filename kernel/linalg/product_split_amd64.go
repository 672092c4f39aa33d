//go:build !noasm

package linalg

import (
	"github.com/mquine/mquine/asm"
)

const (
	splitVectors = 32 // of a strip or a panel, and terms of a block
	splitWords   = splitVectors * splitVectors
)

// gemmSplit holds the kernels of split products.
var gemmSplit = gemm{
	mr: splitVectors, nr: splitVectors, unit: splitVectors, strips: splitStrips,
	tiles: []gemmKernel{asm.GemmSplit32x32AMXBF16},
	packRows: packKernels{
		func(dst, src *float32, stride, k int) { split(dst, src, stride, k, false, false) },
		func(dst, src *float32, stride, k int) { split(dst, src, stride, k, true, false) },
	},
	packCols: packKernels{
		func(dst, src *float32, stride, k int) { split(dst, src, stride, k, false, true) },
		func(dst, src *float32, stride, k int) { split(dst, src, stride, k, true, true) },
	},
}

// split splits k terms of a strip's or a panel's vectors, which are rows or columns of a matrix. The words of
// a left factor lie as SplitRows32AVX512 has them, those of a right one as SplitColumns32AVX512: for the
// other, tiles are transposed.
func split(dst, src *float32, stride, k int, columns, right bool) {
	step := 1
	if columns {
		step = stride
	}
	for t := 0; t < k; t += splitVectors {
		to, from := floatsAfter(dst, t*splitVectors), floatsAfter(src, t*step)
		if columns == right {
			splitBlock(to, from, stride, columns)
			continue
		}
		var words [splitWords]float32
		splitBlock(&words[0], from, stride, columns)
		transposeTiles(to, &words)
	}
}

func splitBlock(dst, src *float32, stride int, columns bool) {
	if columns {
		asm.SplitColumns32AVX512(dst, src, stride)
	} else {
		asm.SplitRows32AVX512(dst, src, stride)
	}
}

func transposeTiles(dst *float32, words *[splitWords]float32) {
	const side = splitVectors / 2
	for tile := 0; tile < splitWords; tile += side * side {
		for row := 0; row < side; row += 8 {
			asm.Transpose8AVX2(floatsAfter(dst, tile+row), &words[tile+row*side], side, side, side)
		}
	}
}
