package engine

import (
	"context"
	"runtime/pprof"
	"testing"

	"github.com/stretchr/testify/require"
)

// labels returns the labels of ctx.
func labels(ctx context.Context) map[string]string {
	all := map[string]string{}
	pprof.ForLabels(ctx, func(key, value string) bool { all[key] = value; return true })
	return all
}

func TestPhasesAreLabelsWhereTheCallerHasLabels(t *testing.T) {
	require.Nil(t, NewPhases(t.Context()))
	p := NewPhases(pprof.WithLabels(t.Context(), pprof.Labels("command", "mquine eval")))
	for i, name := range phaseNames {
		require.Equal(t, map[string]string{"command": "mquine eval", "phase": name}, labels(p[i]))
	}
}

func BenchmarkEnterPhase(b *testing.B) {
	defer pprof.SetGoroutineLabels(b.Context())
	for name, ctx := range map[string]context.Context{
		"no": b.Context(), "yes": pprof.WithLabels(b.Context(), pprof.Labels("command", "mquine eval")),
	} {
		p := NewPhases(ctx)
		b.Run("labels="+name, func(b *testing.B) {
			for b.Loop() {
				p.Enter(KernelPhase)
			}
		})
	}
}
