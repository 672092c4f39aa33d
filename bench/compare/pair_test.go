package compare

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/bench"
)

// newRepository creates a repository with two commits and makes it the current folder. The second
// commit doubles the time that one benchmark reports, and adds another benchmark.
func newRepository(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	for _, name := range []string{"GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"} {
		t.Setenv(name, "test")
	}
	git := func(args ...string) {
		out, err := exec.Command("git", args...).CombinedOutput()
		require.NoError(t, err, string(out))
	}
	write := func(path, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
	}
	const code = `package work

import "testing"

func BenchmarkWork(b *testing.B) {
	for b.Loop() {
	}
	b.ReportMetric(TIME, "ns/op") // the machine's speed must not matter
}
`
	timed := func(ns string) string { return code + "\nconst TIME = " + ns + "\n" }
	git("init", "-q")
	write("go.mod", "module work\n\ngo 1.26\n")
	write("bench/work_test.go", timed("2000"))
	git("add", ".")
	git("commit", "-q", "-m", "one")
	write("bench/work_test.go", timed("4000")+"\nfunc BenchmarkNew(b *testing.B) {\n\tfor b.Loop() {\n\t}\n}\n")
	git("commit", "-q", "-a", "-m", "two")
}

func worktrees(t *testing.T) string {
	out, err := exec.Command("git", "worktree", "list").Output()
	require.NoError(t, err)
	return string(out)
}

func TestInterleave(t *testing.T) {
	newRepository(t)
	before := worktrees(t)
	dir := t.TempDir()
	base, remove, err := Build(t.Context(), "HEAD~1", "bench", dir, "base")
	require.NoError(t, err)
	assert.NotEqual(t, before, worktrees(t))
	head, _, err := Build(t.Context(), "", "bench", dir, "head")
	require.NoError(t, err)
	o := PairOptions{Bench: ".", Rounds: 10, Passes: 1, Time: time.Microsecond}
	runs, err := Interleave(t.Context(), base, head, o)
	require.NoError(t, err)
	require.Len(t, runs.Base, 10)
	require.Len(t, runs.Control, 10)
	assert.Equal(t, 1, runs.Head[0].Round())
	assert.Equal(t, 10, runs.Head[9].Round())

	rows, notes := Compare(runs.Base, runs.Head, runs.Control, "", DefaultMinEffect)
	assert.Empty(t, notes, "a benchmark that only one revision has does not run")
	require.Len(t, rows, 1)
	assert.Equal(t, "Work", rows[0].Name)
	assert.Equal(t, "sec/op", rows[0].Unit)
	assert.Equal(t, 10, rows[0].Rounds)
	assert.InDelta(t, 2, rows[0].Ratio.Center, 1e-9)
	assert.Equal(t, Slower, rows[0].Verdict)

	// The text contains the same results.
	path := filepath.Join(dir, "head.txt")
	require.NoError(t, os.WriteFile(path, runs.HeadText.Bytes(), 0o666))
	kept, err := bench.ReadResults(t.Context(), path)
	require.NoError(t, err)
	require.Len(t, kept, 10)
	for i, r := range kept {
		assert.Equal(t, runs.Head[i].Round(), r.Round())
		assert.Equal(t, runs.Head[i].Values, r.Values)
	}
	require.NoError(t, remove())
	assert.Equal(t, before, worktrees(t))

	// A metric that no benchmark reports is an error before the rounds.
	o.Metric, o.Progress = "GB/s", func(int, int, string) { t.Error("a round begins") }
	_, err = Interleave(t.Context(), head, head, o)
	require.ErrorContains(t, err, "usable values of the metric GB/s in common: choose --metric sec/op")
	o.Metric, o.Progress, o.Rounds = "ns/op", nil, 1
	_, err = Interleave(t.Context(), head, head, o)
	require.NoError(t, err, "sec/op is ns/op in files")

	o.Bench = "Nothing"
	_, err = Interleave(t.Context(), head, head, o)
	require.ErrorContains(t, err, "no benchmark matches Nothing")
}

