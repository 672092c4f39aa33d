package metrics

import (
	"encoding/csv"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/rank"
)

// familyReport has made-up intervals under filter all and for the group N-N. All other intervals
// are undefined, because four triples are too few.
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

// write returns the report in a format.
func write(t *testing.T, r interface {
	Write(w io.Writer, f Format, o TableOptions) error
}, f Format, o TableOptions) string {
	t.Helper()
	var out strings.Builder
	require.NoError(t, r.Write(&out, f, o))
	return out.String()
}

// only restricts the report to the results and groups under one tie rule.
func only(r *Report, ties rank.Ties) *Report {
	other := func(res Result) bool { return res.Ties != ties }
	r.Results, r.Groups = slices.DeleteFunc(r.Results, other), slices.DeleteFunc(r.Groups, other)
	return r
}

// The first line can be computed by hand, from the ranks 1, 2, 3 and 1 among 4 entities.
func TestTable(t *testing.T) {
	r := only(familyReport(t), rank.Realistic)
	r.Groups = nil
	assert.Equal(t, `family test: mquine (d = 2), 4 candidates, realistic ties, CI by query

filter  side  queries             MRR [95% CI]    MR  Hits@1  Hits@3
none    tail        4    0.7083 [too few: 4.0]  1.75  0.5000  1.0000
none    head        4    0.5048 [too few: 4.0]  2.25  0.0000  0.7500
none    both        8    0.6065 [too few: 4.0]  2.00  0.2500  0.8750
train   tail        4    0.7083 [too few: 4.0]  1.75  0.5000  1.0000
train   head        4    0.5048 [too few: 4.0]  2.25  0.0000  0.7500
train   both        8    0.6065 [too few: 4.0]  2.00  0.2500  0.8750
all     tail        4  0.7500 [0.5000, 1.0000]  1.50  0.5000  1.0000
all     head        4  0.7500 [0.5000, 1.0000]  1.50  0.5000  1.0000
all     both        8  0.7500 [0.5000, 1.0000]  1.50  0.5000  1.0000

Rank: 1 + the candidates that score better than the target
+ half of the candidates with exactly its score.
Filter none: every entity is a candidate.
Filter train: other answers known from train are not candidates.
Filter all: other answers known from train, valid and test are not candidates.
Side both: the mean over all tail and head queries.
CI: 95% percentile bootstrap, 1,000 resamples of the test triples
in 4 clusters by query.
[too few: n]: no interval, because the effective number n of clusters
is below 10.
`, write(t, r, PlainText, TableOptions{Explain: true}))
	assert.Equal(t, []string{"CI: 95% percentile bootstrap, 9 resamples of the test triples\nin 1 cluster by query."},
		resampling(Bootstrap{By: ByQuery, Resamples: 9}, "test", 1, false))

	wide := write(t, r, PlainText, TableOptions{Wide: true, Percent: true, NoCI: true})
	assert.Contains(t, wide, "realistic ties, in percent\n", "a table without intervals does not name their clusters")
	assert.Contains(t, wide, "filter  side  queries    MRR    MR  median   GMR     AMR    AMRI  Hits@1  Hits@3\n"+
		"none    tail        4  70.83  1.75    1.50  1.57  0.7000  0.5000   50.00  100.00\n")
	assert.Contains(t, write(t, r, LaTeX, TableOptions{Wide: true, NoCI: true}),
		"model & MRR & MR & median & GMR & AMR & AMRI & Hits@1 & Hits@3 \\\\\n\\midrule\n"+
			"mquine (d = 2) & 0.7500 & 1.50 & ")
}

// A report of all tie rules names the rule in each line.
func TestTableOfAllTies(t *testing.T) {
	r := familyReport(t)
	r.Groups = nil
	assert.Contains(t, write(t, r, PlainText, TableOptions{NoCI: true}), "filter  side  ties         queries ")
	assert.Contains(t, write(t, r, PlainText, TableOptions{NoCI: true}), "none    tail  optimistic         4 ")
	assert.Contains(t, write(t, r, PlainText, TableOptions{NoCI: true}), "family test: mquine (d = 2), 4 candidates\n")
	ties := r.headline().Ties.String()
	assert.Contains(t, write(t, r, PlainText, TableOptions{Explain: true}), "\nRank, "+ties+" ties: 1 + the ")
}

