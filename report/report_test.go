package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/rank"
	"github.com/mquine/mquine/train"
	"github.com/mquine/mquine/train/recipe"
	"github.com/mquine/mquine/train/run"
)

// graph returns a graph whose labels begin with a prefix.
func graph(t *testing.T, prefix string) *kg.Graph {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "small")
	require.NoError(t, os.Mkdir(dir, 0o777))
	random := rand.New(rand.NewPCG(1, 2))
	for _, split := range []string{"train", "valid", "test"} {
		var text strings.Builder
		for i := range 60 {
			fmt.Fprintf(&text, "%[1]se%[2]d\t%[1]sr%[3]d\t%[1]se%[4]d\n", prefix, i%20, random.IntN(3), random.IntN(20))
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, split+".txt"), []byte(text.String()), 0o666))
	}
	g, err := kg.Open(t.Context(), dir)
	require.NoError(t, err)
	return g
}

// ranksOf returns random ranks of the test split of g. A smaller spread gives better ranks.
func ranksOf(g *kg.Graph, spread int, seed uint64) []rank.Rank {
	random := rand.New(rand.NewPCG(seed, 7))
	var ranks []rank.Rank
	for _, side := range []kg.Side{kg.Tail, kg.Head} {
		for _, triple := range g.Splits[kg.Test] {
			r := rank.Rank{Triple: triple, Side: side}
			for f := range rank.NumFilters {
				r.Better[f], r.Equal[f] = int32(random.IntN(spread)), int32(random.IntN(2))
				r.Candidates[f] = 20
			}
			ranks = append(ranks, r)
		}
	}
	return ranks
}

// evaluate returns the report of ranks.
func evaluate(t *testing.T, g *kg.Graph, ranks []rank.Rank) *metrics.Report {
	t.Helper()
	keys, err := metrics.NewKeys(t.Context(), g, metrics.KeyNames(), metrics.KeyOptions{
		Triples: g.Splits[kg.Test], Sides: rank.BothSides,
	})
	require.NoError(t, err)
	r := &metrics.Report{
		Split: "test", Candidates: 20,
		Provenance: metrics.Provenance{
			Version: "v9.8.7", Revision: "cafe", Date: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
			Command:    "mquine eval x",
			Machine:    metrics.Machine{CPU: "Some CPU", Tier: "avx2", Threads: 3},
			Checkpoint: metrics.Checkpoint{Path: "/some/best", SHA256: "0123abcd", Model: "complex", Dim: 7},
			Data: metrics.Data{
				Name: g.Name, SHA256: "4567efef", Entities: 20, Relations: 3, Train: 60, Valid: 60, Test: 60,
			},
		},
	}
	require.NoError(t, r.Summarize(t.Context(), ranks, metrics.SummaryOptions{
		Sides: rank.BothSides, Filters: []rank.Filter{rank.None, rank.All}, Ties: []rank.Ties{rank.Realistic},
		Hits: []int{1, 3, 10}, Keys: keys,
	}))
	r.SetExtremes(g, ranks, rank.All, rank.Realistic)
	return r
}

// compareRanks returns the comparison of two lists of ranks.
func compareRanks(t *testing.T, g *kg.Graph, base, other []rank.Rank) *metrics.ComparisonReport {
	t.Helper()
	keys, err := metrics.NewKeys(t.Context(), g, []string{"relation"}, metrics.KeyOptions{})
	require.NoError(t, err)
	r, err := metrics.CompareAll(t.Context(), g, kg.Test, []metrics.ComparedCheckpoint{
		{Name: g.Entities.Label(0) + "base", Ranks: base}, {Name: "other", Ranks: other},
	}, metrics.CompareOptions{Sides: rank.BothSides, Filter: rank.All, Ties: rank.Realistic, Hits: []int{1, 10},
		Keys: keys, Changed: 5})
	require.NoError(t, err)
	return r
}

// trained returns the history of a run with the given number of epochs.
func trained(t *testing.T, data string, epochs int) run.History {
	t.Helper()
	h := run.History{Data: data, Recipe: recipe.Default()}
	h.Recipe.Epochs, h.Recipe.ZSamples = 40, 8
	best := 0.0
	for i := 1; i <= epochs; i++ {
		e := run.Epoch{
			EpochResult: train.EpochResult{
				Epoch: i, Loss: train.Loss{Total: 40 / float64(i), Fit: 30 / float64(i), Z: 10 / float64(i)},
				Seconds: 2, TriplesPerSecond: 1000,
			},
			ProcessorSeconds: 3,
		}
		if i%2 == 0 {
			for j, side := range []rank.Sides{rank.TailSide, rank.HeadSide, rank.BothSides} {
				mrr := 0.3 + 0.05*float64(j) - 0.002*math.Abs(float64(i-14))
				e.Valid = append(e.Valid, train.Score{Side: side, Filter: rank.All, MRR: mrr})
			}
			if mrr := e.Valid.Of(h.Recipe.ValidMetric); mrr > best {
				best, e.Best = mrr, true
			}
		}
		h.Epochs = append(h.Epochs, e)
	}
	return h
}

// full returns a page with every kind of section.
func full(t *testing.T, prefix string) *Page {
	t.Helper()
	g := graph(t, prefix)
	good, bad := ranksOf(g, 5, 1), ranksOf(g, 15, 2)
	return &Page{
		Evaluations: []Evaluation{{prefix + "good", evaluate(t, g, good)}, {prefix + "bad", evaluate(t, g, bad)}},
		Comparisons: []Comparison{{prefix + "pair", compareRanks(t, g, good, bad)}},
		Runs:        []Run{{prefix + "run", trained(t, prefix, 20)}, {prefix + "another", trained(t, prefix, 40)}},
	}
}

