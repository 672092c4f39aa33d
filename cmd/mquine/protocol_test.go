package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestProtocols evaluates a reference checkpoint under the protocol of each tool, except ogb. The
// MRR must equal the MRR that the tool computed. metrics.TestForeignTable compares all metrics of
// all tools.
func TestProtocols(t *testing.T) {
	fixtures := os.Getenv("MQUINE_FIXTURES")
	if fixtures == "" || os.Getenv("MQUINE_DATA") == "" {
		t.Skip("MQUINE_FIXTURES and MQUINE_DATA do not name the folders of the reference checkpoints and data sets")
	}
	for _, c := range []struct{ fixture, protocol, ties, mrr string }{
		{"rotate-repo-distmult", "rotate", "optimistic", "0.652166"},
		{"kbc-complex", "kbc", "pessimistic", "0.879440"},
		{"dglke-transe-l1", "dglke", "pessimistic", "0.720586"},
		{"libkge-distmult", "libkge", "rounded", "0.735950"},
		{"pykeen-transe", "pykeen", "realistic", "0.496636"},
		{"openke-complex", "openke", "optimistic", "0.801705"},
	} {
		file := filepath.Join(t.TempDir(), "report.json")
		o := succeed(t, "eval", filepath.Join(fixtures, c.fixture+"-umls"), "--data", "umls", "--protocol", c.protocol,
			"--json", file)
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
		assert.Equal(t, c.mrr, fmt.Sprintf("%.6f", r["mrr"]), c.fixture)
	}
}
