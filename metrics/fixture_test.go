package metrics

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model/checkpoint"
	"github.com/mquine/mquine/rank"
)

// fixture returns the folder of a checkpoint with ranks that another program computed.
func fixture(t *testing.T, name string) string {
	t.Helper()
	root := os.Getenv("MQUINE_FIXTURES")
	if root == "" {
		t.Skip("MQUINE_FIXTURES does not name the folder of the reference checkpoints")
	}
	dir := filepath.Join(root, name)
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("MQUINE_FIXTURES: %v", err)
	}
	return dir
}

func TestMetricsOfFixture(t *testing.T) {
	dir := fixture(t, "mquine-umls")
	text, err := os.ReadFile(filepath.Join(dir, "ranks.tsv"))
	require.NoError(t, err)
	g := &kg.Graph{Entities: kg.NewVocabulary(), Relations: kg.NewVocabulary()}
	ranks, filters, err := ReadRanks("ranks.tsv", bytes.NewReader(text), g.Entities, g.Relations)
	require.NoError(t, err)
	require.Equal(t, []rank.Filter{rank.None, rank.Train, rank.All}, filters)

	var again bytes.Buffer
	require.NoError(t, WriteRanks(&again, g, filters, ranks, false))
	require.True(t, bytes.Equal(text, again.Bytes()), "the file is written again byte for byte")

	var want struct {
		Metrics map[string]struct {
			N      int     `json:"n"`
			MR     float64 `json:"mr"`
			MRR    float64 `json:"mrr"`
			Hits1  float64 `json:"hits@1"`
			Hits3  float64 `json:"hits@3"`
			Hits10 float64 `json:"hits@10"`
		} `json:"metrics"`
	}
	text, err = os.ReadFile(filepath.Join(dir, "metrics.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &want))
	require.Len(t, want.Metrics, 9)

	results, _, err := Summarize(
		t.Context(),
		ranks,
		SummaryOptions{Sides: rank.BothSides, Filters: filters, Hits: []int{1, 3, 10}},
	)
	require.NoError(t, err)
	checked := 0
	for _, r := range results {
		if r.Ties != rank.Realistic {
			continue
		}
		name := r.Side.String() + "/" + r.Filter.String()
		w, ok := want.Metrics[name]
		require.True(t, ok, name)
		assert.Equal(t, w.N, r.N, name)
		for i, pair := range [][2]float64{
			{w.MR, float64(r.MR)}, {w.MRR, float64(r.MRR)},
			{w.Hits1, float64(r.Hits[0].Share)}, {w.Hits3, float64(r.Hits[1].Share)},
			{w.Hits10, float64(r.Hits[2].Share)},
		} {
			assert.InEpsilon(t, pair[0], pair[1], 1e-12, "%s, metric %d", name, i)
		}
		assert.True(t, r.MRRCI[0] < r.MRR && r.MRR < r.MRRCI[1], name)
		checked++
	}
	assert.Equal(t, 9, checked)
}

// TestMetricsOfRotateRepository measures the ranks that the code of the RotatE repository printed,
// and compares the metrics, to six decimals, with the metrics that the code printed.
func TestMetricsOfRotateRepository(t *testing.T) {
	for _, name := range []string{"distmult", "complex", "transe", "rotate"} {
		dir := fixture(t, "rotate-repo-"+name+"-umls")
		ranks := readRotateRanks(t, filepath.Join(dir, "ranks.tsv"))
		text, err := os.ReadFile(filepath.Join(dir, "metrics.json"))
		require.NoError(t, err)
		var want struct {
			Printed map[string]float64 `json:"printed_by_tool"`
		}
		require.NoError(t, json.Unmarshal(text, &want))
		r := Measure(ranks, rank.BothSides, rank.All, rank.Optimistic, []int{1, 3, 10})
		for key, got := range map[string]float64{
			"MRR": float64(r.MRR), "MR": float64(r.MR),
			"HITS@1": float64(r.Hits[0].Share), "HITS@3": float64(r.Hits[1].Share), "HITS@10": float64(r.Hits[2].Share),
		} {
			assert.Equal(t, fmt.Sprintf("%.6f", want.Printed[key]), fmt.Sprintf("%.6f", got), "%s: %s", name, key)
		}
	}
}

// readRotateRanks reads the ranks of a fixture of the RotatE repository, as counts under filter
// all.
func readRotateRanks(t *testing.T, path string) []rank.Rank {
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	require.Equal(t, "side\thead\trelation\ttail\trank\tbetter\tequal_or_filled", lines[0])
	var ranks []rank.Rank
	for _, line := range lines[1:] {
		fields := strings.Split(line, "\t")
		printed, err := strconv.ParseInt(fields[4], 10, 32)
		require.NoError(t, err)
		r := rank.Rank{Side: kg.Tail}
		if fields[0] == kg.Head.String() {
			r.Side = kg.Head
		}
		r.Better[rank.All] = int32(printed - 1)
		ranks = append(ranks, r)
	}
	return ranks
}

// Under the protocol libkge, the ranks equal the ranks that LibKGE computed with its tolerance, both
// filtered and raw. A rank may differ only if float32 may put a candidate on the other side of an end
// of the tolerance, as the report says.
func TestRanksOfLibKGE(t *testing.T) {
	at := slices.IndexFunc(Protocols, func(p Protocol) bool { return p.Name == "libkge" })
	p := Protocols[at]
	type query struct {
		triple kg.Triple
		side   kg.Side
	}
	for _, name := range []string{"complex", "distmult", "transe", "rotate", "reciprocal-complex"} {
		dir := fixture(t, "libkge-"+name+"-umls")
		c, err := checkpoint.Open(t.Context(), dir)
		require.NoError(t, err)
		defer c.Close()
		g, err := kg.Open(t.Context(), "umls")
		if err != nil {
			t.Skipf("MQUINE_DATA: %v", err)
		}
		g, err = g.Relabel(c.Entities, c.Relations)
		require.NoError(t, err)
		r, err := rank.Run(t.Context(), c.Model, kg.NewIndex(g), g.Splits[kg.Test],
			rank.Options{Threads: 2, Tolerances: p.Tolerances()})
		require.NoError(t, err)
		report := &Report{}
		p.Apply(report, r)

		found := map[query]int{}
		for i, x := range r.Ranks {
			found[query{x.Triple, x.Side}] = i
		}
		text, err := os.ReadFile(filepath.Join(dir, "ranks.tsv"))
		require.NoError(t, err)
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		columns := strings.Split(lines[0], "\t")
		require.Len(t, lines, 1+len(r.Ranks))
		var differ [rank.NumFilters]int
		for _, line := range lines[1:] {
			fields := strings.Split(line, "\t")
			head, _ := g.Entities.ID(fields[1])
			relation, _ := g.Relations.ID(fields[2])
			tail, _ := g.Entities.ID(fields[3])
			q := query{triple: kg.Triple{Head: head, Relation: relation, Tail: tail}, side: kg.Tail}
			if fields[0] == "head" {
				q.side = kg.Head
			}
			i, known := found[q]
			require.True(t, known, "%s: %s", name, line)
			for f, column := range map[rank.Filter]string{rank.None: "rank_raw", rank.All: "rank_filtered"} {
				want, err := strconv.ParseFloat(fields[slices.Index(columns, column)], 64)
				require.NoError(t, err)
				if got := p.Ties.Rank(&p.Ranks(r)[i], f); got != want {
					differ[f]++
					assert.NotEqual(t, r.Near[0][i].Equal[f], r.Near[2][i].Equal[f], "%s: %s, filter %v: rank %v", name,
						line, f, got)
				}
			}
		}
		t.Logf("%s: of %d ranks, %d differ raw and %d filtered; %+v", name, len(r.Ranks), differ[rank.None],
			differ[rank.All], report.Deviations)
	}
}