func written(t *testing.T, p *Page) string {
	t.Helper()
	var page bytes.Buffer
	require.NoError(t, p.Write(&page))
	return strings.ReplaceAll(page.String(), "<wbr>", "")
}

// element is an element of a parsed page.
type element struct {
	name  string
	attrs map[string]string
	text  string // text of the element and of all elements within
}

// elements parses a page. It fails the test unless the elements are properly nested.
func elements(t *testing.T, html string) []*element {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(html))
	decoder.Strict, decoder.AutoClose, decoder.Entity = false, []string{"meta", "br"}, xml.HTMLEntity
	var all, open []*element
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			require.Empty(t, open)
			return all
		}
		require.NoError(t, err)
		switch token := token.(type) {
		case xml.StartElement:
			e := &element{name: token.Name.Local, attrs: map[string]string{}}
			for _, a := range token.Attr {
				e.attrs[a.Name.Local] = a.Value
			}
			all, open = append(all, e), append(open, e)
		case xml.EndElement:
			require.Equal(t, open[len(open)-1].name, token.Name.Local)
			open = open[:len(open)-1]
		case xml.CharData:
			for _, e := range open {
				e.text += string(token)
			}
		}
	}
}

// tableRows returns the rows of all tables with the given caption, as cells joined by "|".
func tableRows(t *testing.T, html, caption string) []string {
	t.Helper()
	var rows []string
	for _, at := range regexp.MustCompile(`(?s)<table>.*?</table>`).FindAllString(html, -1) {
		parts := elements(t, at)
		if !slices.ContainsFunc(parts, func(e *element) bool { return e.name == "caption" && e.text == caption }) {
			continue
		}
		row := ""
		for _, e := range parts {
			switch e.name {
			case "tr":
				rows = append(rows, row)
				row = ""
			case "td", "th":
				row += e.text + "|"
			}
		}
		rows = append(rows, row)
	}
	return rows
}

func TestPage(t *testing.T) {
	p := full(t, "")
	html := written(t, p)
	assert.Equal(t, html, written(t, p), "equal content gives equal bytes")

	// The page loads nothing and runs nothing, and shows no unformatted value such as NaN.
	bad := regexp.MustCompile(`(?i:<script|https?://|@import|url\(|<link|src=)|ZgotmplZ|NaN|[+-]Inf|%!|<nil>`)
	assert.Empty(t, bad.FindString(html))

	// Links lead to elements, whose IDs are unique.
	ids := map[string]int{}
	for _, e := range elements(t, html) {
		if id, ok := e.attrs["id"]; ok {
			ids[id]++
		}
	}
	links := 0
	for _, e := range elements(t, html) {
		if target, ok := strings.CutPrefix(e.attrs["href"], "#"); ok {
			assert.Equal(t, 1, ids[target], target)
			links++
		}
	}
	assert.Greater(t, links, 40)

	for _, want := range []string{
		"good: complex (d = 7) on small, test split", "Rank distribution", "By category of relation", "By Z-case",
		"By relation", "By degree of the target", "Worst and best queries", "Provenance", "v9.8.7, revision cafe",
		"2026-01-02 03:04:05 UTC",
		"mquine eval x", "Some CPU, avx2, 3 threads", "/some/best", "0123abcd", "4567efef", "20 entities, 3 relations",
		"Side by side: small, test split", "Side by side: runs on", "other against e0base",
		"Queries whose 1/rank changed most",
		"Training curves", "learning_rate", "20 of 40 epochs are done", "The best validation was after epoch 14",
	} {
		assert.Contains(t, html, want)
	}
}

// The lead of an evaluation names the candidates, of each side if they differ.
func TestLeadNamesCandidates(t *testing.T) {
	g := graph(t, "")
	e := Evaluation{"restricted", evaluate(t, g, ranksOf(g, 15, 3))}
	tails := &metrics.Restriction{Kind: metrics.ListedCandidates, Names: []string{"list.txt"}, Entities: 7}
	for want, r := range map[string]*metrics.Restrictions{
		"120 queries among 20 candidates: ":                                             nil,
		"120 queries, tails among 7 candidates (list.txt), heads among 20 candidates: ": {Tail: tails},
		"120 queries among 7 candidates (list.txt): ":                                   {Tail: tails, Head: tails},
	} {
		e.Restrictions = r
		assert.Contains(t, written(t, &Page{Evaluations: []Evaluation{e}}), want)
	}
}

// The lead of a comparison names the tolerance of the ranks.
func TestLeadNamesTolerance(t *testing.T) {
	g := graph(t, "")
	c := Comparison{"pair", compareRanks(t, g, ranksOf(g, 5, 1), ranksOf(g, 15, 2))}
	const lead = "Scores within 1e-05 &#43; 0.0001·|score| of the target&#39;s count as equal."
	assert.NotContains(t, written(t, &Page{Comparisons: []Comparison{c}}), lead)
	c.Checkpoints[0].Tolerance = rank.Tolerance{Absolute: 1e-5, Relative: 1e-4}
	assert.Contains(t, written(t, &Page{Comparisons: []Comparison{c}}), lead)
}

