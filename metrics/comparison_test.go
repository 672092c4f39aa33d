package metrics

import (
	"encoding/csv"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank"
)

// familyComparison compares the tail ranks on the family graph with a copy. In the copy, the rank
// of (cal, likes, ann) improves from 2 to 1.
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
		{Name: "base", Checkpoint: Checkpoint{Path: "./base", SHA256: "0f", Model: "mquine", Dim: 4}, Ranks: base[:4]},
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
		"a ranks file does not name the model",
	)

	r, err = CompareAll(t.Context(), familyGraph(), kg.Test, []ComparedCheckpoint{{Name: "alone"}}, CompareOptions{})
	require.NoError(t, err)
	text, err = json.Marshal(r)
	require.NoError(t, err)
	assert.Contains(t, string(text), `"comparisons":[]}`)
	assert.NotContains(t, string(text), "z_convention")
}

// The candidates are restricted only if they are for all checkpoints, in any order. Otherwise, the
// restriction is of the other side.
func TestComparisonRestricted(t *testing.T) {
	r := familyComparison(t, "other")
	for _, restricted := range [][2]bool{{false, false}, {true, false}, {false, true}, {true, true}} {
		for i := range r.Checkpoints {
			r.Checkpoints[i].Restricted = restricted[i]
		}
		want := restricted[0] && restricted[1]
		assert.Equal(t, want, r.Restricted(), restricted)
		assert.Equal(t, want, strings.Contains(write(t, r, PlainText, TableOptions{}), ", restricted candidates"))
	}
}

// All outputs say so if the checkpoints have different numbers of candidates.
func TestComparisonUnequalCandidates(t *testing.T) {
	r := familyComparison(t, "other")
	r.Checkpoints[0].Candidates = 1060 // the other is a ranks file, whose number is unknown
	assert.Empty(t, r.UnequalCandidates())
	assert.NotContains(t, write(t, r, PlainText, TableOptions{}), "1,060")
	r.Checkpoints[1].Candidates = 1060
	assert.Empty(t, r.UnequalCandidates())
	r.Checkpoints[1].Candidates = 45
	assert.Contains(t, write(t, r, PlainText, TableOptions{}), "realistic ties, 1,060 or 45 candidates, CI by query\n")
	out := write(t, r, LaTeX, TableOptions{})
	assert.Equal(t, strings.Count(out, `\caption{`), strings.Count(out, "The checkpoints have 1,060 or 45 candidates."))
	assert.Contains(t, write(t, r, CSV, TableOptions{}), ",1060,45,false,")
	assert.Contains(t, write(t, r, JSON, TableOptions{}), `"candidates": 45,`)
}

func TestComparisonTables(t *testing.T) {
	r := familyComparison(t, "other")
	out := write(t, r, PlainText, TableOptions{Explain: true})
	assert.Equal(t, `family test: filter all, realistic ties, CI by query

checkpoint  side           MRR [95% CI]    MR  Hits@1
base        tail  0.7500 [too few: 4.0]  1.50  0.5000
other       tail  0.8750 [too few: 4.0]  1.25  0.7500

other against base: differences, other − base

side  metric    base   other    difference [95% CI]       p
tail  MRR     0.7500  0.8750  0.1250 [too few: 4.0]  1.0000
tail  MR        1.50    1.25   -0.25 [too few: 4.0]  1.0000
tail  Hits@1  0.5000  0.7500  0.2500 [too few: 4.0]  1.0000

side  queries  wins  losses  equal
tail        4     1       0      3
`, out[:strings.Index(out, "\nother against base by")])
	assert.Contains(t, out, `
other against base by category: side tail, MRR

category  queries    base   other    difference [95% CI]       p
1-1             1  1.0000  1.0000  0.0000 [too few: 1.0]  1.0000
N-1             1  0.5000  0.5000  0.0000 [too few: 1.0]  1.0000
N-N             2  0.7500  1.0000  0.2500 [too few: 2.0]  1.0000

other against base by z-case: side tail, convention paper, MRR
`)
	assert.Contains(t, out, `
other against base: the queries that changed most

side  head  relation  tail  base rank  other rank
tail  cal   likes     ann           2           1

Differences: other − base. `)
	for line := range strings.Lines(out) {
		assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 81, line)
	}
	explained := strings.TrimSuffix(write(t, r, PlainText, TableOptions{Explain: true, NoCI: true}), "\n")
	assert.Equal(t, "for multiple testing.", explained[strings.LastIndex(explained, "\n")+1:],
		"there are no intervals to explain")
	wide := write(t, r, PlainText, TableOptions{Wide: true, NoCI: true, Sort: ByMRR})
	assert.Contains(t, wide, "checkpoint  side     MRR    MR  median   GMR     AMR    AMRI  Hits@1\n")
	assert.Contains(t, wide, "category  queries  base MRR  other MRR  difference       p  base Hits@1 ")
	assert.Less(t, strings.Index(wide, "\nN-N "), strings.Index(wide, "\n1-1 "), "the largest gain first")
}

