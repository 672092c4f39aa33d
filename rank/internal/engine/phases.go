package engine

import (
	"context"
	"runtime/pprof"
)

// Phase is the kind of work that a goroutine of a ranking is doing. Profiles show it as the label
// "phase" (docs/tuning.md).
type Phase uint8

const (
	FeaturesPhase Phase = iota // computing φ of the candidates
	PackPhase                  // packing panels
	QueryPhase                 // computing ψ and thresholds
	KnownPhase                 // finding and subtracting known answers
	KernelPhase                // scoring panels
	DecidePhase                // ordering pairs that the first stage left undecided
	numPhases
)

var phaseNames = [numPhases]string{"features", "pack", "query", "known", "kernel", "decide"}

// Phases labels goroutines with their phases. A nil *Phases does nothing.
type Phases [numPhases]context.Context

// NewPhases adds the phases to the labels of ctx. It returns nil if ctx has no labels, because
// setting a label takes about ten nanoseconds and happens several times for each panel.
func NewPhases(ctx context.Context) *Phases {
	labelled := false
	pprof.ForLabels(ctx, func(string, string) bool { labelled = true; return false })
	if !labelled {
		return nil
	}
	p := new(Phases)
	for i, name := range phaseNames {
		p[i] = pprof.WithLabels(ctx, pprof.Labels("phase", name))
	}
	return p
}

// Enter labels the calling goroutine with phase.
func (p *Phases) Enter(phase Phase) {
	if p != nil {
		pprof.SetGoroutineLabels(p[phase])
	}
}