// TestBoards checks that a page puts only evaluations of the same queries and candidates side by side,
// and that it calls estimates by their name.
func TestBoards(t *testing.T) {
	g := graph(t, "")
	ranks := ranksOf(g, 15, 3)
	named := func(name string, change func(*metrics.Report)) Evaluation {
		r := evaluate(t, g, ranks)
		change(r)
		return Evaluation{name, r}
	}
	sampled := func(r *metrics.Report) {
		r.Restrictions = &metrics.Restrictions{Sample: &metrics.Sample{Candidates: 5, Seed: 1}}
		r.Estimate = &metrics.Estimate{}
	}
	restricted := func(kind, sha256 string, names ...string) func(*metrics.Report) {
		return func(r *metrics.Report) {
			tails := &metrics.Restriction{Kind: kind, SHA256: sha256, Names: names, Entities: 7}
			r.Restrictions = &metrics.Restrictions{Tail: tails}
		}
	}
	for _, kind := range []string{metrics.ListedCandidates, metrics.GivenNegatives} {
		html := written(t, &Page{Evaluations: []Evaluation{
			named("here", restricted(kind, "01", "list.txt")), named("there", restricted(kind, "01", "./list.txt")),
		}})
		assert.Contains(t, html, "Side by side", "the paths of equal files do not matter")
	}
	all := []Evaluation{
		named("exact", func(*metrics.Report) {}),
		named("other-data", func(r *metrics.Report) { r.Provenance.Data.SHA256 = "89ab" }),
		named("other-number", func(r *metrics.Report) { r.Candidates = 30 }),
		named("listed", func(r *metrics.Report) {
			tails := &metrics.Restriction{Kind: metrics.ListedCandidates, Entities: 7}
			r.Restrictions = &metrics.Restrictions{Tail: tails}
		}),
		named("typed", restricted(metrics.TypedCandidates, "01", "drug")),
		named("of-another-type", restricted(metrics.TypedCandidates, "01", "compound")),
		named("negatives", restricted(metrics.GivenNegatives, "23", "negatives.tsv")),
		named("other-negatives", restricted(metrics.GivenNegatives, "45", "negatives.tsv")),
		named("piped", restricted(metrics.GivenNegatives, "", "/dev/fd/63")),
		named("sampled", sampled),
	}
	assert.NotContains(t, written(t, &Page{Evaluations: all}), "Side by side")
	complete := named("complete", func(r *metrics.Report) { sampled(r); r.Estimate.Exact = true })
	assert.NotContains(t, written(t, &Page{Evaluations: []Evaluation{complete}}), "The figures are estimates")
	for i, e := range all {
		html := written(t, &Page{Evaluations: append(all[:len(all):len(all)], Evaluation{"again", e.Report})})
		assert.Equal(t, 1, strings.Count(html, "Side by side: small, test split</a></h2>"), e.Name)
		assert.Equal(t, 1+i/(len(all)-1), strings.Count(html, "The MRR is too high on average"), e.Name)
	}
}

// Side by side, groups by Z-case are of the same convention, because the conventions divide the queries
// differently.
func TestBoardsOfConventions(t *testing.T) {
	g := graph(t, "")
	var all []Evaluation
	for i, convention := range []string{"paper", "definition", "paper"} {
		r := evaluate(t, g, ranksOf(g, 15, uint64(3+i)))
		r.ZConvention = convention
		all = append(all, Evaluation{fmt.Sprintf("%s-%d", convention, i), r})
	}
	cases := func(of ...Evaluation) (rows []string) {
		html, _, _ := strings.Cut(written(t, &Page{Evaluations: of}), `<section id="evaluation-1">`)
		require.Contains(t, html, "MRR by category")
		if rows = tableRows(t, html, "MRR by z-case"); rows != nil {
			assert.Contains(t, html, "Z-cases follow the convention &#34;paper&#34; of Z-patterns.")
		}
		assert.NotContains(t, html, "&#34;definition&#34;")
		return rows
	}
	assert.Empty(t, cases(all[:2]...))
	assert.Equal(t, "Z-case|Queries|paper-0|paper-2|", cases(all...)[1])
	assert.Equal(t, cases(all[0], all[2])[1:], cases(all[1], all[0], all[2])[1:])
}

// Side by side, an evaluation that lacks a key of groups does not hide the groups of the others.
func TestBoardsOfKeys(t *testing.T) {
	g := graph(t, "")
	all := []Evaluation{}
	for i, lacks := range []string{"relation", "degree", "degree"} {
		r := evaluate(t, g, ranksOf(g, 15, uint64(3+i)))
		r.Groups = slices.DeleteFunc(r.Groups, func(of metrics.Result) bool { return of.By == lacks })
		all = append(all, Evaluation{"without-" + lacks + fmt.Sprint(i), r})
	}
	html := written(t, &Page{Evaluations: all})
	require.Len(t, tableRows(t, html, "MRR by relation"), 2+3)
	assert.Equal(t, "Relation|Queries|without-degree1|without-degree2|", tableRows(t, html, "MRR by relation")[1])
	assert.Equal(t, "Category|Queries|without-relation0|without-degree1|without-degree2|",
		tableRows(t, html, "MRR by category")[1])
	assert.Empty(t, tableRows(t, html, "MRR by degree"), "one evaluation has the key")
	r0 := all[1].Groups
	i := slices.IndexFunc(r0, func(of metrics.Result) bool {
		return of.By == "relation" && of.Group == "r0" && of.Side == rank.BothSides && of.Filter == rank.All
	})
	assert.Contains(t, html, fmt.Sprintf(">%.4f", r0[i].MRR))
}

