package kernel_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	. "github.com/mquine/mquine/kernel"
)

const allFeatures = FeatureAVX2 | FeatureAVX512 | FeatureVNNI | FeatureAMX | FeatureAMXBF16 | FeatureAVX512BF16 |
	FeatureAVXVNNI | FeatureVBMI

func TestFeatureNames(t *testing.T) {
	f, err := ParseFeatures("vnni, avx512")
	require.NoError(t, err)
	assert.Equal(t, FeatureVNNI|FeatureAVX512, f)
	assert.Equal(t, "avx2,avx512,vnni,amx,amxbf16,avx512bf16,avxvnni,vbmi", allFeatures.String())
	assert.Equal(t, "none", Features(0).String())
	again, err := ParseFeatures(allFeatures.String())
	require.NoError(t, err)
	assert.Equal(t, allFeatures, again)
	for _, wrong := range []string{"", "avx512,", "VNNI", "sse"} {
		_, err := ParseFeatures(wrong)
		require.ErrorContains(t, err, "the features are avx2, avx512, vnni, amx, amxbf16, avx512bf16, avxvnni, vbmi",
			"%q", wrong)
	}
}

// TestFeaturesWithout checks that Without leaves no feature whose prerequisites are missing, and
// removes no other features.
func TestFeaturesWithout(t *testing.T) {
	needs := map[Features]Features{
		FeatureAVX512: FeatureAVX2, FeatureVNNI: FeatureAVX2 | FeatureAVX512,
		FeatureAMX: FeatureAVX2 | FeatureAVX512, FeatureAMXBF16: FeatureAVX2 | FeatureAVX512 | FeatureAMX,
		FeatureAVX512BF16: FeatureAVX2 | FeatureAVX512, FeatureAVXVNNI: FeatureAVX2,
		FeatureVBMI: FeatureAVX2 | FeatureAVX512,
	}
	rapid.Check(t, func(t *rapid.T) {
		off := Features(rapid.Uint16Max(uint16(allFeatures)).Draw(t, "off"))
		left := allFeatures.Without(off)
		for f := FeatureAVX2; f <= FeatureVBMI; f <<= 1 {
			assert.Equal(t, off&(f|needs[f]) == 0, left.Has(f), "%s of %s", f, left)
		}
		tier := Generic
		switch {
		case left.Has(FeatureAVX512):
			tier = AVX512
		case left.Has(FeatureAVX2):
			tier = AVX2
		}
		assert.Equal(t, tier, left.Tier())
	})
}

// TestSwitches checks that the environment and NewWithout switch features off in the same way.
func TestSwitches(t *testing.T) {
	t.Setenv(TierEnv, "")
	t.Setenv(CPUEnv, "")
	best, err := New()
	require.NoError(t, err)
	for _, c := range []struct {
		tier, cpu string
		off       Features
	}{
		{"", "-vnni", FeatureVNNI},
		{"", "-amx", FeatureAMX},
		{"", "-amxbf16,-vnni", FeatureAMXBF16 | FeatureVNNI},
		{"", " -vnni, -amx", FeatureVNNI | FeatureAMX},
		{"", "-avx512", FeatureAVX512},
		{"avx512", "-vnni", FeatureVNNI},
		{"avx2", "", FeatureAVX512},
		{"avx2", "-vnni", FeatureAVX512},
		{"avx2", "-avx2", FeatureAVX2},
		{"generic", "", FeatureAVX2},
	} {
		want := best.Features.Without(c.off)
		without, err := NewWithout(c.off)
		require.NoError(t, err)
		if best.Tier == AVX512 && want.Tier() == AVX2 {
			want |= without.Features & FeatureAVXVNNI // the tier above does not use it
		}
		assert.Equal(t, want, without.Features)

		t.Setenv(TierEnv, c.tier)
		t.Setenv(CPUEnv, c.cpu)
		all, err := Available()
		require.NoError(t, err)
		assert.Equal(t, want, all[0].Features, "%s=%q %s=%q", TierEnv, c.tier, CPUEnv, c.cpu)
		assert.Equal(t, want.Tier(), all[0].Tier)
		if best.Tier == AVX512 && want.Tier() < AVX512 {
			_, err = For(AVX512)
			require.ErrorContains(t, err, "backend avx512: "+Restrictions()+" allows ")
		}
		t.Setenv(TierEnv, "")
		t.Setenv(CPUEnv, "")
	}
	for cpu, message := range map[string]string{
		"-neon": `unknown feature "neon": the features are avx2, avx512, vnni, amx, amxbf16, avx512bf16, avxvnni, vbmi`,
		"vnni":  `"vnni": features can only be switched off: write -vnni`,
		"-amx,": `unknown feature ""`,
	} {
		t.Setenv(CPUEnv, cpu)
		_, err := New()
		require.ErrorContains(t, err, "environment variable MQUINE_CPU: "+message)
	}
}
