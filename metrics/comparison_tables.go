package metrics

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/rank"
)

// Write writes the comparison in a format. Text and Markdown show the checkpoints and, for each
// comparison, the differences for all queries and for the groups of each key, and the queries that
// changed most. LaTeX shows the last selection of sides: a row for each checkpoint, for each
// comparison and for each group. CSV has a line for each difference. A comparison without checkpoints
// has no tables.
func (r *ComparisonReport) Write(w io.Writer, f Format, o TableOptions) error {
	switch f {
	case JSON:
		return text.WriteJSON(w, r)
	case CSV:
		return r.writeCSV(w)
	}
	if err := o.check(); err != nil {
		return err
	}
	if len(r.Checkpoints) == 0 {
		return nil
	}
	var tables []*text.Table
	if f == LaTeX {
		tables = append(tables, r.paperTable(o), r.paperDifferences(o))
	} else {
		tables = append(tables, r.checkpointTable(o))
	}
	for _, c := range r.Comparisons {
		against := c.Other + " against " + c.Base
		if f != LaTeX {
			tables = append(tables, c.wholeTable(against+": differences, other − base", o), c.countTable())
		}
		for groups := range byKey(c.Groups) {
			tables = append(tables, r.groupTable(against, groups, f, o))
		}
		if f != LaTeX && len(c.Changed) > 0 {
			tables = append(tables, c.changedTable(against+": the queries that changed most"))
		}
	}
	var notes []string
	if o.Explain {
		notes = r.explanation(o)
	}
	return writeTables(w, f, tables, notes)
}

// protocol describes the comparison in one line.
func (r *ComparisonReport) protocol(o TableOptions) string {
	line := fmt.Sprintf("%s: filter %v, %v ties", r.Provenance.Data.SplitText(r.Split.String()), r.Filter, r.Ties)
	if r.Restricted() {
		line += ", restricted candidates"
	}
	if r.LeftOut > 0 {
		line += fmt.Sprintf(", %s left out", text.Plural(r.LeftOut, "query"))
	}
	if n := r.UnequalCandidates(); n != "" {
		line += ", " + n + " candidates"
	}
	if t := r.Checkpoints[0].Tolerance; t != (rank.Tolerance{}) {
		line += ", tolerance " + formatTolerance(t)
	}
	line += o.unit()
	if !o.NoCI {
		line += fmt.Sprintf(", CI by %v", r.Provenance.Bootstrap.By)
	}
	return line
}

// Restricted reports whether the ranks are among restricted candidates or given negatives. If some
// checkpoints have all candidates, all have them on the compared sides: the restriction is of another.
func (r *ComparisonReport) Restricted() bool {
	return !slices.ContainsFunc(r.Checkpoints, func(c ComparedCheckpoint) bool { return !c.Restricted })
}

// UnequalCandidates returns the numbers of candidates of the checkpoints, as in "14,541 or 14,505". It
// returns "" if all known numbers are equal.
func (r *ComparisonReport) UnequalCandidates() string {
	var different []string
	for _, c := range r.Checkpoints {
		if n := text.Comma(c.Candidates); c.Candidates > 0 && !slices.Contains(different, n) {
			different = append(different, n)
		}
	}
	if len(different) < 2 {
		return ""
	}
	return text.Join(different, "or")
}

// checkpointTable returns a table with a line for each checkpoint and selection of sides. The best
// values stand out.
func (r *ComparisonReport) checkpointTable(o TableOptions) *text.Table {
	header := []any{"checkpoint", "side", o.intervalHeading("MRR"), "MR"}
	if o.Wide {
		header = append(header, wideHeader...)
	}
	t := newTable(r.protocol(o), 2, append(header, hitsHeader(r.Checkpoints[0].Results[0].Hits)...))
	for _, c := range r.Checkpoints {
		for s, res := range c.Results {
			row := []any{c.Name, res.Side.String(),
				r.best(s, mrrOf, res, o.interval("mrr", res.MRR, res.MRRCI, res.ClusterCount), o.share),
				r.best(s, negatedMR, res, o.mean(res.MR), o.mean)}
			if o.Wide {
				row = append(row, o.wideCells(res)...)
			}
			t.AppendRow(append(row, r.bestHits(s, res, o)...))
		}
	}
	return t
}

func mrrOf(res Result) Number { return res.MRR }

func negatedMR(res Result) Number { return -res.MR } // larger is better

// best returns a cell that shows the given text. The cell stands out if no other checkpoint's value
// prints as a better number for the selection of sides with index s.
func (r *ComparisonReport) best(
	s int, of func(Result) Number, res Result, shown string, print func(Number) string,
) any {
	best := of(res)
	for _, c := range r.Checkpoints {
		best = max(best, of(c.Results[s]))
	}
	if len(r.Checkpoints) > 1 && print(of(res)) == print(best) {
		return text.Best(shown)
	}
	return shown
}

