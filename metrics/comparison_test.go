package metrics

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank"
)

// familyComparison compares the ranks on the family graph with a copy that improves one rank, the
// rank of ann's spouse, from 2 to 1.
func familyComparison(t *testing.T, otherName string) *ComparisonReport {
	g := familyGraph()
	base := familyRanks(g)
	for i := range base {
		base[i].Equal = [rank.NumFilters]int32{}
	}
	other := slices.Clone(base)
	require.EqualValues(t, 1, base[1].Better[rank.All])
	other[1].Better[rank.All] = 0
	keys, err := NewKeys(
		t.Context(),
		g,
		[]string{"category", "z-case"},
		KeyOptions{Triples: g.Splits[kg.Test], Sides: rank.TailSide},
	)
	require.NoError(t, err)
	r, err := CompareAll(t.Context(), g, kg.Test, []ComparedCheckpoint{
		{Name: "base", Checkpoint: Checkpoint{"./base", "0f", "mquine", 4}, Ranks: base[:4]},
		{Name: otherName, Checkpoint: Checkpoint{Path: "ranks.tsv"}, Ranks: other[:4]},
	}, CompareOptions{
		Sides: rank.TailSide, Filter: rank.All, Ties: rank.Realistic, Hits: []int{1}, Keys: keys, Changed: 9,
		CIBy: ByQuery,
	})
	require.NoError(t, err)
	return r
}

func TestCompareAll(t *testing.T) {
	r := familyComparison(t, "other")
	assert.Equal(t, "paper", r.ZConvention)
	require.Len(t, r.Checkpoints, 2)
	for i, mrr := range []float64{0.75, 0.875} { // ranks 1 2 1 2, and 1 1 1 2
		require.Len(t, r.Checkpoints[i].Results, 1, "one tie rule")
		assert.EqualValues(t, mrr, r.Checkpoints[i].Results[0].MRR)
	}
	require.Len(t, r.Comparisons, 1)
	c := r.Comparisons[0]
	assert.Equal(t, []string{"base", "other"}, []string{c.Base, c.Other})
	assert.EqualValues(t, 0.125, c.Whole[0].Metrics[0].Difference)
	assert.Equal(t, []ChangedQuery{
		{Side: "tail", Head: "cal", Relation: "likes", Tail: "ann", BaseRank: 2, OtherRank: 1},
	}, c.Changed)

	text, err := json.Marshal(r)
	require.NoError(t, err)
	assert.Contains(
		t,
		string(text),
		`{"name":"base","path":"./base","sha256":"0f","model":"mquine","dim":4,"results":`,
	)
	assert.Contains(
		t,
		string(text),
		`{"name":"other","path":"ranks.tsv","results":`,
		"a ranks file does not tell the model",
	)

	r, err = CompareAll(t.Context(), familyGraph(), kg.Test, []ComparedCheckpoint{{Name: "alone"}}, CompareOptions{})
	require.NoError(t, err)
	text, err = json.Marshal(r)
	require.NoError(t, err)
	assert.Contains(t, string(text), `"comparisons":[]}`)
	assert.NotContains(t, string(text), "z_convention")
}

func TestComparisonTables(t *testing.T) {
	var out strings.Builder
	require.NoError(t, familyComparison(t, "other").Write(&out, PlainText))
	assert.Equal(t, `family test, filter all, realistic ties

checkpoint  side  queries  MRR [95% CI by query]    MR  Hits@1
base        tail        4  0.7500 [too few: 4.0]  1.50  0.5000
other       tail        4  0.8750 [too few: 4.0]  1.25  0.7500

other against base: family test, filter all, realistic ties

side  metric    base   other  difference [95% CI by query]       p  wins  losses  equal
tail  MRR     0.7500  0.8750         0.1250 [too few: 4.0]  1.0000     1       0      3
tail  MR        1.50    1.25          -0.25 [too few: 4.0]  1.0000     1       0      3
tail  Hits@1  0.5000  0.7500         0.2500 [too few: 4.0]  1.0000     1       0      3
`, strings.Join(strings.SplitAfter(out.String(), "\n")[:12], ""))
	assert.Contains(
		t,
		out.String(),
		"other against base: family test, filter all, realistic ties, by z-case (convention paper), side tail\n",
	)
	assert.True(t, strings.HasSuffix(out.String(), `, the queries that changed most

side  head  relation  tail  base rank  other rank
tail  cal   likes     ann           2           1
`))
}

