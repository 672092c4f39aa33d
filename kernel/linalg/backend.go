// Package linalg provides the float32 linear algebra for training. Begin with New, which returns a
// Backend for a tier of package kernel. The package offers:
//
//   - GEMM on several threads, also in bfloat16 and in split bfloat16 (Product);
//   - scores and gradients of distances (Distance, DistanceScores, AddDistanceGradient) and of
//     regions, such as boxes (Regions, RegionScores, AddRegionPsi, AddRegionPhi);
//   - products of small matrices, and software prefetch between them (NewSmall, MatMul32,
//     Prefetcher);
//   - operations on rows of parameters: sums and steps of optimisers (Axpy, Dot, Adam, Adagrad);
//   - softmax and logistic losses over rows of scores (Softmax, Logistic).
//
// All tiers give the same bits unless a comment says otherwise. docs/kernels.md describes the
// kernels.
package linalg

import "github.com/mquine/mquine/kernel"

// Backend holds the kernels of one tier. It is immutable and safe for concurrent use.
type Backend struct {
	Tier kernel.Tier

	gemm      gemm
	split     gemm // for split products; zero without FeatureAMXBF16
	bfloat16  gemm // for products in bfloat16; zero without FeatureAVX512BF16
	tiles     gemm // for products in bfloat16 with AMX; zero without FeatureAVX512BF16 and FeatureAMXBF16
	distances distanceKernels
	regions   [numRegions]regionKernels
	small     smallKernels
	rows      rowKernels
	softmax   softmaxKernels
}

// New returns the kernels for the tier and the features of b.
func New(b *kernel.Backend) *Backend {
	own := constructors[b.Tier](b.Features)
	own.Tier = b.Tier
	return own
}

func newGeneric(kernel.Features) *Backend {
	return &Backend{
		gemm: gemmGeneric, distances: distancesGeneric, regions: regionsGeneric,
		small: smallGeneric, rows: rowsGeneric, softmax: softmaxGeneric,
	}
}
