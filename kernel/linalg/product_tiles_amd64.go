//go:build !noasm

package linalg

import "github.com/mquine/mquine/asm"

const (
	tileVectors    = 32                     // vectors in a strip or a panel, and terms in a block
	tileSide       = 16                     // rows of a tile, and words in a row
	tileBlockWords = tileVectors * tileSide // words in a block
)

// gemmTiles holds the kernels of products in bfloat16 with AMX.
var gemmTiles = gemm{
	mr: tileVectors, nr: tileVectors, multiple: tileVectors, pairs: true, strips: tileStrips, chunk: tileChunk,
	microkernels: []gemmKernel{asm.Gemm32x32AMXBF16},
	packRows: packKernels{
		func(dst, src *float32, stride, k int) { roundBlocks(dst, src, stride, k, false, false) },
		func(dst, src *float32, stride, k int) { roundBlocks(dst, src, stride, k, true, false) },
	},
	packCols: packKernels{
		func(dst, src *float32, stride, k int) { roundBlocks(dst, src, stride, k, false, true) },
		func(dst, src *float32, stride, k int) { roundBlocks(dst, src, stride, k, true, true) },
	},
}

// roundBlocks packs k terms of the vectors of a strip or a panel as Gemm32x32AMXBF16 expects them. The
// vectors are rows or columns of a matrix. If the vectors of a left factor are columns, or the vectors
// of a right factor are rows, roundBlocks transposes the tiles.
func roundBlocks(dst, src *float32, stride, k int, columns, right bool) {
	termStride := 1
	if columns {
		termStride = stride
	}
	for t := 0; t < k; t += tileVectors {
		to, from := floatsAfter(dst, t*tileSide), floatsAfter(src, t*termStride)
		if columns == right {
			roundBlock(to, from, stride, columns)
			continue
		}
		var words [tileBlockWords]float32
		roundBlock(&words[0], from, stride, columns)
		transposeTiles(to, words[:])
	}
}

func roundBlock(dst, src *float32, stride int, columns bool) {
	if !columns {
		asm.RoundRowsAVX512BF16(dst, src, tileSide, stride, tileVectors, tileVectors)
		return
	}
	for half := 0; half < tileVectors; half += tileSide {
		asm.RoundColumns16AVX512BF16(floatsAfter(dst, half*tileSide), floatsAfter(src, half), stride, tileVectors)
	}
}
