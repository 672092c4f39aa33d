//go:build !noasm

package linalg

import (
	"github.com/mquine/mquine/asm"
)

const (
	splitVectors = 32                          // vectors in a strip or a panel, and terms in a block
	splitWords   = splitVectors * splitVectors // words in a block
)

// gemmSplit holds the kernels of split products.
var gemmSplit = gemm{
	mr: splitVectors, nr: splitVectors, multiple: splitVectors, strips: splitStrips,
	microkernels: []gemmKernel{asm.GemmSplit32x32AMXBF16},
	packRows: packKernels{
		func(dst, src *float32, stride, k int) { split(dst, src, stride, k, false, false) },
		func(dst, src *float32, stride, k int) { split(dst, src, stride, k, true, false) },
	},
	packCols: packKernels{
		func(dst, src *float32, stride, k int) { split(dst, src, stride, k, false, true) },
		func(dst, src *float32, stride, k int) { split(dst, src, stride, k, true, true) },
	},
}

// split packs k terms of the vectors of a strip or a panel. The vectors are rows or columns of a
// matrix. The blocks of a left factor have the layout of SplitRows32AVX512, and the blocks of a
// right factor the layout of SplitColumns32AVX512. If the vectors of a left factor are columns, or
// the vectors of a right factor are rows, split transposes the tiles.
func split(dst, src *float32, stride, k int, columns, right bool) {
	termStride := 1
	if columns {
		termStride = stride
	}
	for t := 0; t < k; t += splitVectors {
		to, from := floatsAfter(dst, t*splitVectors), floatsAfter(src, t*termStride)
		if columns == right {
			splitBlock(to, from, stride, columns)
			continue
		}
		var words [splitWords]float32
		splitBlock(&words[0], from, stride, columns)
		transposeTiles(to, words[:])
	}
}

func splitBlock(dst, src *float32, stride int, columns bool) {
	if columns {
		asm.SplitColumns32AVX512(dst, src, stride)
	} else {
		asm.SplitRows32AVX512(dst, src, stride)
	}
}

// transposeTiles transposes every 16 × 16 words.
func transposeTiles(dst *float32, words []float32) {
	const side = splitVectors / 2
	for tile := 0; tile < len(words); tile += side * side {
		for row := 0; row < side; row += 8 {
			asm.Transpose8AVX2(floatsAfter(dst, tile+row), &words[tile+row*side], side, side, side)
		}
	}
}
