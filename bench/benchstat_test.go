package bench_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/bench"
	"github.com/mquine/mquine/kernel"
)

// TestBenchstat checks that benchstat without options compares the results of two commits.
// benchstat compares nothing if a configuration line differs.
func TestBenchstat(t *testing.T) {
	dir := t.TempDir()
	tool := filepath.Join(dir, "benchstat")
	build := exec.Command("go", "build", "-o", tool, "golang.org/x/perf/cmd/benchstat")
	if out, err := build.CombinedOutput(); err != nil {
		t.Skipf("cannot build benchstat: %s", out)
	}
	write := func(commit string, time float64) string {
		var text strings.Builder
		m := bench.Machine{CPU: "some", Tier: kernel.AVX2, Threads: 2, Commit: commit, Ceiling: time}
		require.NoError(t, m.WriteBasics(&text))
		require.NoError(t, m.WriteDetails(&text))
		for round := range 6 {
			fmt.Fprintf(&text, "# round: %d\nBenchmarkPanel/k=342-2 10 %g ns/op\n", round+1, time+float64(round)/100)
		}
		path := filepath.Join(dir, commit)
		require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o666))
		return path
	}
	base, head := write("old", 100), write("new", 110)
	compare := func() string {
		out, err := exec.Command(tool, base, head).CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}
	assert.Contains(t, compare(), "vs base")
	assert.Regexp(t, `\+10\.00% \(p=0\.00`, compare())

	// In files from earlier versions, the comments were configuration lines.
	for _, path := range []string{base, head} {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, []byte(strings.ReplaceAll(string(text), "# ", "")), 0o666))
	}
	assert.NotContains(t, compare(), "vs base", "benchstat separates results by configuration lines")
	old, err := bench.ReadResults(t.Context(), base)
	require.NoError(t, err)
	assert.Equal(t, "old", old[5].Config["commit"])
	assert.Equal(t, 6, old[5].Round())
}