// Side by side, the page says which clusters the intervals resample.
func TestBoardsOfClusters(t *testing.T) {
	g := graph(t, "")
	ranks := ranksOf(g, 15, 3)
	a, b := Evaluation{"a", evaluate(t, g, ranks)}, Evaluation{"b", evaluate(t, g, ranks)}
	a.Provenance.Bootstrap.By, b.Provenance.Bootstrap.By = metrics.ByQuery, metrics.ByQuery
	page := func() string { return written(t, &Page{Evaluations: []Evaluation{a, b}}) }
	assert.Contains(t, page(), "Intervals are by query, and describe each evaluation alone.")
	assert.NotContains(t, tableRows(t, page(), "Metrics of the evaluations")[1], "Intervals by")
	b.Provenance.Bootstrap.By = metrics.ByTriple
	rows := tableRows(t, page(), "Metrics of the evaluations")
	assert.Contains(t, rows[1], "|Model|Intervals by|")
	assert.Regexp(t, `^a\|.*\|query\|$`, rows[2])
	assert.Regexp(t, `^b\|.*\|triple\|$`, rows[3])
	assert.Contains(t, page(), "They resample different clusters, which the last column names")
	assert.NotContains(t, page(), "Intervals are by")
}

// The sentence about the MRR agrees with the number that it prints.
func TestVerdict(t *testing.T) {
	for difference, want := range map[metrics.Number]string{
		0:        "the MRR of b equals the base's. ",
		0.00004:  "the MRR of b equals the base's to four decimals. ",
		-0.00004: "the MRR of b equals the base's to four decimals. ",
		0.00006:  "the MRR of b is higher than the base's by 0.0001. ",
		-0.00006: "the MRR of b is lower than the base's by 0.0001. ",
	} {
		pair := metrics.NamedComparison{Other: "b", Whole: []metrics.Contrast{{Metrics: []metrics.MetricDifference{
			{Metric: "mrr", Difference: difference, CI: [2]metrics.Number{-1, 1}},
		}}}}
		assert.Contains(t, verdict(pair), want)
	}
}

// TestChance checks that the line for chance is for the candidates of the shown queries, and absent if
// their number depends on the query. Among C candidates, the first place has the share 1/C.
func TestChance(t *testing.T) {
	g := graph(t, "")
	r := evaluate(t, g, ranksOf(g, 15, 3))
	given := func(fewest, most int) *metrics.Restriction {
		return &metrics.Restriction{Kind: metrics.GivenNegatives, Fewest: fewest, Entities: most}
	}
	listed := func(n int) *metrics.Restriction {
		return &metrics.Restriction{Kind: metrics.ListedCandidates, Entities: n}
	}
	observed := &metrics.Restriction{Kind: metrics.ObservedCandidates, Entities: 10}
	for _, test := range []struct {
		restrictions *metrics.Restrictions
		want         string // the share of the first place
	}{
		{nil, "5%"},
		{&metrics.Restrictions{Sample: &metrics.Sample{Candidates: 4}}, "5%"},
		{&metrics.Restrictions{Tail: listed(10), Head: listed(10)}, "10%"},
		{&metrics.Restrictions{Tail: listed(10), Head: listed(16)}, ""},
		{&metrics.Restrictions{Tail: listed(10)}, ""},
		{&metrics.Restrictions{Head: listed(10)}, ""},
		{&metrics.Restrictions{Tail: listed(10), Head: given(9, 9)}, "10%"},
		{&metrics.Restrictions{Tail: given(4, 9), Head: given(4, 9)}, ""},
		{&metrics.Restrictions{Tail: observed, Head: observed}, ""},
	} {
		r.Restrictions = test.restrictions
		p := &Page{Evaluations: []Evaluation{{"e", r}, {"again", r}}}
		var found []string
		for _, e := range elements(t, written(t, p)) {
			if _, line, ok := strings.Cut(e.attrs["aria-label"], "chance: from "); ok {
				share, _, _ := strings.Cut(line, " ")
				found = append(found, share)
			}
		}
		charts := 10 // by side, by filter for both evaluations, and side by side, each in two widths
		assert.Equal(t, slices.Repeat([]string{test.want}, charts*min(len(test.want), 1)), append([]string{}, found...))
		assert.Equal(t, test.want != "", strings.Contains(written(t, p), "The dashed line is chance"))
	}
	// Only the restrictions of the ranked side count.
	r.Restrictions = &metrics.Restrictions{Tail: listed(10)}
	assert.Equal(t, 10, Evaluation{"e", r}.candidates(rank.TailSide))
	assert.Equal(t, 20, Evaluation{"e", r}.candidates(rank.HeadSide))
}

// TestExtremes checks that the page names the tie rule of the worst and best queries, which may differ
// from the rule of the headline figures.
func TestExtremes(t *testing.T) {
	g := graph(t, "")
	ranks := ranksOf(g, 15, 3)
	r := evaluate(t, g, ranks)
	optimistic := r.Results[len(r.Results)-1]
	optimistic.Ties = rank.Optimistic
	r.Results = append(r.Results, optimistic)
	text := func() string {
		page := written(t, &Page{Evaluations: []Evaluation{{"e", r}}})
		_, after, _ := strings.Cut(page, "the highest and the lowest ranks, ")
		before, _, _ := strings.Cut(after, ".")
		return before
	}
	r.SetExtremes(g, ranks, rank.Train, rank.Pessimistic)
	assert.Equal(t, "both sides, filter train, pessimistic ties", text())
	assert.Equal(t, rank.Realistic, Evaluation{"e", r}.ties(), "no result has pessimistic ties")
	r.SetExtremes(g, ranks, rank.All, rank.Optimistic)
	assert.Equal(t, rank.Optimistic, Evaluation{"e", r}.ties())
	r.Extremes = nil // as in a file of an earlier version
	assert.Equal(t, "both sides, filter all, optimistic ties", text())
	assert.Equal(t, rank.Realistic, Evaluation{"e", r}.ties())
}

