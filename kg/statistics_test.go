package kg

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// describeGraph returns the statistics of g.
func describeGraph(t *testing.T, g *Graph) Statistics {
	t.Helper()
	s, err := Describe(t.Context(), g, newIndex(t, g))
	require.NoError(t, err)
	return s
}

func TestDescribe(t *testing.T) {
	g := &Graph{Name: "small", Entities: numberedLabels(6), Relations: numberedLabels(3)}
	g.Splits[Train] = []Triple{{0, 0, 1}, {0, 0, 2}, {0, 0, 1}, {3, 1, 3}}
	g.Splits[Test] = []Triple{{0, 0, 1}, {1, 1, 4}, {2, 0, 2}, {2, 0, 2}, {2, 0, 0}}
	got, err := json.Marshal(describeGraph(t, g))
	require.NoError(t, err)
	assert.JSONEq(t, `{
		"name": "small", "entities": 6, "relations": 3, "distinct_triples": 6,
		"splits": [
			{"split": "train", "triples": 4, "repeats": 1, "loops": 1, "tail_queries": 2, "head_queries": 3,
			 "triples_with_unseen_entity": 0, "categories": {"1-N": 3, "1-1": 1}},
			{"split": "test", "triples": 5, "repeats": 1, "loops": 2, "tail_queries": 3, "head_queries": 4,
			 "triples_with_unseen_entity": 1, "categories": {"1-N": 4, "1-1": 1}}
		],
		"shared_triples": {"train_valid": 0, "train_test": 1, "valid_test": 0},
		"training": {
			"unseen_entities": 2, "unseen_relations": 1, "relation_categories": {"1-1": 2, "1-N": 1},
			"degrees": {"max": 2, "median": 1, "mean": 1, "top_5_percent_share": 0.3333333333333333}
		}
	}`, string(got))
}

func TestDescribeWithoutTraining(t *testing.T) {
	g := &Graph{Name: "held out", Entities: numberedLabels(2), Relations: numberedLabels(1)}
	g.Splits[Test] = []Triple{{0, 0, 1}}
	got, err := json.Marshal(describeGraph(t, g))
	require.NoError(t, err)
	assert.JSONEq(t, `{
		"name": "held out", "entities": 2, "relations": 1, "distinct_triples": 1,
		"splits": [{"split": "test", "triples": 1, "repeats": 0, "loops": 0, "tail_queries": 1, "head_queries": 1}],
		"shared_triples": {"train_valid": 0, "train_test": 0, "valid_test": 0}
	}`, string(got))
}

func TestDegrees(t *testing.T) {
	assert.Equal(t, Degrees{}, describeDegrees(nil))
	assert.Equal(t, Degrees{}, describeDegrees([]int{0, 0}))
	forty := make([]int, 40)
	for i := range forty {
		forty[(i*7)%40] = i + 1
	}
	assert.Equal(t, Degrees{Max: 40, Median: 20.5, Mean: 20.5, TopShare: 79. / 820}, describeDegrees(forty))
}

// Degrees count each triple of a split once, also if it is repeated, a loop, or in another split, too.
func TestDegreesAgainstPlainCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t)
		x, err := NewIndex(context.Background(), g)
		require.NoError(t, err)
		for s := range NumSplits {
			want, seen := make([]int, g.Entities.Len()), map[Triple]bool{}
			for _, triple := range g.Splits[s] {
				if seen[triple] {
					continue
				}
				seen[triple] = true
				want[triple.Head]++
				if triple.Tail != triple.Head {
					want[triple.Tail]++
				}
			}
			require.Equal(t, want, x.Degrees(s))
		}
	})
}

// The statistics of YAGO3-10's degrees equal the published figures: one entity has 61,044 of the
// 2,158,080 heads and tails of training triples, and the top 5% of the entities have 42%.
func TestDegreesOfYAGO(t *testing.T) {
	path := filepath.Join(realData(t), "yago3-10", "train_entity_degree.tsv.gz")
	if _, err := os.Stat(path); err != nil {
		t.Skip("the degrees of YAGO3-10 are missing: ", err)
	}
	var degrees []int
	require.NoError(t, newOpening().readFile(t.Context(), path, func(l *lines) error {
		var fields [2][]byte
		return l.records(func(line []byte) error {
			if err := splitFields(line, fields[:], "entity and degree"); err != nil {
				return err
			}
			if d, err := strconv.Atoi(string(fields[1])); err == nil {
				degrees = append(degrees, d)
			}
			return nil
		})
	}))
	require.Len(t, degrees, 123_182)
	got := describeDegrees(degrees)
	assert.Equal(t, 61_044, got.Max)
	assert.InDelta(t, 2_158_080./123_182, got.Mean, 1e-9)
	assert.InDelta(t, 0.42, got.TopShare, 0.005)
}
