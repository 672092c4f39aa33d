package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/spf13/cobra"

	"github.com/mquine/mquine/bench/compare"
	"github.com/mquine/mquine/internal/atomicfile"
	"github.com/mquine/mquine/internal/text"
)

func newBenchPairCommand() *cobra.Command {
	var (
		c    comparing
		base string
		head string
		pkg  = "bench"
		out  string
		// The parts of a pattern of go test -bench are regular expressions, and so is the whole.
		match = pattern{regexp.MustCompile(".")}
		o     = compare.PairOptions{Rounds: 20, Passes: 6, Time: time.Second}
	)
	cmd := &cobra.Command{
		Use:   "pair --base REVISION",
		Short: "Run the benchmarks of two revisions in turn and compare them",
		Long: `Build the benchmarks of two revisions of the repository, run them in turn and
compare the results.

The command builds each given revision in a temporary git worktree, and removes
the worktrees at the end or after Ctrl-C. In each round, every benchmark runs
for the base, the head and the base again (the control), in short passes and in
changing order. By default, a benchmark takes at least a minute: 20 rounds of
three series of a second each, and a process for each pass.

After Ctrl-C, or if a benchmark fails, the command compares and writes the
complete rounds, and then fails. The table needs at least ` + fmt.Sprint(compare.LeastRounds()) + ` of them.

` + verdictHelp,
		Example: `  mquine bench pair --base HEAD~1 --bench Panel --quick
  mquine bench pair --base main --head my-branch --bench 'Evaluate/.*small'
  mquine bench pair --base main --rounds 40 --out results`,
		Args: noArgs,
		PreRunE: func(*cobra.Command, []string) error {
			if o.Rounds < minRounds {
				return fmt.Errorf("--rounds %d: must be at least %d for a useful interval", o.Rounds, minRounds)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkKept(out); err != nil {
				return err
			}
			o.Bench, o.Metric = match.String(), c.metric
			runs, err := pairRevisions(cmd, base, head, pkg, o)
			if err != nil && (runs == nil || runs.Rounds == 0) {
				if out != "" {
					_ = os.Remove(out) // only an empty folder
				}
				return err
			}
			return errors.Join(err, c.finish(cmd, out, runs, o.Rounds))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&base, "base", "", "git `REVISION` to compare with")
	flags.StringVar(&head, "head", "", "git `REVISION` to compare (default: the working tree)")
	flags.Var(&match, "bench", "run benchmarks that match `REGEXP`, as in go test -bench")
	flags.BoolVar(&o.Short, "quick", false, "run only the quick subset")
	flags.Var(positive{&o.Rounds, 0}, "rounds", fmt.Sprintf("number of rounds, at least %d", minRounds))
	flags.Var(positive{&o.Passes, 100}, "passes", "number of passes per round")
	flags.Var(span{&o.Time, "200ms or 2s"}, "benchtime", "time per benchmark, round and series")
	flags.StringVar(&pkg, "pkg", pkg, "run the benchmarks of the package in `DIR`")
	c.add(cmd)
	flags.StringVar(&out, "out", "", "write base.txt, head.txt and control.txt to `DIR`")
	inGroup(cmd, inputFlags, "base", "head", "bench", "quick", "pkg")
	inGroup(cmd, runFlags, "rounds", "passes", "benchtime")
	markRequired(cmd, "base")
	return cmd
}

// finish writes the complete rounds to the folder out, unless out is "", and prints the table of
// verdicts. Measuring takes a long time, so it prints the table even if the files cannot be written.
func (c comparing) finish(cmd *cobra.Command, out string, runs *compare.Runs, rounds int) (err error) {
	if out != "" {
		err = keepRuns(cmd, out, runs)
	}
	var ended []string
	if runs.Rounds < rounds {
		how := "a benchmark failed"
		if cmd.Context().Err() != nil {
			how = "interrupted"
		}
		ended = append(ended, fmt.Sprintf("%s after %d of %d rounds", how, runs.Rounds, rounds))
		if least := compare.LeastRounds(); runs.Rounds < least {
			printNote(cmd.ErrOrStderr(), "%s; a table needs at least %d", ended[0], least)
			return err
		}
	}
	return errors.Join(err, c.print(cmd, runs.Base, runs.Head, runs.Control, ended...))
}

// minRounds is the minimum number of rounds for a useful interval.
const minRounds = 10

// pairRevisions builds the benchmarks of base and head and runs them alternately.
func pairRevisions(cmd *cobra.Command, base, head, pkg string, o compare.PairOptions) (runs *compare.Runs, err error) {
	ctx, log := cmd.Context(), cmd.ErrOrStderr()
	temporary, err := atomicfile.TemporaryFolder(os.TempDir(), "mquine-bench")
	if err != nil {
		return nil, fmt.Errorf("cannot build the benchmarks: %w", err)
	}
	defer func() { err = errors.Join(err, temporary.Remove()) }()
	dir := temporary.Path
	build := func(revision, label string) (compare.Binary, func(), error) {
		b, remove, err := compare.Build(ctx, revision, pkg, dir, label)
		return b, func() {
			if problem := remove(); problem != nil {
				printNote(log, "cannot remove a temporary worktree (run git worktree prune): %s",
					oneLine(problem))
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
	var start time.Time
	o.Progress = func(done, total int, name string) {
		switch benchmarks := total / o.Rounds; done {
		case 0:
			start = time.Now()
		case benchmarks: // the first round is complete
			all := (time.Duration(o.Rounds) * time.Since(start)).Round(time.Second)
			progress.meter.clear()
			printLine(log, "%s in %d rounds: about %s", text.Plural(benchmarks, "benchmark"), o.Rounds, all)
		}
		progress.show(done, total, name)
	}
	runs, err = compare.Interleave(ctx, b, h, o)
	progress.meter.clear()
	return runs, err
}

// buildError returns the error of ctx if ctx is cancelled, because the cancellation made the build
// fail. Otherwise it returns err.
func buildError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// headName returns the name of the head revision for messages.
func headName(head string) string {
	if head == "" {
		return "the working tree"
	}
	return head
}

// keptNames are the names of the files of --out, for the base, the head and the control.
var keptNames = [...]string{"base.txt", "head.txt", "control.txt"}

// checkKept checks, before the work begins, that keepRuns can write its files. It creates the folder out,
// unless out is "".
func checkKept(out string) error {
	if out == "" {
		return nil
	}
	if err := os.MkdirAll(out, 0o777); err != nil {
		return fmt.Errorf("cannot keep the results: %w", err)
	}
	for _, name := range keptNames {
		if err := (output{flag: "out", path: filepath.Join(out, name)}).check(nil, false); err != nil {
			return err
		}
	}
	return nil
}

// keepRuns writes the results to the folder out. It writes all files that it can.
func keepRuns(cmd *cobra.Command, out string, runs *compare.Runs) (err error) {
	for i, text := range [...]*bytes.Buffer{&runs.BaseText, &runs.HeadText, &runs.ControlText} {
		err = errors.Join(err, writeFile(cmd, filepath.Join(out, keptNames[i]), text.Bytes()))
	}
	return err
}
