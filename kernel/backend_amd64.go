//go:build !noasm

package kernel

import (
	"github.com/klauspost/cpuid/v2"

	"github.com/mquine/mquine/asm"
)

var backends = [...]*Backend{
	Generic: generic,
	AVX2: {
		Tier: AVX2, MR: 6, NR: 16,
		dotPanel:  asm.DotPanel6x16AVX2,
		pairDot:   asm.PairDotAVX2,
		matMul:    asm.MatMul8AVX2,
		matMulFMA: asm.MatMulFMA8AVX2,
		frobenius: asm.FrobeniusColumnsAVX2,
		peak:      asm.FMAPeakAVX2,
		peakFlops: 2 * 12 * 8,
	},
	AVX512: {
		Tier: AVX512, MR: 9, NR: 48,
		dotPanel:  asm.DotPanel9x48AVX512,
		pairDot:   asm.PairDotAVX512,
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
