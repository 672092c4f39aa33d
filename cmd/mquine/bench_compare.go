package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
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
	wide      bool
}

func (c *comparing) add(cmd *cobra.Command) {
	c.minEffect = compare.DefaultMinEffect
	cmd.Flags().StringVar(&c.metric, "metric", "",
		"compare results in this `UNIT`, such as sec/op or GFLOP/s (default: the least noisy one, see above)")
	cmd.Flags().Var(percent{&c.minEffect}, "min-effect", "smallest relevant change")
	cmd.Flags().BoolVar(&c.wide, "wide", false,
		"also show the unit, the control, both intervals and all names of the notes")
}

const verdictHelp = `Verdicts:
  slower, faster  the 95% interval of the ratio lies beyond the minimum effect
                  and beyond the noise that the control shows
  same            the interval of the ratio, and the ratio of the control, lie
                  within the minimum effect
  inconclusive    anything else
The control is a second measurement of the base. Every ratio compares times, or
amounts such as B/query, so a larger ratio is slower. An amount that rises from
0 has a verdict but no ratio. By default, ceilings are compared by their rates,
kernels on one thread and training steps by their share of the ceiling (pct-peak
or pct-fma) or by processor time (cpu-sec/op or cpu-ms/step), and other
benchmarks by wall-clock time (sec/op).`

