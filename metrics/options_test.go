package metrics

import (
	"bytes"
	"io"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/kgtest"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank"
)

// Option values that would cause a panic or a meaningless result are errors.
func TestOptionsAreChecked(t *testing.T) {
	g := familyGraph()
	ranks, all := familyRanks(g), []rank.Filter{rank.All}
	const (
		noSides  = "Sides(4) is not a selection of sides: choose tail, head, both or relation"
		noFilter = "Filter(3) is not a filter: choose none, train or all"
		noTies   = "Ties(4) is not a tie rule: choose optimistic, pessimistic, realistic or rounded"
		noUnit   = "Clustering(4) is not a unit for intervals: choose triple, query, entity or relation"
		threads  = "-1 threads: set Threads to at least 1, or to 0 for all processors"
		sides    = "none of the ranks is on side relation: select the sides of the ranks"
		noHits   = "the cut-off 0 of Hits@k is not a rank: choose at least 1"
	)
	for want, o := range map[string]SummaryOptions{
		"a summary needs a filter: give at least one": {},
		noSides:  {Sides: 4, Filters: all},
		noFilter: {Filters: []rank.Filter{rank.None, 3}},
		noTies:   {Filters: all, Ties: []rank.Ties{4}},
		noUnit:   {Filters: all, CIBy: 4},
		noHits:   {Filters: all, Hits: []int{0}},
		threads:  {Filters: all, Threads: -1},
		sides:    {Filters: all, Sides: rank.RelationSide},
	} {
		_, _, err := Summarize(t.Context(), ranks, o)
		assert.EqualError(t, err, want)
		assert.EqualError(t, new(Report).Summarize(t.Context(), ranks, o), want)
	}
	for want, o := range map[string]CompareOptions{
		"cannot list -1 changed queries: choose at least 0": {Changed: -1},
		noSides:  {Sides: 4},
		noFilter: {Filter: 3},
		noTies:   {Ties: 4},
		noUnit:   {CIBy: 4},
		noHits:   {Hits: []int{0}},
		threads:  {Threads: -1},
		sides:    {Sides: rank.RelationSide},
		"the cut-off 10 of Hits@k occurs twice: give it once": {Hits: []int{10, 10}},
	} {
		_, err := Compare(t.Context(), ranks, ranks, o)
		assert.EqualError(t, err, want)
		_, err = CompareAll(t.Context(), g, kg.Test, []ComparedCheckpoint{{Name: "alone", Ranks: ranks}}, o)
		assert.EqualError(t, err, want)
	}
	for want, o := range map[string]SummaryOptions{
		noSides: {Sides: 4}, noFilter: {Filters: []rank.Filter{3}}, noHits: {Hits: []int{0}},
	} {
		_, err := Limits(t.Context(), kgtest.Index(t, g), g.Splits[kg.Test], nil, o.Sides, o.Filters, o.Hits)
		assert.EqualError(t, err, want)
	}
}

// Measure returns undefined metrics for arguments that are not constants of package rank, and for cut-offs
// below 1.
func TestMeasureArguments(t *testing.T) {
	ranks, ks := familyRanks(familyGraph()), []int{0, -4, 1, 1}
	isNaN := func(n Number) bool { return math.IsNaN(float64(n)) }
	for _, r := range []Result{
		Measure(ranks, 9, rank.All, rank.Realistic, ks),
		Measure(ranks, rank.BothSides, 9, rank.Realistic, ks),
		Measure(ranks, rank.BothSides, rank.All, 9, ks),
	} {
		assert.Zero(t, r.N)
		for _, v := range []Number{r.MRR, r.MR, r.Median, r.GMR, r.AMR, r.AMRI, r.Hits[0].Share, r.Hits[2].Share} {
			assert.True(t, isNaN(v), "%v", r)
		}
	}
	r := Measure(ranks, rank.BothSides, rank.All, rank.Realistic, ks)
	assert.Equal(t, len(ranks), r.N)
	assert.True(t, isNaN(r.Hits[0].Share) && isNaN(r.Hits[1].Share))
	assert.EqualValues(t, 0.5, r.Hits[2].Share)
	assert.Equal(t, r.Hits[2], r.Hits[3])
	for _, r := range Hits(Measure(nil, rank.TailSide, rank.All, rank.Realistic, ks).Hits) {
		assert.True(t, isNaN(r.Share))
	}
}

func TestCompareAllNeedsCheckpoints(t *testing.T) {
	_, err := CompareAll(t.Context(), familyGraph(), kg.Test, nil, CompareOptions{})
	assert.EqualError(t, err, "a comparison needs a base: give at least one checkpoint")
}

func TestFitEnsembleRefuses(t *testing.T) {
	g := familyGraph()
	m, err := model.Random(t.Context(), model.Config{
		Model: "distmult", Dim: 2, Entities: g.Entities.Len(), Relations: g.Relations.Len(),
	}, 1)
	require.NoError(t, err)
	fit := func(members []model.Member, sides []kg.Side) error {
		_, _, err := FitEnsemble(t.Context(), members, kgtest.Index(t, g), g.Splits[kg.Test],
			FitOptions{Rank: rank.Options{Sides: sides}})
		return err
	}
	one := []model.Member{{Model: m}}
	assert.EqualError(t, fit(nil, nil), "metrics: fitting weights needs members: give at least one")
	for _, sides := range [][]kg.Side{{kg.Tail}, {kg.Head}} {
		assert.EqualError(t, fit(one, sides),
			"metrics: fitting weights needs both sides: leave out the sides, or give both")
	}
	assert.NoError(t, fit(one, []kg.Side{kg.Head, kg.Tail}))
	assert.NoError(t, fit(one, []kg.Side{}))
}

// A table cannot list a negative number of groups. CSV and JSON ignore the options of tables.
func TestNegativeTopRefused(t *testing.T) {
	for _, r := range []interface {
		Write(w io.Writer, f Format, o TableOptions) error
	}{familyReport(t), familyComparison(t, "other")} {
		for _, f := range []Format{PlainText, Markdown, LaTeX} {
			var out bytes.Buffer
			assert.EqualError(t, r.Write(&out, f, TableOptions{Top: -1}),
				"a table cannot list -1 groups: choose at least 0, where 0 means all")
			assert.Empty(t, out.String())
		}
		assert.NoError(t, r.Write(io.Discard, CSV, TableOptions{Top: -1}))
		assert.NoError(t, r.Write(io.Discard, JSON, TableOptions{Top: -1}))
	}
}

// An empty list of tie rules means the same as nil.
func TestSummarizeEmptyTies(t *testing.T) {
	ranks := familyRanks(familyGraph())
	o := SummaryOptions{Sides: rank.BothSides, Filters: []rank.Filter{rank.All}}
	want, _, err := Summarize(t.Context(), ranks, o)
	require.NoError(t, err)
	o.Ties = []rank.Ties{}
	got, _, err := Summarize(t.Context(), ranks, o)
	require.NoError(t, err)
	require.Len(t, got, 3*3, "three selections of sides under three rules")
	for i := range got {
		assert.Equal(t, want[i].MRR, got[i].MRR)
	}
}
