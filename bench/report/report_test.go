package report

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/compressed"
)

// write writes the results of a commit.
func write(t *testing.T, dir, commit, time string, panel float64) {
	t.Helper()
	folder := filepath.Join(dir, "some-cpu-2-threads")
	require.NoError(t, os.MkdirAll(folder, 0o777))
	text := "cpu: Some <CPU>\ntier: avx2\nthreads: 2\nceiling: 99.0 GFLOP/s\n"
	text += fmt.Sprintf("commit: %s\ncommit-time: %s\nmeasured: %[2]s\n", commit, time)
	for i := range 6 {
		noise := 1 + float64(i)/1000
		text += fmt.Sprintf("BenchmarkPanel/tier=avx2/compare=dot/k=342-2 10 100 ns/op %f cpu-ns/op ", 2000/panel*noise)
		text += fmt.Sprintf("%f GFLOP/s 1 GB/s %f pct-peak\n", panel*noise, panel)
		text += "BenchmarkPanel/tier=generic/compare=dot/k=342-2 10 4000 ns/op 4000 cpu-ns/op "
		text += "2 GFLOP/s 0.5 GB/s 100 pct-peak\n"
	}
	text += `BenchmarkCeiling/tier=avx2/of=fma32/threads=1-2 1 100 ns/op 99 GFLOP/s
BenchmarkCeiling/tier=avx2/of=fma32/threads=2-2 1 100 ns/op 190 GFLOP/s
BenchmarkCeiling/tier=avx2/of=read-l1/threads=1-2 1 100 ns/op 150 GB/s
BenchmarkCeiling/tier=avx2/of=read-dram/threads=1-2 1 100 ns/op 12 GB/s
BenchmarkEvaluate/tier=avx2/data=small/model=mquine/dim=20-2 1 50000000 ns/op 20000 queries/s
BenchmarkScreenChoice/data=small/checkpoint=random/model=complex/dim=100-2 1 300000000 ns/op 1.07 auto/best
BenchmarkFuture/model=mquine-2 1 3000000 ns/op
BenchmarkEvaluate/data=small/model=mquine/dim=20/rival=mquine-2 1 50000000 ns/op
BenchmarkEvaluate/data=small/model=mquine/dim=20/rival=torch-2 1 150000000 ns/op
`
	require.NoError(t, os.WriteFile(filepath.Join(folder, commit+".txt"), []byte(text), 0o666))
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "bbbbbbbbbbbbbbbb", "2026-02-01T00:00:00Z", 80)
	write(t, dir, "aaaaaaaaaaaaaaaa", "2026-03-01T00:00:00Z", 88)
	var page bytes.Buffer
	require.NoError(t, Write(t.Context(), &page, dir))
	html := page.String()
	for _, want := range []string{
		"Some &lt;CPU&gt;, 2 threads", "<code>aaaaaaaaaa</code> of 2 measured", "99.0 GFLOP/s",
		"88.2 GFLOP/s", "88% of peak", "44.1× generic", // newest commit: rate, share, and speed
		"&#43;10.0%", `class="good"`, "PyTorch takes 3.0 times as long", "3.00×", "float32 FMA 99.0", "DRAM 12.0 GB/s",
		"190 GFLOP/s", "dot, k = 342", "small, MQuinE, d = 20",
		"20.0k queries/s",
		"<h4>ScreenChoice</h4>", "1.07 auto/best", "<h4>Future</h4>", "3.00 ms",
	} {
		assert.True(t, strings.Contains(html, want), want)
	}
	// The page loads nothing and runs nothing.
	bad := regexp.MustCompile(`(?i)<script|https?://|@import|url\(|<link|src=|ZgotmplZ|NaN|Inf|%!`)
	assert.Empty(t, bad.FindString(html))
	pictures := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(html, -1)
	assert.GreaterOrEqual(t, len(pictures), 4)
	for _, p := range pictures {
		decoder := xml.NewDecoder(strings.NewReader(p))
		for {
			if _, err := decoder.Token(); err != nil {
				assert.EqualError(t, err, "EOF", p)
				break
			}
		}
	}
}

