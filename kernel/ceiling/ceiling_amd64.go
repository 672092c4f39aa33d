//go:build !noasm

package ceiling

import (
	"github.com/mquine/mquine/asm"
	"github.com/mquine/mquine/kernel"
)

func loopsOf(b *kernel.Backend) loops {
	switch b.Tier {
	case kernel.AVX2:
		l := loops{
			fma64: asm.FMA64PeakAVX2, mulAdd64: asm.MulAdd64PeakAVX2, int8: asm.Int8PeakAVX2,
			int8L1: asm.Int8L1PeakAVX2,
			sums:   12 * 8, read: asm.SumWordsAVX2,
		}
		if b.Features.Has(kernel.FeatureAVXVNNI) {
			l.int8 = asm.Int8PeakAVXVNNI
		}
		return l
	case kernel.AVX512:
		l := loops{
			fma64: asm.FMA64PeakAVX512, mulAdd64: asm.MulAdd64PeakAVX512, int8: asm.Int8PeakAVX512,
			int8L1: asm.Int8L1PeakAVX512,
			sums:   12 * 16, read: asm.SumWordsAVX512,
		}
		if b.Features.Has(kernel.FeatureVNNI) {
			l.int8 = asm.Int8PeakAVX512VNNI
		}
		if b.Features.Has(kernel.FeatureAMX) {
			l.int8Tiles = asm.Int8PeakAMX
		}
		if b.Features.Has(kernel.FeatureAVX512BF16) {
			l.bfloat16 = asm.BFloat16PeakAVX512BF16
		}
		if b.Features.Has(kernel.FeatureAMXBF16) {
			l.bfloat16Tiles = asm.BFloat16PeakAMXBF16
		}
		return l
	}
	return genericLoops
}
