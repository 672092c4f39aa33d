package metrics

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kg"
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
	require.NoError(t, WriteRanks(&again, g, filters, ranks))
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
