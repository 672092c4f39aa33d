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

// TestProtocolRotate compares the metrics with the output of the RotatE repository's code, digit by
// digit.
func TestProtocolRotate(t *testing.T) {
	fixtures := os.Getenv("MQUINE_FIXTURES")
	if fixtures == "" || os.Getenv("MQUINE_DATA") == "" {
		t.Skip(
			"MQUINE_FIXTURES and MQUINE_DATA do not name the folders of the reference checkpoints and of the data sets")
	}
	for _, name := range []string{"distmult", "complex", "transe", "rotate"} {
		dir := filepath.Join(fixtures, "rotate-repo-"+name+"-umls")
		text, err := os.ReadFile(filepath.Join(dir, "metrics.json"))
		require.NoError(t, err)
		var want struct {
			Printed map[string]float64 `json:"printed_by_tool"`
		}
		require.NoError(t, json.Unmarshal(text, &want))
		file := filepath.Join(t.TempDir(), "report.json")
		o := succeed(t, "eval", dir, "--data", "umls", "--protocol", "rotate", "--json", file)
		assert.Contains(t, o.stdout, "Protocol rotate: both sides in one average, filter all, optimistic ties")
		var report struct {
			Protocol string
			Results  []struct {
				Side, Filter, Ties string
				MRR, MR            float64
				Hits               map[string]float64
			}
		}
		require.NoError(t, json.Unmarshal(must1(os.ReadFile(file)), &report))
		assert.Equal(t, "rotate", report.Protocol)
		require.Len(t, report.Results, 1)
		r := report.Results[0]
		assert.Equal(t, []string{"both", "all", "optimistic"}, []string{r.Side, r.Filter, r.Ties})
		for key, got := range map[string]float64{
			"MRR": r.MRR, "MR": r.MR, "HITS@1": r.Hits["1"], "HITS@3": r.Hits["3"], "HITS@10": r.Hits["10"],
		} {
			assert.Equal(t, fmt.Sprintf("%.6f", want.Printed[key]), fmt.Sprintf("%.6f", got), "%s: %s", name, key)
		}
	}
}
