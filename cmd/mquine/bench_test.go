package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/bench"
	"github.com/mquine/mquine/bench/compare"
	"github.com/mquine/mquine/kernel"
)

// benchFile writes ten rounds of results that cycle through the given times.
func benchFile(t *testing.T, times ...float64) string {
	t.Helper()
	var text strings.Builder
	for i := range 10 {
		fmt.Fprintf(&text, "round: %d\nBenchmarkJob/data=small-2 1 %.0f ns/op 5 queries/s\n", i+1, times[i%len(times)])
	}
	return resultsFile(t, text.String())
}

func resultsFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "results.txt")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
	return path
}

func TestBenchCompare(t *testing.T) {
	base, control := benchFile(t, 1e6), benchFile(t, 1.001e6)
	for _, test := range []struct {
		head string
		want string
	}{
		{benchFile(t, 1.05e6), "+4.9% [+4.9%, +4.9%]  slower"},
		{benchFile(t, 0.9e6), "faster"},
		{benchFile(t, 1.005e6), "same"},
		{benchFile(t, 0.9e6, 1.1e6), "inconclusive [1]\n[1] the interval is wide"},
	} {
		o := succeed(t, "bench", "compare", base, test.head, "--control", control)
		assert.Contains(t, o.stdout, test.want)
		assert.Contains(t, o.stdout, "Job/data=small   1ms  ")
		assert.Contains(t, o.stdout, "medians over 10 rounds")
	}
	assert.Contains(t, succeed(t, "bench", "compare", base, benchFile(t, 1.05e6), "--min-effect", "10%").stdout,
		"  same")
	assert.Contains(t, succeed(t, "bench", "compare", base, base, "--min-effect", "7%").stdout, "Minimum effect: 7%.\n")
	few := resultsFile(t, strings.Repeat("BenchmarkA 1 9 ns/op 88 pct-peak 0 GB/s\n", 3))
	o := succeed(t, "bench", "compare", few, few, "--metric", "pct-peak", "--wide")
	assert.Contains(t, o.stdout, "88.0%")
	assert.NotContains(t, o.stdout, "±", "three results are too few for an interval")
	mquine(t, "bench", "compare", few, few, "--metric", "GB/s").requireSentence(t, exitFailed,
		"usable values of the metric GB/s in common: choose --metric pct-peak or sec/op")
	o = succeed(t, "bench", "compare", base, base, "--metric", "queries/s", "--wide")
	assert.Contains(t, o.stdout, "queries/s")
	o = succeed(t, "bench", "compare", base, benchFile(t, 1.05e6), "--control", control, "--wide")
	assert.Contains(t, o.stdout, "+4.9% [+4.9%, +4.9%]  +0.1% [+0.1%, +0.1%]  slower")

	mquine(t, "bench", "compare", base, base, "--metric", "GB/s").requireSentence(t, exitFailed,
		"no benchmark with usable values of the metric GB/s in common")
	mquine(t, "bench", "compare", base, base+"x").requireSentence(t, exitFailed, "cannot read results")
	mquine(t, "bench", "compare", base).requireSentence(t, exitUsage, "give two files of results")
	mquine(t, "bench", "compare", base, base, "--min-effect", "0").requireSentence(t, exitUsage, "must be a percentage")
}

// TestBenchCompareSingle compares results without repetitions, which give no intervals.
func TestBenchCompareSingle(t *testing.T) {
	const line = "BenchmarkPanel/tier=avx512/%s/k=1482-2 10 %d ns/op %d cpu-ns/op %.2f pct-peak\n"
	base := resultsFile(t, fmt.Sprintf(line+line, "groupnorm", 2000, 2000, 94.15, "phase", 3000, 3000, 90.))
	head := resultsFile(t, fmt.Sprintf(line+line, "groupnorm", 2000, 2000, 94.15, "phase", 6000, 6000, 45.))
	o := succeed(t, "bench", "compare", base, head)
	assert.Equal(t, `All benchmarks: tier=avx512, k=1482

benchmark         base   head   change  verdict
Panel/groupnorm  94.2%  94.2%    +0.0%  inconclusive [1]
Panel/phase      90.0%  45.0%  +100.0%  inconclusive [1]
[1] too few measurements for an interval: both sides need at least 7

0 faster, 0 slower, 0 same, 2 inconclusive
Changes are in time (medians of unpaired results), with 95% intervals.
Minimum effect: 2%.
`, o.stdout)
}

