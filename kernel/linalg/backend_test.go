package linalg

import (
	"testing"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/kerneltest"
)

// eachBackend runs f on the backend of every tier of this machine.
func eachBackend(t *testing.T, f func(t *testing.T, b *Backend)) {
	kerneltest.Each(t, 0, func(t *testing.T, b *kernel.Backend) { f(t, New(b)) })
}

// eachBackendWith runs f on every backend of this machine that has the feature, and skips the others.
func eachBackendWith(t *testing.T, feature kernel.Features, f func(t *testing.T, b *Backend)) {
	kerneltest.Each(t, feature, func(t *testing.T, b *kernel.Backend) {
		kerneltest.SkipWithout(t, b, feature)
		f(t, New(b))
	})
}

// generic returns the portable backend, which holds the twins of the assembly kernels.
func generic(t testing.TB) *Backend { return New(kerneltest.Generic(t)) }