// TestStepCells checks that the cell of a training step shows a time and a share of the same clock.
func TestStepCells(t *testing.T) {
	const name = "TrainStep/tier=avx2/zsamples=0"
	c := class{name: "x", commits: []*commit{{id: "a", values: map[string]map[string][]float64{name: {
		"sec/op": {2}, "cpu-ms/step": {110}, "ms/step": {120}, "pct-peak": {80}, "pct-clock": {40},
		"GFLOP/s": {100}, "triples/s": {8000},
	}}}}}
	got := c.cell(name, "")
	assert.Equal(t, "110 cpu-ms/step", got.Main)
	assert.Equal(t, 80., got.Share)
	unit, sign := c.trendUnit(name)
	assert.Equal(t, "pct-peak", unit)
	assert.Equal(t, 1., sign)
	assert.Equal(t, "80.0%", value(80, unit))
}

// TestContents checks that every entry of the contents leads to a heading.
func TestContents(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "aaaaaaaaaaaaaaaa", "2026-03-01T00:00:00Z", 88)
	var page bytes.Buffer
	require.NoError(t, Write(t.Context(), &page, dir))
	links := regexp.MustCompile(`href="#([^"]*)"`).FindAllStringSubmatch(page.String(), -1)
	require.Len(t, links, 6, "the class, rivals, roofline, jobs, kernels, ceilings; no trends of a single commit")
	for _, link := range links {
		assert.Equal(t, 1, strings.Count(page.String(), ` id="`+link[1]+`"`), link[1])
	}
}

// TestRoofline checks that the roofline has a dot for every kernel and a label for every kind, and
// that the legend has only families with dots.
func TestRoofline(t *testing.T) {
	values := map[string]map[string][]float64{}
	for name, v := range map[string][3]float64{
		"Panel/tier=avx2/compare=dot/k=200": {90, 0, 1}, "Panel/tier=avx2/compare=dot/k=1000": {91, 0, 2},
		"Panel/tier=avx2/compare=int8/k=200": {0, 400, 3}, "Pair/tier=avx2/compare=l1/k=200": {20, 0, 10},
		"Ceiling/tier=avx2/of=fma32/threads=1": {99, 0, 0}, "Ceiling/tier=avx2/of=int8/threads=1": {0, 450, 0},
		"Ceiling/tier=avx2/of=int8-tiles/threads=1": {0, 9000, 0},
		"Ceiling/tier=avx2/of=read-dram/threads=1":  {0, 0, 12},
	} {
		values[name] = map[string][]float64{}
		for i, unit := range operations {
			if v[i] > 0 {
				values[name][unit] = []float64{v[i]}
			}
		}
	}
	c := class{name: "x", commits: []*commit{{id: "a", values: values}}}
	svg := string(c.roofline(c.names(), "avx2"))
	svg, _, _ = strings.Cut(svg, "</svg>") // the wide form
	assert.Equal(t, 4, strings.Count(svg, "<title>"), "four kernels")
	for _, want := range []string{
		">Panel<", ">Panel int8, int16<", ">Pair<", ">Panel dot<", ">Panel int8<", ">Pair l1<",
		">float32 FMA 99.0 GFLOP/s<", ">int8 450 GOP/s<", ">DRAM 12.0 GB/s<", "Panel, int8, k = 200: 400 GOP/s",
	} {
		assert.Contains(t, svg, want)
	}
	assert.NotContains(t, svg, "MatMul")
	assert.NotContains(t, svg, "tiles", "no kernel comes close to the ceilings of the tiles")
}