// TestBenchCompareMany compares benchmarks with different parts and units: notes count what they leave
// out, no line is long, and ratios are plain numbers.
func TestBenchCompareMany(t *testing.T) {
	var lines strings.Builder
	for k := range 59 {
		fmt.Fprintf(&lines, "BenchmarkPanel/tier=avx512/compare=groupnorm/k=%d-2 1 9 ns/op\n", 1000+k)
	}
	lines.WriteString("BenchmarkScreenChoice/data=small-2 1 9 ns/op 0.8683 auto/best 0.5 auto-cpu-ms 5 u/s\n" +
		"BenchmarkScreenChoice/data=large-2 1 9 ns/op 12.3456 auto/best 61.5 auto-cpu-ms 5 v/s 5 w/s\n")
	path := resultsFile(t, strings.Repeat(lines.String(), 7))
	o := succeed(t, "bench", "compare", path, path, "--metric", "auto/best")
	assert.Contains(t, o.stdout, "\n59 other benchmarks have no auto/best (--wide names them)\n")
	assert.Regexp(t, `data=small +0\.868 +0\.868 `, o.stdout)
	assert.Regexp(t, `data=large +12\.346 +12\.346 `, o.stdout)
	o = succeed(t, "bench", "compare", path, path, "--metric", "auto/best", "--wide")
	assert.Contains(t, o.stdout,
		"\n59 other benchmarks have no auto/best:\n  Panel/tier=avx512/compare=groupnorm/k=1000,")
	_, notes, _ := strings.Cut(o.stdout, "59 other")
	for line := range strings.Lines(notes) {
		assert.LessOrEqual(t, len(line), 81, line)
	}
	o = succeed(t, "bench", "compare", path, path, "--metric", "auto-cpu-ms")
	assert.Regexp(t, `data=small +500µs +500µs `, o.stdout)
	assert.Regexp(t, `data=large +61\.5ms +61\.5ms `, o.stdout)
	o = succeed(t, "bench", "compare", path, path)
	assert.True(t, strings.HasPrefix(o.stdout, "All benchmarks with a tier: tier=avx512\n"), o.stdout)
	assert.Contains(t, o.stdout, "\nPanel/compare=groupnorm/k=1000 ")
	mquine(t, "bench", "compare", path, path, "--metric", "GB/s").requireSentence(t, exitFailed,
		"choose --metric sec/op or auto-cpu-ms or auto/best or u/s or v/s, or 1 other")
}

// A file that ends within a line is an error: its last value may be missing or have lost digits.
func TestBenchCompareTruncated(t *testing.T) {
	whole := resultsFile(t, "BenchmarkA 1 9 ns/op 9 cpu-ns/op 88 pct-peak\n")
	cut := resultsFile(t, "BenchmarkA 1 9 ns/op 9 cpu-ns/op")
	mquine(t, "bench", "compare", whole, cut).requireSentence(t, exitFailed,
		"cannot read results from "+cut+": the last line has no line break")
}

// A benchmark that stops or begins to allocate has no ratio of amounts, but it has a verdict. A control
// must contain one of the benchmarks.
func TestBenchCompareZeros(t *testing.T) {
	file := func(lines ...string) string { return resultsFile(t, strings.Repeat(strings.Join(lines, ""), 10)) }
	allocs := func(name string, n int) string {
		return fmt.Sprintf("Benchmark%s-2 1 9 ns/op %d allocs/op\n", name, n)
	}
	old := file(allocs("A", 0), allocs("B", 3), allocs("C", 0), allocs("D", 5), "BenchmarkE 1 9 ns/op\n")
	head := file(allocs("A", 7), allocs("B", 3), allocs("C", 0), allocs("D", 0), "BenchmarkE 1 9 ns/op\n")
	o := succeed(t, "bench", "compare", old, head, "--metric", "allocs/op", "--control", file(allocs("A", 0)))
	assert.Equal(t, `benchmark   base   head                      change  verdict
A              0  7.000                           –  slower
B          3.000  3.000        +0.0% [+0.0%, +0.0%]  same
C              0      0        +0.0% [+0.0%, +0.0%]  same
D          5.000      0  -100.0% [-100.0%, -100.0%]  faster
B, C and D have no allocs/op in the control, so their verdicts do not consider
noise
E has no allocs/op

1 faster, 1 slower, 2 same, 0 inconclusive
Changes are in allocs/op (medians of unpaired results), with 95% intervals.
Minimum effect: 2%.
`, o.stdout)
	mquine(t, "bench", "compare", old, head, "--control", file(allocs("F", 0))).requireSentence(t, exitFailed,
		"the control has no benchmark and metric in common")
}

