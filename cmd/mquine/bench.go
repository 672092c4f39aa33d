package main

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mquine/mquine/bench"
)

func newBenchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Run, compare and report benchmarks",
		Long: `Run, compare and report benchmarks of kernels and whole jobs.

Results are in the Go benchmark format, which benchstat and other tools also
read. Benchmark names contain key=value pairs. Four units relate a rate to a
ceiling of this machine, measured in the same run:

  pct-peak       percent of the rate of the same operations on registers alone
  pct-fma        percent of the rate of float32 multiply-adds, for products in
                 bfloat16
  pct-clock      pct-peak or pct-fma of a training step by wall-clock time
  pct-bandwidth  percent of the rate at which memory can be read

docs/benchmarks.md explains how to read and compare results.`,
	}
	cmd.AddCommand(newBenchListCommand(), newBenchRunCommand(), newBenchCompareCommand(), newBenchPairCommand(),
		newBenchReportCommand())
	return cmd
}

// pattern is a flag whose value is a regular expression.
type pattern struct{ *regexp.Regexp }

func (p *pattern) String() string {
	if p.Regexp == nil {
		return ""
	}
	return p.Regexp.String()
}
func (p *pattern) Type() string { return "REGEXP" }

func (p *pattern) Set(s string) (err error) {
	p.Regexp, err = regexp.Compile(s)
	if err != nil {
		return fmt.Errorf("not a regular expression: %w", err)
	}
	return nil
}

// percent is a flag whose value is a percentage. It stores the share, between 0 and 1.
type percent struct{ share *float64 }

func (p percent) String() string { return fmt.Sprintf("%.6g%%", 100**p.share) }
func (p percent) Type() string   { return "PERCENT" }

func (p percent) Set(text string) error {
	v, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
	if err != nil || !(v > 0 && v < 100) {
		return errors.New("must be a percentage above 0 and below 100, such as 2%")
	}
	*p.share = v / 100
	return nil
}

func newBenchListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the benchmarks",
		Long: `List the benchmarks of this machine. The quick subset is marked "quick", and
benchmarks whose data set is not installed are marked "needs" and its name.`,
		Example: `  mquine bench list`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := bench.All()
			if err != nil {
				return err
			}
			var text strings.Builder
			for _, x := range all {
				text.WriteString(x.Name)
				if x.Quick {
					text.WriteString("\tquick")
				}
				if x.Missing != "" {
					text.WriteString("\tneeds " + x.Missing)
				}
				text.WriteByte('\n')
			}
			return writeOutput(cmd, []byte(text.String()))
		},
	}
}

// benchProgress shows the progress of benchmarks.
type benchProgress struct {
	meter *meter
	start time.Time
}

func newBenchProgress(w io.Writer) *benchProgress {
	return &benchProgress{newMeter(w), time.Now()}
}

// show reports that done of total benchmarks are finished, and that the benchmark with the given
// name is running.
func (p *benchProgress) show(done, total int, name string) {
	t := time.Since(p.start)
	left := ""
	if done > 0 {
		left = ", " + timeLeft(int64(done), int64(total), t).String() + " left"
	}
	p.meter.show(int64(done), int64(total), t, fmt.Sprintf("%d of %d, %s%s", done+1, total, name, left))
}