// Every benchmark runs head first, second and last equally often, even with one pass per round. On one
// thread, a number at the end of a name belongs to the name.
func TestInterleaveOrder(t *testing.T) {
	newRepository(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const code = `package work

import (
	"fmt"
	"os"
	"testing"
)

func BenchmarkSize(b *testing.B) {
	for _, name := range []string{"of-16", "of-32", "of"} {
		b.Run(name, func(b *testing.B) {
			log, err := os.OpenFile(os.Getenv("LOG"), os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := fmt.Fprintln(log, name, os.Args[0], os.Getpid()); err != nil {
				b.Fatal(err)
			}
			log.Close()
		})
	}
}
`
	require.NoError(t, os.WriteFile("bench/work_test.go", []byte(code), 0o666))
	log := filepath.Join(t.TempDir(), "log")
	t.Setenv("LOG", log)
	dir := t.TempDir()
	base, _, err := Build(t.Context(), "", "bench", dir, "base")
	require.NoError(t, err)
	head, _, err := Build(t.Context(), "", "bench", dir, "head")
	require.NoError(t, err)
	o := PairOptions{Bench: ".", Rounds: 6, Passes: 1, Time: time.Nanosecond}
	o.Progress = func(done, _ int, _ string) {
		if done == 0 { // after the first run of each benchmark
			require.NoError(t, os.WriteFile(log, nil, 0o666))
		}
	}
	require.NoError(t, os.WriteFile(log, nil, 0o666))
	runs, err := Interleave(t.Context(), base, head, o)
	require.NoError(t, err)
	require.Len(t, runs.Head, 18)
	text, err := os.ReadFile(log)
	require.NoError(t, err)
	processes := slices.Compact(strings.Split(strings.TrimSpace(string(text)), "\n")) // each can write more than once
	require.Len(t, processes, 54)
	counts := map[string][3]int{}
	for i, line := range processes {
		if process := strings.Fields(line); process[1] == head.Path {
			places := counts[process[0]]
			places[i%3]++
			counts[process[0]] = places
		}
	}
	assert.Equal(t, map[string][3]int{"of-16": {2, 2, 2}, "of-32": {2, 2, 2}, "of": {2, 2, 2}}, counts)
	assert.Equal(t, "Size/of-16", runs.Head[0].Name)
}

// If a benchmark fails or the context is cancelled, the complete rounds remain.
func TestInterleaveEnds(t *testing.T) {
	newRepository(t)
	const code = `package work

import (
	"os"
	"testing"
)

func BenchmarkA(b *testing.B) {
	for b.Loop() {
	}
}

func BenchmarkB(b *testing.B) {
	for b.Loop() {
	}
	if _, err := os.Stat(os.Getenv("BROKEN")); err == nil {
		b.Fatal("broken")
	}
}
`
	require.NoError(t, os.WriteFile("bench/work_test.go", []byte(code), 0o666))
	b, _, err := Build(t.Context(), "", "bench", t.TempDir(), "base")
	require.NoError(t, err)
	broken := filepath.Join(t.TempDir(), "broken")
	t.Setenv("BROKEN", broken)
	ctx, cancel := context.WithCancel(t.Context())
	for _, test := range []struct {
		want string
		end  func()
	}{
		{"broken", func() { require.NoError(t, os.WriteFile(broken, nil, 0o666)) }},
		{context.Canceled.Error(), cancel},
	} {
		o := PairOptions{Bench: ".", Rounds: 5, Passes: 2, Time: time.Microsecond}
		o.Progress = func(done, _ int, name string) {
			if done == 2*3+1 { // the second benchmark in the fourth round
				assert.Equal(t, "B", name)
				test.end()
			}
		}
		runs, err := Interleave(ctx, b, b, o)
		require.ErrorContains(t, err, test.want)
		assert.Equal(t, 3, runs.Rounds)
		for _, series := range []struct {
			results []bench.Result
			text    string
		}{
			{runs.Base, runs.BaseText.String()}, {runs.Head, runs.HeadText.String()},
			{runs.Control, runs.ControlText.String()},
		} {
			require.Len(t, series.results, 2*2*3)
			kept, err := bench.ParseResults(strings.NewReader(series.text), "results")
			require.NoError(t, err)
			require.Len(t, kept, len(series.results))
			assert.Equal(t, 3, kept[len(kept)-1].Round())
			assert.True(t, strings.HasSuffix(series.text, "\n# incomplete: 3 of 5 rounds\n"))
		}
		require.NoError(t, os.RemoveAll(broken))
	}
}

func TestBuildErrors(t *testing.T) {
	newRepository(t)
	before := worktrees(t)
	_, remove, err := Build(t.Context(), "nonsense", "bench", t.TempDir(), "base")
	require.ErrorContains(t, err, `"nonsense" is not a revision of this repository`)
	require.NoError(t, remove())
	_, remove, err = Build(t.Context(), "HEAD", "none", t.TempDir(), "base")
	require.ErrorContains(t, err, "revision HEAD has no folder none")
	require.NoError(t, remove())

	ctx, cancel := context.WithCancel(t.Context())
	b, remove, err := Build(ctx, "HEAD", "bench", t.TempDir(), "base")
	require.NoError(t, err)
	o := PairOptions{Bench: ".", Rounds: 10, Passes: 1, Time: time.Hour}
	o.Progress = func(int, int, string) { time.AfterFunc(100*time.Millisecond, cancel) }
	_, err = Interleave(ctx, b, b, o)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, remove(), "the worktree is also removed after an interrupt")
	assert.Equal(t, before, worktrees(t))
}

