//go:build !noasm

package linalg

import "github.com/mquine/mquine/asm"

var (
	regionsAVX2 = [numRegions]regionKernels{
		RegionBoxes: {asm.BoxScoresAVX2, asm.BoxPsiGradientAVX2, asm.BoxPhiGradientAVX2},
		RegionParallelogram: {
			asm.ParallelogramScoresAVX2, asm.ParallelogramPsiGradientAVX2, asm.ParallelogramPhiGradientAVX2,
		},
	}
	regionsAVX512 = [numRegions]regionKernels{
		RegionBoxes: {asm.BoxScoresAVX512, asm.BoxPsiGradientAVX512, asm.BoxPhiGradientAVX512},
		RegionParallelogram: {
			asm.ParallelogramScoresAVX512, asm.ParallelogramPsiGradientAVX512, asm.ParallelogramPhiGradientAVX512,
		},
	}
)
