package report

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
BenchmarkEvaluate/data=small/model=mquine/dim=20/rival=mquine-2 1 50000000 ns/op
BenchmarkEvaluate/data=small/model=mquine/dim=20/rival=pytorch-2 1 150000000 ns/op
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
		"88.2 GFLOP/s", "88% of peak", "44.1×", // newest commit: rate, share, and speed relative to generic
		"&#43;10.0%", `class="good"`, "rival", "3.00×", "float32 FMA 99.0", "DRAM 12.0 GB/s", "190 GFLOP/s",
		"20.0k queries/s",
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

// TestRoofline checks the logarithmic axes.
func TestRoofline(t *testing.T) {
	f := frame{left: 10, right: 110, top: 0, bottom: 100, x0: 1, x1: 16, y0: 1, y1: 100}
	assert.InDelta(t, 60, f.x(4), 1e-9)
	assert.InDelta(t, 50, f.y(10), 1e-9)
	assert.InDelta(t, 100, f.y(1), 1e-9)
}

func TestNoResults(t *testing.T) {
	for _, dir := range []string{t.TempDir(), filepath.Join(t.TempDir(), "none")} {
		require.ErrorContains(t, Write(t.Context(), &bytes.Buffer{}, dir), "there are no results in "+dir)
	}
}