func TestRivals(t *testing.T) {
	values := map[string]map[string][]float64{}
	for rival, times := range map[string][]float64{"mquine": {2, 2, 2, 2, 2, 2, 2}, "openblas": {3, 3, 3, 3, 3, 3, 3}} {
		name := "Evaluate/data=fb15k-237/model=complex/dim=500/rival=" + rival
		values[name] = map[string][]float64{"sec/op": times}
		if rival != "mquine" {
			values[name]["x-mquine"] = []float64{1.4, 1.5, 1.6, 1.45, 1.5, 1.55, 1.7}
		}
	}
	c := class{name: "x", commits: []*commit{{id: "a", values: values}}}
	list := c.rivals(c.names())
	require.Len(t, list, 1)
	assert.Equal(t, "FB15k-237, ComplEx, d = 500: whole test split", list[0].Job)
	assert.Equal(t, entry{Rival: "mquine", Time: "2.00 s", seconds: 2, Own: true}, list[0].Entries[0])
	values["Evaluate/data=fb15k-237/model=complex/dim=500/rival=mquine"]["sec/op"] = []float64{1, 2, 2, 2, 2, 3}
	assert.Equal(t, "1.00 s to 3.00 s (97%)", c.rivals(c.names())[0].Entries[0].Range, "as the result files say")
	assert.Equal(t, "1.50× [1.40, 1.70]", list[0].Entries[1].Slowdown)
	assert.Equal(t, []string{"OpenBLAS takes 1.5 times as long as mquine (one job)."}, headline(list))
	assert.Contains(t, string(drawRivals(list)), ">1.50×<")
	assert.Empty(t, drawRivals(nil))
}

// TestContestsOfOneRun checks that a comparison takes all programs from one run. The results of the
// newer run contain no time but have one in the name of the file, and the hash of its commit comes first.
func TestContestsOfOneRun(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "ffffffffffffffff", "2026-02-01T00:00:00Z", 80)
	for name, programs := range map[string][]string{
		"20260301T000000Z-bbbbbbbbbbbb-rivals.txt": {
			"mquine-2 1 2000000000 ns/op 100 queries-timed", "openblas-2 1 6000000000 ns/op 100 queries-timed",
			"torch-2 1 8000000000 ns/op 100 queries-timed",
		},
		"20260302T000000Z-aaaaaaaaaaaa-rivals.txt": {
			"mquine-2 1 1000000000 ns/op 100 queries-timed", "onednn-2 1 7000000000 ns/op 100 queries-timed",
			"torch-2 1 5000000000 ns/op 50 queries-timed",
		},
	} {
		text := fmt.Sprintf("threads: 2\n# commit: %.12s-dirty\n", name[len("20260301T000000Z-"):])
		for _, program := range programs {
			text += "BenchmarkEvaluate/data=umls/model=mquine/dim=20/rival=" + program + "\n"
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, "some-cpu-2-threads", name), []byte(text), 0o666))
	}
	classes, err := read(t.Context(), dir)
	require.NoError(t, err)
	require.Len(t, classes, 1)
	var found contest
	for _, x := range classes[0].rivals(classes[0].names()) {
		if strings.HasPrefix(x.Job, "UMLS") {
			found = x
		}
	}
	assert.Equal(t, "aaaaaaaaaa+dirty", found.Commit)
	var rows []string
	for _, e := range found.Entries {
		rows = append(rows, fmt.Sprintf("%s %s %s", e.Rival, e.Time, e.Slowdown))
	}
	assert.Equal(t, []string{"mquine 1.00 s ", "PyTorch ~5.00 s 5.00×", "oneDNN 7.00 s 7.00×"}, rows)

	var page bytes.Buffer
	require.NoError(t, Write(t.Context(), &page, dir))
	assert.Contains(t, page.String(), "<code>ffffffffff</code> of 3 measured", "the newest benchmarks of mquine alone")
	assert.Equal(t, 1, strings.Count(page.String(), "~: the rival was timed on a part of the queries"))
}

// TestOnlyRivals checks that a folder may contain nothing but comparisons with rivals.
func TestOnlyRivals(t *testing.T) {
	class := filepath.Join(t.TempDir(), "some-cpu-2-threads")
	require.NoError(t, os.Mkdir(class, 0o777))
	text := "cpu: Some CPU\nthreads: 2\nBenchmarkEvaluate/data=umls/model=mquine/dim=20/rival=mquine-2 1 1000 ns/op\n"
	require.NoError(t, os.WriteFile(filepath.Join(class, "a.txt"), []byte(text), 0o666))
	var page bytes.Buffer
	require.NoError(t, Write(t.Context(), &page, filepath.Dir(class)))
	assert.Contains(t, page.String(), "Some CPU, 2 threads")
}

