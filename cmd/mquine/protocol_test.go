package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/fixture"
)

// TestProtocols evaluates a reference checkpoint under the protocol of each tool, except ogb. The
// MRR must equal the MRR that the tool computed. metrics.TestForeignTable compares all metrics of
// all tools.
func TestProtocols(t *testing.T) {
	fixtures := fixture.Root(t)
	if os.Getenv("MQUINE_DATA") == "" {
		t.Skip("MQUINE_DATA does not name the folder of the data sets")
	}
	for _, c := range []struct {
		fixture, protocol, ties, mrr string
		// sides holds the tool's MRR of tail and head queries; it is nil if the tool prints one average.
		sides []string
	}{
		{"rotate-repo-distmult", "rotate", "optimistic", "0.652166", nil},
		{"kbc-complex", "kbc", "pessimistic", "0.879440", []string{"0.874030", "0.884849"}},
		{"dglke-transe-l1", "dglke", "pessimistic", "0.720586", nil},
		{"libkge-distmult", "libkge", "rounded", "0.735950", []string{"0.754275", "0.717624"}},
		{"pykeen-transe", "pykeen", "realistic", "0.496636", []string{"0.747005", "0.246267"}},
		{"openke-complex", "openke", "optimistic", "0.801705", []string{"0.784312", "0.819099"}},
	} {
		file := filepath.Join(t.TempDir(), "report.json")
		o := succeed(t, "eval", filepath.Join(fixtures, c.fixture+"-umls"), "--data", "umls", "--protocol", c.protocol,
			"--json", file)
		sides, average := []string{"both"}, " in one average"
		if c.sides != nil {
			sides, average = []string{"tail", "head", "both"}, ""
		}
		assert.Contains(t, o.stdout, fmt.Sprintf("Protocol %s: both sides%s, filter all, %s ties", c.protocol, average,
			c.ties))
		var report struct {
			Protocol string
			Results  []map[string]any
		}
		require.NoError(t, json.Unmarshal(must1(os.ReadFile(file)), &report))
		assert.Equal(t, c.protocol, report.Protocol)
		require.Len(t, report.Results, len(sides))
		mrrs := append(slices.Clone(c.sides), c.mrr)
		for i, r := range report.Results {
			assert.Equal(t, []any{sides[i], "all", c.ties}, []any{r["side"], r["filter"], r["ties"]})
			assert.Equal(t, mrrs[i], fmt.Sprintf("%.6f", r["mrr"]), "%s, side %s", c.fixture, sides[i])
		}
		if c.sides != nil {
			assert.Contains(t, o.stdout, " of 1,322 targets have", "the deviations are of both sides")
		}
	}
}