func TestCompareMetrics(t *testing.T) {
	series := func(name string, values map[string]float64) (list []bench.Result) {
		for round := range 10 {
			r := bench.Result{Name: name, Config: map[string]string{"round": string(rune('1' + round))}, Values: values}
			if round == 9 {
				r.Config["round"] = "10"
			}
			list = append(list, r)
		}
		return list
	}
	base := append(series("Kernel", map[string]float64{"sec/op": 1, "cpu-sec/op": 1, "pct-peak": 80}),
		series("Job", map[string]float64{"sec/op": 1, "pct-peak": 80, "queries/s": 100})...)
	head := append(series("Kernel", map[string]float64{"sec/op": 3, "cpu-sec/op": 2, "pct-peak": 88}),
		series("Job", map[string]float64{"sec/op": 2, "pct-peak": 80, "queries/s": 50})...)
	head = append(head, series("Other", map[string]float64{"sec/op": 2})...)
	head = slices.Delete(head, 18, 20) // the rounds 9 and 10 of Job
	rows, notes := Compare(base, head, nil, "", DefaultMinEffect)
	assert.Equal(t, []string{"Job: the change ignores 2 of 10 rounds, which not all sets have",
		"Other has results in only one of the two sets"}, sentences(notes))
	control := []bench.Result{{Name: "Job", Values: map[string]float64{"sec/op": 1}}}
	_, again := Compare(base, head, control, "sec/op", DefaultMinEffect)
	assert.Contains(t, sentences(again), notes[0].String(), "a control without rounds has none that the change ignores")
	require.Len(t, rows, 2)
	assert.Equal(t, "pct-peak", rows[0].Unit, "disturbances change a kernel's share least")
	assert.Equal(t, Faster, rows[0].Verdict, "more is better")
	assert.InDelta(t, 80, rows[0].Base.Center, 1e-9)
	assert.InDelta(t, 80./88, rows[0].Ratio.Center, 1e-9)
	assert.Equal(t, "sec/op", rows[1].Unit)
	assert.Equal(t, Slower, rows[1].Verdict)
	rows, notes = Compare(base, head, nil, "queries/s", DefaultMinEffect)
	assert.Contains(t, sentences(notes), "Kernel has no queries/s")
	_, notes = Compare(base, head, nil, "%idle", DefaultMinEffect)
	assert.Contains(t, sentences(notes), "Kernel and Job have no %idle")
	require.Len(t, rows, 1)
	assert.Equal(t, Slower, rows[0].Verdict)
	assert.InDelta(t, 2, rows[0].Ratio.Center, 1e-9)

	// A metric may be a unit as files contain it.
	rows, _ = Compare(base, head, nil, "cpu-ns/op", DefaultMinEffect)
	require.Len(t, rows, 1)
	assert.Equal(t, "cpu-sec/op", rows[0].Unit)
	assert.Equal(t, []string{"cpu-sec/op", "pct-peak", "queries/s", "sec/op"}, unitsOf(base, head))

	// A share of undecided pairs is better if it is small.
	rows, _ = Compare(series("Screens", map[string]float64{"pct-undecided": 2}),
		series("Screens", map[string]float64{"pct-undecided": 3}), nil, "pct-undecided", DefaultMinEffect)
	require.Len(t, rows, 1)
	assert.Equal(t, Slower, rows[0].Verdict)
	assert.InDelta(t, 2, rows[0].Base.Center, 1e-9)
	assert.InDelta(t, 1.5, rows[0].Ratio.Center, 1e-9)
}

