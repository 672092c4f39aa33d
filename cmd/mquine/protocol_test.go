package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/fixture"
	"github.com/mquine/mquine/metrics"
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

// DGL-KE ranks the tails of RESCAL by other scores than the model's. Every form of a result says so, also after
// an import.
func TestOtherScores(t *testing.T) {
	fixtures := fixture.Root(t)
	if os.Getenv("MQUINE_DATA") == "" {
		t.Skip("MQUINE_DATA does not name the folder of the data sets")
	}
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "report.json")
	imported := filepath.Join(dir, "imported")
	original := filepath.Join(fixtures, "dglke-rescal-umls")
	succeed(t, "import", original, imported)
	eval := func(path, protocol, format string) string {
		return succeed(t, "eval", path, "--data", "umls", "--protocol", protocol, "--format", format, "--quiet").stdout
	}
	for _, path := range []string{original, imported} {
		assert.Contains(t, eval(path, "dglke", "table"),
			"\nscores: 661 of 1,322 targets are ranked by other scores in DGL-KE. DGL-KE\n"+
				"compares the score tᵀRh of each tail candidate with the answer's score hᵀRt;\n")
		assert.NotContains(t, eval(path, "kbc", "table"), "other scores", "another tool")
		assert.Contains(t, eval(path, "dglke", "latex"), " Protocol: dglke. The tool ranks by other scores.}")
		succeed(t, "eval", path, "--data", "umls", "--protocol", "dglke", "--json", file)
		var report metrics.Report
		require.NoError(t, json.Unmarshal(must1(os.ReadFile(file)), &report))
		assert.Equal(t, "scores", report.Deviations[0].Cause)
		assert.Equal(t, 661, report.Deviations[0].Queries)
		assert.Equal(t, []string{report.Deviations[0].Reason}, report.Provenance.Checkpoint.Notes)
	}
	assert.NotContains(t, eval(filepath.Join(fixtures, "dglke-distmult-umls"), "dglke", "table"), "other scores")

	o := succeed(t, "info", imported)
	assert.Contains(t, o.stdout, "format         mquine/1\nimported from  DGL-KE")
	assert.Contains(t, o.stdout, "--protocol dglke: ")
	assert.Contains(t, o.stdout, "note: DGL-KE compares the score")

	// An export and its import keep the tool, the checksum of its files and the notes.
	exported, again := filepath.Join(dir, "exported"), filepath.Join(dir, "again")
	succeed(t, "export", imported, "--to", "npy", exported)
	succeed(t, "import", exported, again)
	describe := func(path string) (info checkpointInfo) {
		require.NoError(t, json.Unmarshal([]byte(succeed(t, "info", path, "--json", "-").stdout), &info))
		return info
	}
	first, second := describe(imported), describe(again)
	assert.Equal(t, first.Origin, second.Origin)
	assert.Equal(t, first.Notes, second.Notes)
	assert.Equal(t, first.Metadata["imported_sha256"], second.Metadata["imported_sha256"])
	assert.NotEqual(t, first.Origin, describe(exported).Tool)
	assert.Empty(t, describe(original).Origin)

	// A checkpoint of mquine has no other tool, even if it was exported and imported.
	own, ownExport, ownAgain := filepath.Join(dir, "own"), filepath.Join(dir, "own-npy"), filepath.Join(dir, "own-2")
	succeed(t, "init", "--model", "complex", "--dim", "2", "--data", "umls", "--out", own)
	succeed(t, "export", own, "--to", "npy", ownExport)
	succeed(t, "import", ownExport, ownAgain)
	assert.Empty(t, describe(ownAgain).Origin)
	assert.Empty(t, describe(ownAgain).Protocol)
}

// A caption gives the numbers of a tolerance. A comparison of ranks under it says if its tie rule is another.
func TestTolerance(t *testing.T) {
	fixtures := fixture.Root(t)
	if os.Getenv("MQUINE_DATA") == "" {
		t.Skip("MQUINE_DATA does not name the folder of the data sets")
	}
	ranks := filepath.Join(t.TempDir(), "ranks.tsv")
	o := succeed(t, "eval", filepath.Join(fixtures, "libkge-distmult-umls"), "--data", "umls", "--protocol", "libkge",
		"--format", "latex", "--ranks", ranks)
	const tolerance = "Scores within 1e-05 + 0.0001·"
	assert.Contains(t, o.stdout, tolerance)
	compare := []string{"compare", ranks, ranks, "--data", "umls", "--format", "latex"}
	o = succeed(t, compare...)
	assert.Contains(t, o.stdout, tolerance)
	assert.Contains(t, strings.Join(strings.Fields(o.stderr), " "), "has ranks of --protocol libkge, whose ties are "+
		"rounded, but the comparison has realistic ties: add --ties rounded to compare as libkge does")
	assert.NotContains(t, succeed(t, append(compare, "--ties", "rounded")...).stderr, "--ties")
}