// An explanation says which scores count as equal under the tolerance of a protocol.
func TestTableOfTolerance(t *testing.T) {
	r := only(familyReport(t), rank.Realistic)
	r.Groups = nil
	r.Tolerance = &rank.Tolerance{Absolute: 1e-5, Relative: 1e-4}
	assert.Contains(t, write(t, r, PlainText, TableOptions{Explain: true}),
		"\n+ half of the candidates with an equal score.\n"+
			"Scores within 1e-05 + 0.0001·|score| of the target's count as equal.\n")
}

func TestTableByTriple(t *testing.T) {
	r := familyReport(t)
	r.Provenance.Bootstrap.By, r.Groups = ByTriple, nil
	r.Results = r.Results[len(r.Results)-1:]
	out := write(t, r, PlainText, TableOptions{Explain: true})
	assert.Contains(t, out, ", CI by triple\n")
	assert.True(t, strings.HasSuffix(out, "CI: 95% percentile bootstrap, 1,000 resamples of the test triples.\n"), out)
}

func TestGroupTables(t *testing.T) {
	r := only(familyReport(t), rank.Pessimistic)
	out := write(t, r, PlainText, TableOptions{})
	assert.Equal(t, `
By relation: filter all, side both, pessimistic ties

relation  queries           MRR [95% CI]  Hits@1  Hits@3
likes           4  0.7500 [too few: 2.0]  0.5000  1.0000
spouse          2  1.0000 [too few: 1.0]  1.0000  1.0000
childOf         2  0.5000 [too few: 1.0]  0.0000  1.0000

By category: filter all, side both, pessimistic ties

category  queries             MRR [95% CI]  Hits@1  Hits@3
1-1             2    1.0000 [too few: 1.0]  1.0000  1.0000
N-1             2    0.5000 [too few: 1.0]  0.0000  1.0000
N-N             4  0.7500 [0.6250, 0.8750]  0.5000  1.0000
`, out[strings.Index(out, "\nBy relation"):])
	out = write(t, r, PlainText, TableOptions{Wide: true})
	assert.Contains(t, out, "relation  queries           MRR [95% CI]  tail MRR  head MRR    MR  median ")
	out = write(t, r, PlainText, TableOptions{Percent: true, Least: 3})
	assert.Contains(t, out, "pessimistic ties, in percent, groups of at\nleast 3 queries\n")

	// In a paper, each table has the whole protocol.
	out = write(t, r, LaTeX, TableOptions{Percent: true, NoCI: true})
	protocol := "Link prediction on the test split of family: filtered ranks, tail and head queries, " +
		"pessimistic ties, in percent."
	assert.Equal(t, 3, strings.Count(out, protocol+"}\n"), out)
	assert.Contains(t, out, `\caption{By category: mquine (d = 2). `+protocol)
}