// The speed of a run is the number of triples of all epochs over their time, without validation.
func TestRunSpeed(t *testing.T) {
	h := run.History{Recipe: recipe.Default()}
	h.Epochs = []run.Epoch{
		{EpochResult: train.EpochResult{Epoch: 1, Seconds: 9, TriplesPerSecond: 10}, ValidSeconds: 5},
		{EpochResult: train.EpochResult{Epoch: 2, Seconds: 1, TriplesPerSecond: 90}},
	}
	var found []string
	for _, x := range (Run{"run", h}).tiles() {
		if x.Name == "Time" {
			found = append(found, x.Note)
		}
	}
	assert.Equal(t, []string{"18 triples per second of training"}, found)
}

// The cell of a query's target is bold.
func TestTargetCells(t *testing.T) {
	for i, side := range []kg.Side{kg.Head, kg.Relation, kg.Tail} {
		for k, c := range targetCells(side.String(), cell{}, cell{}, cell{}) {
			assert.Equal(t, k == i, c.Bold, "cell %d on side %v", k, side)
			assert.Equal(t, k == 3, c.Text == side.String(), "cell %d on side %v", k, side)
		}
	}
}

// TestProtocol checks that the page names the protocol of a tool, its tolerance and its deviations.
func TestProtocol(t *testing.T) {
	g := graph(t, "")
	r := evaluate(t, g, ranksOf(g, 15, 3))
	lead := func() string {
		for _, e := range elements(t, written(t, &Page{Evaluations: []Evaluation{{"e", r}}})) {
			if e.attrs["class"] == "lead" {
				return e.text
			}
		}
		return ""
	}
	assert.NotContains(t, lead(), "Protocol ")
	r.Protocol, r.Tolerance = "libkge", &rank.Tolerance{Absolute: 0.5, Relative: 0.25}
	r.Deviations = []metrics.Deviation{{Cause: "tolerance", Queries: 3}, {Cause: "float32", Queries: 7}}
	assert.Contains(t, lead(), "realistic ties. "+
		"Protocol libkge, tolerance 0.5 + 0.25·|score|. Tolerance: 3 of 120 ranks differ from the ranks by exact "+
		"scores. Scores within 0.5 + 0.25·|score| of the target's count as equal. Float32: 7 of 120 targets have "+
		"candidates that float32 may order differently. For these, the rank in LibKGE may differ. The true answer is")
}

// TestMachine checks that the page names the processor with its instruction set and the number of threads.
func TestMachine(t *testing.T) {
	g := graph(t, "")
	r := evaluate(t, g, ranksOf(g, 5, 1))
	r.Provenance.Machine.CPU, r.Provenance.Machine.Tier, r.Provenance.Machine.Threads = "Chip 9", "avx2", 3
	assert.Contains(t, written(t, &Page{Evaluations: []Evaluation{{"e", r}}}), "Chip 9, avx2, 3 threads")
}

// TestLeftOut checks that the page counts the triples that are left out, and shows the notes about a checkpoint.
func TestLeftOut(t *testing.T) {
	g := graph(t, "")
	r := evaluate(t, g, ranksOf(g, 15, 3))
	page := func() string { return written(t, &Page{Evaluations: []Evaluation{{"e", r}}}) }
	assert.NotContains(t, page(), "unknown labels")
	assert.NotContains(t, page(), "eft out")
	r.Provenance.Data.LeftOut = metrics.LeftOut{Train: 1234, Test: 2}
	r.Provenance.Checkpoint.Notes = []string{"the norm is assumed", "the scale too"}
	assert.Contains(t, page(), "without 2 triples with unknown labels: both sides, ")
	assert.Contains(t, page(), "Left out, with labels that a checkpoint lacks: 1,234 train, 0 valid and 2 test triples")
	assert.Contains(t, page(), "the norm is assumed; the scale too")

	c := compareRanks(t, g, ranksOf(g, 5, 1), ranksOf(g, 15, 2))
	compared := func() string { return written(t, &Page{Comparisons: []Comparison{{"c", c}}}) }
	assert.NotContains(t, compared(), "Left out")
	c.Provenance.Data.LeftOut, c.LeftOut = metrics.LeftOut{Test: 2}, 1
	assert.Contains(t, compared(), " Left out: 2 triples with unknown labels. Left out: 1 query.")
}

