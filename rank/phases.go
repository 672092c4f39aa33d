package rank

import (
	"context"
	"runtime/pprof"
)

// phase is what a goroutine of a ranking is doing: in profiles the label "phase" (docs/tuning.md).
type phase uint8

const (
	featuresPhase phase = iota // φ of the candidates
	packPhase                  // their panels
	queryPhase                 // ψ, and the thresholds of the truths
	knownPhase                 // known answers, sorted among the panels and subtracted
	kernelPhase                // the panels
	decidePhase                // what float32 left undecided
	numPhases
)

var phaseNames = [numPhases]string{"features", "pack", "query", "known", "kernel", "decide"}

// phases labels goroutines; nil labels none.
type phases [numPhases]context.Context

// newPhases adds the phases to the labels of ctx. Without any there, nobody asks for labels, and there
// are no phases: a label costs some ten nanoseconds, several times for each panel.
func newPhases(ctx context.Context) *phases {
	labelled := false
	pprof.ForLabels(ctx, func(string, string) bool { labelled = true; return false })
	if !labelled {
		return nil
	}
	p := new(phases)
	for i, name := range phaseNames {
		p[i] = pprof.WithLabels(ctx, pprof.Labels("phase", name))
	}
	return p
}

// enter labels the goroutine that calls.
func (p *phases) enter(now phase) {
	if p != nil {
		pprof.SetGoroutineLabels(p[now])
	}
}
