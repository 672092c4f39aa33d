package rank

import (
	"cmp"
	"context"
	"slices"

	"github.com/mquine/mquine/rank/internal/engine"
)

// This file implements AutoScreen, which estimates the cost of each screen (cost.go) from the pairs
// that the screen leaves undecided in a sample (sample.go). When the first queries have been
// ranked, AutoScreen compares the screens again, with the pairs that the panels actually left
// undecided.

// option is a screen for the candidates of a slice.
type option struct {
	screen
	left leftovers // estimated or, for the screen in use, counted in the trial
}

// newOptions returns the screens that may be used for the candidates of the slice in a pass.
func (e *cpuEngine) newOptions(ctx context.Context, p engine.Pass) ([]option, error) {
	f, b := e.features, e.job.Backend
	list := []option{{screen: &float32Screen{f, b}}}
	formats := e.asked.formatsFor(f.Tower, b)
	if len(formats) == 0 || e.asked == AutoScreen && !e.worthSampling(formats, p.Last-p.First) {
		return list, nil
	}
	s, err := newScreenSample(ctx, e, p)
	if err != nil || !s.fitsCodes() {
		return list, err
	}
	if e.asked != AutoScreen {
		list = nil
	}
	for _, x := range s.screens(formats) {
		list = append(list, option{screen: x})
	}
	if e.asked == AutoScreen {
		if err := s.compare(ctx, e.job.Threads); err != nil {
			return nil, err
		}
		for i := range list {
			list[i].left = e.estimate(s, list[i].screen)
		}
	}
	return list, nil
}

// worthSampling reports whether a sample takes little time in comparison with the ranking and one of
// the formats would be faster than float32 if it decided all pairs.
func (e *cpuEngine) worthSampling(formats []*codeFormat, queries int) bool {
	c, n, tower := &e.costs, e.features.N, e.features.Tower
	total := func(s Screen) float64 {
		return c.packing(s, n, tower) + c.counting(s, queries, 0, n, tower, leftovers{})
	}
	targets, candidates := screenSampleSize(queries, n) // each query has at least one target
	sampling, inFloat32 := c.sampling(targets, candidates, tower, e.job.Threads), total(Float32Screen)
	return sampling < c.most*inFloat32 && slices.ContainsFunc(formats, func(f *codeFormat) bool {
		return sampling+total(f.screen) < inFloat32
	})
}

// cheapest returns the screen with the lowest estimated cost for some queries. The estimate for the
// screen in use omits packing, because its panels are packed already.
func (e *cpuEngine) cheapest(spans ...engine.Span) screen {
	f, list := e.features, e.job.Queries
	queries, targets := 0, 0
	for _, s := range spans {
		queries += s.Last - s.First
		targets += int(list[s.Last-1].Last - list[s.First].First)
	}
	cost := func(o option) float64 {
		counting := e.costs.counting(o.name(), queries, targets, f.N, f.Tower, o.left)
		if o.screen == f.screen {
			return counting
		}
		return counting + e.costs.packing(o.name(), f.N, f.Tower)
	}
	return slices.MinFunc(e.options, func(x, y option) int { return cmp.Compare(cost(x), cost(y)) }).screen
}

// trialBlock is the number of queries in a block of a trial.
const trialBlock = 64

// splitTrial splits off a sixteenth of the queries for a trial, which tests the choice of a screen.
// The trial's queries are in short blocks at regular distances, because neighbouring queries have
// the same relation and leave similar shares of their pairs undecided. There is no trial if there
// are too few queries or only one screen, or if float32 was chosen, because a trial in float32
// would show nothing about the codes.
func (e *cpuEngine) splitTrial(s engine.Span) (trial, rest []engine.Span) {
	n := s.Last - s.First
	blocks := n / (16 * trialBlock)
	if blocks == 0 || len(e.options) == 1 || e.features.screen.name() == Float32Screen {
		return nil, []engine.Span{s}
	}
	for i := range blocks {
		first, next := s.First+share(i, n, blocks), s.First+share(i+1, n, blocks)
		trial = append(trial, engine.Span{First: first, Last: first + trialBlock})
		rest = append(rest, engine.Span{First: first + trialBlock, Last: next})
	}
	return trial, rest
}

// share returns i·n/of. The product i·n may not fit in an int.
func share(i, n, of int) int { return int(int64(i) * int64(n) / int64(of)) }

// reconsider replaces the estimated leftovers of the screen in use with the leftovers of the trial.
// It changes the screen if another one is now expected to be faster for the remaining queries.
func (e *cpuEngine) reconsider(ctx context.Context, rest []engine.Span) error {
	now := e.finished()
	pairs := float64(now.pairs - e.loaded.pairs)
	if pairs == 0 {
		return nil
	}
	i := slices.IndexFunc(e.options, func(o option) bool { return o.screen == e.features.screen })
	e.options[i].left = leftovers{
		fine: float64(now.fine-e.loaded.fine) / pairs, rescored: float64(now.rescored-e.loaded.rescored) / pairs,
	}
	if best := e.cheapest(rest...); best != e.features.screen {
		return e.use(ctx, best)
	}
	return nil
}

// finished counts pairs of a target and a candidate: the pairs that a ranking has compared so far,
// and the pairs among them that reached the fine codes and the float64 scores.
type finished struct{ pairs, fine, rescored int64 }

func (e *cpuEngine) finished() finished {
	p := &e.job.Progress
	return finished{p.Compared.Load(), p.Coarse.Load(), p.Undecided.Load()}
}