func newBenchCompareCommand() *cobra.Command {
	var (
		c       comparing
		control string
	)
	cmd := &cobra.Command{
		Use:   "compare OLD NEW",
		Short: "Compare two files of results",
		Long: `Compare two files of results. For each benchmark, the table shows both medians,
the change in time with its 95% interval, and a verdict.

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
	c.add(cmd)
	cmd.Flags().StringVar(&control, "control", "", "`FILE` with a second measurement of OLD")
	markInput(cmd, "control")
	cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return cmd
}

// print prints the table of verdicts. more are further notes.
func (c comparing) print(cmd *cobra.Command, base, head, control []bench.Result, more ...string) error {
	rows, left := compare.Compare(base, head, control, c.metric, c.minEffect)
	if len(rows) == 0 {
		return compare.NothingInCommon(base, head, c.metric)
	}
	if len(control) > 0 && !slices.ContainsFunc(rows, func(r compare.Row) bool { return r.Control.Confidence > 0 }) {
		return errors.New("the control has no benchmark and metric in common with the other two sets: " +
			"give a second measurement of OLD, or leave out --control")
	}
	table, reasons := c.table(rows)
	if err := table.Write(cmd.OutOrStdout(), text.FormatTable); err != nil {
		return unprinted(err)
	}
	var notes bytes.Buffer
	line := func(format string, args ...any) {
		fmt.Fprintln(&notes, text.Wrap(text.Escape(fmt.Sprintf(format, args...))))
	}
	for i, reason := range reasons {
		line("[%d] %s", i+1, reason)
	}
	for _, note := range left {
		switch {
		case !note.Counts():
			line("%s", note)
		case c.wide:
			line("%s:", note)
			names := text.Escape(strings.Join(note.Benchmarks, ", "))
			fmt.Fprintln(&notes, text.WrapAfter("  ", names))
		default:
			line("%s (--wide names them)", note)
		}
	}
	for _, note := range more {
		line("note: %s", note)
	}
	for _, d := range compare.Differences(base, head) {
		line("note: base and head differ in %s (%s, %s), so changes need not come from the code",
			d.Key, d.Base, d.Head)
	}
	count := map[compare.Verdict]int{}
	for _, r := range rows {
		count[r.Verdict]++
	}
	how := "medians of unpaired results"
	if n := rows[0].Rounds; n > 0 {
		how = "medians over " + text.Plural(n, "round")
	}
	fmt.Fprintf(&notes, "\n%d faster, %d slower, %d same, %d inconclusive\n",
		count[compare.Faster], count[compare.Slower], count[compare.Same], count[compare.Inconclusive])
	quantity := "time"
	if unit := rows[0].Unit; !compare.IsTime(unit) { // only if --metric gives it, and so in all rows
		quantity = unit
	}
	line("Changes are in %s (%s), with 95%% intervals.", quantity, how)
	fmt.Fprintf(&notes, "Minimum effect: %s.\n", percent{&c.minEffect})
	return writeOutput(cmd, notes.Bytes())
}

// table returns a table of the rows, whose title contains the parts that the names of all rows, or of
// all rows with a tier, share. It also returns the reasons to which the verdicts in the table refer by number.
func (c comparing) table(rows []compare.Row) (table *text.Table, reasons []string) {
	header := []any{"benchmark", "base", "head", "change", "verdict"}
	table = text.NewTable(2, 3, 4)
	if c.wide {
		header = []any{"benchmark", "unit", "base", "head", "change", "control", "verdict"}
		table = text.NewTable(3, 4, 5, 6)
	}
	table.AppendHeader(header)
	shared := sharedParts(rows)
	tier := sharedTier(rows)
	switch {
	case len(shared) > 0 && tier != "":
		table.Title = "All benchmarks: " + strings.Join(shared, ", ") + "; with a tier: " + tier
	case len(shared) > 0:
		table.Title = "All benchmarks: " + strings.Join(shared, ", ")
	case tier != "":
		table.Title = "All benchmarks with a tier: " + tier
	}
	if tier != "" {
		shared = append(shared, tier)
	}
	for _, r := range rows {
		verdict := string(r.Verdict)
		if r.Why != "" {
			i := slices.Index(reasons, r.Why)
			if i < 0 {
				i = len(reasons)
				reasons = append(reasons, r.Why)
			}
			verdict += fmt.Sprintf(" [%d]", i+1)
		}
		name := withoutParts(r.Name, shared)
		if !c.wide {
			table.AppendRow([]any{name, inUnit(r.Base, r.Unit), inUnit(r.Head, r.Unit), change(r.Ratio), verdict})
			continue
		}
		control := "–"
		if r.Control.Confidence > 0 {
			control = change(r.Control)
		}
		table.AppendRow([]any{
			name, r.Unit, inUnit(r.Base, r.Unit) + spread(r.Base), inUnit(r.Head, r.Unit) + spread(r.Head),
			change(r.Ratio), control, verdict,
		})
	}
	return table, reasons
}

// sharedParts returns the configurations, such as tier=avx2, that the names of all rows contain. It
// returns none for a single row.
func sharedParts(rows []compare.Row) []string {
	if len(rows) == 1 {
		return nil
	}
	return slices.DeleteFunc(strings.Split(rows[0].Name, "/"), func(part string) bool {
		return !strings.Contains(part, "=") || slices.ContainsFunc(rows, func(r compare.Row) bool {
			return !slices.Contains(strings.Split(r.Name, "/"), part)
		})
	})
}

// sharedTier returns the part, such as tier=avx2, that names the same tier in all names with a tier,
// or "" if these are fewer than two or all of the names.
func sharedTier(rows []compare.Row) string {
	var tiers []string
	for _, r := range rows {
		for _, part := range strings.Split(r.Name, "/") {
			if strings.HasPrefix(part, "tier=") {
				tiers = append(tiers, part)
			}
		}
	}
	if n := len(tiers); n < 2 || n == len(rows) || len(slices.Compact(tiers)) > 1 {
		return ""
	}
	return tiers[0]
}

func withoutParts(name string, parts []string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(name, "/"), func(part string) bool {
		return slices.Contains(parts, part)
	}), "/")
}

// inUnit returns the median of s, which is in the given unit, as text.
func inUnit(s benchmath.Summary, unit string) string {
	amount, per, _ := strings.Cut(unit, "/")
	switch {
	case s.Center == 0:
		return "0"
	case strings.HasSuffix(amount, "sec"):
		return clock(s.Center)
	case amount == "ms" || strings.HasSuffix(amount, "-ms"):
		return clock(s.Center / 1e3)
	case strings.HasPrefix(unit, "pct-"):
		return fmt.Sprintf("%.1f%%", s.Center)
	case per == "best" || strings.HasPrefix(unit, "x-"): // ratios of times
		return fmt.Sprintf("%.3f", s.Center)
	}
	return benchunit.Scale(s.Center, benchunit.ClassOf(unit))
}

// spread returns, as text, the larger distance from the median of s to an end of its interval, in
// percent of the median. It returns "" if there are too few measurements for an interval, or if the
// median is 0.
func spread(s benchmath.Summary) string {
	if s.Center == 0 || math.IsInf(s.Lo, 0) || math.IsInf(s.Hi, 0) {
		return ""
	}
	return fmt.Sprintf(" ± %.0f%%", 100*math.Max(s.Hi-s.Center, s.Center-s.Lo)/s.Center)
}

// clock returns a number of seconds as text, with four significant digits and in a suitable unit.
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

// change formats a ratio and its interval as changes in percent. It omits the interval if there are
// too few measurements or if an end is infinite, and returns "–" for an infinite ratio.
func change(s benchmath.Summary) string {
	of := func(r float64) string { return fmt.Sprintf("%+.1f%%", 100*(r-1)) }
	switch {
	case math.IsInf(s.Center, 0):
		return "–"
	case math.IsInf(s.Lo, 0) || math.IsInf(s.Hi, 0):
		return of(s.Center)
	}
	return fmt.Sprintf("%s [%s, %s]", of(s.Center), of(s.Lo), of(s.Hi))
}
