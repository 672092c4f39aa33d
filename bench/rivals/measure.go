package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/ceiling"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank"
)

// contestant is a rival and its measurements.
type contestant struct {
	name   string
	rival  rival
	limit  int        // queries to rank in a round, or 0 for all
	ranked int        // queries that were ranked
	differ int        // ranks that differ from mquine's
	rounds []*outcome // stored without counts
	ratios []float64  // time divided by mquine's time, by round
}

// seconds returns the time of a round, extrapolated to n queries.
func (c *contestant) seconds(round, n int) float64 {
	return c.rounds[round].elapsed.Seconds() * float64(n) / float64(c.ranked)
}

// measure checks and times the rivals on one job, and writes the results to out.
func (o *options) measure(ctx context.Context, out io.Writer) (err error) {
	began := time.Now()
	j, err := o.openJob(ctx)
	if err != nil {
		return err
	}
	defer j.checkpoint.Close()
	ranking, err := j.rankExactly(ctx)
	if err != nil {
		return err
	}
	j.exact = ranking.Ranks
	fmt.Fprintf(o.log, "mquine: ready, %.2f s\n", ranking.Stats.Rank.Seconds())

	var field []*contestant
	defer func() {
		for _, c := range field {
			c.rival.close()
		}
	}()
	for _, name := range o.rivals {
		if !enters(name, j) {
			continue
		}
		r, err := o.newRival(ctx, name, j)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			fmt.Fprintf(o.log, "%s is left out: %v\n", name, err)
			continue
		}
		c := &contestant{name: name, rival: r}
		field = append(field, c)
		if err := o.admit(ctx, j, c); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}

	var own []ownRound
	peak := ceiling.Terms(j.backend, j.tower.Compare).Runner(j.threads)
	for round := range o.rounds {
		before := peak(peakTime)
		ranking, err := j.rankExactly(ctx)
		if err != nil {
			return err
		}
		own = append(own, ownRound{ranking.Stats, j.share(ranking.Stats, (before+peak(peakTime))/2)})
		for _, c := range field {
			run, err := c.rival.rank(ctx, c.limit)
			if err != nil {
				return errors.Join(ctx.Err(), fmt.Errorf("%s: %w", c.name, err))
			}
			run.counts = nil
			c.rounds = append(c.rounds, run)
			c.ratios = append(c.ratios, c.seconds(round, len(j.exact))/ranking.Stats.Rank.Seconds())
		}
		elapsed := time.Since(began).Round(time.Second)
		fmt.Fprintf(o.log, "round %d of %d, %s since the start\n", round+1, o.rounds, elapsed)
	}
	return writeResults(out, j, own, field)
}

// peakTime is the time for which the ceiling is measured, before and after each ranking.
const peakTime = 20 * time.Millisecond

// ownRound describes a ranking by mquine. share is the rate of its terms as a share of the
// comparison's ceiling in float32. It may exceed 1, because screens in bytes are faster and early
// exit skips terms.
type ownRound struct {
	rank.Stats
	share float64
}

// share returns the share of the ceiling that a ranking reached; peak is the ceiling in terms per
// second.
func (j *job) share(s rank.Stats, peak float64) float64 {
	return float64(s.Pairs) * float64(j.tower.Terms()) / s.Rank.Seconds() / peak
}

// rankExactly ranks the test split with mquine.
func (j *job) rankExactly(ctx context.Context) (*rank.Ranking, error) {
	triples, err := j.graph.Triples(kg.Test)
	if err != nil {
		return nil, err
	}
	options := rank.Options{Backend: j.backend, Threads: j.threads, FeatureMemory: math.MaxInt64}
	return rank.Run(ctx, j.model, j.index, triples, options)
}

// enters reports whether a rival supports the job's model.
func enters(name string, j *job) bool {
	switch name {
	case "gonum", "openblas", "onednn":
		return j.tower.Compare == kernel.Dot
	case "plain":
		return plainLoops[j.tower.Compare] != nil
	}
	return slices.Contains([]string{"mquine", "mquade", "complex", "distmult", "transe-l1", "rotate"}, j.row.model)
}

// installed reports whether the library of a rival can be loaded.
func (o *options) installed(ctx context.Context, name string) bool {
	var err error
	switch name {
	case "openblas":
		_, err = loadOpenBLAS()
	case "onednn":
		_, _, err = loadOneDNN()
	case "torch", "torch-unique":
		_, err = findTorch(ctx, o.python)
	}
	return err == nil
}

func (o *options) newRival(ctx context.Context, name string, j *job) (rival, error) {
	switch name {
	case "gonum":
		return newMatrixRival(ctx, j, gonumBLAS{j}, []int{256})
	case "openblas":
		s, err := newOpenBLAS(j)
		if err != nil {
			return nil, err
		}
		return newMatrixRival(ctx, j, s, j.blocks())
	case "onednn":
		s, err := newOneDNN(j)
		if err != nil {
			return nil, err
		}
		r, err := newMatrixRival(ctx, j, s, j.blocks())
		if err != nil {
			s.close()
			return nil, err
		}
		return r, nil
	case "plain":
		return newMatrixRival(ctx, j, plainLoop{j}, []int{64})
	}
	return newTorch(ctx, j, o.python, name == "torch-unique")
}

// admit checks a rival's ranks and chooses the number of queries on which it is timed.
func (o *options) admit(ctx context.Context, j *job, c *contestant) error {
	c.limit = o.limit
	if c.limit == 0 {
		trial, err := c.rival.rank(ctx, 1) // one block
		if err != nil {
			return err
		}
		rate := float64(len(trial.counts)) / trial.elapsed.Seconds()
		if n := rate * o.budget.Seconds(); n < float64(len(j.exact)) {
			c.limit = max(1, int(n))
		}
	}
	run, err := c.rival.rank(ctx, c.limit)
	if err != nil {
		return err
	}
	c.ranked = len(run.counts)
	if c.differ, err = j.check(ctx, run.counts); err != nil {
		return fmt.Errorf("its ranks are wrong: %w", err)
	}
	fmt.Fprintf(o.log, "%s: %s; %d of %d ranks differ from the exact ones, all within the rounding of float32\n",
		c.name, c.rival.about(), c.differ, c.ranked)
	return nil
}
