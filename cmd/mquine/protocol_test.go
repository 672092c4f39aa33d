package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestProtocols compares the metrics under the protocol of each tool with the metrics that the tool
// computed. The test allows small differences, because the RotatE code prints six digits and the other
// tools sum in float32.
func TestProtocols(t *testing.T) {
	fixtures := os.Getenv("MQUINE_FIXTURES")
	if fixtures == "" || os.Getenv("MQUINE_DATA") == "" {
		t.Skip("MQUINE_FIXTURES and MQUINE_DATA do not name the folders of the reference checkpoints and data sets")
	}
	rotate := map[string]string{
		"mrr": "MRR", "mr": "MR", "hits@1": "HITS@1", "hits@3": "HITS@3", "hits@10": "HITS@10",
	}
	mrr := map[string]string{"mrr": "MRR"}
	pykeen := map[string]string{
		"mrr": "inverse_harmonic_mean_rank", "mr": "arithmetic_mean_rank", "hits@1": "hits_at_1",
		"hits@10": "hits_at_10",
	}
	libkge := map[string]string{
		"mrr": "mean_reciprocal_rank_filtered", "mr": "mean_rank_filtered", "hits@1": "hits_at_1_filtered",
		"hits@3": "hits_at_3_filtered", "hits@10": "hits_at_10_filtered",
	}
	for _, c := range []struct {
		fixture, protocol string
		ties              string
		where             []string          // the path of the metrics in metrics.json
		names             map[string]string // the names of the metrics at that path
	}{
		{"rotate-repo-distmult", "rotate", "optimistic", []string{"printed_by_tool"}, rotate},
		{"rotate-repo-complex", "rotate", "optimistic", []string{"printed_by_tool"}, rotate},
		{"rotate-repo-transe", "rotate", "optimistic", []string{"printed_by_tool"}, rotate},
		{"rotate-repo-rotate", "rotate", "optimistic", []string{"printed_by_tool"}, rotate},
		{"kbc-complex", "kbc", "pessimistic", []string{"tool_eval_of_best_valid.model"}, mrr},
		{"kbc-transe", "kbc", "pessimistic", []string{"tool_eval_of_best_valid.model"}, mrr},
		{"dura-complex", "kbc", "pessimistic", []string{"from_ranks_tsv", "both"}, rotate},
		{"dglke-complex", "dglke", "pessimistic", []string{"from_ranks_tsv", "both"}, rotate},
		{"dglke-transe-l1", "dglke", "pessimistic", []string{"from_ranks_tsv", "both"}, rotate},
		{"libkge-complex", "libkge", "rounded", []string{"metrics"}, libkge},
		{"libkge-distmult", "libkge", "rounded", []string{"metrics"}, libkge},
		{"libkge-transe", "libkge", "rounded", []string{"metrics"}, libkge},
		{"libkge-rotate", "libkge", "rounded", []string{"metrics"}, libkge},
		{"libkge-reciprocal-complex", "libkge", "rounded", []string{"metrics"}, libkge},
		{"pykeen-complex-inverse", "pykeen", "realistic", []string{"filtered", "both", "realistic"}, pykeen},
		{"pykeen-transe", "pykeen", "realistic", []string{"filtered", "both", "realistic"}, pykeen},
		{"openke-complex", "openke", "optimistic", []string{"printed_by_tool"}, rotate},
		{"openke-transe", "openke", "optimistic", []string{"printed_by_tool"}, rotate},
	} {
		dir := filepath.Join(fixtures, c.fixture+"-umls")
		var want map[string]any
		metrics := must1(os.ReadFile(filepath.Join(dir, "metrics.json")))
		metrics = bytes.ReplaceAll(metrics, []byte("NaN"), []byte("null")) // as LibKGE writes it
		require.NoError(t, json.Unmarshal(metrics, &want))
		for _, key := range c.where {
			want = want[key].(map[string]any)
		}
		file := filepath.Join(t.TempDir(), "report.json")
		o := succeed(t, "eval", dir, "--data", "umls", "--protocol", c.protocol, "--json", file)
		assert.Contains(t, o.stdout, fmt.Sprintf("Protocol %s: both sides in one average, filter all, %s ties",
			c.protocol, c.ties))
		var report struct {
			Protocol string
			Results  []map[string]any
		}
		require.NoError(t, json.Unmarshal(must1(os.ReadFile(file)), &report))
		assert.Equal(t, c.protocol, report.Protocol)
		require.Len(t, report.Results, 1)
		r := report.Results[0]
		assert.Equal(t, []any{"both", "all", c.ties}, []any{r["side"], r["filter"], r["ties"]})
		for ours, theirs := range c.names {
			require.Contains(t, want, theirs, c.fixture)
			if c.protocol == "rotate" {
				printed := fmt.Sprintf("%.6f", want[theirs])
				assert.Equal(t, printed, fmt.Sprintf("%.6f", r[ours]), "%s: %s", c.fixture, ours)
			} else {
				assert.InEpsilon(t, want[theirs], r[ours], 5e-7, "%s: %s", c.fixture, ours)
			}
		}
	}
}
