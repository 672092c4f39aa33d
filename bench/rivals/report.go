package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/klauspost/cpuid/v2"
	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchmath"

	plural "github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/rank"
)

// queriesUnit counts the queries that were timed. A rival's time is extrapolated if it has fewer
// than mquine.
const queriesUnit = "queries-timed"

// ratioUnit is the unit of a rival's time divided by mquine's time of the same round.
const ratioUnit = "x-mquine"

// results collects the output: a table as comments, and every round in the Go benchmark format.
type results struct {
	bytes.Buffer
	writer  *benchfmt.Writer
	config  []benchfmt.Config
	threads int
}

func newResults(b *kernel.Backend, threads int) *results {
	r := &results{threads: threads}
	r.writer = benchfmt.NewWriter(&r.Buffer)
	r.set("goos", runtime.GOOS)
	r.set("goarch", runtime.GOARCH)
	r.set("pkg", "github.com/mquine/mquine/bench/rivals")
	r.set("cpu", cpu())
	r.set("tier", b.Tier.String())
	r.set("features", b.Features.String())
	r.set("threads", fmt.Sprint(threads))
	return r
}

func (r *results) set(key, value string) {
	r.config = append(r.config, benchfmt.Config{Key: key, Value: []byte(value), File: true})
}

// describeRun writes comments that describe the run, as bench.Machine.WriteDetails does.
func (r *results) describeRun() {
	fmt.Fprintf(r, "# commit: %s\n# commit-time: %s\n# measured: %s\n# go: %s\n",
		commit(), commitTime(), time.Now().UTC().Format(time.RFC3339), runtime.Version())
}

// add writes a result of a rival, with the time of one operation in seconds.
func (r *results) add(name, rival string, seconds float64, values ...benchfmt.Value) error {
	elapsed := benchfmt.Value{Value: seconds, Unit: "sec/op", OrigValue: seconds * 1e9, OrigUnit: "ns/op"}
	return r.writer.Write(&benchfmt.Result{
		Config: r.config,
		Name:   benchfmt.Name(fmt.Sprintf("%s/rival=%s-%d", name, rival, r.threads)),
		Iters:  1,
		Values: append([]benchfmt.Value{elapsed}, values...),
	})
}

// writeResults writes a table and every round of a job.
func writeResults(out io.Writer, j *job, own []ownRound, field []*contestant) error {
	r := newResults(j.backend, j.threads)
	for line := range strings.Lines(render(j, own, field)) {
		fmt.Fprintf(r, "# %s", line)
	}
	r.describeRun()
	for _, c := range field {
		r.set(c.name, c.rival.about())
	}
	name := j.row.benchmark()
	n := float64(len(j.exact))
	mrr := metrics.Measure(j.exact, rank.BothSides, rank.All, rank.Realistic, nil).MRR
	for round, stats := range own {
		seconds := stats.Rank.Seconds()
		err := r.add(name, "mquine", seconds,
			benchfmt.Value{Value: n / seconds, Unit: "queries/s"},
			benchfmt.Value{Value: stats.Pack.Seconds(), Unit: "pack-s"},
			benchfmt.Value{Value: n, Unit: queriesUnit},
			benchfmt.Value{Value: 100 * stats.share, Unit: "pct-peak"},
			benchfmt.Value{Value: float64(mrr), Unit: "mrr"})
		if err != nil {
			return err
		}
		for _, c := range field {
			seconds := c.seconds(round, len(j.exact))
			err := r.add(name, c.name, seconds,
				benchfmt.Value{Value: n / seconds, Unit: "queries/s"},
				benchfmt.Value{Value: float64(c.ranked), Unit: queriesUnit},
				benchfmt.Value{Value: c.ratios[round], Unit: ratioUnit})
			if err != nil {
				return err
			}
		}
	}
	_, err := out.Write(r.Bytes())
	return err
}

