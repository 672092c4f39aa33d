package kernel

import (
	"fmt"
	"strings"
)

// Features is a set of the instruction-set extensions that kernels use. Some features need others:
// AVX-512 needs AVX2; VNNI, VBMI, AMX and AVX-512 BF16 need AVX-512; AMX-BF16 needs AMX. AVX-VNNI
// needs AVX2.
type Features uint16

const (
	// FeatureAVX2 ("avx2") is AVX2 with FMA and POPCNT.
	FeatureAVX2 Features = 1 << iota
	// FeatureAVX512 ("avx512") is AVX-512 F, BW, DQ and VL.
	FeatureAVX512
	// FeatureVNNI ("vnni") is AVX-512 VNNI: dot products of bytes in vector registers.
	FeatureVNNI
	// FeatureAMX ("amx") is AMX-TILE and AMX-INT8: products of tiles of bytes.
	FeatureAMX
	// FeatureAMXBF16 ("amxbf16") is AMX-BF16: products of tiles of bfloat16 values.
	FeatureAMXBF16
	// FeatureAVX512BF16 ("avx512bf16") is AVX-512 BF16: dot products of bfloat16 values in vector
	// registers.
	FeatureAVX512BF16
	// FeatureAVXVNNI ("avxvnni") is AVX-VNNI: dot products of bytes in 256-bit registers. Backends of
	// tier AVX2 use it.
	FeatureAVXVNNI
	// FeatureVBMI ("vbmi") is AVX-512 VBMI: permutations of bytes, such as tables of 128 bytes.
	FeatureVBMI
)

// features lists the features in the order of their bits, each with its name and the features that
// it needs.
var features = [...]struct {
	name  string
	needs Features
}{
	{"avx2", 0}, {"avx512", FeatureAVX2}, {"vnni", FeatureAVX512}, {"amx", FeatureAVX512}, {"amxbf16", FeatureAMX},
	{"avx512bf16", FeatureAVX512}, {"avxvnni", FeatureAVX2}, {"vbmi", FeatureAVX512},
}

// ParseFeatures returns the features of a comma-separated list of names, such as "vnni,amx".
func ParseFeatures(list string) (Features, error) {
	var f Features
	for name := range strings.SplitSeq(list, ",") {
		feature, err := parseFeature(strings.TrimSpace(name))
		if err != nil {
			return 0, err
		}
		f |= feature
	}
	return f, nil
}

func parseFeature(name string) (Features, error) {
	names := make([]string, len(features))
	for i, f := range features {
		if f.name == name {
			return 1 << i, nil
		}
		names[i] = f.name
	}
	return 0, fmt.Errorf("unknown feature %q: the features are %s", name, strings.Join(names, ", "))
}

// Names returns the names of the features in the set. A feature comes after all features that it
// needs.
func (f Features) Names() []string {
	names := make([]string, 0, len(features))
	for i, feature := range features {
		if f.Has(1 << i) {
			names = append(names, feature.name)
		}
	}
	return names
}

// String returns the names separated by commas, such as "avx2,avx512,vnni", or "none".
func (f Features) String() string {
	if f == 0 {
		return "none"
	}
	return strings.Join(f.Names(), ",")
}

// Has reports whether the set has all features of g.
func (f Features) Has(g Features) bool { return f&g == g }

// Without returns the set without the features of g and without features that need any of them.
func (f Features) Without(g Features) Features {
	f &^= g
	for i, feature := range features {
		if !f.Has(feature.needs) {
			f &^= 1 << i
		}
	}
	return f
}

// Tier returns the highest tier that the features support.
func (f Features) Tier() Tier {
	switch {
	case f.Has(FeatureAVX512):
		return AVX512
	case f.Has(FeatureAVX2):
		return AVX2
	}
	return Generic
}

// upTo returns the features that belong to tier t or to a lower one.
func (f Features) upTo(t Tier) Features {
	switch t {
	case Generic:
		return 0
	case AVX2:
		return f.Without(FeatureAVX512)
	}
	return f
}
