//go:build !noasm

package linalg

import "github.com/mquine/mquine/asm"

const (
	tileSide    = 16           // rows of a tile, and words in a row
	tileVectors = 2 * tileSide // vectors in a strip or a panel, and terms in a block
)

// gemmTiles holds the kernels of products in bfloat16 with AMX.
var gemmTiles = gemm{
	mr: tileVectors, nr: tileVectors, multiple: tileVectors, pairs: true, strips: tileStrips, chunk: tileChunk,
	microkernels: []gemmKernel{asm.Gemm32x32AMXBF16},
	packRows:     tilePacking(false, false),
	packCols:     tilePacking(true, false),
}

// tilePacking returns the kernels that pack left or right factors, split or rounded.
func tilePacking(right, split bool) packKernels {
	return packKernels{
		func(dst, src *float32, stride, k int) { packTiles(dst, src, stride, k, false, right, split) },
		func(dst, src *float32, stride, k int) { packTiles(dst, src, stride, k, true, right, split) },
	}
}

// packTiles packs k terms of the vectors of a strip or a panel in blocks. The vectors are rows or
// columns of a matrix. If the vectors of a left factor are columns, or the vectors of a right factor
// are rows, packTiles transposes the tiles of a block.
func packTiles(dst, src *float32, stride, k int, columns, right, split bool) {
	termStride, blockWords := 1, tileVectors*tileSide
	if columns {
		termStride = stride
	}
	if split {
		blockWords *= 2
	}
	var words [tileVectors * tileVectors]float32
	for t := 0; t < k; t += tileVectors {
		to, from := floatsAfter(dst, t/tileVectors*blockWords), floatsAfter(src, t*termStride)
		if columns == right {
			packBlock(to, from, stride, columns, split)
			continue
		}
		packBlock(&words[0], from, stride, columns, split)
		transposeTiles(to, words[:blockWords])
	}
}

func packBlock(dst, src *float32, stride int, columns, split bool) {
	switch {
	case split && columns:
		asm.SplitColumns32AVX512(dst, src, stride)
	case split:
		asm.SplitRows32AVX512(dst, src, stride)
	case columns:
		for half := 0; half < tileVectors; half += tileSide {
			asm.RoundColumns16AVX512BF16(floatsAfter(dst, half*tileSide), floatsAfter(src, half), stride, tileVectors)
		}
	default:
		asm.RoundRowsAVX512BF16(dst, src, tileSide, stride, tileVectors, tileVectors)
	}
}

func transposeTiles(dst *float32, words []float32) {
	for tile := 0; tile < len(words); tile += tileSide * tileSide {
		for row := 0; row < tileSide; row += 8 {
			asm.Transpose8AVX2(floatsAfter(dst, tile+row), &words[tile+row*tileSide], tileSide, tileSide, tileSide)
		}
	}
}
