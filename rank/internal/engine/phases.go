package engine

import (
	"context"
	"runtime/pprof"
)

// Phase is what a goroutine of a ranking is doing: in profiles the label "phase" (docs/tuning.md).
type Phase uint8

const (
	FeaturesPhase Phase = iota // φ of the candidates
	PackPhase                  // their panels
	QueryPhase                 // ψ, and the thresholds of the targets
	KnownPhase                 // known answers, sorted among the panels and subtracted
	KernelPhase                // the panels
	DecidePhase                // what float32 left undecided
	numPhases
)

var phaseNames = [numPhases]string{"features", "pack", "query", "known", "kernel", "decide"}

// Phases labels goroutines; nil labels none.
type Phases [numPhases]context.Context

// NewPhases adds the phases to the labels of ctx. Without any there, nobody asks for labels, and there
// are no phases: a label costs some ten nanoseconds, several times for each panel.
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

// Enter labels the goroutine that calls.
func (p *Phases) Enter(now Phase) {
	if p != nil {
		pprof.SetGoroutineLabels(p[now])
	}
}