// A wide table of groups has the wins and losses of each group, and one line for all hidden groups.
func TestWideGroupsOfComparison(t *testing.T) {
	r := familyComparison(t, "other")
	out := write(t, r, Markdown, TableOptions{Wide: true, NoCI: true, Sort: ByMRR, Top: 2})
	table := out[strings.Index(out, "| category |"):strings.Index(out, "by z-case")]
	lines := strings.Split(table, "\n")
	assert.True(t, strings.HasSuffix(lines[0], "| wins | losses |"), table)
	assert.Regexp(t, `^\| N-N \| 2 \| .* \| 1 \| 0 \|$`, lines[2])
	assert.Regexp(t, `^\| … 1 more \|`, lines[3])
	assert.Regexp(t, `^\| N-1 \| 1 \| .* \| 0 \| 0 \|$`, lines[4])
	assert.Equal(t, 1, strings.Count(table, "more"))
}

// The checkpoints of a comparison share the bounds of the largest rank of any of them.
func TestRankBoundsOfComparison(t *testing.T) {
	g := familyGraph()
	base := familyRanks(g)[:4]
	other := slices.Clone(base)
	other[3].Better[rank.All] = 40 // rank 41, between the bounds 20 and 50
	r, err := CompareAll(t.Context(), g, kg.Test, []ComparedCheckpoint{
		{Name: "base", Ranks: base}, {Name: "other", Ranks: other},
	}, CompareOptions{Sides: rank.TailSide, Filter: rank.All, Ties: rank.Realistic, CIBy: ByQuery})
	require.NoError(t, err)
	assert.Equal(t, []int{1, 2, 3, 5, 10, 20, 50}, r.RankBounds)
	assert.Equal(t, []int{2, 2, 0, 0, 0, 0, 0}, r.Checkpoints[0].Results[0].RankCounts) // ranks 1 2 1 2
	assert.Equal(t, []int{2, 1, 0, 0, 0, 0, 1}, r.Checkpoints[1].Results[0].RankCounts)
}

// The caption for a paper says how many queries are left out.
func TestCaptionOfLeftOut(t *testing.T) {
	r := familyComparison(t, "other")
	assert.NotContains(t, write(t, r, LaTeX, TableOptions{}), "Left out")
	r.LeftOut = 1
	assert.Contains(t, write(t, r, LaTeX, TableOptions{}), " Left out: 1 query.")
}

// The best value of a column stands out, as do all values that print like it.
func TestComparisonBest(t *testing.T) {
	r := familyComparison(t, "other")
	assert.Contains(t, write(t, r, Markdown, TableOptions{NoCI: true}), `
| base | tail | 0.7500 | 1.50 | 0.5000 |
| other | tail | **0.8750** | **1.25** | **0.7500** |
`)
	r.Checkpoints[0].Results[0].MRR = 0.87499
	assert.Contains(t, write(t, r, Markdown, TableOptions{NoCI: true}), "| base | tail | **0.8750** |")
	assert.Contains(t, write(t, r, LaTeX, TableOptions{NoCI: true, Percent: true}), `
base & \textbf{87.50} & 50.00 \\
other & \textbf{87.50} & \textbf{75.00} \\
`)
	assert.Contains(t, write(t, r, Markdown, TableOptions{NoCI: true}), "| tail | MR | 1.50 | 1.25 | −0.25 |")
	assert.Contains(t, write(t, r, LaTeX, TableOptions{}), "other & 0.1250 [too few: 4.0] & 1.0000 & 1 & 0")
	assert.Contains(t, write(t, r, LaTeX, TableOptions{NoCI: true, Wide: true}),
		"model & MRR & MR & median & GMR & AMR & AMRI & Hits@1")
	assert.Contains(t, write(t, r, LaTeX, TableOptions{NoCI: true, Wide: true}),
		"other & \\textbf{0.8750} & \\textbf{1.25} & ")
}

