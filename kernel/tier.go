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
	numTiers
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

// Best returns the highest tier of this machine and build that TierEnv allows.
func Best() (Tier, error) {
	best := detect()
	name := os.Getenv(TierEnv)
	if name == "" {
		return best, nil
	}
	limit, err := ParseTier(name)
	if err != nil {
		return 0, fmt.Errorf("environment variable %s: %w", TierEnv, err)
	}
	return min(best, limit), nil
}

// Available lists the backends that this machine and TierEnv allow, best first.
func Available() ([]*Backend, error) {
	best, err := Best()
	if err != nil {
		return nil, err
	}
	var all []*Backend
	for t := int(best); t >= 0; t-- {
		all = append(all, backends[t])
	}
	return all, nil
}

// For returns the backend of a tier; a tier that this machine lacks, or that TierEnv forbids, is
// an error.
func For(t Tier) (*Backend, error) {
	best, err := Best()
	if err != nil {
		return nil, err
	}
	if t > best {
		if detected := detect(); t > detected {
			return nil, fmt.Errorf("backend %s: this machine and build offer %s at most", t, detected)
		}
		return nil, fmt.Errorf("backend %s: %s=%s allows %s at most", t, TierEnv, os.Getenv(TierEnv), best)
	}
	return backends[t], nil
}
