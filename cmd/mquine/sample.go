package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/rank"
)

// sampleHelp describes the flags of sample.
const sampleHelp = `--sample estimates the metrics from N candidates, drawn for each query among the
candidates that the filter leaves (by default, the filter is all). A note says
which metrics are biased. An exact ranking is often faster.
`

// sample holds the flags that draw candidates.
type sample struct {
	n    int // 0 without --sample
	seed uint64
}

func (s *sample) add(cmd *cobra.Command) {
	cmd.Flags().Var(positive{&s.n, 0}, "sample", "estimate the metrics from `N` candidates drawn for each query")
	cmd.Flags().Lookup("sample").DefValue = ""
	cmd.Flags().Var(seed{&s.seed}, "seed", "random seed of --sample (default 0)")
	inGroup(cmd, candidateFlags, "sample", "seed")
}

// checkSample refuses flags that contradict --sample.
func (e *evaluation) checkSample(seeded bool) error {
	if e.sample.n == 0 {
		if seeded {
			return errors.New("--seed applies to --sample: add --sample N, or leave it out")
		}
		return nil
	}
	if len(e.filters) > 1 {
		return errors.New("--sample draws candidates under one filter: give one with --filter")
	}
	others := []optionalFlag{
		{e.negatives.given(), "a list of negatives"},
		{e.named(), "--protocol " + e.protocol}, {e.ranksFile != "", "--ranks"},
		{e.ties == rank.Rounded, "--ties rounded"}, {e.allTies, "--all-ties"},
	}
	if name := firstGiven(append(others, e.screenFlags()...)...); name != "" {
		return fmt.Errorf("%s does not apply to the estimates of --sample: leave out one of them", name)
	}
	return nil
}

// draw draws candidates for the queries of a task, from t.among.
func (s *sample) draw(ctx context.Context, e *evaluation, t *task) (err error) {
	if s.n == 0 {
		return nil
	}
	d := rank.Sampling{Negatives: s.n, Filter: e.filters[0], Order: t.graph.EntityOrder(), Seed: s.seed}
	o := rank.Options{Sides: e.sides.List(), Among: t.among, Threads: e.threads}
	t.drawn, err = rank.Draw(ctx, t.index, t.triples, d, o)
	if err != nil {
		return err
	}
	t.negatives = &t.drawn.Negatives
	if t.restrictions == nil {
		t.restrictions = new(metrics.Restrictions)
	}
	sample := &metrics.Sample{Seed: s.seed, Exact: true}
	for _, side := range o.Sides {
		for i, list := range t.negatives[side] {
			if !t.among.Has(t.triples[i].Query(side)) {
				continue // --skip-excluded leaves the query out
			}
			sample.Candidates = max(sample.Candidates, len(list))
			sample.Exact = sample.Exact && len(list) == int(t.drawn.Population[side][i])
		}
	}
	t.restrictions.Sample = sample
	return nil
}
