package bench

import (
	"context"
	"slices"
	"testing"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank"
)

// screenChoices compares rank.AutoScreen with the screens from which it chooses, on checkpoints
// with many close scores (random, early) and with fewer (trained, clustered). An operation ranks
// all test triples on both sides, once with each screen in turn.
//
// The times are medians of the processor time. auto/best is a ratio: AutoScreen's time over the
// time of the fastest fixed screen, as the median over the operations. pct-undecided is the share
// of pairs that the int8 screen leaves to the fine codes (for phases, to float64), or int16 to
// float64 if int8 is not measured.
func screenChoices(s *suite) []Benchmark {
	if !s.backends[0].Features.Has(kernel.FeatureAVX2) {
		return nil // float32 is the only fast screen
	}
	var list []Benchmark
	add := func(sh shape, kind, m string, dim int) {
		list = append(list, Benchmark{
			Name:  name("ScreenChoice", "data", sh.name, "checkpoint", kind, "model", m, "dim", dim),
			Quick: sh.quick(),
			data:  sh.data,
			run: func(ctx context.Context, b *testing.B) error {
				sub, err := s.fixtures.withKind(ctx, sh, m, dim, kind)
				if err != nil {
					return err
				}
				return compareScreens(ctx, b, s.backends[0], sub)
			},
		})
	}
	add(shapes[0], randomKind, "complex", 100)
	for _, m := range []string{"distmult", "complex", "mquade", "mquine", "transe-l1", "rotate", "protate"} {
		for _, dim := range map[string][]int{
			"distmult": {200, 600}, "complex": {100, 400}, "mquade": {12, 20}, "mquine": {12, 30},
			"transe-l1": {100, 400}, "rotate": {100, 400}, "protate": {100, 400},
		}[m] {
			for _, kind := range []string{randomKind, earlyKind, trainedKind, clusteredKind} {
				add(realShape("fb15k-237"), kind, m, dim)
			}
		}
	}
	return list
}

func compareScreens(ctx context.Context, b *testing.B, backend *kernel.Backend, sub *subject) error {
	triples, err := sub.graph.Triples(kg.Test)
	if err != nil {
		return err
	}
	compare := sub.checkpoint.Model.Tower(kg.Tail).Compare
	screens := []rank.Screen{rank.AutoScreen, rank.Float32Screen}
	for _, screen := range []rank.Screen{rank.Int8Screen, rank.Int16Screen} {
		slow := screen == rank.Int8Screen &&
			(compare == kernel.Dot && !backend.HasVNNI() || compare == kernel.Phase && !backend.HasInt8Phase())
		if screen.Fits(compare) && !slow {
			screens = append(screens, screen)
		}
	}
	times := map[rank.Screen][]float64{} // in milliseconds
	undecided := 0.0
	for round := 0; b.Loop(); round++ {
		for i := range screens {
			screen := screens[(i+round)%len(screens)]
			start := processTime()
			r, err := rank.Run(ctx, sub.checkpoint.Model, sub.index, triples, rank.Options{
				Backend: backend, Threads: threads(), Screen: screen,
			})
			if err != nil {
				return err
			}
			times[screen] = append(times[screen], (processTime()-start).Seconds()*1e3)
			pairs := float64(r.Stats.Queries) * float64(sub.checkpoint.Model.Config().Entities)
			switch {
			case screen == rank.Int8Screen && compare != kernel.Phase:
				undecided = float64(r.Stats.Rescored.Int8) / pairs
			case screen == rank.Int8Screen,
				screen == rank.Int16Screen && !slices.Contains(screens, rank.Int8Screen):
				undecided = float64(r.Stats.Rescored.Float64) / pairs
			}
		}
	}
	medians := map[rank.Screen]float64{}
	best := rank.Float32Screen
	for _, screen := range screens {
		medians[screen] = median(slices.Clone(times[screen]))
		b.ReportMetric(medians[screen], screen.String()+"-cpu-ms")
		if screen != rank.AutoScreen && medians[screen] < medians[best] {
			best = screen
		}
	}
	ratios := slices.Clone(times[rank.AutoScreen])
	for i := range ratios {
		ratios[i] /= times[best][i]
	}
	b.ReportMetric(median(ratios), "auto/best")
	b.ReportMetric(100*undecided, "pct-undecided")
	return nil
}
