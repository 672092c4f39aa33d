package main

import (
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/klauspost/cpuid/v2"
	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchmath"

	"github.com/mquine/mquine/rank"
)

// writeResults writes a table for people as comments of what follows: every round in the Go benchmark
// format.
func writeResults(out io.Writer, j *job, own []rank.Stats, field []*contestant) error {
	var b bytes.Buffer
	for line := range strings.Lines(render(j, own, field)) {
		fmt.Fprintf(&b, "# %s", line)
	}
	w := benchfmt.NewWriter(&b)
	config := []benchfmt.Config{}
	set := func(key, value string) {
		config = append(config, benchfmt.Config{Key: key, Value: []byte(value), File: true})
	}
	set("goos", runtime.GOOS)
	set("goarch", runtime.GOARCH)
	set("pkg", "github.com/mquine/mquine/bench/rivals")
	set("cpu", strings.TrimSpace(cpuid.CPU.BrandName))
	set("commit", commit())
	set("tier", j.backend.Tier.String())
	set("threads", fmt.Sprint(j.threads))
	for _, c := range field {
		set(c.name, c.rival.about())
	}
	write := func(rival string, values ...benchfmt.Value) error {
		name := fmt.Sprintf("Evaluate/data=%s/model=%s/dim=%d/rival=%s-%d", j.row.data, j.row.model, j.row.dim, rival, j.threads)
		return w.Write(&benchfmt.Result{Config: config, Name: benchfmt.Name(name), Iters: 1, Values: values})
	}
	n := float64(len(j.exact))
	for round, stats := range own {
		seconds := stats.Rank.Seconds()
		if err := write("mquine", benchfmt.Value{Value: seconds, Unit: "sec/op", OrigValue: seconds * 1e9, OrigUnit: "ns/op"},
			benchfmt.Value{Value: n / seconds, Unit: "queries/s"}, benchfmt.Value{Value: stats.Pack.Seconds(), Unit: "pack-s"}); err != nil {
			return err
		}
		for _, c := range field {
			seconds := c.seconds(round, len(j.exact))
			if err := write(c.name, benchfmt.Value{Value: seconds, Unit: "sec/op", OrigValue: seconds * 1e9, OrigUnit: "ns/op"},
				benchfmt.Value{Value: n / seconds, Unit: "queries/s"}, benchfmt.Value{Value: c.ratios[round], Unit: "x-mquine"}); err != nil {
				return err
			}
		}
	}
	_, err := out.Write(b.Bytes())
	return err
}

// render returns the table of a row.
func render(j *job, own []rank.Stats, field []*contestant) string {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Options = table.OptionsNoBordersAndSeparators
	t.Style().Format.Header = text.FormatDefault
	var times, packs []float64
	for _, s := range own {
		times, packs = append(times, s.Rank.Seconds()), append(packs, s.Pack.Seconds())
	}
	t.AppendHeader(table.Row{"rival", "s", "times mquine", "interval", "of it counting", "cores", "queries timed", "ranks that differ"})
	t.AppendRow(table.Row{"mquine", fmt.Sprintf("%.2f", median(times)), "1", "", "", "", "all", "0"})
	for _, c := range field {
		var seconds, counting, cores []float64
		for i, r := range c.rounds {
			seconds = append(seconds, c.seconds(i, len(j.exact)))
			counting = append(counting, 100*r.counting.Seconds()/r.elapsed.Seconds())
			cores = append(cores, r.cores)
		}
		timed := "all"
		if c.ranked < len(j.exact) {
			timed = fmt.Sprintf("%d, extrapolated", c.ranked)
		}
		unknown := func(format string, v float64) string {
			if v == 0 {
				return ""
			}
			return fmt.Sprintf(format, v)
		}
		t.AppendRow(table.Row{c.name, fmt.Sprintf("%.2f", median(seconds)), fmt.Sprintf("%.2f", median(c.ratios)), interval(c.ratios),
			unknown("%.0f%%", median(counting)), unknown("%.1f", median(cores)), timed, fmt.Sprintf("%d of %d", c.differ, c.ranked)})
	}
	t.SetColumnConfigs([]table.ColumnConfig{{Number: 2, Align: text.AlignRight}, {Number: 3, Align: text.AlignRight}, {Number: 5, Align: text.AlignRight}, {Number: 6, Align: text.AlignRight}, {Number: 7, Align: text.AlignRight}, {Number: 8, Align: text.AlignRight}})
	return fmt.Sprintf("%s, %s d = %d: %d queries (%d distinct), %d candidates; %s, %s, %d threads; medians of %d rounds\n%s\nCandidate features are ready before the clock starts; mquine makes and packs them in %.2f s.\n",
		j.row.data, j.row.model, j.row.dim, len(j.exact), len(j.queries), j.n,
		strings.TrimSpace(cpuid.CPU.BrandName), j.backend.Tier, j.threads, len(own), t.Render(), median(packs))
}

// interval tells the interval of the median of ratios, or their range where they are few.
func interval(ratios []float64) string {
	if len(ratios) < 6 {
		return fmt.Sprintf("%.2f–%.2f (range)", slices.Min(ratios), slices.Max(ratios))
	}
	s := benchmath.AssumeNothing.Summary(benchmath.NewSample(slices.Clone(ratios), &benchmath.DefaultThresholds), 0.95)
	return fmt.Sprintf("%.2f–%.2f (%.0f%%)", s.Lo, s.Hi, 100*s.Confidence)
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return (x[len(x)/2] + x[(len(x)-1)/2]) / 2
}

// commit names what is measured.
var commit = sync.OnceValue(func() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
})

// moduleVersion tells the version of a module that this program is built from.
func moduleVersion(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == path {
				return m.Version
			}
		}
	}
	return ""
}