// A name cannot break out of its line, its cell or the comment above a LaTeX table.
func TestComparisonOfHostileNames(t *testing.T) {
	const name = "[x](y)\n\\input{x}\x1b|"
	r := familyComparison(t, name)
	var out strings.Builder
	require.NoError(t, r.Write(&out, Markdown))
	assert.Contains(
		t,
		out.String(),
		"\n"+`\[x\](y)\\n\\input{x}\\x1b\| against base: family test, filter all, realistic ties`+
			"\n\n| side | metric |",
	)
	assert.Contains(t, out.String(), `| \[x\](y)\\n\\input{x}\\x1b\| | tail | 4 |`)

	out.Reset()
	require.NoError(t, r.Write(&out, LaTeX))
	assert.Contains(
		t,
		out.String(),
		"\n"+`% [x](y)\n\input{x}\x1b| against base: family test, filter all, realistic ties`+"\n\\begin{tabular}",
	)
	assert.Contains(
		t,
		out.String(),
		`{[}x{]}(y)\textbackslash{}n\textbackslash{}input\{x\}\textbackslash{}x1b| & tail & 4`,
	)

	out.Reset()
	require.NoError(t, r.Write(&out, CSV))
	records, err := csv.NewReader(strings.NewReader(out.String())).ReadAll()
	require.NoError(t, err)
	require.Len(t, records, 1+3*(1+3+1), "a line for each metric of all queries and of each group")
	for _, record := range records[1:] {
		assert.Equal(t, name, record[5])
	}
	assert.ErrorContains(t, r.Write(brokenWriter{}, CSV), "pipe is closed")
	assert.ErrorContains(t, r.Write(brokenWriter{}, PlainText), "pipe is closed")
}

// TestAlign shuffles ranks. Align finds the ranks of each triple, including repeated ones.
func TestAlign(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks := someRanks(t)
		n := len(ranks) / 2
		var triples []kg.Triple
		for _, r := range ranks[:n] {
			triples = append(triples, r.Triple)
		}
		shuffled := slices.Clone(ranks)
		seed := rapid.Uint64().Draw(t, "seed")
		rand.New(
			rand.NewPCG(seed, 0),
		).Shuffle(
			len(shuffled),
			func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] },
		)
		for _, sides := range []rank.Sides{rank.TailSide, rank.HeadSide, rank.BothSides} {
			got, err := Align(shuffled, triples, sides.List())
			require.NoError(t, err)
			require.Len(t, got, n*len(sides.List()))
			var of []rank.Rank
			for i, r := range got {
				require.Equal(t, triples[i%n], r.Triple)
				require.Equal(t, sides.List()[i/n], r.Side)
				of = append(of, r)
			}
			for _, r := range ranks {
				if slices.Contains(sides.List(), r.Side) {
					i := slices.Index(of, r)
					require.GreaterOrEqual(t, i, 0, "every rank is there")
					of = slices.Delete(of, i, i+1)
				}
			}
		}
		got, err := Align(ranks, triples, rank.BothSides.List())
		require.NoError(t, err)
		require.Equal(t, ranks, append([]rank.Rank(nil), got...), "ranks in order stay unchanged")
	})
}

func TestAlignErrors(t *testing.T) {
	g := familyGraph()
	ranks, triples := familyRanks(g), g.Splits[kg.Test]
	_, err := Align(ranks[1:], triples, rank.BothSides.List())
	assert.EqualError(t, err, "there are 3 ranks on side tail for 4 triples: rank the same split")
	_, err = Align(ranks[1:], triples, rank.HeadSide.List())
	assert.NoError(t, err, "the other side does not matter")
	_, err = Align(ranks, g.Splits[kg.Train][:4], rank.TailSide.List())
	assert.EqualError(t, err, "triple 1 has no rank on side tail: rank the same split")
}

func TestProtocol(t *testing.T) {
	p := Protocols[0]
	assert.Equal(t, "rotate: both sides in one average, filter all, optimistic ties", p.String())
	p.Sides = rank.HeadSide
	assert.Equal(t, "rotate: side head, filter all, optimistic ties", p.String())

	r := &Report{Protocol: "full"}
	r.Results, r.Groups = familySummary(t, "relation")
	p.Apply(r)
	assert.Equal(t, "rotate", r.Protocol)
	require.Len(t, r.Results, 1)
	require.Len(t, r.Groups, 3)
	for _, g := range r.Groups {
		assert.Equal(t, []any{rank.HeadSide, rank.All, rank.Optimistic}, []any{g.Side, g.Filter, g.Ties})
	}
	var out bytes.Buffer
	require.NoError(t, r.WriteTable(&out, p.Ties))
	assert.Contains(t, out.String(), "\nall     head        4 ")
}