func cpu() string { return strings.TrimSpace(cpuid.CPU.BrandName) }

// render returns the table of a job.
func render(j *job, own []ownRound, field []*contestant) string {
	t := newTable(2, 3, 5, 6, 7, 8)
	var times, packs []float64
	for _, s := range own {
		times, packs = append(times, s.Rank.Seconds()), append(packs, s.Pack.Seconds())
	}
	t.AppendHeader(table.Row{
		"rival", "s", "slowdown", "interval", "counting", "cores", "queries timed", "ranks that differ",
	})
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
		t.AppendRow(table.Row{
			c.name, fmt.Sprintf("%.2f", median(seconds)), fmt.Sprintf("%.2f", median(c.ratios)), interval(c.ratios),
			known("%.0f%%", median(counting)), known("%.1f", median(cores)), timed,
			fmt.Sprintf("%d of %d", c.differ, c.ranked),
		})
	}
	kind := ""
	if j.row.trained {
		kind = ", trained"
	}
	const format = "%s, %s d = %d%s: %d queries (%d distinct), %d candidates; " +
		"%s, %s, %s; medians of %s\n" +
		"%s\nCandidate features are ready before the clock starts; mquine computes and packs them in %.2f s.\n"
	return fmt.Sprintf(format, j.row.data, j.row.model, j.row.dim, kind, len(j.exact), len(j.queries), j.n,
		cpu(), j.backend.Tier, plural.Plural(j.threads, "thread"), plural.Plural(len(own), "round"), t.Render(),
		median(packs))
}

// newTable returns an empty table. The columns with the given numbers contain numbers.
func newTable(numbers ...int) table.Writer {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Options = table.OptionsNoBordersAndSeparators
	t.Style().Format.Header = text.FormatDefault
	var columns []table.ColumnConfig
	for _, number := range numbers {
		columns = append(columns, table.ColumnConfig{Number: number, Align: text.AlignRight})
	}
	t.SetColumnConfigs(columns)
	return t
}

// known formats a value, or returns "" for 0.
func known(format string, v float64) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf(format, v)
}

// interval formats the 95% interval for the median of ratios, or the range if there are fewer than
// six.
func interval(ratios []float64) string {
	if len(ratios) < 6 {
		return fmt.Sprintf("%.2f–%.2f (range)", slices.Min(ratios), slices.Max(ratios))
	}
	sample := benchmath.NewSample(slices.Clone(ratios), &benchmath.DefaultThresholds)
	s := benchmath.AssumeNothing.Summary(sample, 0.95)
	return fmt.Sprintf("%.2f–%.2f (%.0f%%)", s.Lo, s.Hi, 100*s.Confidence)
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return (x[len(x)/2] + x[(len(x)-1)/2]) / 2
}

// dirty ends the revision if files were changed, as in bench.Machine.Commit.
const dirty = "+dirty"

// isClean reports whether a commit describes the code completely.
func isClean(commit string) bool { return commit != unknown && !strings.HasSuffix(commit, dirty) }

const unknown = "unknown"

// commit returns the measured revision, with +dirty if files were changed, or "unknown".
var commit = sync.OnceValue(func() string {
	return git("describe", "--always", "--dirty="+dirty, "--abbrev=40", "--exclude=*")
})

// commitTime returns the time of the commit, or "unknown".
var commitTime = sync.OnceValue(func() string {
	return git("show", "--no-patch", "--format=%cd", "--date=format-local:%Y-%m-%dT%H:%M:%SZ", "HEAD")
})

// git returns the output of a git command, which formats times in UTC, or "unknown" if it fails.
func git(args ...string) string {
	cmd := exec.Command("git", args...)
	cmd.Env = append(os.Environ(), "TZ=UTC")
	out, err := cmd.Output()
	if err != nil {
		return unknown
	}
	return strings.TrimSpace(string(out))
}

// moduleVersion returns the version of a module in this build, or "" if the build does not contain
// it.
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