// TestComparisonReadsBack checks that a comparison can be read from the JSON of this version and of
// the first one.
func TestComparisonReadsBack(t *testing.T) {
	text := write(t, familyComparison(t, "other"), JSON, TableOptions{})
	var back ComparisonReport
	require.NoError(t, json.Unmarshal([]byte(text), &back))
	assert.Equal(t, text, write(t, &back, JSON, TableOptions{}))
	assert.Equal(t, []int{1, 2, 3}, back.RankBounds)
	assert.Equal(t, []int{3, 1, 0}, back.Checkpoints[1].Results[0].RankCounts)
	assert.Equal(t, 10_000, back.Provenance.Bootstrap.Permutations)

	var old ComparisonReport
	require.NoError(t, json.Unmarshal([]byte(`{"schema":"mquine.compare/1","data":"family","split":"valid",
		"filter":"all","ties":"realistic","ci_by":"query","checkpoints":[{"name":"a","path":"./a","model":"mquine",
		"dim":4,"checkpoint_sha256":"0f","results":[{"side":"tail","n":4,"mrr":0.5,"mrr_ci":[null,null],
		"hits":{"1":0.25}}]}],"comparisons":[{"base":"a","other":"b","whole":[{"side":"tail","n":4,"wins":1,
		"metrics":[{"metric":"Hits@1","base":1,"other":0.5,"difference":-0.5,"ci":[-1,0],"p":0.25}]}],
		"groups":[],"changed":[]}]}`), &old))
	assert.Equal(t, kg.Valid, old.Split)
	assert.Equal(t, "family", old.Provenance.Data.Name)
	assert.Equal(t, ByQuery, old.Provenance.Bootstrap.By)
	assert.Equal(t, Checkpoint{Path: "./a", SHA256: "0f", Model: "mquine", Dim: 4}, old.Checkpoints[0].Checkpoint)
	assert.Equal(t, Hits{{1, 0.25}}, old.Checkpoints[0].Results[0].Hits)
	assert.Equal(t, MetricDifference{"hits@1", 1, 0.5, -0.5, [2]Number{-1, 0}, 0.25},
		old.Comparisons[0].Whole[0].Metrics[0])
	assert.EqualError(t, json.Unmarshal([]byte(`{"schema":"mquine.eval/2"}`), &old),
		`the comparison has schema "mquine.eval/2", but this mquine reads mquine.compare/2 and mquine.compare/1`)
}

// A comparison without checkpoints, such as one read from an empty report, has no tables.
func TestComparisonWithoutCheckpoints(t *testing.T) {
	for _, f := range []Format{PlainText, Markdown, LaTeX} {
		assert.Empty(t, write(t, &ComparisonReport{}, f, TableOptions{Explain: true}), f)
	}
	assert.Regexp(t, `^data,split,.*\n$`, write(t, &ComparisonReport{}, CSV, TableOptions{}))
}