func (r *ComparisonReport) bestHits(s int, res Result, o TableOptions) []any {
	var cells []any
	for i, h := range res.Hits {
		of := func(res Result) Number { return res.Hits[i].Share }
		cells = append(cells, r.best(s, of, res, o.share(h.Share), o.share))
	}
	return cells
}

// paperTable returns a table with a line for each checkpoint, for the last selection of sides.
func (r *ComparisonReport) paperTable(o TableOptions) *text.Table {
	s := len(r.Checkpoints[0].Results) - 1
	first := r.Checkpoints[0].Results[s]
	header := []any{"model", o.intervalHeading("MRR")}
	if o.Wide {
		header = append(append(header, "MR"), wideHeader...)
	}
	t := newTable(r.caption(o), 1, append(header, hitsHeader(first.Hits)...))
	for _, c := range r.Checkpoints {
		res := c.Results[s]
		row := []any{c.Name, r.best(s, mrrOf, res, o.interval("mrr", res.MRR, res.MRRCI, res.ClusterCount), o.share)}
		if o.Wide {
			row = append(append(row, r.best(s, negatedMR, res, o.mean(res.MR), o.mean)), o.wideCells(res)...)
		}
		t.AppendRow(append(row, r.bestHits(s, res, o)...))
	}
	return t
}

// caption describes the comparison in the caption of a table for a paper.
func (r *ComparisonReport) caption(o TableOptions) string {
	results := r.Checkpoints[0].Results
	caption := paperCaption(r.Provenance, r.Split.String(), r.Filter, results[len(results)-1].Side, r.Ties, o)
	if r.Restricted() {
		caption += " The candidates are restricted."
	}
	if r.LeftOut > 0 {
		caption += fmt.Sprintf(" Left out: %s.", text.Plural(r.LeftOut, "query"))
	}
	if n := r.UnequalCandidates(); n != "" {
		caption += fmt.Sprintf(" The checkpoints have %s candidates.", n)
	}
	if t := r.Checkpoints[0].Tolerance; t != (rank.Tolerance{}) {
		caption += fmt.Sprintf(" Scores within %s of the answer's count as equal.", formatTolerance(t))
	}
	return caption
}

// paperDifferences returns a table with a line for each comparison with the base, for the last
// selection of sides.
func (r *ComparisonReport) paperDifferences(o TableOptions) *text.Table {
	title := fmt.Sprintf("Differences from %s, and two-sided p-values of a permutation test. %s",
		r.Checkpoints[0].Name, r.caption(o))
	t := newTable(title, 1, []any{"model", o.intervalHeading("difference in MRR"), "p", "wins", "losses"})
	for _, c := range r.Comparisons {
		whole := c.Whole[len(c.Whole)-1]
		mrr := whole.Metrics[0]
		t.AppendRow([]any{c.Other, o.interval(mrr.Metric, mrr.Difference, mrr.CI, whole.ClusterCount), formatP(mrr.P),
			text.Comma(whole.Wins), text.Comma(whole.Losses)})
	}
	return t
}

func (c *NamedComparison) wholeTable(title string, o TableOptions) *text.Table {
	t := newTable(title, 2, []any{"side", "metric", "base", "other", o.intervalHeading("difference"), "p"})
	for _, of := range c.Whole {
		for _, m := range of.Metrics {
			t.AppendRow([]any{of.Side.String(), MetricName(m.Metric), o.metric(m.Metric, m.Base),
				o.metric(m.Metric, m.Other), o.interval(m.Metric, m.Difference, m.CI, of.ClusterCount), formatP(m.P)})
		}
	}
	return t
}

// countTable returns a table of wins, losses and equal ranks.
func (c *NamedComparison) countTable() *text.Table {
	t := newTable("", 1, []any{"side", "queries", "wins", "losses", "equal"})
	for _, of := range c.Whole {
		t.AppendRow([]any{of.Side.String(), text.Comma(of.N), text.Comma(of.Wins), text.Comma(of.Losses),
			text.Comma(of.Equal)})
	}
	return t
}

// groupTable returns a table with a line for each group: the difference in MRR, for the last
// selection of sides. A wide table adds the last Hits@k, wins and losses.
func (r *ComparisonReport) groupTable(
	against string, contrasts []Contrast, f Format, o TableOptions,
) *text.Table {
	by, side, metrics := contrasts[0].By, contrasts[len(contrasts)-1].Side, contrasts[0].Metrics
	of := slices.DeleteFunc(slices.Clone(contrasts), func(c Contrast) bool { return c.Side != side })
	shown := []int{0}
	if last := len(metrics) - 1; o.Wide && strings.HasPrefix(metrics[last].Metric, hitsKey) {
		shown = append(shown, last)
	}
	title := fmt.Sprintf("%s by %s", against, by)
	if f != LaTeX {
		title += fmt.Sprintf(": side %v", side)
	}
	if by == zCaseName {
		title += ", convention " + r.ZConvention
	}
	header := []any{by, "queries"}
	for _, m := range shown {
		name := ""
		if len(shown) > 1 {
			name = " " + MetricName(metrics[m].Metric)
		}
		header = append(header, "base"+name, "other"+name, o.intervalHeading("difference"), "p")
	}
	if len(shown) == 1 {
		title += ", MRR"
	}
	title += notListed(o)
	if f == LaTeX { // a paper shows each table by itself
		title += ". " + r.caption(o)
	} else {
		title += o.unit()
	}
	if o.Wide {
		header = append(header, "wins", "losses")
	}
	t := newTable(title, 1, header)
	appendGroups(t, len(header), of, o, func(c Contrast) []any {
		row := []any{text.WithLabel(c.Group, c.Label), count(c.N)}
		for _, at := range shown {
			m := c.Metrics[at]
			row = append(row, o.metric(m.Metric, m.Base), o.metric(m.Metric, m.Other),
				o.interval(m.Metric, m.Difference, m.CI, c.ClusterCount), formatP(m.P))
		}
		if o.Wide {
			row = append(row, text.Comma(c.Wins), text.Comma(c.Losses))
		}
		return row
	})
	return t
}

