// Package kernel is what a caller may use of the machine: the tiers of instruction sets, their features and their
// choice, packing, the kernels of rankings with their checks and portable twins, and the bounds of their rounding
// errors. Packages linalg and ceiling hold the kernels of training and the measured limits of the machine; only these
// three import asm.
package kernel

import (
	"fmt"
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
