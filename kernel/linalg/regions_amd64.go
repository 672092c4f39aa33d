//go:build !noasm

package linalg

import "github.com/mquine/mquine/asm"

var (
	regionsAVX2 = [numRegions]regionKernels{
		RegionBoxes: {
			asm.BoxScoresAVX2, asm.BoxPsiGradientAVX2, asm.BoxPhiGradientAVX2,
			Peak{asm.BoxScoresPeakAVX2, 2 * 8},
			bothGradients(asm.BoxPsiGradientPeakAVX2, asm.BoxPhiGradientPeakAVX2, 2*8),
		},
		RegionParallelogram: {
			asm.ParallelogramScoresAVX2, asm.ParallelogramPsiGradientAVX2, asm.ParallelogramPhiGradientAVX2,
			Peak{asm.ParallelogramScoresPeakAVX2, 2 * 8},
			bothGradients(asm.ParallelogramPsiGradientPeakAVX2, asm.ParallelogramPhiGradientPeakAVX2, 2*8),
		},
	}
	regionsAVX512 = [numRegions]regionKernels{
		RegionBoxes: {
			asm.BoxScoresAVX512, asm.BoxPsiGradientAVX512, asm.BoxPhiGradientAVX512,
			Peak{asm.BoxScoresPeakAVX512, 2 * 16},
			bothGradients(asm.BoxPsiGradientPeakAVX512, asm.BoxPhiGradientPeakAVX512, 2*16),
		},
		RegionParallelogram: {
			asm.ParallelogramScoresAVX512, asm.ParallelogramPsiGradientAVX512, asm.ParallelogramPhiGradientAVX512,
			Peak{asm.ParallelogramScoresPeakAVX512, 2 * 16},
			bothGradients(asm.ParallelogramPsiGradientPeakAVX512, asm.ParallelogramPhiGradientPeakAVX512, 2*16),
		},
	}
)
