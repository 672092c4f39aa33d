//go:build !noasm

package linalg

import "github.com/mquine/mquine/asm"

var (
	distancesAVX2 = distanceKernels{
		scores: [numDistances]distanceKernel{
			DistanceL1: {
				scoresOf(6, 16, asm.Transpose6AVX2, asm.L1Scores6x8AVX2, asm.L1Scores6x16AVX2),
				Peak{asm.L1PeakAVX2, 12 * 8},
			},
			DistanceL2: {
				scoresOf(6, 16, asm.Transpose6AVX2, asm.L2Scores6x8AVX2, asm.L2Scores6x16AVX2),
				Peak{asm.L2ScoresPeakAVX2, 12 * 8},
			},
			DistanceGroupNorm: {
				scoresOf(6, 8, asm.Transpose6AVX2, asm.NormScores6x8AVX2),
				Peak{asm.NormScoresPeakAVX2, 6 * 16},
			},
			DistancePhase: {
				scoresOf(6, 8, asm.Transpose6AVX2, asm.PhaseScores6x8AVX2),
				Peak{asm.PhasePeakAVX2, 8 * 16},
			},
			DistanceProductNorm: {
				scoresOf(6, 8, asm.Transpose6AVX2, asm.ProductNormScores6x8AVX2),
				Peak{asm.ProductNormScoresPeakAVX2, 8 * 16},
			},
		},
		gradients: [numDistances]distanceKernel{
			DistanceL1: {
				gradientsAVX2(asm.L1Gradient6x8AVX2, asm.L1Gradient6x16AVX2),
				Peak{asm.L1GradientPeakAVX2, 8 * 8},
			},
			DistanceL2: {
				gradientsAVX2(asm.L2Gradient6x8AVX2, asm.L2Gradient6x16AVX2),
				Peak{asm.L2GradientPeakAVX2, 12 * 8},
			},
			DistanceGroupNorm: {
				gradientsAVX2(asm.NormGradient6x16AVX2),
				Peak{asm.NormGradientPeakAVX2, 2 * 16},
			},
			DistancePhase: {
				gradientsAVX2(asm.PhaseGradient6x16AVX2),
				Peak{asm.PhaseGradientPeakAVX2, 2 * 16},
			},
			DistanceProductNorm: {
				gradientsAVX2(asm.ProductNormGradient6x16AVX2),
				Peak{asm.ProductNormGradientPeakAVX2, 2 * 16},
			},
		},
		rows: [numDistances]rowDistance{
			DistanceL1:        {asm.L1RowScoresAVX2, asm.L1RowGradientAVX2},
			DistanceL2:        {asm.L2RowScoresAVX2, asm.L2RowGradientAVX2},
			DistanceGroupNorm: {asm.NormRowScoresAVX2, asm.NormRowGradientAVX2},
			DistancePhase:     {asm.PhaseRowScoresAVX2, asm.PhaseRowGradientAVX2},

			DistanceProductNorm: {asm.ProductNormRowScoresAVX2, asm.ProductNormRowGradientAVX2},
		},
		gradientRound: 32,
		roots:         asm.RootsAVX2,
		quotients:     asm.QuotientsAVX2,
	}
	distancesAVX512 = distanceKernels{
		scores: [numDistances]distanceKernel{
			DistanceL1: {
				scoresOf(8, 48, asm.Transpose8AVX2,
					asm.L1Scores8x16AVX512, asm.L1Scores8x32AVX512, asm.L1Scores8x48AVX512),
				Peak{asm.L1PeakAVX512, 12 * 16},
			},
			DistanceL2: {
				scoresOf(8, 48, asm.Transpose8AVX2,
					asm.L2Scores8x16AVX512, asm.L2Scores8x32AVX512, asm.L2Scores8x48AVX512),
				Peak{asm.L2ScoresPeakAVX512, 12 * 16},
			},
			DistanceGroupNorm: {
				scoresOf(8, 16, asm.Transpose8AVX2, asm.NormScores8x16AVX512),
				Peak{asm.NormScoresPeakAVX512, 6 * 32},
			},
			DistancePhase: {
				scoresOf(8, 32, asm.Transpose8AVX2, asm.PhaseScores8x16AVX512, asm.PhaseScores8x32AVX512),
				Peak{asm.PhasePeakAVX512, 12 * 32},
			},
			DistanceProductNorm: {
				scoresOf(8, 32, asm.Transpose8AVX2, asm.ProductNormScores8x16AVX512, asm.ProductNormScores8x32AVX512),
				Peak{asm.ProductNormScoresPeakAVX512, 8 * 32},
			},
		},
		gradients: [numDistances]distanceKernel{
			DistanceL1: {
				gradientsAVX512(asm.L1Gradient8x16AVX512, asm.L1Gradient8x32AVX512),
				Peak{asm.L1GradientPeakAVX512, 8 * 16},
			},
			DistanceL2: {
				gradientsAVX512(asm.L2Gradient8x16AVX512, asm.L2Gradient8x32AVX512),
				Peak{asm.L2GradientPeakAVX512, 12 * 16},
			},
			DistanceGroupNorm: {
				gradientsAVX512(asm.NormGradient8x32AVX512),
				Peak{asm.NormGradientPeakAVX512, 2 * 32},
			},
			DistancePhase: {
				gradientsAVX512(asm.PhaseGradient8x32AVX512),
				Peak{asm.PhaseGradientPeakAVX512, 2 * 32},
			},
			DistanceProductNorm: {
				gradientsAVX512(asm.ProductNormGradient8x32AVX512),
				Peak{asm.ProductNormGradientPeakAVX512, 2 * 32},
			},
		},
		rows: [numDistances]rowDistance{
			DistanceL1:        {asm.L1RowScoresAVX512, asm.L1RowGradientAVX512},
			DistanceL2:        {asm.L2RowScoresAVX512, asm.L2RowGradientAVX512},
			DistanceGroupNorm: {asm.NormRowScoresAVX512, asm.NormRowGradientAVX512},
			DistancePhase:     {asm.PhaseRowScoresAVX512, asm.PhaseRowGradientAVX512},

			DistanceProductNorm: {asm.ProductNormRowScoresAVX512, asm.ProductNormRowGradientAVX512},
		},
		gradientRound: 64,
		roots:         asm.RootsAVX512,
		quotients:     asm.QuotientsAVX512,
	}
)

