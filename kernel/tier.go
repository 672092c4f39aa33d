// Package kernel holds the kernels of ranking: they score blocks of queries against panels of
// candidates and count the candidates that are certainly better than each target. docs/kernels.md
// is the contract of the kernels.
//
// Begin with New, which chooses the best Backend for the machine: the kernels of a tier with its
// features. Backend.Panels scores and counts in float32, Backend.Int8Panels and Backend.Int16Panels
// use one-byte and two-byte codes, and Backend.Pair scores single candidates in float64. Comparison
// lists the ways to compare two vectors and bounds the rounding errors of each.
//
// Package linalg has the training kernels, package ceiling measures the limits of the machine, and
// package kerneltest checks kernels against their portable twins. No other package imports asm.
package kernel

import (
	"fmt"
	"strings"
)

// Tier is a level of instruction sets; each tier includes all lower ones.
type Tier uint8

const (
	// Generic is portable Go.
	Generic Tier = iota
	// AVX2 needs AVX2, FMA and POPCNT.
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
