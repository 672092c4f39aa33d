//go:build !noasm

package kernel

import (
	"github.com/klauspost/cpuid/v2"

	"github.com/mquine/mquine/asm"
)

var constructors = [...]func(Features) *Backend{Generic: newGeneric, AVX2: newAVX2, AVX512: newAVX512}

func newAVX2(f Features) *Backend {
	b := &Backend{
		NR:        16,
		int8:      int8Generic(16),
		int16:     int16Generic(16),
		int8L1:    comparer{mr: 2, panel: asm.Int8L1Panel2x16AVX2},
		int8Phase: int8PhaseGeneric(16),
		int16Dot:  comparer{6, asm.Int16DotPanel6x16AVX2, nil, asm.Int16DotPeakAVX2, 192},
		int16Norms: [3]normPanels{
			{4, asm.Int16Norm2Panel4x16AVX2, peakOfWords(asm.Int16Norm2PeakAVX2), 64},
			{2, asm.Int16Norm4Panel2x16AVX2, peakOfWords(asm.Int16Norm4PeakAVX2), 64},
			{6, asm.Int16GroupNormPanel6x16AVX2, asm.Int16GroupNormPeakAVX2, 64},
		},
		matMul:      asm.MatMul8AVX2,
		matMulFMA:   asm.MatMulFMA8AVX2,
		frobenius:   asm.FrobeniusColumnsAVX2,
		pairInt8:    pairInt8Generic,
		pairInt16L1: asm.PairInt16L1AVX2,
	}
	if f.Has(FeatureAVXVNNI) {
		b.int8 = comparer{mr: 6, panel: asm.Int8Panel6x16AVXVNNI}
		b.int16Dot.panel, b.int16Dot.peak = asm.Int16DotPanel6x16AVXVNNI, asm.Int16DotPeakAVXVNNI
		norms := &b.int16Norms
		norms[1].panel, norms[1].peak = asm.Int16Norm4Panel2x16AVXVNNI, peakOfWords(asm.Int16Norm4PeakAVXVNNI)
		norms[2].panel, norms[2].peak = asm.Int16GroupNormPanel6x16AVXVNNI, asm.Int16GroupNormPeakAVXVNNI
		b.pairInt8 = asm.PairInt8AVXVNNI
	}
	return b
}

func newAVX512(f Features) *Backend {
	return &Backend{
		NR:          48,
		int8:        int8PanelAVX512(f),
		int16:       int16PanelAVX512(f),
		int8L1:      comparer{mr: 4, panel: asm.Int8L1Panel4x48AVX512},
		int8Phase:   int8PhaseAVX512(f),
		int16Dot:    int16DotAVX512(f),
		int16Norms:  int16NormsAVX512(f),
		matMul:      asm.MatMul8AVX512,
		matMulFMA:   asm.MatMulFMA8AVX512,
		frobenius:   asm.FrobeniusColumnsAVX512,
		pairInt8:    pairInt8AVX512(f),
		pairInt16L1: asm.PairInt16L1AVX512,
	}
}

func int8PanelAVX512(f Features) comparer {
	if !f.Has(FeatureVNNI) {
		return int8Generic(48)
	}
	return comparer{mr: 9, panel: asm.Int8Panel9x48AVX512VNNI}
}

func int8PhaseAVX512(f Features) comparer {
	if !f.Has(FeatureVNNI | FeatureVBMI) {
		return int8PhaseGeneric(48)
	}
	return comparer{6, asm.Int8PhasePanel6x48AVX512VBMI, nil, asm.Int8PhasePeakAVX512VBMI, 192}
}

func int16PanelAVX512(f Features) comparer {
	if !f.Has(FeatureAMX) {
		return int16Generic(48)
	}
	return comparer{mr: int16MR, panel: asm.Int16Panel16x48AMX}
}

func int16DotAVX512(f Features) comparer {
	if !f.Has(FeatureVNNI) {
		return comparer{9, asm.Int16DotPanel9x48AVX512, nil, asm.Int16DotPeakAVX512, 384}
	}
	return comparer{9, asm.Int16DotPanel9x48AVX512VNNI, nil, asm.Int16DotPeakAVX512VNNI, 384}
}

func int16NormsAVX512(f Features) [3]normPanels {
	list := [3]normPanels{
		{6, asm.Int16Norm2Panel6x48AVX512, peakOfWords(asm.Int16Norm2PeakAVX512), 192},
		{4, asm.Int16Norm4Panel4x48AVX512, peakOfWords(asm.Int16Norm4PeakAVX512), 192},
		{4, asm.Int16GroupNormPanel4x48AVX512, asm.Int16GroupNormPeakAVX512, 192},
	}
	if f.Has(FeatureVNNI) {
		list[1].panel, list[1].peak = asm.Int16Norm4Panel4x48AVX512VNNI, peakOfWords(asm.Int16Norm4PeakAVX512VNNI)
		list[2].panel, list[2].peak = asm.Int16GroupNormPanel4x48AVX512VNNI, asm.Int16GroupNormPeakAVX512VNNI
	}
	return list
}

// peakOfWords returns the loop of groups with a fixed number of words.
func peakOfWords(loop func(n int, x *float32)) func(n, words int, x *float32) {
	return func(n, _ int, x *float32) { loop(n, x) }
}

func pairInt8AVX512(f Features) pairCodesFunc {
	if !f.Has(FeatureVNNI) {
		return pairInt8Generic
	}
	return asm.PairInt8AVX512VNNI
}

// detectFeatures returns the features of the processor. It includes a feature only if the processor
// has every extension that the feature's kernels use.
func detectFeatures() Features {
	var f Features
	for i, extensions := range [len(features)][]cpuid.FeatureID{
		{cpuid.AVX2, cpuid.FMA3, cpuid.POPCNT, cpuid.CMOV},
		{cpuid.AVX512F, cpuid.AVX512BW, cpuid.AVX512DQ, cpuid.AVX512VL},
		{cpuid.AVX512VNNI},
		{cpuid.AMXTILE, cpuid.AMXINT8},
		{cpuid.AMXBF16},
		{cpuid.AVX512BF16},
		{cpuid.AVXVNNI},
		{cpuid.AVX512VBMI},
	} {
		if cpuid.CPU.Supports(extensions...) {
			f |= 1 << i
		}
	}
	return f.Without(0) // drops features whose prerequisites are missing
}