func (c *NamedComparison) changedTable(title string) *text.Table {
	t := newTable(title, 4, []any{"side", "head", "relation", "tail", "base rank", "other rank"})
	for _, q := range c.Changed {
		t.AppendRow([]any{q.Side, text.WithLabel(q.Head, q.HeadLabel), text.WithLabel(q.Relation, q.RelationLabel),
			text.WithLabel(q.Tail, q.TailLabel), Number(q.BaseRank).Format(-1), Number(q.OtherRank).Format(-1)})
	}
	return t
}

// explanation returns lines that explain the numbers in the tables.
func (r *ComparisonReport) explanation(o TableOptions) []string {
	lines := []string{
		"Differences: other − base. Wins: queries that the other checkpoint ranks better.",
		fmt.Sprintf("p: two-sided permutation test, %s permutations by %v, without a correction\nfor multiple testing.",
			text.Comma(r.Provenance.Bootstrap.Permutations), r.Provenance.Bootstrap.By),
	}
	if o.NoCI {
		return lines
	}
	few := false
	clusters := 0
	for _, c := range r.Comparisons {
		for _, of := range slices.Concat(c.Whole, c.Groups) {
			few = few || of.tail() == 0
		}
		clusters = c.Whole[len(c.Whole)-1].Clusters
	}
	return append(lines, resampling(r.Provenance.Bootstrap, r.Split.String(), clusters, few)...)
}

// writeCSV writes a line for each difference. It leaves names unescaped, so programs can compare
// them.
func (r *ComparisonReport) writeCSV(w io.Writer) error {
	var rows [][]string
	candidates := func(name string) string { // empty if unknown
		for _, c := range r.Checkpoints {
			if c.Name == name && c.Candidates > 0 {
				return strconv.Itoa(c.Candidates)
			}
		}
		return ""
	}
	for _, c := range r.Comparisons {
		tolerance := r.Checkpoints[0].Tolerance // all ranks have the same
		for _, of := range slices.Concat(c.Whole, c.Groups) {
			for _, m := range of.Metrics {
				rows = append(rows, []string{
					r.Provenance.Data.Name, r.Split.String(), r.Filter.String(), r.Ties.String(), c.Base, c.Other,
					of.By, of.Group, of.Label, of.Side.String(), strconv.Itoa(of.N), strconv.Itoa(of.Wins),
					strconv.Itoa(of.Losses), strconv.Itoa(of.Equal),
					m.Metric, m.Base.Exact(), m.Other.Exact(), m.Difference.Exact(), m.CI[0].Exact(), m.CI[1].Exact(),
					m.P.Exact(), r.Provenance.Bootstrap.By.String(), strconv.Itoa(of.Clusters), of.Effective.Exact(),
					candidates(c.Base), candidates(c.Other), strconv.FormatBool(r.Restricted()),
					Number(tolerance.Absolute).Exact(), Number(tolerance.Relative).Exact(),
				})
			}
		}
	}
	header := []string{
		"data", "split", "filter", "ties", "base", "other", "by", "group", "label", "side", "n", "wins", "losses",
		"equal", "metric", "base_value", "other_value", "difference", "ci_low", "ci_high", "p",
		"ci_by", "clusters", "effective_clusters", "base_candidates", "other_candidates", "restricted",
	}
	return text.WriteRecords(w, CSV, append(header, toleranceColumns...), slices.Values(rows))
}

// AddLabels adds readable labels of opaque identifiers to groups and queries.
func (r *ComparisonReport) AddLabels(labels map[string]string) {
	for _, c := range r.Comparisons {
		for i := range c.Groups {
			if g := &c.Groups[i]; g.By == relationName || g.By == entityName {
				g.Label = labels[g.Group]
			}
		}
		for i := range c.Changed {
			q := &c.Changed[i]
			q.HeadLabel, q.RelationLabel, q.TailLabel = labels[q.Head], labels[q.Relation], labels[q.Tail]
		}
	}
}
