// Package kerneltest helps to test kernels. Each runs a test on every backend of the machine, Best
// returns the best one, Guarded allocates memory between guard pages, SameBits compares results bit
// for bit, the Twin functions repeat the arithmetic of the assembly in Go, and ExactScore computes
// scores without rounding. Only tests import it.
package kerneltest

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
)

// RequireEnv is the environment variable that lists the features that this machine must have, such
// as "avx512,vnni,amx". If one is missing, tests fail instead of passing without it.
const RequireEnv = "MQUINE_REQUIRE"

// Each runs f as a subtest on every backend that Backends returns.
func Each(t *testing.T, varied kernel.Features, f func(t *testing.T, b *kernel.Backend)) {
	for _, b := range Backends(t, varied) {
		t.Run(Name(b), func(t *testing.T) { f(t, b) })
	}
}

// Backends returns the backends of all tiers that the machine and the environment allow, best
// first. varied contains the features that the tested code uses in addition to the features of the
// tier. For each of them, Backends adds a backend without it, and finally backends of both tiers with
// assembly without any of them. The test fails if a feature that RequireEnv names is missing. The
// first call prints the features of the machine.
func Backends(t testing.TB, varied kernel.Features) []*kernel.Backend {
	t.Helper()
	off := []kernel.Features{0}
	for f := kernel.Features(1); f != 0; f <<= 1 {
		off = append(off, varied&f)
	}
	off = append(off, varied, kernel.FeatureAVX512, kernel.FeatureAVX512|varied, kernel.FeatureAVX2)
	var all []*kernel.Backend
	for _, without := range off {
		b, err := kernel.NewWithout(without)
		require.NoError(t, err)
		if !slices.ContainsFunc(all, func(other *kernel.Backend) bool { return other.Features == b.Features }) {
			all = append(all, b)
		}
	}
	best, required := all[0].Features, os.Getenv(RequireEnv)
	printed.Do(func() { fmt.Printf("features under test: %s (required: %s)\n", best, cmp.Or(required, "none")) })
	require.NoError(t, missing(required, best))
	return all
}

var printed sync.Once

// Best returns the best backend that the machine and the environment allow.
func Best(t testing.TB) *kernel.Backend {
	t.Helper()
	b, err := kernel.New()
	require.NoError(t, err)
	return b
}

// Generic returns the portable backend, which holds the twins of the assembly kernels.
func Generic(t testing.TB) *kernel.Backend {
	t.Helper()
	b, err := kernel.For(kernel.Generic)
	require.NoError(t, err)
	return b
}

// Name returns the tier and the additional features of a backend, such as "avx512+vnni".
func Name(b *kernel.Backend) string {
	names := []string{b.Tier.String()}
	further := b.Features &^ (kernel.FeatureAVX2 | kernel.FeatureAVX512)
	return strings.Join(append(names, further.Names()...), "+")
}

// SkipWithout skips the test if b lacks features that it needs.
func SkipWithout(t testing.TB, b *kernel.Backend, needed kernel.Features) {
	t.Helper()
	if !b.Features.Has(needed) {
		t.Skipf("%s lacks %s", Name(b), needed&^b.Features)
	}
}

// missing returns an error if have lacks a feature of list, the value of RequireEnv.
func missing(list string, have kernel.Features) error {
	if list == "" {
		return nil
	}
	required, err := kernel.ParseFeatures(list)
	if err != nil {
		return fmt.Errorf("environment variable %s: %w", RequireEnv, err)
	}
	if !have.Has(required) {
		return fmt.Errorf("%s=%s: %s missing: this machine, build and environment offer %s",
			RequireEnv, list, required&^have, have)
	}
	return nil
}
