//go:build !noasm

package kernel

import (
	"github.com/klauspost/cpuid/v2"

	"github.com/mquine/mquine/asm"
)

var arithmetics = [...]arithmetic{
	Generic: genericArithmetic,
	AVX2:    {asm.FMA64PeakAVX2, asm.MulAdd64PeakAVX2, asm.Int8PeakAVX2, 12 * 8, asm.SumWordsAVX2},
	AVX512:  {asm.FMA64PeakAVX512, asm.MulAdd64PeakAVX512, int8AVX512(), 12 * 16, asm.SumWordsAVX512},
}

func int8AVX512() func(n int, x *byte) {
	if cpuid.CPU.Supports(cpuid.AVX512VNNI) {
		return asm.Int8PeakAVX512VNNI
	}
	return asm.Int8PeakAVX512
}

var tilePeak, splitTilePeak = asm.Int8PeakAMX, asm.BFloat16PeakAMXBF16