// TestFigures compares figures on the page with metrics that are computed here from the ranks.
func TestFigures(t *testing.T) {
	g := graph(t, "")
	ranks := ranksOf(g, 15, 3)
	html := written(t, &Page{Evaluations: []Evaluation{{"e", evaluate(t, g, ranks)}}})

	var mrr, mr, first float64
	atMost := map[float64]int{}
	relations := map[string][]float64{}
	for _, r := range ranks {
		position := 1 + float64(r.Better[rank.All]) + float64(r.Equal[rank.All])/2
		mrr += 1 / position
		mr += position
		if position <= 1 {
			first++
		}
		for _, bound := range []float64{1, 2, 3, 5, 10, 20} {
			if position <= bound {
				atMost[bound]++
			}
		}
		name := g.Relations.Label(r.Triple.Relation)
		relations[name] = append(relations[name], 1/position)
	}
	n := float64(len(ranks))
	rows := tableRows(t, html, "Metrics by filter and side, realistic ties")
	last := strings.Split(rows[len(rows)-1], "|")
	require.Equal(t, []string{"all", "both", "", "120"}, []string{last[0], last[1], last[2], last[len(last)-2]})
	assert.Equal(t, fmt.Sprintf("%.4f", mrr/n), last[3])
	assert.Equal(t, fmt.Sprintf("%.4f", first/n), last[5])
	assert.Equal(t, fmt.Sprintf("%.2f", mr/n), last[8])
	assert.Contains(t, html, fmt.Sprintf("first for %.1f%% of the queries", 100*first/n))

	rows = tableRows(t, html, "Share of queries by rank")
	require.Contains(t, rows[1], "|tail|head|both|")
	for _, row := range rows[2:] {
		cells := strings.Split(row, "|")
		var bound float64
		_, err := fmt.Sscan(cells[0], &bound)
		require.NoError(t, err)
		assert.Equal(t, fmt.Sprintf("%.4f", float64(atMost[bound])/n), cells[3], row)
	}

	for _, bound := range []float64{1, 2, 3, 5, 10} {
		share := 100 * float64(atMost[bound]) / n
		assert.Contains(t, html, fmt.Sprintf("both: rank ≤ %v for %.1f%%", bound, share), "a point of the chart")
	}

	// The description of the chart, for a screen reader, has one decimal.
	require.Equal(t, 4, atMost[1], "out of 120 ranks")
	assert.Contains(t, html, "both: from 3.3% to 100%")

	rows = tableRows(t, html, "By relation")
	require.Len(t, rows, 2+len(relations))
	assert.Contains(t, rows[1], "MRR00.5|", "the bars end at 0.5")
	_, table, _ := strings.Cut(html, `class="hidden">By relation<`)
	width := regexp.MustCompile(`<rect class="hue1" x="0%" width="([0-9.]+)%"`)
	bars := width.FindAllStringSubmatch(table, len(relations))
	for i, row := range rows[2:] {
		cells := strings.Split(row, "|")
		sum := 0.0
		for _, v := range relations[cells[0]] {
			sum += v
		}
		assert.Equal(t, fmt.Sprint(len(relations[cells[0]])), cells[2])
		assert.Equal(t, fmt.Sprintf("%.4f", sum/float64(len(relations[cells[0]]))), cells[3])
		assert.Equal(t, fmt.Sprintf("%.2f", 100*sum/float64(len(relations[cells[0]]))/0.5), bars[i][1])
	}
}

// TestBest checks that the board of evaluations shows the best value of each column in bold.
func TestBest(t *testing.T) {
	g := graph(t, "")
	good, bad := ranksOf(g, 5, 1), ranksOf(g, 15, 2)
	html := written(t, &Page{Evaluations: []Evaluation{{"bad", evaluate(t, g, bad)}, {"good", evaluate(t, g, good)}}})
	best := metrics.Measure(good, rank.BothSides, rank.All, rank.Realistic, []int{1})
	worst := metrics.Measure(bad, rank.BothSides, rank.All, rank.Realistic, []int{1})
	_, html, _ = strings.Cut(html, "Metrics of the evaluations")
	html, _, _ = strings.Cut(html, "</table>")
	for _, value := range []func(metrics.Result) string{
		func(r metrics.Result) string { return fmt.Sprintf("%.4f", r.MRR) },
		func(r metrics.Result) string { return fmt.Sprintf("%.2f", r.MR) },
		func(r metrics.Result) string { return fmt.Sprintf("%.4f", r.Hits[0].Share) },
		func(r metrics.Result) string { return fmt.Sprintf("%.4f", r.AMRI) },
	} {
		assert.Contains(t, html, "<b>"+value(best)+"</b>")
		assert.Contains(t, html, ">"+value(worst)+"<")
		assert.NotContains(t, html, "<b>"+value(worst)+"</b>")
	}
}

// TestBestOfGroups checks that groups of evaluations side by side have the best value in bold,
// unless all values are equal.
func TestBestOfGroups(t *testing.T) {
	for _, test := range []struct {
		name  string
		other int // seed
		bold  bool
	}{{"different", 2, true}, {"equal", 1, false}} {
		g := graph(t, "")
		a, b := evaluate(t, g, ranksOf(g, 5, 1)), evaluate(t, g, ranksOf(g, 5, uint64(test.other)))
		html := written(t, &Page{Evaluations: []Evaluation{{"a", a}, {"b", b}}})
		_, html, _ = strings.Cut(html, "MRR by relation")
		html, _, _ = strings.Cut(html, "</table>")
		assert.Equal(t, test.bold, strings.Contains(html, "<b>"), test.name)
	}
}

// TestDifferences compares differences on the page with differences of metrics.Measure.
func TestDifferences(t *testing.T) {
	g := graph(t, "")
	base, other := ranksOf(g, 5, 1), ranksOf(g, 15, 2)
	html := written(t, &Page{Comparisons: []Comparison{{"c", compareRanks(t, g, base, other)}}})
	rows := tableRows(t, html, "Differences by metric and side")
	require.Len(t, rows, 2+4*3)
	for _, row := range rows[2:] {
		cells := strings.Split(row, "|")
		side, err := rank.ParseSides(cells[1])
		require.NoError(t, err)
		a := metrics.Measure(base, side, rank.All, rank.Realistic, []int{1, 10})
		b := metrics.Measure(other, side, rank.All, rank.Realistic, []int{1, 10})
		difference, decimals := float64(b.MRR-a.MRR), 4
		switch cells[0] {
		case "MR":
			difference, decimals = float64(b.MR-a.MR), 2
		case "Hits@1":
			difference = float64(b.Hits[0].Share - a.Hits[0].Share)
		case "Hits@10":
			difference = float64(b.Hits[1].Share - a.Hits[1].Share)
		default:
			require.Equal(t, "MRR", cells[0])
		}
		assert.Equal(t, strings.Replace(fmt.Sprintf("%+.*f", decimals, difference), "-", "−", 1), cells[5], row)
		if cells[0] == "MRR" {
			assert.Equal(t, "< 0.0001", cells[7], "the two rankings differ a lot")
		}
	}
	assert.Contains(t, html, "the MRR of other is lower than the base")
}