// TestGroupOrder checks which groups a table lists, and in which order.
func TestGroupOrder(t *testing.T) {
	r := only(familyReport(t), rank.Realistic)
	relations := func(o TableOptions) []string {
		out := write(t, r, PlainText, o)
		out = out[strings.Index(out, "\nBy relation"):strings.Index(out, "\nBy category")]
		var first []string
		for _, line := range strings.Split(strings.TrimSpace(out), "\n")[3:] {
			first = append(first, strings.Fields(line)[0])
		}
		return first
	}
	assert.Equal(t, []string{"likes", "spouse", "childOf"}, relations(TableOptions{}))
	assert.Equal(t, []string{"spouse", "likes", "childOf"}, relations(TableOptions{Sort: ByMRR}))
	assert.Equal(t, []string{"childOf", "likes", "spouse"}, relations(TableOptions{Sort: ByName}))
	assert.Equal(t, []string{"likes", "spouse", "childOf"}, relations(TableOptions{Sort: ByQueries}))
	assert.Equal(t, []string{"likes"}, relations(TableOptions{Least: 3}))
	assert.Equal(t, []string{"likes", "…"}, relations(TableOptions{Top: 1}))
	assert.Equal(t, []string{"spouse", "…", "childOf"}, relations(TableOptions{Sort: ByMRR, Top: 2}), "both ends")
	assert.Equal(t, []string{"likes", "spouse", "childOf"}, relations(TableOptions{Top: 3}))
	assert.Contains(t, write(t, r, PlainText, TableOptions{Least: 3}), "realistic ties, groups of at least 3 queries\n")
	assert.Contains(t, write(t, r, PlainText, TableOptions{Top: 1}), "\n… 2 more\n")
}

// TestGroupTitles checks that the table of Z-cases names the convention, and no other table does.
func TestGroupTitles(t *testing.T) {
	r := only(familyReport(t), rank.Realistic)
	r.ZConvention = "definition"
	assert.NotContains(t, write(t, r, PlainText, TableOptions{}), "convention")
	for i := range r.Groups {
		if r.Groups[i].By == "category" {
			r.Groups[i].By = "z-case"
		}
	}
	out := write(t, r, PlainText, TableOptions{})
	assert.Contains(t, out, "\nBy z-case: filter all, side both, realistic ties, convention definition\n")
	assert.Equal(t, 1, strings.Count(out, "convention"))
}

// TestExplanationOfCandidates checks what an explanation says about drawn and restricted candidates.
func TestExplanationOfCandidates(t *testing.T) {
	explain := func(c *Restrictions) string {
		r := only(familyReport(t), rank.Realistic)
		r.Groups, r.Restrictions = nil, c
		return write(t, r, PlainText, TableOptions{Explain: true})
	}
	const estimates, every = "These counts of candidates are estimates", "Filter none: every entity is a candidate."
	assert.Contains(t, explain(nil), every)
	assert.NotContains(t, explain(nil), estimates)
	assert.NotContains(t, explain(&Restrictions{}), estimates)
	drawn := explain(&Restrictions{Sample: &Sample{Candidates: 2}})
	assert.Contains(t, drawn, estimates)
	assert.Contains(t, drawn, "Filter none: known answers stay candidates.")
	assert.NotContains(t, drawn, every)
	assert.NotContains(t, explain(&Restrictions{Sample: &Sample{Candidates: 2, Exact: true}}), estimates)
}

// Labels belong to relations and entities, not to groups of another kind with the same name.
func TestAddLabels(t *testing.T) {
	r := &Report{Groups: []Result{
		{By: "relation", Group: "Q1"}, {By: "entity", Group: "Q1"}, {By: "category", Group: "Q1"},
	}}
	r.AddLabels(map[string]string{"Q1": "one"})
	assert.Equal(t, []string{"one", "one", ""}, []string{r.Groups[0].Label, r.Groups[1].Label, r.Groups[2].Label})
}

// TestLabels checks that readable labels appear beside opaque identifiers, but not beside other
// names of groups.
func TestLabels(t *testing.T) {
	r := only(familyReport(t), rank.Realistic)
	g := familyGraph()
	r.SetExtremes(g, familyRanks(g), rank.All, rank.Realistic)
	r.AddLabels(map[string]string{"likes": "has a liking for", "N-N": "no identifier", "bob": "Bob"})
	out := write(t, r, PlainText, TableOptions{})
	assert.Contains(t, out, "\nlikes (has a liking for)  ")
	assert.NotContains(t, out, "no identifier")
	assert.Contains(t, write(t, r, CSV, TableOptions{}), ",relation,likes,has a liking for,")
	labelled := 0
	for _, q := range append(r.Worst, r.Best...) {
		assert.Equal(t, q.Head == "bob", q.HeadLabel == "Bob")
		if q.HeadLabel != "" {
			labelled++
		}
	}
	assert.Positive(t, labelled)
}

