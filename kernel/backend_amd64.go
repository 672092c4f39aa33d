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
		compare: [...]comparer{
			Dot:       {6, asm.DotPanel6x16AVX2, asm.PairDotAVX2},
			L1:        {5, asm.L1Panel5x16AVX2, asm.PairL1AVX2},
			GroupNorm: {4, asm.NormPanel4x16AVX2, asm.PairNormAVX2},
			Phase:     {4, asm.PhasePanel4x16AVX2, asm.PairPhaseAVX2},
		},
		rootError: U32,
		matMul:    asm.MatMul8AVX2,
		matMulFMA: asm.MatMulFMA8AVX2,
		frobenius: asm.FrobeniusColumnsAVX2,
		peak:      asm.FMAPeakAVX2,
		peakFlops: 2 * 12 * 8,
	},
	AVX512: {
		Tier: AVX512, NR: 48,
		compare: [...]comparer{
			Dot:       {9, asm.DotPanel9x48AVX512, asm.PairDotAVX512},
			L1:        {8, asm.L1Panel8x48AVX512, asm.PairL1AVX512},
			GroupNorm: {6, asm.NormPanel6x48AVX512, asm.PairNormAVX512},
			Phase:     {6, asm.PhasePanel6x48AVX512, asm.PairPhaseAVX512},
		},
		rootError: 0x1p-14, // VRSQRT14PS
		matMul:    asm.MatMul8AVX512,
		matMulFMA: asm.MatMulFMA8AVX512,
		frobenius: asm.FrobeniusColumnsAVX512,
		peak:      asm.FMAPeakAVX512,
		peakFlops: 2 * 12 * 16,
	},
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