// TestBenchCompareMachines compares results of different machines, which a note below the table names.
func TestBenchCompareMachines(t *testing.T) {
	file := func(cpu, features string, threads int, units string) string {
		text := fmt.Sprintf("cpu: %s\ntier: avx2\n%sthreads: %d\n", cpu, features, threads)
		return resultsFile(t, text+strings.Repeat(fmt.Sprintf("BenchmarkJob-%d 1 %s\n", threads, units), 7))
	}
	base := file("A", "features: avx2\n", 2, "100 ns/op 7 cpu-ns/op 30 B/query")
	head := file("B", "", 4, "50 ns/op 7 cpu-ns/op 60 B/query")
	o := succeed(t, "bench", "compare", base, head, "--metric", "ns/op")
	assert.Contains(t, o.stdout, "faster\n"+
		"note: base and head differ in cpu (A, B), so changes need not come from the code\n"+
		"note: base and head differ in threads (2, 4), so changes need not come from the\ncode\n\n")
	assert.Contains(t, o.stdout, "Changes are in time (")
	assert.NotContains(t, succeed(t, "bench", "compare", base, base).stdout, "note:")
	assert.Contains(t, succeed(t, "bench", "compare", base, head, "--metric", "B/query").stdout,
		"Changes are in B/query (medians")
	mquine(t, "bench", "compare", base, head, "--metric", "GB/s").requireSentence(t, exitFailed,
		"no benchmark with usable values of the metric GB/s in common: choose --metric B/query or cpu-sec/op or sec/op")
}

func TestBenchRun(t *testing.T) {
	o := succeed(t, "bench", "run", "--bench", "^MatMul/tier=generic/d=18$", "--benchtime", "1ms", "--count", "2")
	assert.Equal(t, 2, strings.Count(o.stdout, "BenchmarkMatMul/tier=generic/d=18"))
	for _, key := range []string{"goos: ", "cpu: ", "tier: ", "features: ", "threads: ", "commit: ", "ceiling: "} {
		assert.Contains(t, o.stdout, key)
	}
	assert.Contains(t, succeed(t, "bench", "list").stdout, "MatMul/tier=generic/d=18\n")
	mquine(t, "bench", "run", "--bench", "(").requireSentence(t, exitUsage, `--bench "(": not a regular expression`)
	mquine(t, "bench", "run", "--benchtime", "1").requireSentence(t, exitUsage, "must be a time")
	mquine(t, "bench", "run", "--bench", "nothing").requireSentence(t, exitFailed,
		"no benchmark has a name that matches")

	t.Setenv("MQUINE_DATA", t.TempDir())
	mquine(t, "bench", "run", "--bench", "^Load/data=wn18rr$").requireSentence(t, exitFailed,
		"the training split of wn18rr is not installed: run mquine data get wn18rr")
	o = succeed(t, "bench", "run", "--bench", "^Load/data=(small|wn18rr|yago3-10)$", "--benchtime", "1ms")
	for _, data := range []string{"wn18rr", "yago3-10"} {
		assert.Contains(t, o.stdout, "\n# without 1 benchmark: the training split of "+data+" is not installed\n")
	}
	assert.Equal(t, 1, strings.Count(o.stdout, "\nBenchmark"))
	assert.Contains(t, succeed(t, "bench", "list").stdout, "\nLoad/data=wn18rr\tneeds wn18rr\n")

	results := t.TempDir()
	o = mquine(t, "bench", "run", "--bench", "^MatMul/tier=generic/d=18$", "--benchtime", "1ms", "--results", results)
	machine, err := bench.ThisMachine()
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(results, machine.Class(), "*.txt"))
	require.NoError(t, err)
	if machine.Commit == "" { // a trend needs the commit
		o.requireSentence(t, exitFailed, "does not know its commit")
		assert.Empty(t, files)
		return
	}
	unused := filepath.Join(t.TempDir(), "unused")
	mquine(t, "bench", "run", "--bench", "nothing", "--results", unused).requireSentence(t, exitFailed,
		"no benchmark has a name that matches")
	assert.NoDirExists(t, unused)
	require.Zero(t, o.status, o.stderr)
	require.Len(t, files, 1)
	kept, err := os.ReadFile(files[0])
	require.NoError(t, err)
	assert.Equal(t, o.stdout, string(kept))
}