// A name cannot break out of its line, its cell or the comment above a LaTeX table.
func TestComparisonOfHostileNames(t *testing.T) {
	const name = "[x](y)\n\\input{x}\x1b|"
	r := familyComparison(t, name)
	out := write(t, r, Markdown, TableOptions{})
	assert.Contains(t, out, "\n"+`\[x\](y)\\n\\input{x}\\x1b\| against base: differences, other − base`+"\n\n| side |")
	assert.Contains(t, out, `| \[x\](y)\\n\\input{x}\\x1b\| | tail | **0.8750`)

	out = write(t, r, LaTeX, TableOptions{})
	assert.Contains(t, out, "\n"+`{}[x](y)\textbackslash{}n\textbackslash{}input\{x\}\textbackslash{}x1b$|$ & \textbf`)

	records, err := csv.NewReader(strings.NewReader(write(t, r, CSV, TableOptions{}))).ReadAll()
	require.NoError(t, err)
	require.Len(t, records, 1+3*(1+3+1), "a line for each metric of all queries and of each group")
	for _, record := range records[1:] {
		assert.Equal(t, name, record[5])
	}
	assert.ErrorContains(t, r.Write(brokenWriter{}, CSV, TableOptions{}), "pipe is closed")
	assert.ErrorContains(t, r.Write(brokenWriter{}, PlainText, TableOptions{}), "pipe is closed")
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
			got, missing, err := Align(shuffled, triples, sides.List(), false)
			require.NoError(t, err)
			require.Empty(t, missing)
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
		got, _, err := Align(ranks, triples, rank.BothSides.List(), false)
		require.NoError(t, err)
		require.Equal(t, ranks, append([]rank.Rank(nil), got...), "ranks in order stay unchanged")
	})
}

func TestAlignErrors(t *testing.T) {
	g := familyGraph()
	ranks, triples := familyRanks(g), g.Splits[kg.Test]
	_, _, err := Align(ranks[1:], triples, rank.BothSides.List(), false)
	assert.EqualError(t, err, "there are 3 ranks on side tail for 4 triples: rank the same split, without leaving out "+
		"triples")
	_, _, err = Align(slices.Repeat(ranks, 2), triples, rank.BothSides.List(), false)
	assert.EqualError(t, err, "there are 8 ranks on side tail for 4 triples: rank the same split")
	_, _, err = Align(ranks, triples, rank.RelationSide.List(), false)
	assert.EqualError(t, err, "it has ranks on side tail but not on side relation: choose the same side")
	_, _, err = Align(ranks[1:], triples, rank.HeadSide.List(), false)
	assert.NoError(t, err, "the other side does not matter")
	_, _, err = Align(ranks, g.Splits[kg.Train][:4], rank.TailSide.List(), false)
	assert.EqualError(t, err, "triple 1 has no rank on side tail: rank the same split")
	_, _, err = Align(nil, triples, rank.BothSides.List(), true)
	assert.EqualError(t, err, "it has no ranks: write the file again")
}

// Ranks that identify their candidates may lack queries, but may not be of other triples.
func TestAlignRestricted(t *testing.T) {
	g := familyGraph()
	ranks, triples := familyRanks(g), g.Splits[kg.Test]
	for i := range ranks {
		ranks[i].CandidatesDigest = 5
	}
	left := slices.Delete(slices.Delete(slices.Clone(ranks), 6, 7), 1, 2)
	turned := slices.Clone(left)
	slices.Reverse(turned)
	got, missing, err := Align(turned, triples, rank.BothSides.List(), false)
	require.NoError(t, err)
	assert.Equal(t, left, got)
	assert.Equal(t, []int{1, 6}, missing)
	got, missing, err = Align(turned, triples, rank.HeadSide.List(), false)
	require.NoError(t, err)
	assert.Equal(t, left[3:], got)
	assert.Equal(t, []int{2}, missing)

	var whole []rank.Rank // without digests
	for _, r := range turned {
		r.CandidatesDigest = 0
		whole = append(whole, r)
	}
	_, _, err = Align(whole, triples, rank.BothSides.List(), false)
	assert.ErrorContains(t, err, "there are 3 ranks on side tail for 4 triples")
	got, missing, err = Align(whole, triples, rank.BothSides.List(), true)
	require.NoError(t, err)
	assert.Len(t, got, 6)
	assert.Equal(t, []int{1, 6}, missing)

	_, _, err = Align(left[3:], triples, rank.BothSides.List(), false)
	assert.EqualError(t, err, "it has no ranks on side tail, which was not ranked or whose queries were all left out: "+
		"choose side head")

	_, _, err = Align(left, slices.Concat(triples[:2], g.Splits[kg.Train][:2]), rank.TailSide.List(), false)
	assert.EqualError(t, err, "other triples have 2 ranks on side tail: rank the same split")
	left[0].Triple = triples[2] // twice, although the split has it once
	_, _, err = Align(left, triples, rank.TailSide.List(), false)
	assert.EqualError(t, err, "other triples have 1 rank on side tail: rank the same split")
}

