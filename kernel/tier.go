// Package kernel is what a caller may use of the machine: the tiers of instruction sets and
// their choice, packing, the kernels with their checks and portable twins, and the bounds of
// their rounding errors. It is the only package that imports asm.
package kernel

import (
	"fmt"
	"os"
	"strings"
)

// Tier is a level of instruction sets; each includes those below it.
type Tier uint8

const (
	// Generic is portable Go.
	Generic Tier = iota
	// AVX2 needs AVX2 and FMA.
	AVX2
	// AVX512 needs AVX-512 F, BW, DQ and VL.
	AVX512
)

var tierNames = []string{"generic", "avx2", "avx512"}

// String returns "generic", "avx2" or "avx512".
func (t Tier) String() string {
	if int(t) < len(tierNames) {
		return tierNames[t]
	}
	return fmt.Sprintf("Tier(%d)", uint8(t))
}

// ParseTier is the inverse of String.
func ParseTier(name string) (Tier, error) {
	for t, n := range tierNames {
		if n == name {
			return Tier(t), nil
		}
	}
	return 0, fmt.Errorf("unknown tier %q: the tiers are %s", name, strings.Join(tierNames, ", "))
}

// TierEnv is the environment variable that caps the tier.
const TierEnv = "MQUINE_TIER"

// Options restrict New beyond the environment.
type Options struct {
	// Without are features that the backend does not use.
	Without Features
}

// New returns the backend with all features that this machine, this build, TierEnv, CPUEnv and o allow. It is an error
// if an environment variable does not say what it should.
func New(o Options) (*Backend, error) {
	f, err := allowedFeatures()
	if err != nil {
		return nil, err
	}
	return newBackend(f.Without(o.Without)), nil
}

// Best returns the tier of New's backend.
func Best() (Tier, error) {
	f, err := allowedFeatures()
	return f.Tier(), err
}

// Available lists the backends of New's tier and of those below it, best first.
func Available() ([]*Backend, error) {
	f, err := allowedFeatures()
	if err != nil {
		return nil, err
	}
	var all []*Backend
	for t := int(f.Tier()); t >= 0; t-- {
		all = append(all, newBackend(f.upTo(Tier(t))))
	}
	return all, nil
}

// For returns New's backend for a tier; it is an error if this machine lacks the tier, or the environment forbids it.
func For(t Tier) (*Backend, error) {
	f, err := allowedFeatures()
	if err != nil {
		return nil, err
	}
	if best := f.Tier(); t > best {
		if detected := detectFeatures().Tier(); t > detected {
			return nil, fmt.Errorf("backend %s: this machine and build offer %s at most", t, detected)
		}
		return nil, fmt.Errorf("backend %s: %s=%s and %s=%s allow %s at most",
			t, TierEnv, os.Getenv(TierEnv), CPUEnv, os.Getenv(CPUEnv), best)
	}
	return newBackend(f.upTo(t)), nil
}

// newBackend returns the backend with these features, but for AMX where the system does not let this process use it.
func newBackend(f Features) *Backend {
	if f.Has(FeatureAMX) && !allowTiles() {
		f = f.Without(FeatureAMX)
	}
	b := constructors[f.Tier()](f)
	b.Tier, b.Features = f.Tier(), f
	return b
}