// The time of a ceiling's benchmark is fixed, so its rate is compared. Training steps are compared by
// shares of processor time, which idle threads and other programs hardly change.
func TestCompareHeadlines(t *testing.T) {
	results := func(name string, values map[string]float64) []bench.Result {
		list := make([]bench.Result, 10)
		for i := range list {
			list[i] = bench.Result{Name: name, Config: map[string]string{"round": fmt.Sprint(i + 1)}, Values: values}
		}
		return list
	}
	for _, test := range []struct {
		name       string
		base, head map[string]float64
		unit       string
		ratio      float64
	}{
		{"Ceiling/of=fma32", map[string]float64{"sec/op": 5e-4, "GFLOP/s": 100},
			map[string]float64{"sec/op": 5e-4, "GFLOP/s": 50}, "GFLOP/s", 2},
		{"Ceiling/of=int8", map[string]float64{"sec/op": 5e-4, "GOP/s": 400},
			map[string]float64{"sec/op": 5e-4, "GOP/s": 200}, "GOP/s", 2},
		{"Ceiling/of=read-l1", map[string]float64{"sec/op": 5e-4, "GB/s": 100},
			map[string]float64{"sec/op": 5e-4, "GB/s": 50}, "GB/s", 2},
		{"TrainStep", map[string]float64{"sec/op": 1, "cpu-ms/step": 100, "pct-peak": 80, "pct-clock": 70},
			map[string]float64{"sec/op": 1, "cpu-ms/step": 200, "pct-peak": 40, "pct-clock": 35}, "pct-peak", 2},
		{"BFloat16TrainStep", map[string]float64{"sec/op": 1, "cpu-ms/step": 100, "pct-fma": 120},
			map[string]float64{"sec/op": 1, "cpu-ms/step": 150, "pct-fma": 80}, "pct-fma", 1.5},
		{"PresetStep", map[string]float64{"sec/op": 1, "cpu-ms/step": 100, "pct-fma": 120},
			map[string]float64{"sec/op": 1, "cpu-ms/step": 150, "pct-peak": 80}, "cpu-ms/step", 1.5},
	} {
		rows, _ := Compare(results(test.name, test.base), results(test.name, test.head), nil, "", DefaultMinEffect)
		require.Len(t, rows, 1)
		assert.Equal(t, test.unit, rows[0].Unit, test.name)
		assert.InDelta(t, test.ratio, rows[0].Ratio.Center, 1e-9, test.name)
		assert.Equal(t, Slower, rows[0].Verdict, test.name)
	}
}

func TestIsTime(t *testing.T) {
	for _, unit := range []string{"sec/op", "cpu-sec/op", "cpu-ms/step", "int8-cpu-ms", "GFLOP/s", "pct-peak"} {
		assert.True(t, IsTime(unit), unit)
	}
	for _, unit := range []string{"B/query", "auto/best", "pct-undecided", "allocs/op"} {
		assert.False(t, IsTime(unit), unit)
	}
}

// Results on different numbers of threads in one set are different benchmarks.
func TestCompareThreads(t *testing.T) {
	results := func(seconds float64, threads ...int) (list []bench.Result) {
		for _, n := range threads {
			for range 7 {
				list = append(list, bench.Result{
					Name: "Job", Threads: n, Values: map[string]float64{"sec/op": seconds / float64(n)},
				})
			}
		}
		return list
	}
	base, head := results(1, 1, 2), results(2, 2)
	rows, notes := Compare(base, head, results(1, 2), "", DefaultMinEffect)
	require.Len(t, rows, 1)
	assert.Equal(t, "Job-2", rows[0].Name)
	assert.InDelta(t, 2, rows[0].Ratio.Center, 1e-9)
	assert.InDelta(t, 1, rows[0].Control.Center, 1e-9)
	assert.Equal(t, []string{"Job-1 has results in only one of the two sets"}, sentences(notes))
	assert.Equal(t, "Job", base[0].Name, "the argument is unchanged")
	assert.Equal(t, []Difference{{"threads", "1 or 2", "2"}}, Differences(base, head))

	rows, notes = Compare(results(1, 2), results(1, 4), nil, "", DefaultMinEffect)
	require.Len(t, rows, 1)
	assert.Equal(t, "Job", rows[0].Name)
	assert.Empty(t, notes)
}