func TestProtocol(t *testing.T) {
	p := Protocols[0]
	assert.Equal(t, "rotate: both sides in one average, filter all, optimistic ties", p.String())
	p.Sides = rank.HeadSide
	assert.Equal(t, "rotate: side head, filter all, optimistic ties", p.String())

	p.Tolerance = rank.Tolerance{Absolute: 1e-5, Relative: 1e-4}
	assert.Equal(t, "rotate: side head, filter all, optimistic ties, tolerance 1e-05 + 0.0001·|score|", p.String())
	p.Tolerance = rank.Tolerance{}

	r := &Report{Protocol: "full"}
	r.Results, r.Groups = familySummary(t, "relation")
	p.Apply(r, &rank.Ranking{Near: [][]rank.Rank{nil}})
	assert.Equal(t, "rotate", r.Protocol)
	require.Len(t, r.Results, 1)
	require.Len(t, r.Groups, 3)
	for _, g := range r.Groups {
		assert.Equal(t, []any{rank.HeadSide, rank.All, rank.Optimistic}, []any{g.Side, g.Filter, g.Ties})
	}
	assert.Contains(t, write(t, r, PlainText, TableOptions{}), "\nall     head        4 ")

	// A tool with metrics of each side has three results, and both sides are the last.
	at := slices.IndexFunc(Protocols, func(p Protocol) bool { return p.Name == "pykeen" })
	p = Protocols[at]
	assert.Equal(t, "pykeen: both sides, filter all, realistic ties", p.String())
	r.Results, r.Groups = familySummary(t, "relation")
	p.Apply(r, &rank.Ranking{Near: [][]rank.Rank{nil}})
	require.Len(t, r.Results, 3)
	for i, side := range []rank.Sides{rank.TailSide, rank.HeadSide, rank.BothSides} {
		assert.Equal(t, []any{side, rank.All, rank.Realistic}, []any{r.Results[i].Side, r.Results[i].Filter,
			r.Results[i].Ties})
	}
	require.Len(t, r.Groups, 9)
	assert.Equal(t, rank.BothSides, r.headline().Side)
}

// TestDeviations counts the queries that a tool may rank otherwise: two tail queries and one head query.
func TestDeviations(t *testing.T) {
	counts := func(side kg.Side, equal int32) rank.Rank {
		r := rank.Rank{Side: side}
		r.Equal[rank.All] = equal
		return r
	}
	exact := []rank.Rank{counts(kg.Tail, 0), counts(kg.Tail, 0), counts(kg.Head, 0)}
	near := []rank.Rank{counts(kg.Tail, 3), counts(kg.Tail, 1), counts(kg.Head, 2)}
	within := []rank.Rank{counts(kg.Tail, 1), counts(kg.Tail, 0), counts(kg.Head, 0)}
	certain := []rank.Rank{counts(kg.Tail, 2), counts(kg.Tail, 1), counts(kg.Head, 1)}
	p := Protocol{
		Name: "p", Tool: "Tool", Sides: rank.BothSides, Filter: rank.All, Ties: rank.Realistic,
		Tolerance: rank.Tolerance{Absolute: 1},
	}
	ranking := &rank.Ranking{Ranks: exact, Near: [][]rank.Rank{near, within, certain}}
	for sides, want := range map[rank.Sides][]Deviation{
		rank.BothSides: {{Cause: "tolerance", Queries: 1}, {Cause: "float32", Queries: 2}},
		rank.TailSide:  {{Cause: "tolerance", Queries: 1}, {Cause: "float32", Queries: 1}},
		rank.HeadSide:  {{Cause: "tolerance"}, {Cause: "float32", Queries: 1}},
	} {
		p.Sides = sides
		r := &Report{}
		p.Apply(r, ranking)
		assert.Equal(t, want, r.Deviations, sides)
		assert.Equal(t, &p.Tolerance, r.Tolerance)
	}
}

// The tools that print only one average are those whose code says so.
func TestProtocolsInOneAverage(t *testing.T) {
	var names []string
	for _, p := range Protocols {
		if p.OneAverage {
			names = append(names, p.Name)
		}
	}
	assert.Equal(t, []string{"rotate", "dglke", "ogb"}, names)
}
