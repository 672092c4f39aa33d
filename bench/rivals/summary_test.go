package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSummary checks the table of all jobs. The first job has two rivals; the best one, with the
// smaller median ratio, was timed on a sample. The second job has no rivals.
func TestSummary(t *testing.T) {
	const one, other = "data=d/model=rotate/dim=8/checkpoint=trained", "data=d/model=complex/dim=8"
	results := "# a comment\ncpu: A processor\nthreads: 2\n\n"
	for _, x := range [][3]string{
		{one, "mquine", "1e9 ns/op 100 queries-timed 90 pct-peak 0.25 mrr"},
		{one, "torch-unique", "5e9 ns/op 50 queries-timed 5 x-mquine"},
		{one, "onednn", "4e9 ns/op 100 queries-timed 8 x-mquine"},
		{one, "mquine", "2e9 ns/op 100 queries-timed 94 pct-peak 0.25 mrr"},
		{one, "torch-unique", "7e9 ns/op 50 queries-timed 6 x-mquine"},
		{one, "onednn", "9e9 ns/op 100 queries-timed 4 x-mquine"},
		{other, "mquine", "3e9 ns/op 100 queries-timed 120 pct-peak 0.5 mrr"},
	} {
		results += fmt.Sprintf("BenchmarkEvaluate/%s/rival=%s-2 1 %s\n", x[0], x[1], x[2])
	}
	var out bytes.Buffer
	require.NoError(t, writeSummary(&out, strings.NewReader(results)))
	lines := strings.Split(out.String(), "\n")
	for _, line := range lines[:len(lines)-1] {
		require.True(t, strings.HasPrefix(line, "# "), line)
	}
	require.Equal(t, strings.Fields("# d rotate trained 8 0.250 1.50 92% torch-unique ~6.00 5.50 5.00–6.00 (range)"),
		strings.Fields(lines[1]))
	require.Equal(t, strings.Fields("# d complex clustered 8 0.500 3.00 120%"), strings.Fields(lines[2]))
	require.Contains(t, out.String(), "extrapolated")

	out.Reset()
	require.NoError(t, writeSummary(&out, strings.NewReader("")))
	require.Empty(t, out.String())
	require.Error(t, writeSummary(&out, strings.NewReader("BenchmarkEvaluate/rival=mquine-2 1 x ns/op\n")))
}