// A run that fails keeps its finished results, in a file that says that it is incomplete.
func TestBenchRunEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cmd := newBenchRunCommand()
	cmd.SetContext(ctx)
	var log bytes.Buffer
	cmd.SetErr(&log)
	results := filepath.Join(t.TempDir(), "results")
	machine := bench.Machine{CPU: "some", Tier: kernel.Generic, Threads: 2, Commit: "0123456789"}
	o := bench.Options{Match: regexp.MustCompile("^MatMul/tier=generic/d=18$"), Count: 3, Time: time.Millisecond}
	for _, test := range []struct {
		stdout io.Writer
		err    string
	}{
		{writerFunc(func(line string) error {
			if strings.HasPrefix(line, "Benchmark") {
				cancel()
			}
			return nil
		}), "context canceled"},
		{writerFunc(func(line string) error {
			if strings.HasPrefix(line, "Benchmark") {
				return errors.New("full")
			}
			return nil
		}), "full"},
	} {
		cmd.SetOut(test.stdout)
		require.ErrorContains(t, runBenchmarks(cmd, machine, o, results), test.err)
		files, err := filepath.Glob(filepath.Join(results, machine.Class(), "*.txt"))
		require.NoError(t, err)
		require.Len(t, files, 1, test.err)
		text, err := os.ReadFile(files[0])
		require.NoError(t, err)
		const end = `\nBenchmarkMatMul.*\n# incomplete: the run ended at MatMul/\S+ after 1 of 3 results\n$`
		assert.Regexp(t, end, string(text))
		kept, err := bench.ReadResults(t.Context(), files[0])
		require.NoError(t, err)
		assert.Len(t, kept, 1)
		assert.Contains(t, log.String(), "wrote "+files[0])
		require.NoError(t, os.RemoveAll(results))
		cmd.SetContext(t.Context())
	}
	cmd.SetContext(ctx) // cancelled before the first result
	require.ErrorIs(t, runBenchmarks(cmd, machine, o, results), context.Canceled)
	assert.NoDirExists(t, results)
}

// writerFunc is a writer that calls a function.
type writerFunc func(text string) error

func (f writerFunc) Write(p []byte) (int, error) { return len(p), f(string(p)) }

func TestBenchReport(t *testing.T) {
	results := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(results, "machine"), 0o777))
	text, err := os.ReadFile(benchFile(t, 1e6))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(results, "machine", "a.txt"), text, 0o666))
	page := filepath.Join(t.TempDir(), "page.html")
	succeed(t, "bench", "report", "--results", results, "--out", page)
	html, err := os.ReadFile(page)
	require.NoError(t, err)
	assert.Contains(t, string(html), "</html>")
	assert.Equal(t, string(html), succeed(t, "bench", "report", "--results", results, "--out", "-").stdout)
	mquine(t, "bench", "report", "--results", filepath.Join(results, "no ne")).requireSentence(t, exitFailed,
		": run mquine bench run --results '"+filepath.Join(results, "no ne")+"'")
	file := resultsFile(t, "")
	mquine(t, "bench", "report", "--results", file).requireSentence(t, exitFailed,
		file+" is a file: name the folder that contains a folder of results for each class of machine")
}

func TestBenchPair(t *testing.T) {
	mquine(t, "bench", "pair").requireSentence(t, exitUsage, "--base is missing")
	mquine(t, "bench", "pair", "--base", "HEAD", "--rounds", "9").requireSentence(t, exitUsage,
		"must be at least 10 for a useful interval")
	o := mquine(t, "bench", "pair", "--base", "HEAD", "--bench", "(")
	o.requireSentence(t, exitUsage, `--bench "(": not a regular expression`)
	assert.NotContains(t, o.stderr, "building")
	results := filepath.Join(t.TempDir(), "base.txt")
	require.NoError(t, os.Mkdir(results, 0o777))
	mquine(t, "bench", "pair", "--base", "no-such-revision", "--out", filepath.Dir(results)).
		requireSentence(t, exitFailed, "cannot write "+results+": it is a folder; name a file")
	mquine(t, "bench", "pair", "--base", "no-such-revision").requireSentence(t, exitFailed,
		`"no-such-revision" is not a revision`)
}