func TestTableOfOneSide(t *testing.T) {
	g := familyGraph()
	keys, err := NewKeys(t.Context(), g, []string{"category"}, KeyOptions{})
	require.NoError(t, err)
	r := tinyReport()
	r.Results, r.Groups, err = Summarize(
		t.Context(),
		familyRanks(g)[:4],
		SummaryOptions{
			Sides: rank.TailSide, Filters: []rank.Filter{rank.Train}, Ties: []rank.Ties{rank.Optimistic}, Keys: keys,
		},
	)
	require.NoError(t, err)
	out := write(t, r, PlainText, TableOptions{Wide: true})
	assert.NotContains(t, out, "both")
	assert.NotContains(t, out, "Hits")
	assert.Contains(t, out, "By category: filter train, side tail, optimistic ties\n")
}

// Write prints a long list of relations completely, unless Top bounds it.
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
	assert.Equal(t, 237, strings.Count(write(t, r, PlainText, TableOptions{}), "\n/relation/"))
	assert.Equal(t, 20, strings.Count(write(t, r, PlainText, TableOptions{Top: DefaultTop}), "\n/relation/"))
}

// A LaTeX table has one row for the model, and the protocol in the caption.
func TestReportInLaTeX(t *testing.T) {
	r := only(familyReport(t), rank.Realistic)
	r.Groups = nil
	assert.Equal(t, `\begin{table}
\centering
\caption{Link prediction on the test split of family: filtered ranks, tail and head queries, realistic ties, `+
		`in percent. In brackets: 95\% bootstrap intervals, 1,000 resamples by query.}
\begin{tabular}{lrrr}
\toprule
model & MRR [95\% CI] & Hits@1 & Hits@3 \\
\midrule
mquine (d = 2) & 75.00 [50.00, 100.00] & 50.00 & 100.00 \\
\bottomrule
\end{tabular}
\end{table}
`, write(t, r, LaTeX, TableOptions{Percent: true}))
	out := write(t, r, LaTeX, TableOptions{NoCI: true})
	assert.Contains(t, out, "realistic ties.}\n")
	assert.Contains(t, out, "model & MRR & Hits@1")
}

// TestReportInCSV compares the lines with the results.
func TestReportInCSV(t *testing.T) {
	r := familyReport(t)
	records, err := csv.NewReader(strings.NewReader(write(t, r, CSV, TableOptions{Percent: true, Top: 1}))).ReadAll()
	require.NoError(t, err)
	require.Len(t, records, 1+len(r.Results)+len(r.Groups), "table options do not affect CSV")
	column := func(name string) int { return slices.Index(records[0], name) }
	for i, res := range append(slices.Clone(r.Results), r.Groups...) {
		record := records[1+i]
		assert.Equal(t, r.Provenance.Checkpoint.PathText(), record[column("checkpoint")])
		assert.Equal(t, []string{"family", res.By, res.Group, res.Side.String(), strconv.Itoa(res.N), "full"},
			[]string{record[column("data")], record[column("by")], record[column("group")], record[column("side")],
				record[column("n")], record[column("protocol")]})
		for name, want := range map[string]Number{
			"mrr": res.MRR, "mrr_ci_low": res.MRRCI[0], "mr": res.MR, "amri": res.AMRI, "hits@3": res.Hits[1].Share,
		} {
			if math.IsNaN(float64(want)) {
				assert.Empty(t, record[column(name)])
				continue
			}
			got, err := strconv.ParseFloat(record[column(name)], 64)
			require.NoError(t, err)
			assert.Equal(t, float64(want), got, name)
		}
	}
}

