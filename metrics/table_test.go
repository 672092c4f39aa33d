package metrics

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/rank"
)

// familyReport contains intervals only under filter all. Under the other filters, its four triples
// are too few.
func familyReport(t *testing.T) *Report {
	r := tinyReport()
	r.Results, r.Groups = familySummary(t, "relation", "category")
	for i := range r.Results {
		if r.Results[i].Filter == rank.All {
			r.Results[i].MRRCI = [2]Number{0.5, 1}
		}
	}
	for i := range r.Groups {
		if r.Groups[i].Group == "N-N" {
			r.Groups[i].MRRCI = [2]Number{0.625, 0.875}
		}
	}
	return r
}

// The first line can be computed by hand: ranks 1, 2, 3, 1 of 4.
func TestWriteTable(t *testing.T) {
	var out strings.Builder
	require.NoError(t, familyReport(t).WriteTable(&out, rank.Realistic))
	assert.Equal(t, `family test: mquine (d = 2), 4 candidates, realistic ties, filters none, train, all

filter  side  queries    MRR [95% CI by query]    MR  median   GMR     AMR    AMRI  Hits@1  Hits@3
none    tail        4    0.7083 [too few: 4.0]  1.75     1.5  1.57  0.7000  0.5000  0.5000  1.0000
none    head        4    0.5048 [too few: 4.0]  2.25       2  2.11  0.9000  0.1667  0.0000  0.7500
none    both        8    0.6065 [too few: 4.0]  2.00    1.75  1.82  0.8000  0.3333  0.2500  0.8750
train   tail        4    0.7083 [too few: 4.0]  1.75     1.5  1.57  0.7000  0.5000  0.5000  1.0000
train   head        4    0.5048 [too few: 4.0]  2.25       2  2.11  0.9000  0.1667  0.0000  0.7500
train   both        8    0.6065 [too few: 4.0]  2.00    1.75  1.82  0.8000  0.3333  0.2500  0.8750
all     tail        4  0.7500 [0.5000, 1.0000]  1.50     1.5  1.41  0.7500  0.5000  0.5000  1.0000
all     head        4  0.7500 [0.5000, 1.0000]  1.50     1.5  1.41  0.7500  0.5000  0.5000  1.0000
all     both        8  0.7500 [0.5000, 1.0000]  1.50     1.5  1.41  0.7500  0.5000  0.5000  1.0000

Rank: 1 + the candidates that score better than the target + half of the candidates with exactly its score.
Filter none: every entity is a candidate.
Filter train: other answers known from train are not candidates.
Filter all: other answers known from train, valid and test are not candidates.
Side both: the mean over the tail and the head query of each triple.
CI: percentile bootstrap, 1,000 resamples of the test triples in 4 clusters by query.
[too few: n]: no interval, because the effective number n of clusters is below 10.
`, out.String())
}

func TestTableByTriple(t *testing.T) {
	r := familyReport(t)
	r.Provenance.Bootstrap.By, r.Groups = ByTriple, nil
	r.Results = r.Results[len(r.Results)-1:]
	var out strings.Builder
	require.NoError(t, r.WriteTable(&out, rank.Realistic))
	assert.Contains(t, out.String(), " MRR [95% CI by triple] ")
	assert.True(t, strings.HasSuffix(out.String(), "CI: percentile bootstrap, 1,000 resamples of the test triples.\n"),
		out.String())
}

func TestWriteGroups(t *testing.T) {
	var out strings.Builder
	require.NoError(t, familyReport(t).WriteGroups(&out, rank.Pessimistic))
	assert.Equal(t, `
By relation: filter all, side both, pessimistic ties

relation  queries  MRR [95% CI by query]  tail MRR  head MRR  Hits@1  Hits@3
likes           4  0.7500 [too few: 2.0]    0.7500    0.7500  0.5000  1.0000
spouse          2  1.0000 [too few: 1.0]    1.0000    1.0000  1.0000  1.0000
childOf         2  0.5000 [too few: 1.0]    0.5000    0.5000  0.0000  1.0000

By category: filter all, side both, pessimistic ties

category  queries    MRR [95% CI by query]  tail MRR  head MRR  Hits@1  Hits@3
1-1             2    1.0000 [too few: 1.0]    1.0000    1.0000  1.0000  1.0000
N-1             2    0.5000 [too few: 1.0]    0.5000    0.5000  0.0000  1.0000
N-N             4  0.7500 [0.6250, 0.8750]    0.7500    0.7500  0.5000  1.0000
`, out.String())
}

func TestTableOfOneSide(t *testing.T) {
	g := familyGraph()
	keys, err := NewKeys(t.Context(), g, []string{"category"}, KeyOptions{})
	require.NoError(t, err)
	r := tinyReport()
	r.Results, r.Groups, err = Summarize(
		t.Context(),
		familyRanks(g)[:4],
		SummaryOptions{Sides: rank.TailSide, Filters: []rank.Filter{rank.Train}, Keys: keys},
	)
	require.NoError(t, err)
	var out strings.Builder
	require.NoError(t, r.WriteTable(&out, rank.Optimistic))
	require.NoError(t, r.WriteGroups(&out, rank.Optimistic))
	assert.Contains(t, out.String(), "optimistic ties, filters train\n")
	assert.NotContains(t, out.String(), "both")
	assert.NotContains(t, out.String(), "Hits")
	assert.Contains(t, out.String(), "By category: filter train, side tail, optimistic ties\n")
}

// A long list of relations is printed completely.
func TestGroupsAreAllPrinted(t *testing.T) {
	r := tinyReport()
	ranks := benchRanks(2000, 237, false, 7)
	labels := make([]string, 237)
	for i := range labels {
		labels[i] = "/relation/" + strings.Repeat("x", i%60) + strconv.Itoa(i)
	}
	key := Key{Name: "relation", Labels: labels, Group: func(r *rank.Rank) int { return int(r.Triple.Relation) }}
	var err error
	r.Results, r.Groups, err = Summarize(
		t.Context(),
		ranks,
		SummaryOptions{Sides: rank.BothSides, Filters: []rank.Filter{rank.None, rank.All}, Keys: []Key{key}},
	)
	require.NoError(t, err)
	var out strings.Builder
	require.NoError(t, r.WriteGroups(&out, rank.Realistic))
	assert.Equal(t, 237, strings.Count(out.String(), "\n/relation/"))
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("pipe is closed") }

func TestTableReportsWriteErrors(t *testing.T) {
	r := familyReport(t)
	assert.EqualError(t, r.WriteTable(brokenWriter{}, rank.Realistic), "pipe is closed")
	assert.EqualError(t, r.WriteGroups(brokenWriter{}, rank.Realistic), "pipe is closed")
}
