package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/mquine/mquine/bench/compare"
	"github.com/mquine/mquine/internal/atomicfile"
)

func newBenchPairCommand() *cobra.Command {
	var (
		c    comparing
		base string
		head string
		pkg  = "bench"
		out  string
		o    = compare.PairOptions{Rounds: 20, Passes: 6, Time: time.Second}
	)
	cmd := &cobra.Command{
		Use:   "pair --base REVISION",
		Short: "Build two revisions and run their benchmarks in turn",
		Long: `Build the benchmarks of two revisions of the repository, run them in turn and compare.

The base revision is built in a temporary git worktree, which is removed afterwards, also after
Ctrl-C. In each round every benchmark runs for the base, for the head and for the base once more
(the control), in short passes in changing order.

` + verdictHelp,
		Example: `  mquine bench pair --base HEAD~1 --bench Panel
  mquine bench pair --base main --head my-branch --bench Evaluate/.*small --rounds 40 --out results`,
		Args: noArgs,
		PreRunE: func(*cobra.Command, []string) error {
			if o.Rounds < leastRounds {
				return fmt.Errorf("--rounds %d: fewer than %d rounds tell too little", o.Rounds, leastRounds)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			runs, err := pairRevisions(cmd, base, head, pkg, o)
			if err != nil {
				return err
			}
			// What took long to measure is written even if the table cannot be printed, and the other way round.
			if out != "" {
				err = keepRuns(cmd, out, runs)
			}
			return errors.Join(err, c.print(cmd, runs.Base, runs.Head, runs.Control))
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&base, "base", "", "git `revision` to compare with")
	flags.StringVar(&head, "head", "", "git `revision` that is compared (default: the working tree as it is)")
	flags.StringVar(&o.Bench, "bench", ".", "benchmarks to run, a `pattern` as for go test -bench")
	flags.BoolVar(&o.Short, "quick", false, "only the quick subset")
	flags.Var(positive{&o.Rounds, 0}, "rounds", fmt.Sprintf("`number` of rounds, at least %d", leastRounds))
	flags.Var(positive{&o.Passes, 100}, "passes", "`number` of runs that make the measurement of a round")
	flags.Var(span{&o.Time}, "benchtime", "`time` that a benchmark runs in each round and series")
	flags.StringVar(&pkg, "pkg", pkg, "`folder` of the package whose benchmarks run")
	c.add(cmd)
	flags.StringVar(&out, "out", "", "`folder` for the results: base.txt, head.txt and control.txt")
	markRequired(cmd, "base")
	return cmd
}

// leastRounds is the least number of rounds that give an interval worth its name.
const leastRounds = 10

func pairRevisions(cmd *cobra.Command, base, head, pkg string, o compare.PairOptions) (runs *compare.Runs, err error) {
	ctx, log := cmd.Context(), cmd.ErrOrStderr()
	temporary, err := atomicfile.TemporaryFolder(os.TempDir(), "mquine-bench")
	if err != nil {
		return nil, fmt.Errorf("no place to build in: %w", err)
	}
	defer func() { err = errors.Join(err, temporary.Remove()) }()
	dir := temporary.Path
	build := func(revision, label string) (compare.Binary, func(), error) {
		b, remove, err := compare.Build(ctx, revision, pkg, dir, label)
		return b, func() {
			if problem := remove(); problem != nil {
				printLine(log, "note: a temporary worktree could not be removed (git worktree prune does): %s", oneLine(problem))
			}
		}, err
	}
	printLine(log, "building the benchmarks of %s and of %s", base, headName(head))
	b, removeBase, err := build(base, "base")
	defer removeBase()
	if err != nil {
		return nil, buildError(ctx, err)
	}
	h, removeHead, err := build(head, "head")
	defer removeHead()
	if err != nil {
		return nil, buildError(ctx, err)
	}
	progress := newBenchProgress(log)
	o.Progress = progress.show
	runs, err = compare.Interleave(ctx, b, h, o)
	progress.meter.clear()
	return runs, err
}

func buildError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

func headName(head string) string {
	if head == "" {
		return "the working tree"
	}
	return head
}

func keepRuns(cmd *cobra.Command, out string, runs *compare.Runs) error {
	if err := os.MkdirAll(out, 0o777); err != nil {
		return fmt.Errorf("cannot keep the results: %w", err)
	}
	for name, text := range map[string][]byte{
		"base.txt": runs.BaseText.Bytes(), "head.txt": runs.HeadText.Bytes(), "control.txt": runs.ControlText.Bytes(),
	} {
		if err := writeFile(cmd, filepath.Join(out, name), text); err != nil {
			return err
		}
	}
	return nil
}
