package kernel

import (
	"math"
	"unsafe"

	"github.com/mquine/mquine/asm"
)

const (
	// TurnCodes is the number of codes of phases in a half-turn: code c of Int8PhasePanels stands for
	// the phase πc/TurnCodes.
	TurnCodes = 256
	// SineUnit is the unit of the sines in the scores of Int8PhasePanels: 1 is SineUnit.
	SineUnit = 255
	// MaxInt8Phase is the largest K of Int8PhasePanels whose scores are always exact: float32
	// represents every integer up to 2²⁴.
	MaxInt8Phase = 1 << 24 / (SineUnit * WordBytes)
)

// Int8PhasePanels returns the panels that score −Σ PhaseSine(ψ_i − φ_i) over one-byte codes of phases,
// whose differences are modulo 256. K counts words of four codes. Scores are exact if K is at most
// MaxInt8Phase. They never rise with more coordinates, so the kernels use ExitBelow. The portable kernel
// gives the same scores as the one in assembly (HasInt8Phase) but is slower than Phase.
func (b *Backend) Int8PhasePanels() Panels {
	return Panels{
		MR: b.int8Phase.mr, NR: b.NR, Multiple: 1, name: "int8-phase", psi: 1, phi: 1,
		chunk: Chunk, falling: true, kernel: b.int8Phase.panel, pack: PackRows,
	}
}

// HasInt8Phase reports whether Int8PhasePanels are in assembly: with FeatureVNNI and FeatureVBMI.
func (b *Backend) HasInt8Phase() bool { return b.Features.Has(FeatureVNNI | FeatureVBMI) }

// PhaseSine returns the sine of a difference of phases in Int8PhasePanels: SineUnit·|sin(πd/256)|,
// rounded to an integer, where |d| = 128 counts as 127. d is a difference modulo 256.
func PhaseSine(d uint8) int32 { return int32(phaseSines[d]) }

var phaseSines = func() (sines [TurnCodes]uint8) {
	for d := range sines {
		size := min(d, TurnCodes-d, TurnCodes/2-1)
		sines[d] = uint8(math.RoundToEven(SineUnit * math.Sin(math.Pi/TurnCodes*float64(size))))
	}
	return sines
}()

// Int8PhasePeak is Peak for Int8PhasePanels. A term is a word.
func (b *Backend) Int8PhasePeak() (loop func(rounds int, operands *float32), terms int) {
	return b.int8Phase.peak, b.int8Phase.peakTerms
}

// int8PhaseGeneric returns the portable twin of Int8PhasePanels for panels of nr candidates.
func int8PhaseGeneric(nr int) comparer {
	const mr = genericMR
	panel := func(a *asm.PanelArgs) int {
		psi := unsafe.Slice((*[WordBytes]uint8)(unsafe.Pointer(a.Psi)), (a.Strips-1)*a.PsiStride+a.K*mr)
		phi := unsafe.Slice((*[WordBytes]uint8)(unsafe.Pointer(a.Phi)), a.K*nr)
		scores := unsafe.Slice(a.Scores, a.Strips*mr*nr)
		for s := range a.Strips {
			if a.ExitBelow != nil && unsafe.Slice(a.Active, a.Strips)[s] == 0 {
				continue
			}
			strip := psi[s*a.PsiStride:]
			for i := range mr {
				row := scores[(s*mr+i)*nr:][:nr]
				for j := range row {
					sum := int32(0)
					for t := range a.K {
						x, y := strip[t*mr+i], phi[t*nr+j]
						for u, v := range x {
							sum += int32(phaseSines[v-y[u]])
						}
					}
					score := float32(-sum)
					if a.Add != 0 {
						score += row[j]
					}
					row[j] = score
				}
			}
		}
		markGeneric(a, nr, scores)
		return countGeneric(a, mr, nr, scores)
	}
	peak := func(n int, _ *float32) {
		strip, candidates, scores := [mr]uint32{}, make([]uint32, nr), make([]float32, mr*nr)
		a := asm.PanelArgs{Psi: &strip[0], Phi: &candidates[0], K: 1, Strips: 1, Scores: &scores[0]}
		for range (n + mr - 1) / mr { // a round is one query
			panel(&a)
		}
	}
	return comparer{mr: mr, panel: panel, peak: peak, peakTerms: nr}
}
