package main

import (
	"bytes"
	"errors"
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
		Long: `Run the benchmarks of "go test -bench . ./bench" and print the results in the Go
benchmark format, which benchstat reads. Header lines describe the machine,
the tier, the features and the threads. Comments contain the commit, the time
and the ceiling.

--results also writes the results to a file in a subfolder for the class of the
machine, where "mquine bench report" finds them. The file is written at the end.
After Ctrl-C, or if a benchmark fails, it has the results so far and a comment
that says that it is incomplete, and the command fails.

The command makes the graphs and checkpoints that the benchmarks need, which
takes up to a minute. It keeps the checkpoints in your cache.`,
		Example: `  mquine bench run --quick
  mquine bench run --bench 'Panel.*dot' --count 10 --results bench/results`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Match = match.Regexp
			machine, err := bench.ThisMachine()
			if err != nil {
				return err
			}
			return runBenchmarks(cmd, machine, o, results)
		},
	}
	flags := cmd.Flags()
	flags.Var(&match, "bench", "run only benchmarks whose names match the pattern")
	flags.BoolVar(&o.Quick, "quick", false, "run only the quick subset, which takes about a minute")
	flags.Var(positive{&o.Count, 1000}, "count", "number of results per benchmark")
	flags.Var(span{&o.Time, "200ms or 2s"}, "benchtime", "minimum time for each result")
	flags.StringVar(&results, "results", "", "also write the results below `DIR`")
	return cmd
}

// runBenchmarks runs the benchmarks, prints the results, and writes them below the folder results,
// unless results is "". It also writes the results of a run that fails, unless there are none.
func runBenchmarks(cmd *cobra.Command, machine bench.Machine, o bench.Options, results string) error {
	var path string
	if results != "" {
		if machine.Commit == "" {
			return errors.New("cannot keep the results: this build does not know its commit; " +
				"run go build -buildvcs=true ./cmd/mquine in the repository")
		}
		name := fmt.Sprintf("%s-%.12s.txt", time.Now().UTC().Format("20060102T150405Z"), machine.Commit)
		path = filepath.Join(results, machine.Class(), name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return fmt.Errorf("cannot keep the results: %w", err)
		}
		if err := (output{flag: "results", path: path}).check(nil, false); err != nil {
			return err
		}
	}
	progress := newBenchProgress(cmd.ErrOrStderr())
	o.Progress = progress.show
	var kept bytes.Buffer
	// Keep a result before printing it, because printing may fail.
	out := io.MultiWriter(&kept, clearing{progress.meter, cmd.OutOrStdout()})
	err := bench.Run(cmd.Context(), out, machine, o)
	progress.meter.clear()
	if path == "" {
		return err
	}
	if err != nil && !bytes.Contains(kept.Bytes(), []byte("\nBenchmark")) {
		_ = os.Remove(filepath.Dir(path)) // only empty folders
		_ = os.Remove(results)
		return err
	}
	if problem := writeFile(cmd, path, kept.Bytes()); problem != nil {
		return errors.Join(err, problem)
	}
	printLine(cmd.ErrOrStderr(), "wrote %s", path)
	return err
}

// clearing removes the progress bar before it writes to w, which is standard output.
type clearing struct {
	meter *meter
	w     io.Writer
}

func (c clearing) Write(p []byte) (int, error) {
	c.meter.clear()
	n, err := c.w.Write(p)
	return n, unprinted(err)
}
