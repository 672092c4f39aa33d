//go:build !noasm

package kernel

import (
	"unsafe"

	"github.com/klauspost/cpuid/v2"

	"github.com/mquine/mquine/asm"
)

const (
	splitVectors = 32 // of a strip or a panel, and terms of a block
	splitBlock   = splitVectors * splitVectors
)

// splitProducts returns the kernels of split products, none where the processor or the system does not let
// this process have AMX for bfloat16.
func splitProducts() gemm {
	if !hasTiles || !cpuid.CPU.Supports(cpuid.AMXBF16) {
		return gemm{}
	}
	return gemm{
		mr: splitVectors, nr: splitVectors, unit: splitVectors, strips: 8, tile: asm.GemmSplit32x32AMXBF16,
		packRows: [2]func(dst, src *float32, stride, k int){
			func(dst, src *float32, stride, k int) { splitRows(dst, src, stride, k, false) },
			func(dst, src *float32, stride, k int) { splitColumns(dst, src, stride, k, true) },
		},
		packCols: [2]func(dst, src *float32, stride, k int){
			func(dst, src *float32, stride, k int) { splitRows(dst, src, stride, k, true) },
			func(dst, src *float32, stride, k int) { splitColumns(dst, src, stride, k, false) },
		},
	}
}

// splitRows splits k terms of a strip's or a panel's vectors, which are rows. Right factors have the words of
// SplitColumns32AVX512, left ones those of SplitRows32AVX512: for the other, tiles are transposed.
func splitRows(dst, src *float32, stride, k int, transpose bool) {
	for t := 0; t < k; t += splitVectors {
		to, from := floatsAfter(dst, t*splitVectors), floatsAfter(src, t)
		if !transpose {
			asm.SplitRows32AVX512(to, from, stride)
			continue
		}
		var words [splitBlock]float32
		asm.SplitRows32AVX512(&words[0], from, stride)
		transposeTiles(to, &words)
	}
}

// splitColumns is splitRows for vectors that are columns.
func splitColumns(dst, src *float32, stride, k int, transpose bool) {
	for t := 0; t < k; t += splitVectors {
		to, from := floatsAfter(dst, t*splitVectors), floatsAfter(src, t*stride)
		if !transpose {
			asm.SplitColumns32AVX512(to, from, stride)
			continue
		}
		var words [splitBlock]float32
		asm.SplitColumns32AVX512(&words[0], from, stride)
		transposeTiles(to, &words)
	}
}

func transposeTiles(dst *float32, words *[splitBlock]float32) {
	const side = splitVectors / 2
	for tile := 0; tile < splitBlock; tile += side * side {
		for row := 0; row < side; row += 8 {
			asm.Transpose8AVX2(floatsAfter(dst, tile+row), &words[tile+row*side], side, side, side)
		}
	}
}

func floatsAfter(p *float32, n int) *float32 { return (*float32)(unsafe.Add(unsafe.Pointer(p), 4*n)) }