// TestFeatures checks that the page never mixes results with different processor features, which one
// folder may contain.
func TestFeatures(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "some-cpu-1-threads")
	require.NoError(t, os.Mkdir(folder, 0o777))
	add := func(name, features string, ms int) {
		text := "cpu: Some CPU\ntier: avx512\nthreads: 1\n# commit: aaaaaaaaaaaa\n"
		if features != "" {
			text += "features: " + features + "\n"
		}
		text += strings.Repeat(fmt.Sprintf("BenchmarkEvaluate/data=umls 1 %d000000 ns/op\n", ms), 3)
		f, err := os.Create(filepath.Join(folder, name))
		require.NoError(t, err)
		defer f.Close()
		require.NoError(t, compressed.Write(f, name, func(w io.Writer) error {
			_, err := io.WriteString(w, text)
			return err
		}))
	}
	sections := func() (list []string) {
		classes, err := read(t.Context(), dir)
		require.NoError(t, err)
		for _, c := range classes {
			list = append(list, c.title())
			for _, at := range c.commits {
				list = append(list, fmt.Sprint(at.values["Evaluate/data=umls"]["sec/op"]))
			}
		}
		return list
	}
	add("a.txt", "avx512,vnni,vbmi", 10)
	assert.Equal(t, []string{"Some CPU, 1 thread", "[0.01 0.01 0.01]"}, sections())
	add("b.txt", "", 20)
	assert.Equal(t, []string{"Some CPU, 1 thread", "[0.02 0.02 0.02]", "[0.01 0.01 0.01]"}, sections())
	add("c.txt.gz", "avx512", 40)
	assert.Equal(t, []string{
		"Some CPU, 1 thread (avx512,vnni,vbmi)", "[0.01 0.01 0.01]", "Some CPU, 1 thread (avx512)", "[0.04 0.04 0.04]",
		"Some CPU, 1 thread (unknown features)", "[0.02 0.02 0.02]",
	}, sections())
}

// TestCommittedRivals compares the page with README.md, which has the medians of the newest committed
// comparison.
func TestCommittedRivals(t *testing.T) {
	classes, err := read(t.Context(), "../results")
	require.NoError(t, err)
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	row := regexp.MustCompile(`\| FB15k-237, TransE-L1 d = 1,000 \| (\S+) s \|.*?\| (\S+) × \| (\S+) × \|`)
	want := row.FindStringSubmatch(string(readme))
	require.NotNil(t, want)
	var numbers []float64
	for _, text := range want[1:] {
		x, err := strconv.ParseFloat(text, 64)
		require.NoError(t, err)
		numbers = append(numbers, x)
	}
	for _, class := range classes {
		for _, x := range class.rivals(class.names()) {
			if strings.HasPrefix(x.Job, "FB15k-237, TransE (L1)") {
				require.Len(t, x.Entries, 3)
				got := []float64{x.Entries[0].seconds, x.Entries[1].slowdown.mid, x.Entries[2].slowdown.mid}
				assert.InDeltaSlice(t, numbers, got, 0.051) // README.md rounds to at least one decimal
				return
			}
		}
	}
	t.Error("no comparison on FB15k-237 with TransE-L1")
}

func TestNames(t *testing.T) {
	names := []string{"int16/k=1000", "int16/k=200", "int16/k=34", "int16", "int8/k=1", "dot"}
	slices.SortFunc(names, natural)
	assert.Equal(t, []string{"dot", "int8/k=1", "int16", "int16/k=34", "int16/k=200", "int16/k=1000"}, names)
	assert.Equal(t, "dot, k = 200", describe("compare=dot k=200"))
	assert.Equal(t, "yago-shape, MQuinE, d = 18", describe("data=yago-shape model=mquine dim=18"))
	assert.Equal(t, "UMLS, RotatE, d = 8, trained", describe("data=umls model=rotate dim=8 checkpoint=trained"))
	assert.Equal(t, "13,415 GOP/s", rate(13415, "GOP/s"))
}

func TestNoResults(t *testing.T) {
	for _, dir := range []string{t.TempDir(), filepath.Join(t.TempDir(), "none")} {
		require.ErrorContains(t, Write(t.Context(), &bytes.Buffer{}, dir), dir+" contains no results")
	}
}