func TestNumberFormat(t *testing.T) {
	assert.Equal(t, "0.0000", Number(-0.00001).Format(4), "no sign before a zero")
	assert.Equal(t, "-0.0001", Number(-0.0001).Format(4))
	assert.Equal(t, "0", Number(math.Copysign(0, -1)).Format(-1))
	o := TableOptions{}
	for want, n := range map[string]Number{
		"1.81": 1.809, "99.99": 99.99, "123.5": 123.45, "4821": 4821.4, "–": undefined,
	} {
		assert.Equal(t, want, o.mean(n))
	}
	assert.Equal(t, "< 0.0001", formatP(1./10001))
	assert.Equal(t, "0.0002", formatP(2./10001))
	assert.Equal(t, "–", formatP(undefined))
}

// TestTablesFit checks that the lines of the default tables fit 80 columns, even for a large data
// set.
func TestTablesFit(t *testing.T) {
	r := only(familyReport(t), rank.Realistic)
	for i := range r.Results {
		res := &r.Results[i]
		res.N, res.MR, res.MRR, res.MRRCI = 1_234_567, 123456, 0.123456, [2]Number{0.123456, 0.123456}
		if i%2 == 0 {
			res.N, res.MR = 118_142, 123.456
		}
	}
	r.Results[0].Hits = append(r.Results[0].Hits, HitsAt{10, 1})
	for line := range strings.Lines(write(t, r, PlainText, TableOptions{Explain: true})) {
		assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 80, line)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("pipe is closed") }

func TestTableReportsWriteErrors(t *testing.T) {
	r := familyReport(t)
	for _, f := range []Format{PlainText, Markdown, LaTeX, CSV, JSON} {
		assert.EqualError(t, r.Write(brokenWriter{}, f, TableOptions{}), "pipe is closed", f)
	}
}

// The caption of a table for a paper says which candidates were ranked, and that estimates are biased.
func TestCaptionOfCandidates(t *testing.T) {
	r := only(familyReport(t), rank.Realistic)
	r.Restrictions = &Restrictions{Sample: &Sample{Candidates: 2}}
	r.Estimate = &Estimate{}
	assert.Contains(t, write(t, r, LaTeX, TableOptions{NoCI: true}), "realistic ties. "+
		"4 candidates, estimated from 2 drawn for each query (seed 0). Estimates: MRR and Hits@k are biased.}\n")
	r.Restrictions.Sample.Exact, r.Estimate.Exact = true, true
	assert.Contains(t, write(t, r, LaTeX, TableOptions{NoCI: true}), "4 candidates, all drawn for each query.}\n")
	r.Restrictions = &Restrictions{Tail: &Restriction{Kind: ObservedCandidates}}
	assert.Contains(t, write(t, r, LaTeX, TableOptions{NoCI: true}),
		" Tails among candidates observed with the relation, heads among 4 candidates.}\n")
	given := &Restriction{Kind: GivenNegatives, Entities: 3, Fewest: 3}
	r.Restrictions = &Restrictions{Tail: given, Head: given}
	assert.Contains(t, write(t, r, LaTeX, TableOptions{NoCI: true}), " Candidates: 3 given negatives.}\n")
}

// A description counts the queries that are left out on its sides.
func TestDescribedExclusions(t *testing.T) {
	r := &Restrictions{
		Tail: &Restriction{Kind: TypedCandidates, Names: []string{"x"}, Entities: 5, Excluded: 2},
		Head: &Restriction{Kind: TypedCandidates, Names: []string{"x"}, Entities: 5, Excluded: 7}, Excluded: 9,
	}
	assert.Equal(t, "5 candidates (type x), 2 queries left out", r.Describe(rank.TailSide, 10))
	assert.Equal(t, "5 candidates (type x), 7 queries left out", r.Describe(rank.HeadSide, 10))
	assert.Equal(t, "5 candidates (type x), 9 queries left out", r.Describe(rank.BothSides, 10))
	r.Head = nil
	assert.Equal(t, "10 candidates", r.Describe(rank.HeadSide, 10))
	r.Tail.Excluded = 0 // as in a file of an earlier version
	assert.Equal(t, "5 candidates (type x), 9 queries left out", r.Describe(rank.TailSide, 10))
}
