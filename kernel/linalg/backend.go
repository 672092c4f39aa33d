// Package linalg is the linear algebra of training in float32: products of large matrices on several threads,
// products of small ones, kernels for rows of parameters (sums, optimiser steps), softmax and logistic losses over
// rows of scores, and software prefetching between them.
//
// Kernels come in the tiers of package kernel. Unless a comment says otherwise they agree bit for bit on all of them.
package linalg

import "github.com/mquine/mquine/kernel"

// Backend holds the kernels of one tier.
type Backend struct {
	Tier kernel.Tier

	gemm    gemm
	split   gemm // of split products, or nothing
	small   smallKernels
	rows    rowKernels
	weights weightKernels
}

// New returns the kernels with the tier and the features of b.
func New(b *kernel.Backend) *Backend {
	own := constructors[b.Tier](b.Features)
	own.Tier = b.Tier
	return own
}

func newGeneric(kernel.Features) *Backend {
	return &Backend{gemm: gemmGeneric, small: smallGeneric, rows: rowsGeneric, weights: weightsGeneric}
}
