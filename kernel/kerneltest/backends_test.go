package kerneltest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
)

// TestBackends requires that Backends returns every tier and every backend without varied features
// exactly once.
func TestBackends(t *testing.T) {
	available, err := kernel.Available()
	require.NoError(t, err)
	for _, varied := range []kernel.Features{
		0, kernel.FeatureVNNI, kernel.FeatureVNNI | kernel.FeatureAMX, kernel.FeatureVNNI | kernel.FeatureAVXVNNI,
	} {
		want := map[kernel.Features]bool{}
		for _, b := range available {
			want[b.Features] = true
		}
		best := available[0].Features
		for _, off := range []kernel.Features{kernel.FeatureVNNI, kernel.FeatureAMX,
			kernel.FeatureVNNI | kernel.FeatureAMX} {
			if varied.Has(off) {
				want[best.Without(off)] = true
			}
		}
		if varied.Has(kernel.FeatureAVXVNNI) {
			want[best.Without(kernel.FeatureAVX512|kernel.FeatureAVXVNNI)] = true
		}
		got := map[kernel.Features]bool{}
		all := Backends(t, varied)
		for _, b := range all {
			got[b.Features] = true
		}
		assert.Equal(t, want, got, "varied: %s", varied)
		assert.Len(t, all, len(want))
		assert.Equal(t, best, all[0].Features)
	}
}

func TestMissing(t *testing.T) {
	have := kernel.FeatureAVX2 | kernel.FeatureAVX512 | kernel.FeatureVNNI
	for _, list := range []string{"", "avx2", "avx512,vnni"} {
		assert.NoError(t, missing(list, have), list)
	}
	assert.EqualError(t, missing("avx512,vnni,amx,amxbf16", have),
		"MQUINE_REQUIRE=avx512,vnni,amx,amxbf16: amx,amxbf16 missing: "+
			"this machine, build and environment offer avx2,avx512,vnni")
	assert.ErrorContains(t, missing("neon", have), `environment variable MQUINE_REQUIRE: unknown feature "neon"`)
}
