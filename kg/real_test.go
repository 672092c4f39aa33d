package kg

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// opened caches the benchmark data sets that tests have opened. Tests do not change them.
var opened = map[string]*Graph{}

// realDataset opens a benchmark data set in MQUINE_DATA. It skips the test if the data set is
// missing.
func realDataset(tb testing.TB, name string) *Graph {
	tb.Helper()
	dir := filepath.Join(realData(tb), name)
	if _, err := os.Stat(dir); err != nil {
		tb.Skipf("%s is missing: fetch it with mquine data get %s", dir, name)
	}
	if opened[name] == nil {
		g, err := Open(tb.Context(), name)
		require.NoError(tb, err)
		opened[name] = g
	}
	return opened[name]
}

func realData(tb testing.TB) string {
	tb.Helper()
	dir := os.Getenv("MQUINE_DATA")
	if dir == "" {
		tb.Skip("set MQUINE_DATA to the folder of the benchmark data sets to run this test")
	}
	return dir
}

// The statistics of every complete data set equal the counts, loops and unseen entities in the
// manifest, which another program found.
func TestRealDatasetsHaveTheirPublishedCounts(t *testing.T) {
	type properties struct {
		Loops  map[string]int `json:"loops"`
		Unseen map[string]int `json:"triples_with_entity_unseen_in_train"`
	}
	var manifest struct {
		Datasets map[string]struct {
			Complete      bool           `json:"complete"`
			Counts        map[string]int `json:"counts"`
			TrainEntities int            `json:"train_entities"`
			Properties    properties     `json:"properties"`
		} `json:"datasets"`
	}
	file, err := os.ReadFile(filepath.Join(realData(t), "MANIFEST.json"))
	if err != nil {
		t.Skipf("the folder of the data sets has no manifest: %v", err)
	}
	require.NoError(t, json.Unmarshal(file, &manifest))

	complete := 0
	for name, want := range manifest.Datasets {
		if !want.Complete {
			continue
		}
		complete++
		t.Run(name, func(t *testing.T) {
			got := describeGraph(t, realDataset(t, name))
			assert.Equal(t, want.Counts["entities"], got.Entities)
			assert.Equal(t, want.Counts["relations"], got.Relations)
			require.Len(t, got.Splits, 3)
			assert.Equal(t, want.TrainEntities, got.Entities-got.Training.UnseenEntities)
			for _, s := range got.Splits {
				split := s.Split.String()
				assert.Equal(t, want.Counts[split], s.Triples, split)
				assert.Equal(t, want.Properties.Loops[split], s.Loops, split)
				assert.Equal(t, want.Properties.Unseen[split], *s.Unseen, split)
			}
			assert.Zero(t, got.Shared)
		})
	}
	assert.Equal(t, 12, complete)
}

// Data sets without a training split open, with their vocabulary if they have one.
func TestIncompleteRealDatasetsOpen(t *testing.T) {
	for name, want := range map[string]struct{ entities, test int }{
		"codex-l":  {77_951, 30_622}, // listed in entities.txt.gz
		"yago3-10": {14_369, 5_000},
	} {
		t.Run(name, func(t *testing.T) {
			g := realDataset(t, name)
			if g.Has(Train) {
				t.Skip("the data set has its training split")
			}
			assert.Equal(t, want.entities, g.Entities.Len())
			assert.Len(t, g.Splits[Test], want.test)
			assert.Equal(t, []string{`there is no split "train"`}, g.Notes)
		})
	}
}

// The longest lists of known answers have the lengths that the evaluation protocols of other tools
// state.
func TestLongestKnownAnswersOfRealData(t *testing.T) {
	for name, want := range map[string][2]int{
		"fb15k-237": {Tail: 954, Head: 4364},
		"wn18rr":    {Tail: 473, Head: 510},
		"fb15k":     {Tail: 4365, Head: 4365},
		"wn18":      {Tail: 510, Head: 510},
	} {
		t.Run(name, func(t *testing.T) {
			g := realDataset(t, name)
			x := newIndex(t, g)
			var longest [2]int
			for _, triples := range g.Splits {
				for _, triple := range triples {
					for _, side := range []Side{Tail, Head} {
						q, _ := triple.Query(side)
						longest[side] = max(longest[side], len(x.Answers(q).Entities))
					}
				}
			}
			assert.Equal(t, want, longest)
		})
	}
}

// The numbers of test triples by category (LibKGE's rule) and of distinct queries of the test split
// equal the results of an independent count.
func TestCategoriesAndQueriesOfRealData(t *testing.T) {
	type categories [NumCategories]int
	type counts struct {
		categories
		tailQuery, headQuery int
	}
	for name, want := range map[string]counts{
		"fb15k-237": {categories{192, 1293, 4508, 14473}, 13737, 9113},
		"wn18rr":    {categories{42, 475, 1487, 1130}, 3022, 2694},
		"fb15k":     {categories{989, 5636, 9317, 43129}, 35827, 31189},
		"wn18":      {categories{42, 1847, 1981, 1130}, 4550, 4478},
	} {
		t.Run(name, func(t *testing.T) {
			test := describeGraph(t, realDataset(t, name)).Splits[Test]
			got := counts{tailQuery: test.TailQueries, headQuery: test.HeadQueries}
			for category, n := range test.Categories {
				got.categories[category] = n
			}
			assert.Equal(t, want, got)
		})
	}
}