// TestBenchPairEnds checks that a comparison that fails prints and writes its complete rounds.
func TestBenchPairEnds(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"} {
		t.Setenv(name, "test")
	}
	// The benchmark notes its processes and fails in the last one of many.
	const code = `package work

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

func BenchmarkWork(b *testing.B) {
	log, _ := os.ReadFile(os.Getenv("LOG"))
	lines := strings.Fields(string(log))
	if id := fmt.Sprint(os.Getpid()); len(lines) == 0 || lines[len(lines)-1] != id {
		lines = append(lines, id)
	}
	if err := os.WriteFile(os.Getenv("LOG"), []byte(strings.Join(lines, " ")), 0o666); err != nil {
		b.Fatal(err)
	}
	if fmt.Sprint(len(lines)) == os.Getenv("LAST") {
		b.Fatal("it is the last process")
	}
	for b.Loop() {
	}
	b.ReportMetric(2000, "ns/op")
}
`
	require.NoError(t, os.Mkdir("bench", 0o777))
	require.NoError(t, os.WriteFile("go.mod", []byte("module work\n\ngo 1.26\n"), 0o666))
	require.NoError(t, os.WriteFile(filepath.Join("bench", "work_test.go"), []byte(code), 0o666))
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"commit", "-q", "-m", "one"}} {
		out, err := exec.Command("git", args...).CombinedOutput()
		require.NoError(t, err, string(out))
	}
	run := func(complete int, out string) outcome {
		log := filepath.Join(t.TempDir(), "log")
		t.Setenv("LOG", log)
		t.Setenv("LAST", fmt.Sprint(2+3*complete+2)) // both revisions once, the rounds, and a part of one
		return mquine(t, "bench", "pair", "--base", "HEAD", "--rounds", "10", "--passes", "1", "--benchtime", "1us",
			"--out", out)
	}
	out := filepath.Join(t.TempDir(), "out")
	o := run(8, out)
	o.requireSentence(t, exitFailed, "it is the last process")
	assert.Contains(t, o.stderr, "1 benchmark in 10 rounds")
	assert.Contains(t, o.stdout, "note: a benchmark failed after 8 of 10 rounds\n")
	assert.Contains(t, o.stdout, "\n0 faster, 0 slower, 1 same, 0 inconclusive\n")
	again := succeed(t, "bench", "compare", filepath.Join(out, "base.txt"), filepath.Join(out, "head.txt"),
		"--control", filepath.Join(out, "control.txt"))
	assert.Contains(t, again.stdout, "medians over 8 rounds")

	out = filepath.Join(t.TempDir(), "few")
	o = run(5, out)
	o.requireSentence(t, exitFailed, "it is the last process")
	assert.Contains(t, o.stderr, "note: a benchmark failed after 5 of 10 rounds; a table needs at least 6\n")
	assert.Empty(t, o.stdout)
	assert.FileExists(t, filepath.Join(out, "control.txt"))

	out = filepath.Join(t.TempDir(), "none")
	run(0, out).requireSentence(t, exitFailed, "it is the last process")
	assert.NoDirExists(t, out)
}

// A file of bench pair that cannot be written does not prevent the others.
func TestKeepRuns(t *testing.T) {
	out := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(out, "base.txt"), 0o777))
	runs := &compare.Runs{}
	runs.HeadText.WriteString("head")
	runs.ControlText.WriteString("control")
	cmd := newBenchPairCommand()
	cmd.SetContext(t.Context())
	assert.ErrorContains(t, keepRuns(cmd, out, runs), "cannot write "+filepath.Join(out, "base.txt"))
	for _, name := range []string{"head", "control"} {
		text, err := os.ReadFile(filepath.Join(out, name+".txt"))
		require.NoError(t, err)
		assert.Equal(t, name, string(text))
	}
}