// TestAbsentParts checks that a report that lacks some fields, as reports of earlier versions do,
// gives a page without the parts that show these fields.
func TestAbsentParts(t *testing.T) {
	g := graph(t, "")
	r := evaluate(t, g, ranksOf(g, 5, 1))
	r.RankBounds, r.Groups, r.Worst, r.Best = nil, nil, nil, nil
	for i := range r.Results {
		r.Results[i].RankCounts = nil
	}
	r.Provenance = metrics.Provenance{}
	html := written(t, &Page{Evaluations: []Evaluation{{"e", r}, {"f", r}}})
	assert.Contains(t, html, "Metrics by protocol")
	assert.NotRegexp(t, `Rank distribution|>By |Worst|SHA-256|Machine|Command`, html)
}

// TestUndefined checks that the page shows undefined metrics as dashes and says why an interval is
// missing.
func TestUndefined(t *testing.T) {
	r := &metrics.Report{Split: "test", Results: []metrics.Result{metrics.Measure(nil, rank.TailSide, rank.All,
		rank.Optimistic, []int{10})}}
	html := written(t, &Page{Evaluations: []Evaluation{{"e", r}}})
	assert.NotRegexp(t, `NaN|Inf`, html)
	assert.Contains(t, html, "–")

	// The distribution leaves out a side without queries, as after eval --skip-excluded.
	g := graph(t, "")
	tails := evaluate(t, g, slices.DeleteFunc(ranksOf(g, 5, 1), func(r rank.Rank) bool { return r.Side == kg.Head }))
	html = written(t, &Page{Evaluations: []Evaluation{{"e", tails}}})
	rows := tableRows(t, html, "Share of queries by rank")
	require.Greater(t, len(rows), 1)
	assert.Equal(t, "Rank at most|tail|both|", rows[1])

	few := evaluate(t, graph(t, ""), ranksOf(graph(t, ""), 5, 1)[:4])
	assert.Contains(t, written(t, &Page{Evaluations: []Evaluation{{"e", few}}}), "too few clusters: ")
}

// Differences without an interval have the reason, for all queries and by group, unless the file lacks it,
// as files of earlier versions do.
func TestDifferencesWithoutInterval(t *testing.T) {
	g := graph(t, "")
	c := compareRanks(t, g, ranksOf(g, 5, 1)[:4], ranksOf(g, 15, 2)[:4])
	page := func() string { return written(t, &Page{Comparisons: []Comparison{{"c", c}}}) }
	whole := c.Comparisons[0].Whole[2]
	require.Equal(t, rank.BothSides, whole.Side)
	rows := slices.Concat(tableRows(t, page(), "Differences by metric and side")[2:],
		tableRows(t, page(), "Difference of the MRR by relation, side both")[2:])
	checked := 0
	for _, row := range rows {
		if cells := strings.Split(row, "|"); cells[1] == "both" {
			assert.Equal(t, fmt.Sprintf("too few clusters: %.1f", whole.Effective), cells[6], row)
			checked++
		} else if cells[1] == "" { // a group
			assert.Regexp(t, `^too few clusters: [1-4]\.\d$`, cells[6], row)
			checked++
		}
	}
	assert.Greater(t, checked, 4)
	for _, list := range [][]metrics.Contrast{c.Comparisons[0].Whole, c.Comparisons[0].Groups} {
		for i := range list {
			list[i].ClusterCount = metrics.ClusterCount{}
		}
	}
	html := page()
	_, html, _ = strings.Cut(html, "Differences by metric and side")
	assert.NotContains(t, html, "too few clusters:")
}

// Estimates of ranks and their medians have at most two decimals.
func TestScaledRanks(t *testing.T) {
	g := graph(t, "")
	ranks := ranksOf(g, 15, 3)
	for i := range ranks {
		ranks[i].Scale = 2.3 / 3
	}
	html := written(t, &Page{Evaluations: []Evaluation{{"e", evaluate(t, g, ranks)}}})
	assert.Empty(t, regexp.MustCompile(`\d\.\d{5,}`).FindAllString(html, -1))
}

// TestLabels checks that readable labels follow identifiers.
func TestLabels(t *testing.T) {
	g := graph(t, "")
	r, c := evaluate(t, g, ranksOf(g, 5, 1)), compareRanks(t, g, ranksOf(g, 5, 1), ranksOf(g, 15, 2))
	for i := range r.Groups {
		r.Groups[i].Label = "label of " + r.Groups[i].Group
	}
	r.Worst[0].HeadLabel, r.Best[0].TailLabel = "worst head", "best tail"
	c.Comparisons[0].Changed[0].RelationLabel = "changed relation"
	html := written(t, &Page{Evaluations: []Evaluation{{"e", r}}, Comparisons: []Comparison{{"c", c}}})
	for _, want := range []string{"label of r0", "worst head", "best tail", "changed relation"} {
		assert.Contains(t, html, "<small>"+want+"</small>")
	}
}

// TestHostileText checks that names and labels cannot end an element or an attribute of the page,
// and cannot hide other text.
func TestHostileText(t *testing.T) {
	const prefix = `"'><script>alert(1)</script><img src=x onerror=alert(1)>--></style></svg>&lt;` + "\x1b\u202e"
	html := written(t, full(t, prefix))
	assert.NotRegexp(t, `(?i)<script|<img|-->`, html)
	assert.Equal(t, 1, strings.Count(html, "</style>"))
	for _, r := range html {
		require.False(t, r != '\n' && unicode.In(r, unicode.Cc, unicode.Bidi_Control), "%q", r)
	}
	for _, e := range elements(t, html) {
		for name := range e.attrs {
			assert.False(t, strings.HasPrefix(name, "on"), name)
		}
	}
	assert.Contains(t, html, `&lt;script&gt;alert(1)`)
	assert.Contains(t, html, `\x1b\u202e`)
}

