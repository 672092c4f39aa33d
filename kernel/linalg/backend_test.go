package linalg

import (
	"testing"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/kerneltest"
)

// eachBackend runs f on every backend of this machine.
func eachBackend(t *testing.T, f func(t *testing.T, b *Backend)) {
	kerneltest.Each(t, kernel.FeatureBF16, func(t *testing.T, b *kernel.Backend) { f(t, New(b)) })
}

// generic returns the portable backend, which holds the twins of the assembly kernels.
func generic(t testing.TB) *Backend { return New(kerneltest.Generic(t)) }
