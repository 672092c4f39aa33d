package metrics

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank"
)

func tinyReport() *Report {
	return &Report{
		Provenance: Provenance{
			Version: "v1.2.3", Revision: "abc+changes", Date: time.Date(2026, 11, 23, 1, 2, 3, 0, time.UTC),
			Command: "mquine eval 'a b'", Machine: Machine{CPU: "a processor <2 cores>", Tier: "avx2", Threads: 2},
			Checkpoint: Checkpoint{Path: "./ckpt", SHA256: "0f", Model: "mquine", Dim: 2},
			Data: Data{
				Name: "family", SHA256: "1e", Entities: 4, Relations: 5, Train: 12, Test: 4,
			},
			Bootstrap: bootstrapOf(ByQuery),
		},
		Split: "test", Candidates: 4, Protocol: "full", RankBounds: []int{1, 2, 3},
		Results: []Result{{
			Side: rank.BothSides, Filter: rank.All, Ties: rank.Realistic, N: 8, MRR: 0.75, MRRCI: [2]Number{0.5, 1},
			ClusterCount: ClusterCount{4, 3.5}, MR: 1.5, Median: 1.5,
			GMR: 1.25, AMR: 0.75, AMRI: 0.5, Hits: Hits{{1, 0.5}, {3, 1}, {10, 1}}, RankCounts: []int{4, 3, 1},
		}},
		Groups: []Result{
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
		Worst: []RankedQuery{
			{Side: "head", Head: "ann", Relation: "likes", Tail: `a "quoted" & <strange> label`, Rank: 3.5},
		},
		Best: []RankedQuery{
			{Side: "tail", Head: "Q1", Relation: "P2", Tail: "bob", Rank: 1, HeadLabel: "Ann", RelationLabel: "likes"},
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

// Other programs rely on the schema, which consists of the names, the nesting and the types of all
// fields.
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
		"schema", "provenance", "split", "candidates", "protocol", "rank_bounds", "results", "groups", "worst", "best",
		"timing", "queries", "unique_queries", "screen", "rescored", "dropped_terms", "peak_rss_bytes",
	}
	assert.ElementsMatch(t, required, keysOf(top))
	assert.Equal(t, "mquine.eval/2", top["schema"])
	assert.ElementsMatch(t, []string{"version", "revision", "date", "command", "machine", "checkpoint", "data",
		"bootstrap"}, keysOf(top["provenance"]))
	assert.ElementsMatch(t, []string{"load_s", "pack_s", "rank_s", "decide_s", "total_s"}, keysOf(top["timing"]))
	assert.Equal(t, map[string]any{"int8": 5., "float64": 3., "reference": 1.}, top["rescored"])

	list := top["results"].([]any)
	require.Len(t, list, 27)
	protocols := map[[3]string]bool{}
	for _, item := range list {
		m := item.(map[string]any)
		assert.ElementsMatch(
			t,
			[]string{"side", "filter", "ties", "n", "mrr", "mrr_ci_low", "mrr_ci_high", "clusters",
				"effective_clusters", "mr", "median", "gmr", "amr", "amri", "hits@1", "hits@3", "rank_counts"},
			keysOf(m),
		)
		protocols[[3]string{m["side"].(string), m["filter"].(string), m["ties"].(string)}] = true
	}
	assert.Len(t, protocols, 27)
	assert.True(t, protocols[[3]string{"both", "all", "realistic"}])
	for _, item := range top["groups"].([]any) {
		assert.ElementsMatch(t, []string{"by", "group", "side", "filter", "ties", "n", "mrr", "mrr_ci_low",
			"mrr_ci_high", "clusters", "effective_clusters", "mr", "median", "gmr", "amr", "amri", "hits@1", "hits@3",
		}, keysOf(item))
		if m := item.(map[string]any); m["n"] == 0. {
			assert.Nil(t, m["mrr"])
			assert.Nil(t, m["mrr_ci_low"])
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

	assert.ErrorContains(
		t,
		json.Unmarshal([]byte(`{"results":[{"hits@x":1}]}`), &back),
		`the cut-off "x" of Hits@k is not a whole number`,
	)
	assert.ErrorContains(t, json.Unmarshal([]byte(`{"results":[[1]]}`), &back), "is not an object")
	assert.ErrorContains(t, json.Unmarshal([]byte(`{"results":[{"ties":"random"}]}`), &back), "unknown tie rule")
	assert.EqualError(t, json.Unmarshal([]byte(`{"schema":"mquine.eval/3"}`), &back),
		`the report has schema "mquine.eval/3", but this mquine reads mquine.eval/2 and mquine.eval/1`)
}

// TestReportReadsFirstVersion checks that a report can be read from a file of the first version.
func TestReportReadsFirstVersion(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "report-1.json"))
	require.NoError(t, err)
	var r Report
	require.NoError(t, json.Unmarshal(text, &r))
	want := tinyReport()
	p := want.Provenance
	assert.Equal(t, Provenance{
		Machine: p.Machine, Checkpoint: Checkpoint{SHA256: "0f", Model: "mquine", Dim: 2}, Data: Data{Name: "family"},
		Bootstrap: p.Bootstrap,
	}, r.Provenance)
	want.Results[0].RankCounts = nil
	assert.Equal(t, want.Results, r.Results)
	assert.Equal(t, []string{"likes", "unused"}, []string{r.Groups[0].Group, r.Groups[1].Group})
	assert.Equal(t, want.Groups[0].Hits, r.Groups[0].Hits)
	assert.True(t, math.IsNaN(float64(r.Groups[1].Hits[0].Share)))
	assert.True(t, math.IsNaN(float64(r.Groups[0].MR)), "groups of the first version have no mean rank")
	assert.Equal(t, want.Timing, r.Timing)

	// The first reports lack ci_by. They resampled triples.
	var old Report
	require.NoError(t, json.Unmarshal([]byte(`{"schema":"mquine.eval/1",
		"results":[{"side":"both","mrr":0.5,"mrr_ci":[0.25,0.75],"hits":{"1":0}}]}`), &old))
	assert.Equal(t, ByTriple, old.Provenance.Bootstrap.By)
	assert.Equal(t, [2]Number{0.25, 0.75}, old.Results[0].MRRCI)
}

// A weight of the inverse triple is one of the parameters that determine the scores.
func TestParametersOfCheckpoint(t *testing.T) {
	c := Checkpoint{SHA256: "0f"}
	assert.Equal(t, "0f", c.Parameters())
	c.InverseWeight = 0.25
	assert.Equal(t, "0f, inverse weight 0.25", c.Parameters())
	both := Checkpoint{Members: []EnsembleMember{
		{Weight: 1, Checkpoint: c}, {Weight: 0.5, Checkpoint: Checkpoint{SHA256: "1e"}},
	}}
	assert.Equal(t, "1 0f, inverse weight 0.25 + 0.5 1e", both.Parameters())
}

// Identifiers such as <http://example.org/a&b> stay readable in JSON.
func TestJSONKeepsIdentifiers(t *testing.T) {
	const iri = "<http://example.org/a&b>"
	r := &Report{Groups: []Result{{By: "relation", Group: iri}}}
	assert.Contains(t, write(t, r, JSON, TableOptions{}), `"`+iri+`"`)
}

func TestEmptyReportHasLists(t *testing.T) {
	var text bytes.Buffer
	require.NoError(t, new(Report).WriteJSON(&text))
	for _, field := range []string{`"results": []`, `"groups": []`} {
		assert.Contains(t, text.String(), field)
	}
}

func TestCountQueries(t *testing.T) {
	var ranks []rank.Rank
	for _, ids := range [][3]int32{{0, 1, 2}, {0, 1, 3}, {3, 1, 2}, {0, 2, 2}, {0, 1, 2}} {
		triple := kg.Triple{Head: ids[0], Relation: ids[1], Tail: ids[2]}
		for _, side := range []kg.Side{kg.Tail, kg.Head, kg.Relation} {
			ranks = append(ranks, rank.Rank{Triple: triple, Side: side})
		}
	}
	// (0, 1, ?), (3, 1, ?), (0, 2, ?); (?, 1, 2), (?, 1, 3), (?, 2, 2); (0, ?, 2), (0, ?, 3), (3, ?, 2)
	assert.Equal(t, 9, countQueries(ranks))
	assert.Equal(t, 4, countQueries(ranks[2:6]))
}
