package metrics

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/rank"
)

func tinyReport() *Report {
	return &Report{
		Data: "family", Split: "test", Candidates: 4, Protocol: "full", CIBy: ByQuery,
		Model: "mquine", Dim: 2, CheckpointSHA256: "0f",
		Tier: "avx2", Threads: 2, Machine: "a processor <2 cores>",
		Results: []Result{{
			Side: rank.BothSides, Filter: rank.All, Ties: rank.Realistic, N: 8, MRR: 0.75, MRRCI: [2]Number{0.5, 1},
			ClusterCount: ClusterCount{4, 3.5}, MR: 1.5, Median: 1.5,
			GMR: 1.25, AMR: 0.75, AMRI: 0.5, Hits: Hits{{1, 0.5}, {3, 1}, {10, 1}},
		}},
		Groups: []GroupResult{
			{
				By:     "relation",
				Group:  "likes",
				Side:   rank.BothSides,
				Filter: rank.All,
				Ties:   rank.Realistic,
				N:      4,
				MRR:    0.75,
				MRRCI:  [2]Number{0.5, 1},
				Hits:   Hits{{1, 0.5}},
			},
			{By: "relation", Group: "unused", Side: rank.BothSides, Filter: rank.All, Ties: rank.Realistic,
				MRR: undefined, MRRCI: [2]Number{undefined, undefined},
				ClusterCount: ClusterCount{Effective: undefined},
				Hits:         Hits{{1, undefined}}},
		},
		Queries: 8, UniqueQueries: 7, Screen: "int8", Rescored: rank.Rescored{Int8: 5, Float64: 3, Reference: 1},
		Timing:       Timing{Load: 0.25, Pack: 0.5, Rank: 1.5, Total: 2.5},
		PeakRSSBytes: 1 << 20,
	}
}

func TestReportGolden(t *testing.T) {
	var got bytes.Buffer
	require.NoError(t, tinyReport().WriteJSON(&got))
	want, err := os.ReadFile(filepath.Join("testdata", "report.json"))
	require.NoError(t, err)
	assert.Equal(t, string(want), got.String())
}

// Other programs rely on the schema: the names, the nesting and the types of all fields.
func TestReportSchema(t *testing.T) {
	results, groups := familySummary(t, "relation", "category")
	r := tinyReport()
	r.Results, r.Groups = results, groups
	var text bytes.Buffer
	require.NoError(t, r.WriteJSON(&text))

	var top map[string]any
	require.NoError(t, json.Unmarshal(text.Bytes(), &top))
	keysOf := func(m any) (keys []string) {
		for k := range m.(map[string]any) {
			keys = append(keys, k)
		}
		return keys
	}
	required := []string{
		"schema", "results", "groups", "timing", "queries", "unique_queries", "screen", "rescored", "dropped_terms",
		"peak_rss_bytes", "tier", "threads",
		"machine", "model", "dim", "data", "split", "candidates", "protocol", "ci_by", "checkpoint_sha256",
	}
	assert.ElementsMatch(t, required, keysOf(top))
	assert.Equal(t, "mquine.eval/1", top["schema"])
	assert.ElementsMatch(t, []string{"load_s", "pack_s", "rank_s", "decide_s", "total_s"}, keysOf(top["timing"]))
	assert.Equal(t, map[string]any{"int8": 5., "float64": 3., "reference": 1.}, top["rescored"])

	list := top["results"].([]any)
	require.Len(t, list, 27)
	protocols := map[[3]string]bool{}
	for _, item := range list {
		m := item.(map[string]any)
		assert.ElementsMatch(
			t,
			[]string{"side", "filter", "ties", "n", "mrr", "mrr_ci", "clusters", "effective_clusters",
				"mr", "median", "gmr", "amr", "amri", "hits"},
			keysOf(m),
		)
		assert.Len(t, m["mrr_ci"], 2)
		assert.ElementsMatch(t, []string{"1", "3"}, keysOf(m["hits"]))
		protocols[[3]string{m["side"].(string), m["filter"].(string), m["ties"].(string)}] = true
	}
	assert.Len(t, protocols, 27)
	assert.True(t, protocols[[3]string{"both", "all", "realistic"}])
	for _, item := range top["groups"].([]any) {
		assert.ElementsMatch(t, []string{"by", "group", "side", "filter", "ties", "n", "mrr", "mrr_ci",
			"clusters", "effective_clusters", "hits"}, keysOf(item))
		if m := item.(map[string]any); m["n"] == 0. {
			assert.Nil(t, m["mrr"])
			assert.Equal(t, []any{nil, nil}, m["mrr_ci"])
		}
	}

	r.FMAGFLOPSAll, r.Share, r.GtermsAll, r.ComparisonShare = 100, 0.75, 50, 0.75
	text.Reset()
	require.NoError(t, r.WriteJSON(&text))
	require.NoError(t, json.Unmarshal(text.Bytes(), &top))
	assert.ElementsMatch(
		t,
		append(required, "fma_gflops_all", "share", "comparison_gterms_all", "comparison_share"),
		keysOf(top),
	)
}

func TestReportReadsBack(t *testing.T) {
	var text, again bytes.Buffer
	require.NoError(t, tinyReport().WriteJSON(&text))
	var back Report
	require.NoError(t, json.Unmarshal(text.Bytes(), &back))
	assert.Equal(t, Hits{{1, 0.5}, {3, 1}, {10, 1}}, back.Results[0].Hits)
	require.NoError(t, back.WriteJSON(&again))
	assert.Equal(t, text.String(), again.String())

	// Reports of earlier versions lack ci_by. They resampled triples.
	var old Report
	require.NoError(t, json.Unmarshal([]byte(`{"schema":"mquine.eval/1",
		"results":[{"side":"both","mrr":0.5,"mrr_ci":[0.25,0.75],"hits":{"1":0}}]}`), &old))
	assert.Equal(t, ByTriple, old.CIBy)
	assert.Equal(t, [2]Number{0.25, 0.75}, old.Results[0].MRRCI)

	assert.ErrorContains(
		t,
		json.Unmarshal([]byte(`{"results":[{"hits":{"x":1}}]}`), &back),
		`the cut-off "x" is not a whole number`,
	)
	assert.ErrorContains(t, json.Unmarshal([]byte(`{"results":[{"hits":[1]}]}`), &back), "is not an object of shares")
	assert.ErrorContains(t, json.Unmarshal([]byte(`{"results":[{"ties":"random"}]}`), &back), "unknown tie rule")
}

func TestEmptyReportHasLists(t *testing.T) {
	var text bytes.Buffer
	require.NoError(t, new(Report).WriteJSON(&text))
	for _, field := range []string{`"results": []`, `"groups": []`} {
		assert.Contains(t, text.String(), field)
	}
}
