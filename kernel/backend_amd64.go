//go:build !noasm

package kernel

import (
	"github.com/klauspost/cpuid/v2"

	"github.com/mquine/mquine/asm"
)

var backends = [...]*Backend{
	Generic: generic,
	AVX2: {
		Tier: AVX2, NR: 16,
		int8:      int8Generic(16),
		int16:     int16Generic(16),
		matMul:    asm.MatMul8AVX2,
		matMulFMA: asm.MatMulFMA8AVX2,
		frobenius: asm.FrobeniusColumnsAVX2,
		pairInt8:  pairInt8Generic,
		gemm:      gemmAVX2,
		small:     smallKernels{4, asm.MatMulStrip4AVX2, asm.Transpose8AVX2, asm.UnpackTriangleAVX2, asm.PackTriangleAVX2, asm.AddTransposeAVX2},
		rows:      rowKernels{axpy: asm.AxpyAVX2, scale: asm.ScaleAVX2, dot: asm.DotAVX2, sum: asm.SumAVX2, adam: asm.AdamAVX2, coast: asm.CoastAVX2, adagrad: asm.AdagradAVX2, prefetch: asm.PrefetchAVX2},
		weights:   weightKernels{maximum: asm.MaximumAVX2, exp: asm.ExpAVX2, logistic: asm.LogisticAVX2},
	},
	AVX512: {
		Tier: AVX512, NR: 48,
		int8:      int8PanelAVX512(),
		int16:     int16PanelAVX512(),
		fastInt8:  cpuid.CPU.Supports(cpuid.AVX512VNNI),
		fastInt16: hasTiles,
		matMul:    asm.MatMul8AVX512,
		matMulFMA: asm.MatMulFMA8AVX512,
		frobenius: asm.FrobeniusColumnsAVX512,
		pairInt8:  pairInt8AVX512(),
		gemm:      gemmAVX512,
		split:     splitProducts(),
		small:     smallKernels{8, asm.MatMulStrip8AVX512, asm.Transpose8AVX2, asm.UnpackTriangleAVX2, asm.PackTriangleAVX2, asm.AddTransposeAVX2},
		rows:      rowKernels{axpy: asm.AxpyAVX512, scale: asm.ScaleAVX512, dot: asm.DotAVX512, sum: asm.SumAVX512, adam: asm.AdamAVX512, coast: asm.CoastAVX512, adagrad: asm.AdagradAVX512, prefetch: asm.PrefetchAVX2},
		weights:   weightKernels{maximum: asm.MaximumAVX512, exp: asm.ExpAVX512, logistic: asm.LogisticAVX512},
	},
}

func int8PanelAVX512() comparer {
	if !cpuid.CPU.Supports(cpuid.AVX512VNNI) {
		return int8Generic(48)
	}
	return comparer{mr: 9, panel: asm.Int8Panel9x48AVX512VNNI}
}

// hasTiles tells that the processor has AMX for bytes and that the system lets this process use it.
var hasTiles = cpuid.CPU.Supports(cpuid.AMXTILE, cpuid.AMXINT8) && allowTiles()

func int16PanelAVX512() comparer {
	if !hasTiles {
		return int16Generic(48)
	}
	return comparer{mr: int16MR, panel: asm.Int16Panel16x48AMX}
}

func pairInt8AVX512() func(x *uint32, n int, table *uint32, stride int, ids *int32, count int, out *int32) {
	if !cpuid.CPU.Supports(cpuid.AVX512VNNI) {
		return pairInt8Generic
	}
	return asm.PairInt8AVX512VNNI
}

// detect asks for exactly what the kernels of a tier use.
func detect() Tier {
	switch {
	case !cpuid.CPU.Supports(cpuid.AVX2, cpuid.FMA3, cpuid.POPCNT, cpuid.CMOV):
		return Generic
	case !cpuid.CPU.Supports(cpuid.AVX512F, cpuid.AVX512BW, cpuid.AVX512DQ, cpuid.AVX512VL):
		return AVX2
	}
	return AVX512
}
