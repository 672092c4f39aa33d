package metrics

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/fixture"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank"
)

func TestMetricsOfFixture(t *testing.T) {
	dir := fixture.Dir(t, "mquine-umls")
	text, err := os.ReadFile(filepath.Join(dir, "ranks.tsv"))
	require.NoError(t, err)
	g := &kg.Graph{Entities: kg.NewVocabulary(), Relations: kg.NewVocabulary()}
	file, err := ReadRanks("ranks.tsv", bytes.NewReader(text), math.MaxInt, g.Entities, g.Relations)
	require.NoError(t, err)
	require.Equal(t, []rank.Filter{rank.None, rank.Train, rank.All}, file.Filters)

	var again bytes.Buffer
	require.NoError(t, WriteRanks(&again, g, *file))
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
		file.Ranks,
		SummaryOptions{Sides: rank.BothSides, Filters: file.Filters, Hits: []int{1, 3, 10}},
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
