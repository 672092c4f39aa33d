package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/mquine/mquine/bench"
)

func newBenchRunCommand() *cobra.Command {
	var (
		match   pattern
		results string
		o       = bench.Options{Count: 1, Time: time.Second}
	)
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the benchmarks",
		Long: `Run the benchmarks that go test -bench . ./bench runs, and print their results in the Go benchmark
format, below lines that tell the machine, the tier, the features, the threads, the commit and the
ceiling.

--results also keeps them: in a file of their own under a folder that is named for the class of
the machine, where mquine bench report finds them. The file appears when all have run.

Graphs and checkpoints to measure on are made when they are needed, which takes up to a minute; the
checkpoints are kept in your cache.`,
		Example: `  mquine bench run --quick
  mquine bench run --bench Panel.*compare=dot --count 10 --results bench/results`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Match = match.Regexp
			return runBenchmarks(cmd, o, results)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.Var(&match, "bench", "only benchmarks whose name matches this `regexp`")
	flags.BoolVar(&o.Quick, "quick", false, "only the quick subset, which takes less than a minute")
	flags.Var(positive{&o.Count, 1000}, "count", "`number` of results of each benchmark")
	flags.Var(span{&o.Time}, "benchtime", "least `time` that a benchmark runs for each result")
	flags.StringVar(&results, "results", "", "`folder` to keep the results in, by class of machine")
	return cmd
}

func runBenchmarks(cmd *cobra.Command, o bench.Options, results string) error {
	machine, err := bench.ThisMachine()
	if err != nil {
		return err
	}
	var path string
	if results != "" {
		path = filepath.Join(results, machine.Class(), fmt.Sprintf("%s-%.12s.txt", time.Now().UTC().Format("20060102T150405Z"), machine.Commit))
		if machine.Commit == "" {
			return fmt.Errorf("the results cannot be kept: this build does not know its commit; build with go build ./cmd/mquine in the repository")
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return fmt.Errorf("cannot keep the results: %w", err)
		}
		if err := (output{"results", path}).check(nil, false); err != nil {
			return err
		}
	}
	progress := newBenchProgress(cmd.ErrOrStderr())
	o.Progress = progress.show
	var kept bytes.Buffer
	out := io.MultiWriter(clearing{progress.meter, cmd.OutOrStdout()}, &kept)
	err = bench.Run(cmd.Context(), out, machine, o)
	progress.meter.clear()
	if err != nil || path == "" {
		return err
	}
	if err := writeFile(cmd, path, kept.Bytes()); err != nil {
		return err
	}
	printLine(cmd.ErrOrStderr(), "kept in %s", path)
	return nil
}

// clearing takes a progress bar away before it writes.
type clearing struct {
	meter *meter
	w     io.Writer
}

func (c clearing) Write(p []byte) (int, error) {
	c.meter.clear()
	return c.w.Write(p)
}
