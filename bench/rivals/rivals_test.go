package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/perf/benchfmt"

	"github.com/mquine/mquine/bench"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/synth"
	"github.com/mquine/mquine/train"
)

// small returns options for a small graph and a checkpoint of the given model.
func small(t *testing.T, name string, dim int) *options {
	t.Helper()
	dir := t.TempDir()
	g, _, err := synth.Families(t.Context(), synth.Config{Entities: 120, Seed: 1})
	require.NoError(t, err)
	data := filepath.Join(dir, "families")
	g.Name = "families"
	require.NoError(t, kg.Write(t.Context(), data, g))
	var log bytes.Buffer
	t.Cleanup(func() { t.Log(log.String()) })
	return &options{
		row: row{data: data, model: name, dim: dim}, rivals: rivalNames, threads: 2, rounds: 2, budget: time.Second,
		work: dir, log: &log,
	}
}

func open(t *testing.T, o *options) *job {
	t.Helper()
	j, err := o.openJob(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { j.checkpoint.Close() })
	ranking, err := j.rankExactly(t.Context())
	require.NoError(t, err)
	j.exact = ranking.Ranks
	return j
}

// TestRivalsRankAsMquineDoes checks the ranks of every installed rival for each of five models, if
// the rival supports the model.
func TestRivalsRankAsMquineDoes(t *testing.T) {
	for name, dim := range map[string]int{"mquine": 6, "complex": 10, "transe-l1": 20, "transe-l2": 20, "rotate": 10} {
		t.Run(name, func(t *testing.T) {
			o := small(t, name, dim)
			j := open(t, o)
			for _, rivalName := range rivalNames {
				slow := strings.HasPrefix(rivalName, "torch") // needs seconds to start
				if !enters(rivalName, j) || testing.Short() && slow {
					continue
				}
				r, err := o.newRival(t.Context(), rivalName, j)
				if errors.As(err, new(missingError)) {
					t.Logf("%s: %v", rivalName, err)
					continue
				}
				require.NoError(t, err, rivalName)
				defer r.close()
				run, err := r.rank(t.Context(), 0)
				require.NoError(t, err, rivalName)
				require.Len(t, run.counts, len(j.exact), rivalName)
				places := map[int32]bool{}
				for _, c := range run.counts {
					places[c.place] = true
				}
				require.Len(t, places, len(j.exact), rivalName)
				differ, err := j.check(t.Context(), run.counts)
				require.NoError(t, err, rivalName)
				require.Less(t, differ, len(j.exact)/10, rivalName)
			}
		})
	}
}

// TestCheckFindsWrongRanks checks that check finds a count that rounding does not explain, under
// every filter.
func TestCheckFindsWrongRanks(t *testing.T) {
	o := small(t, "mquine", 6)
	j := open(t, o)
	r, err := newMatrixRival(t.Context(), j, plainLoop{j}, []int{64})
	require.NoError(t, err)
	run, err := r.rank(t.Context(), 0)
	require.NoError(t, err)
	for f := range 3 {
		for _, change := range []int32{-60, 60} {
			counts := slices.Clone(run.counts)
			counts[7].better[f] += change
			_, err := j.check(t.Context(), counts)
			require.ErrorContains(t, err, "float32 may find", "%d in filter %d", change, f)
		}
	}
}

func TestSample(t *testing.T) {
	require.Equal(t, []int{0, 4, 8}, sample(10, 4, 0))
	require.Equal(t, []int{0, 4, 8}, sample(10, 4, 10))
	require.Equal(t, []int{0}, sample(10, 4, 1))
	require.Equal(t, []int{0, 50}, sample(100, 10, 20))
}

func TestCountScores(t *testing.T) {
	scores := []float32{1, 2, 2, 3, -1, 0, 5, 2, 7}
	better, notWorse := countScores(scores, 2)
	require.Equal(t, [2]int32{3, 6}, [2]int32{better, notWorse})
}

// TestResults checks that tools for Go benchmarks can read the results of a job.
func TestResults(t *testing.T) {
	o := small(t, "complex", 10)
	o.rivals = []string{"gonum", "plain"}
	var out bytes.Buffer
	require.NoError(t, o.measure(t.Context(), &out))
	var names []string
	for r := benchfmt.NewReader(bytes.NewReader(out.Bytes()), "results"); r.Scan(); {
		switch rec := r.Result().(type) {
		case *benchfmt.Result:
			names = append(names, rec.Name.String())
			seconds, ok := rec.Value("sec/op")
			require.True(t, ok)
			require.Positive(t, seconds)
			require.Equal(t, "2", rec.GetConfig("threads"))
		case *benchfmt.SyntaxError:
			require.NoError(t, rec)
		}
	}
	var want []string
	for range o.rounds {
		for _, rival := range []string{"mquine", "gonum", "plain"} {
			want = append(want, fmt.Sprintf("Evaluate/data=families/model=complex/dim=10/rival=%s-2", rival))
		}
	}
	require.Equal(t, want, names)
	requireRun(t, &out)
}

// TestStepResults checks that the results of training steps describe their run.
func TestStepResults(t *testing.T) {
	backend, err := kernel.New()
	require.NoError(t, err)
	j := &stepJob{name: "TrainStep/data=families/dim=6", step: "a step", rival: "torch"}
	var out bytes.Buffer
	times := []stepTime{{wall: 1, cpu: 2}, {wall: 3, cpu: 4}}
	require.NoError(t, j.write(&out, train.Machine{Backend: backend, Threads: 2}, "torch 1", times, times))
	requireRun(t, &out)
}

// requireRun checks that results have the whole hash of the commit, its time, and the time of the
// measurement.
func requireRun(t *testing.T, out *bytes.Buffer) {
	t.Helper()
	results, err := bench.ParseResults(out, "results")
	require.NoError(t, err)
	require.NotEmpty(t, results)
	head, err := exec.Command("git", "log", "-1", "--format=%H %ct").Output()
	if err != nil {
		t.Skip("this folder is not in a git repository")
	}
	hash, seconds, _ := strings.Cut(strings.TrimSpace(string(head)), " ")
	for _, r := range results {
		require.Equal(t, hash, strings.TrimSuffix(r.Config["commit"], "+dirty"))
		committed, err := time.Parse("2006-01-02T15:04:05Z", r.Config["commit-time"])
		require.NoError(t, err)
		require.Equal(t, seconds, fmt.Sprint(committed.Unix()))
		_, err = time.Parse("2006-01-02T15:04:05Z", r.Config["measured"])
		require.NoError(t, err)
	}
}

func TestInterrupt(t *testing.T) {
	o := small(t, "complex", 10)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, o.measure(ctx, new(bytes.Buffer)), context.Canceled)
}

// TestTorchStep checks that torch_step.py computes mquine's loss and gradients.
func TestTorchStep(t *testing.T) {
	if testing.Short() {
		t.Skip("PyTorch needs seconds to start")
	}
	backend, err := kernel.New()
	require.NoError(t, err)
	o := &options{threads: 2, products: "float32"}
	err = o.checkStep(t.Context(), train.Machine{Backend: backend, Threads: 2})
	if errors.As(err, new(missingError)) {
		t.Skip(err)
	}
	require.NoError(t, err)
}