// A set may lack a unit, and values may be unusable. Notes name what the comparison leaves out.
func TestCompareNotes(t *testing.T) {
	set := func(name string, unit string, values ...float64) (list []bench.Result) {
		for _, v := range values {
			list = append(list, bench.Result{Name: name, Values: map[string]float64{unit: v, "sec/op": 1}})
		}
		return list
	}
	zeros := set("A", "B/op", make([]float64, 7)...)
	one, both := set("A", "B/op", 1), slices.Concat(set("A", "B/op", 1), set("B", "B/op", 1))
	for _, test := range []struct {
		metric              string
		base, head, control []bench.Result
		rows                int
		notes               []string
	}{
		{"B/op", zeros, zeros, nil, 1, nil},
		{"B/op", one, set("A", "allocs/op", 1), nil, 0, []string{"A has B/op in only one of the two sets"}},
		{"B/op", set("A", "B/op", 1, -1, math.NaN()), set("A", "B/op", 1, math.Inf(1)), nil, 1, []string{
			"A: ignored 3 results whose B/op is negative or not finite",
		}},
		{"GB/s", set("A", "GB/s", 1, 0), set("A", "GB/s", 1), nil, 1, []string{
			"A: ignored 1 result whose GB/s is not positive and finite",
		}},
		{"", both, both, set("B", "B/op", 1), 2, []string{
			"A has no sec/op in the control, so its verdict does not consider noise",
		}},
	} {
		rows, notes := Compare(test.base, test.head, test.control, test.metric, DefaultMinEffect)
		assert.Len(t, rows, test.rows, test.notes)
		assert.Equal(t, test.notes, sentences(notes))
	}

	// A note names up to three benchmarks, and counts more.
	base, head := set("Has", "B/op", 1), set("Has", "B/op", 1)
	for i := range 4 {
		base = slices.Concat(base, set(fmt.Sprint("A", i), "x", 1), set(fmt.Sprint("B", i/2), "y", 1))
		head = slices.Concat(head, set(fmt.Sprint("A", i), "x", 1))
	}
	_, notes := Compare(base, head, nil, "B/op", DefaultMinEffect)
	assert.Equal(t, []string{
		"B0 and B1 have results in only one of the two sets", "4 other benchmarks have no B/op",
	}, sentences(notes))
	assert.Equal(t, []string{"A0", "A1", "A2", "A3"}, notes[1].Benchmarks)

	// A set may lack the usual metric.
	kernel := []bench.Result{{Name: "K", Values: map[string]float64{"sec/op": 1, "cpu-sec/op": 1, "pct-peak": 50}}}
	cut := []bench.Result{{Name: "K", Values: map[string]float64{"sec/op": 1}}}
	for want, sets := range map[string][2][]bench.Result{"head": {kernel, cut}, "base": {cut, kernel}} {
		rows, notes := Compare(sets[0], sets[1], nil, "", DefaultMinEffect)
		assert.Equal(t, "sec/op", rows[0].Unit)
		said := "K: the table compares sec/op, because the " + want + " lacks pct-peak"
		assert.Equal(t, []string{said}, sentences(notes))
	}
	_, notes = Compare(kernel, kernel, nil, "", DefaultMinEffect)
	assert.Empty(t, notes)
}

// The error for a metric that no benchmark has suggests a few others.
func TestNothingInCommon(t *testing.T) {
	var results []bench.Result
	for _, unit := range []string{"a", "b", "c", "d", "e", "f", "f", "g"} {
		results = append(results, bench.Result{Name: "A", Values: map[string]float64{unit: 1, "sec/op": 1}})
	}
	require.EqualError(t, NothingInCommon(results, results, "GB/s"), "nothing to compare: the two sets of results "+
		"have no benchmark with usable values of the metric GB/s in common: "+
		"choose --metric sec/op or f or a or b or c, or 3 others")
}

func sentences(notes []Note) (list []string) {
	for _, n := range notes {
		list = append(list, n.String())
	}
	return list
}
