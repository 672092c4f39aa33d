//go:build !noasm

package linalg

import "github.com/mquine/mquine/asm"

// gemmSplit holds the kernels of split products. A block of a left factor has the layout of
// SplitRows32AVX512, and a block of a right factor the layout of SplitColumns32AVX512.
var gemmSplit = gemm{
	mr: tileVectors, nr: tileVectors, multiple: tileVectors, strips: splitStrips,
	microkernels: []gemmKernel{asm.GemmSplit32x32AMXBF16},
	packRows:     tilePacking(false, true),
	packCols:     tilePacking(true, true),
}