// TestManyGroups checks that a page shows both ends of a large set of groups and folds the rest.
func TestManyGroups(t *testing.T) {
	r := &metrics.Report{Split: "test", Results: []metrics.Result{{
		Side: rank.BothSides, Filter: rank.All, Ties: rank.Realistic, N: 9, MRR: 0.5, MR: 3,
	}}}
	for i := range 1000 {
		group := r.Results[0]
		group.By, group.Group = "entity", fmt.Sprintf("entity %d", i)
		group.N, group.MRR = 1000-i, metrics.Number(i)/1000
		r.Groups = append(r.Groups, group)
	}
	html := written(t, &Page{Evaluations: []Evaluation{{"e", r}}})
	lowest := tableRows(t, html, "Lowest MRR, of 981 with at least 20 queries")
	require.Len(t, lowest, 2+10)
	assert.Contains(t, lowest[2], "entity 0|")
	highest := tableRows(t, html, "Highest MRR, of 981 with at least 20 queries")
	require.Len(t, highest, 2+10)
	assert.Contains(t, highest[2], "entity 980|")
	assert.Len(t, tableRows(t, html, "The first 300 of 1,000 groups"), 2+300)
}

// TestPageIsChecked checks that Write writes nothing if it cannot show an item.
func TestPageIsChecked(t *testing.T) {
	for want, p := range map[string]Page{
		`evaluation "x": it has no results`: {Evaluations: []Evaluation{{"x", &metrics.Report{}}}},
		`evaluation "y": it has no results`: {Evaluations: []Evaluation{{Name: "y"}}},
		`evaluation "z": an MRR or Hits@k is 2, but must be from 0 to 1`: {
			Evaluations: []Evaluation{{"z", &metrics.Report{Results: []metrics.Result{{MRR: 2, MR: 1}}}}},
		},
		`comparison "x": it has no checkpoints`: {Comparisons: []Comparison{{"x", &metrics.ComparisonReport{}}}},
		`comparison "y": it has no checkpoints`: {Comparisons: []Comparison{{Name: "y"}}},
		`run "x": it has no finished epoch`:     {Runs: []Run{{"x", trained(t, "data", 0)}}},
	} {
		var out bytes.Buffer
		assert.EqualError(t, p.Write(&out), "the page cannot show "+want+"; correct it, or leave it out")
		assert.Empty(t, out.String())
	}
}

func TestNumbers(t *testing.T) {
	for want, got := range map[string]string{
		"0.1235": number(0.12345, 4), "1,234,567.9": number(1234567.89, 1), "–": number(undefined, 4),
		"−0.50": number(-0.5, 2), "0.0000": number(-0.00001, 4), "3.5": number(3.5, -1), "−1,234": number(-1234, 0),
		"+0.0100": signed(0.01, 4), "−0.0100": signed(-0.01, 4), "0.00": signed(0.0001, 2), "< 0.0001": pValue(0.00009),
		"0.0123": pValue(0.0123), "12.3%": percent(0.1234),
		"[0.10, 0.20]": interval([2]metrics.Number{0.1, 0.2}, number, 2),
		"12.3 s":       seconds(12.34), "5 min": seconds(300), "2.5 h": seconds(9000),
		"3": rankNumber(3), "1,234.5": rankNumber(1234.5), "1.75": rankNumber(1.75),
		"112.60": rankNumber(112.60000000000001), "3.80": rankNumber(3.8048780487804876),
	} {
		assert.Equal(t, want, got)
	}
	assert.Equal(t, "–", rankNumber(undefined))
	assert.Equal(t, scale{0, 0.5}, shareScale(math.NaN(), 0.31))
	assert.Equal(t, scale{0, 1}, shareScale(0.31, 0.7))
	assert.Equal(t, scale{-0.05, 0.05}, signedScale(-0.04, 0.01, math.NaN()))
	assert.Equal(t, scale{0, 0.3}, shareScale(0.3), "the largest value may be the end")
	assert.Equal(t, scale{-0.2, 0.2}, signedScale(0.2), "the largest value may be the end")
	assert.Equal(t, scale{-100, 100}, signedScale(60, -20, math.Inf(1)))
	assert.Equal(t, scale{-1, 1}, signedScale(0), "the scale has a width even if all differences are 0")
	assert.Equal(t, []bar{{"a", "0.00", "25.00"}, {"c", "25.00", "75.00"}},
		parts([]string{"a", "b", "c"}, 1, 0, 3).Bars)
	assert.Equal(t, &strip{Bars: []bar{{"hue1", "0", "25.00"}}, Low: "20.00", High: "40.00"},
		scale{0, 0.5}.bar(0.125, [2]metrics.Number{0.1, 0.2}))
	assert.Equal(t, &strip{Dot: "75.00", Zero: "50.00", Low: "25.00", High: "100.00"},
		scale{-1, 1}.difference(0.5, [2]metrics.Number{-0.5, 1}))
	assert.Equal(t, &strip{Dot: "75.00", Zero: "50.00"},
		scale{-1, 1}.difference(0.5, [2]metrics.Number{undefined, undefined}), "no interval")
	assert.Nil(t, scale{0, 1}.bar(undefined, [2]metrics.Number{0, 1}))
	assert.Nil(t, scale{0, 1}.difference(undefined, [2]metrics.Number{0, 1}))
	assert.Equal(t, "62.50", scale{-2, 2}.at(0.5))
	assert.Equal(t, "100.00", scale{0, 1}.at(7))
}
