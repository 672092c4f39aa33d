package bench_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/bench"
	"github.com/mquine/mquine/kernel"
)

// TestMain prints the machine above the results of go test -bench, as mquine bench run does.
func TestMain(m *testing.M) {
	flag.Parse()
	match := flag.Lookup("test.bench").Value.String()
	if match != "" {
		machine, err := bench.ThisMachine()
		if err != nil {
			panic(err)
		}
		if machine.Commit == "" { // builds by go test contain no commit
			machine.Commit, machine.CommitTime = gitLog("%H"), gitLog("%cd")
			if exec.Command("git", "diff", "--quiet", "HEAD").Run() != nil {
				machine.Commit += "+dirty"
			}
		}
		if err := machine.WriteDetails(os.Stdout); err != nil {
			panic(err)
		}
	}
	status := m.Run()
	if match != "" && !ran && testing.Short() {
		fmt.Fprintf(os.Stderr, "no benchmark of the quick subset matches %q: run without -short\n", match)
	}
	os.Exit(status)
}

func gitLog(format string) string {
	cmd := exec.Command("git", "log", "-1", "--date=iso-strict-local", "--format="+format)
	cmd.Env = append(os.Environ(), "TZ=UTC")
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	return strings.Replace(strings.TrimSpace(string(out)), "+00:00", "Z", 1)
}

// TestFamilies checks that go test -bench has a function for every family.
func TestFamilies(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	out, err := exec.Command(self, "-test.list", "^Benchmark").Output()
	require.NoError(t, err)
	functions := strings.Fields(string(out))
	list, err := bench.All()
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, x := range list {
		assert.False(t, seen[x.Name], "%s is listed twice", x.Name)
		seen[x.Name] = true
		assert.Contains(t, functions, "Benchmark"+x.Family())
		for _, pair := range strings.Split(x.Name, "/")[1:] {
			assert.Regexp(t, `^[a-z]+=[a-z0-9.-]+$`, pair, x.Name)
		}
	}
}

// TestQuick runs every benchmark of the quick subset once and reads the results.
func TestQuick(t *testing.T) {
	if testing.Short() {
		t.Skip("needs half a minute under the race detector")
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	machine, err := bench.ThisMachine()
	require.NoError(t, err)
	machine.Commit = "0123456789"
	previous := flag.Lookup("test.benchtime").Value.String()
	defer func() { require.NoError(t, flag.Set("test.benchtime", previous)) }()
	var out bytes.Buffer
	runs := 0
	require.NoError(t, bench.Run(t.Context(), &out, machine, bench.Options{
		Quick: true, Count: 1, Time: time.Nanosecond, Progress: func(int, int, string) { runs++ },
	}))
	path := filepath.Join(t.TempDir(), "results.txt")
	require.NoError(t, os.WriteFile(path, out.Bytes(), 0o666))
	results, err := bench.ReadResults(t.Context(), path)
	require.NoError(t, err)
	require.Len(t, results, runs)
	list, err := bench.All()
	require.NoError(t, err)
	quick := 0
	for _, x := range list {
		if x.Quick {
			assert.Equal(t, x.Name, results[quick].Name)
			quick++
		}
	}
	assert.Equal(t, quick, runs)
	for _, r := range results {
		for _, key := range []string{"goos", "goarch", "cpu", "tier", "features", "threads", "commit", "ceiling"} {
			assert.NotEmpty(t, r.Config[key], key)
		}
		assert.Positive(t, r.Values["sec/op"], r.Name)
		for unit, v := range r.Values {
			assert.Positive(t, v, "%s %s", r.Name, unit)
		}
		switch family, _, _ := strings.Cut(r.Name, "/"); family {
		case "Panel":
			assert.Contains(t, r.Values, "pct-peak")
			rate := "GFLOP/s"
			if strings.Contains(r.Name, "compare=int") { // int8, int16
				rate = "GOP/s"
			}
			assert.Contains(t, r.Values, rate)
			assert.Contains(t, r.Values, "GB/s")
		case "Evaluate":
			assert.Contains(t, r.Values, "queries/s")
			assert.Contains(t, r.Values, "B/query")
		}
	}
}

func TestRunEnds(t *testing.T) {
	machine := bench.Machine{CPU: "none"}
	var out bytes.Buffer
	nothing := bench.Options{Match: regexp.MustCompile("nothing"), Count: 1, Time: time.Millisecond}
	err := bench.Run(t.Context(), &out, machine, nothing)
	require.ErrorContains(t, err, `no benchmark has a name that matches "nothing"`)
	list, err := bench.All()
	require.NoError(t, err)
	slow := slices.IndexFunc(list, func(x bench.Benchmark) bool { return !x.Quick })
	nothing.Match, nothing.Quick = regexp.MustCompile("^"+regexp.QuoteMeta(list[slow].Name)+"$"), true
	err = bench.Run(t.Context(), &out, machine, nothing)
	require.ErrorContains(t, err, "no benchmark of the quick subset matches")
	require.ErrorContains(t, err, "but others such as "+list[slow].Name+" do: run them without --quick")
	ctx, cancel := context.WithCancel(t.Context())
	err = bench.Run(ctx, &out, machine, bench.Options{
		Match: regexp.MustCompile("Panel"), Count: 1, Time: time.Millisecond,
		Progress: func(done, _ int, _ string) {
			if done == 1 {
				cancel()
			}
		},
	})
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, 1, strings.Count(out.String(), "\nBenchmarkPanel"))
	assert.Regexp(t, `\n# incomplete: the run ended at Panel/\S+ after 1 of \d+ results\n$`, out.String())
	results, err := bench.ParseResults(&out, "results")
	require.NoError(t, err)
	assert.Len(t, results, 1)
}

