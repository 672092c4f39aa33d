//go:build !noasm

package linalg

import (
	"github.com/mquine/mquine/asm"
	"github.com/mquine/mquine/kernel"
)

var constructors = [...]func(kernel.Features) *Backend{
	kernel.Generic: newGeneric, kernel.AVX2: newAVX2, kernel.AVX512: newAVX512,
}

func newAVX2(kernel.Features) *Backend {
	return &Backend{
		gemm:      gemmAVX2,
		distances: distancesAVX2,
		regions:   regionsAVX2,
		small: smallKernels{
			rows: 4, multiply: asm.MatMulStrip4AVX2, transpose: asm.Transpose8AVX2,
			unpack: asm.UnpackTriangleAVX2, pack: asm.PackTriangleAVX2, addTranspose: asm.AddTransposeAVX2,
		},
		rows: rowKernels{
			axpy: asm.AxpyAVX2, addRows: asm.AddRowsAVX2, scale: asm.ScaleAVX2,
			multiply: asm.MultiplyAVX2, multiplyComplex: asm.MultiplyComplexAVX2,
			dot: asm.DotAVX2, dots: asm.DotsAVX2, sum: asm.SumAVX2,
			adam: asm.AdamAVX2, catchUp: asm.AdamCatchUpAVX2, adagrad: asm.AdagradAVX2,
			prefetch: asm.PrefetchAVX2,
		},
		softmax: softmaxKernels{maximum: asm.MaximumAVX2, exp: asm.ExpAVX2, logistic: asm.LogisticAVX2},
	}
}

func newAVX512(f kernel.Features) *Backend {
	b := &Backend{
		gemm:      gemmAVX512,
		distances: distancesAVX512,
		regions:   regionsAVX512,
		small: smallKernels{
			rows: 8, multiply: asm.MatMulStrip8AVX512, transpose: asm.Transpose8AVX2,
			unpack: asm.UnpackTriangleAVX2, pack: asm.PackTriangleAVX2, addTranspose: asm.AddTransposeAVX2,
		},
		rows: rowKernels{
			axpy: asm.AxpyAVX512, addRows: asm.AddRowsAVX512, scale: asm.ScaleAVX512,
			multiply: asm.MultiplyAVX512, multiplyComplex: asm.MultiplyComplexAVX512,
			dot: asm.DotAVX512, dots: asm.DotsAVX512, sum: asm.SumAVX512,
			adam: asm.AdamAVX512, catchUp: asm.AdamCatchUpAVX512, adagrad: asm.AdagradAVX512,
			prefetch: asm.PrefetchAVX2,
		},
		softmax: softmaxKernels{maximum: asm.MaximumAVX512, exp: asm.ExpAVX512, logistic: asm.LogisticAVX512},
	}
	if f.Has(kernel.FeatureAMXBF16) {
		b.split = gemmSplit
	}
	if f.Has(kernel.FeatureAVX512BF16) {
		b.bfloat16 = gemmBFloat16
	}
	if f.Has(kernel.FeatureAMXBF16) && f.Has(kernel.FeatureAVX512BF16) {
		b.tiles = gemmTiles
	}
	return b
}