// scoresOf returns the kernels that compute scores for strips of mr queries and panels of nr
// features. Queries and features are rows of a matrix.
func scoresOf(
	mr, nr int, transpose func(dst, src *float32, dstStride, stride, k int), microkernels ...gemmKernel,
) gemm {
	return gemm{
		mr: mr, nr: nr, multiple: 1, strips: floatStrips, microkernels: microkernels,
		packRows: [2]func(dst, src *float32, stride, k int){
			func(dst, src *float32, stride, k int) { transpose(dst, src, mr, stride, k) },
		},
		packCols: [2]func(dst, src *float32, stride, k int){
			func(dst, src *float32, stride, k int) { transposeEights(dst, src, nr, stride, k) },
		},
	}
}

// gradientsAVX2 returns the kernels that compute gradients. The vectors on the other side are the
// columns of a matrix.
func gradientsAVX2(microkernels ...gemmKernelAt) gemm {
	g := gemmAVX2
	g.microkernels, g.microkernelsAt = nil, microkernels
	return g
}

// gradientsAVX512 is gradientsAVX2 for AVX-512.
func gradientsAVX512(microkernels ...gemmKernelAt) gemm {
	g := gemmAVX512
	g.nr, g.microkernels, g.microkernelsAt = 32, nil, microkernels
	g.packCols[1] = asm.CopyColumns32AVX2
	return g
}