// On one thread, names have no suffix, as in go test.
func TestRunOnOneThread(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for threads, suffix := range map[int]string{1: "", 2: "-2"} {
		runtime.GOMAXPROCS(threads)
		var out bytes.Buffer
		require.NoError(t, bench.Run(t.Context(), &out, bench.Machine{CPU: "none"}, bench.Options{
			Match: regexp.MustCompile("^MatMul/tier=generic/d=18$"), Count: 1, Time: time.Millisecond,
		}))
		assert.Contains(t, out.String(), "\nBenchmarkMatMul/tier=generic/d=18"+suffix+"\t")
	}
}

func TestClass(t *testing.T) {
	m := bench.Machine{CPU: "Intel(R) Xeon(R) Platinum 8370C CPU @ 2.80GHz", Tier: kernel.AVX512, Threads: 4}
	assert.Equal(t, "intel-r-xeon-r-platinum-8370c-cpu-2-80ghz-avx512-4-threads", m.Class())
}

func TestReadResults(t *testing.T) {
	dir := t.TempDir()
	read := func(text string) ([]bench.Result, error) {
		path := filepath.Join(dir, "r.txt")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
		return bench.ReadResults(t.Context(), path)
	}
	// Values that describe the run are comments. In earlier versions they were configuration lines.
	for _, mark := range []string{"# ", ""} {
		results, err := read("tier: avx2\n" + mark + "commit: c\n" + mark + "round: 2\n# a remark: with a colon\n" +
			"BenchmarkPanel/tier=avx2/k=342-16  10  250 ns/op  12.5 GFLOP/s\nPASS\n")
		require.NoError(t, err)
		require.Len(t, results, 1)
		assert.Equal(t, "Panel/tier=avx2/k=342", results[0].Name)
		assert.Equal(t, 2, results[0].Round())
		assert.Equal(t, map[string]string{"tier": "avx2", "commit": "c", "round": "2"}, results[0].Config)
		assert.Equal(t, 12.5, results[0].Values["GFLOP/s"])
		assert.InDelta(t, 250e-9, results[0].Values["sec/op"], 1e-15)
	}
	// A run on one thread adds no number of threads to names, but earlier versions added -1.
	for text, want := range map[string]bench.Result{
		"threads: 1\nBenchmarkLoad/data=fb15k-237 1 5 x\n":   {Name: "Load/data=fb15k-237", Threads: 1},
		"threads: 1\nBenchmarkLoad/data=fb15k-237-1 1 5 x\n": {Name: "Load/data=fb15k-237", Threads: 1},
		"threads: 2\nBenchmarkLoad/data=fb15k-237-2 1 5 x\n": {Name: "Load/data=fb15k-237", Threads: 2},
		// go test -cpu 1,2 writes one header for both.
		"threads: 2\nBenchmarkLoad/data=fb15k-237 1 5 x\n": {Name: "Load/data=fb15k-237", Threads: 1},
		"threads: 2\nBenchmarkLoad/data=fb15k-2 1 5 x\n":   {Name: "Load/data=fb15k", Threads: 2},
		"BenchmarkLoad 1 5 x\n":                            {Name: "Load", Threads: 1},
	} {
		results, err := read(text)
		require.NoError(t, err)
		assert.Equal(t, want, bench.Result{Name: results[0].Name, Threads: results[0].Threads}, text)
	}
	_, err := read("hello\n")
	require.ErrorContains(t, err, "has no benchmark results")
	_, err = read("BenchmarkX 1 ns/op\n")
	require.ErrorContains(t, err, "r.txt:1")
	_, err = bench.ReadResults(t.Context(), filepath.Join(dir, "none"))
	require.ErrorContains(t, err, "cannot read results")
}
