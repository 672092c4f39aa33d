package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/perf/benchmath"
	"golang.org/x/perf/benchunit"

	"github.com/mquine/mquine/bench"
	"github.com/mquine/mquine/bench/compare"
	"github.com/mquine/mquine/internal/text"
)

// comparing holds the flags that control the comparison of two sets of results.
type comparing struct {
	metric    string
	minEffect float64
}

func (c *comparing) add(cmd *cobra.Command) {
	c.minEffect = compare.DefaultMinEffect
	cmd.Flags().StringVar(&c.metric, "metric", "",
		"compare results in this `UNIT`, such as sec/op or GFLOP/s (default: the least noisy one, see above)")
	cmd.Flags().Var(percent{&c.minEffect}, "min-effect", "smallest relevant change")
}

const verdictHelp = `Verdicts:
  slower, faster  the 95% interval of the ratio lies beyond the minimum effect
                  and beyond the noise that the control shows
  same            the interval and the ratio of the control lie within the
                  minimum effect
  inconclusive    anything else
The control is a second measurement of the base. Every ratio compares times,
so a larger ratio is slower. By default, kernels on one thread are compared by
their share of the ceiling (pct-peak) or by processor time (cpu-sec/op), and
other benchmarks by wall time (sec/op).`

func newBenchCompareCommand() *cobra.Command {
	var (
		c       comparing
		control string
	)
	cmd := &cobra.Command{
		Use:   "compare OLD NEW",
		Short: "Compare two files of results",
		Long: `Compare two files of results. For each benchmark, the table shows medians with
their 95% intervals, and a verdict.

` + verdictHelp + `

Results from "mquine bench pair" are compared round by round. Other results are
compared by their medians, and each benchmark needs at least seven of them
(mquine bench run --count 7). Such a comparison includes any change in the
machine between the two runs.`,
		Example: `  mquine bench compare old.txt new.txt
  mquine bench compare base.txt head.txt --control control.txt --min-effect 1%`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return errors.New("give two files of results, as in: mquine bench compare OLD NEW")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			sets := make([][]bench.Result, 3)
			for i, path := range append(args, control) {
				if path == "" {
					continue
				}
				var err error
				if sets[i], err = bench.ReadResults(cmd.Context(), path); err != nil {
					return err
				}
			}
			return c.print(cmd, sets[0], sets[1], sets[2])
		},
	}
	cmd.Flags().SortFlags = false
	c.add(cmd)
	cmd.Flags().StringVar(&control, "control", "", "`FILE` with a second measurement of OLD")
	cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return cmd
}

// print prints the table of verdicts.
func (c comparing) print(cmd *cobra.Command, base, head, control []bench.Result) error {
	rows, missing := compare.Compare(base, head, control, c.metric, c.minEffect)
	if len(rows) == 0 {
		what := "no benchmark"
		if c.metric != "" {
			what = "no benchmark with the metric " + c.metric
		}
		return fmt.Errorf("nothing to compare: the two sets of results have %s in common", what)
	}
	var out bytes.Buffer
	table := text.NewTable(2, 3, 5, 6)
	header := []any{"benchmark", "base", "head", "metric", "ratio", "control", "verdict"}
	table.AppendHeader(header)
	count := map[compare.Verdict]int{}
	for _, r := range rows {
		count[r.Verdict]++
		verdict := string(r.Verdict)
		if r.Why != "" {
			verdict += ": " + r.Why
		}
		ctrl := "-"
		if r.Control.Center > 0 {
			ctrl = change(r.Control)
		}
		table.AppendRow([]any{
			r.Name, inUnit(r.Base, r.Unit), inUnit(r.Head, r.Unit), r.Unit, change(r.Ratio), ctrl, verdict,
		})
	}
	fmt.Fprintln(&out, table.Render())
	for _, name := range missing {
		printLine(&out, "%s has results in only one of the two sets", name)
	}
	first := rows[0]
	how := "medians of unpaired results"
	if first.Rounds > 0 {
		how = fmt.Sprintf("medians over %d rounds", first.Rounds)
	}
	fmt.Fprintf(&out, "\n%d faster, %d slower, %d same, %d inconclusive\n",
		count[compare.Faster], count[compare.Slower], count[compare.Same], count[compare.Inconclusive])
	fmt.Fprintf(&out, "Ratios are changes in time (%s), with 95%% intervals. Minimum effect: %s.\n",
		how, percent{&c.minEffect})
	return writeOutput(cmd, out.Bytes())
}

// inUnit returns a median as text, with half the width of its interval in percent.
func inUnit(s benchmath.Summary, unit string) string {
	var value string
	if strings.HasSuffix(unit, "sec/op") {
		value = clock(s.Center)
	} else {
		value = benchunit.Scale(s.Center, benchunit.ClassOf(unit))
	}
	if half := math.Max(s.Hi-s.Center, s.Center-s.Lo) / s.Center; !math.IsInf(half, 0) {
		return fmt.Sprintf("%s ± %.0f%%", value, 100*half)
	}
	return value
}

// clock returns a number of seconds as text, with four digits and in a suitable unit.
func clock(seconds float64) string {
	d := time.Duration(seconds * 1e9)
	switch {
	case d >= time.Second:
		return fmt.Sprintf("%.4gs", seconds)
	case d >= time.Millisecond:
		return fmt.Sprintf("%.4gms", 1e3*seconds)
	case d >= time.Microsecond:
		return fmt.Sprintf("%.4gµs", 1e6*seconds)
	}
	return fmt.Sprintf("%.4gns", 1e9*seconds)
}

// change returns a ratio and its interval as text: changes in percent.
func change(s benchmath.Summary) string {
	of := func(r float64) string {
		if math.IsInf(r, 0) {
			return "?"
		}
		return fmt.Sprintf("%+.1f%%", 100*(r-1))
	}
	return fmt.Sprintf("%s [%s, %s]", of(s.Center), of(s.Lo), of(s.Hi))
}
