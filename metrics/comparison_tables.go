package metrics

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/mquine/mquine/internal/text"
)

// TableFormat is a format of ComparisonReport.Write.
type TableFormat uint8

const (
	// PlainText is aligned text.
	PlainText TableFormat = iota
	// Markdown is GitHub Flavored Markdown.
	Markdown
	// LaTeX is a LaTeX table, which needs the package booktabs.
	LaTeX
	// CSV gives a line for each difference, with exact names, and omits changed queries.
	CSV
)

// String returns "table", "md", "latex" or "csv".
func (f TableFormat) String() string {
	return text.Name([]string{"table", "md", "latex", "csv"}, f, "TableFormat")
}

// Write writes a table of the checkpoints. For each comparison it adds tables for all queries, for
// the groups of each key, and for the queries that changed most.
func (r *ComparisonReport) Write(w io.Writer, f TableFormat) error {
	if f == CSV {
		return r.writeCSV(w)
	}
	var parts []string
	for _, t := range r.tables() {
		parts = append(parts, t.render(f))
	}
	_, err := io.WriteString(w, strings.Join(parts, "\n"))
	return err
}

// titledTable is a table with a line above it.
type titledTable struct {
	title string
	*text.Table
}

func (t titledTable) render(f TableFormat) string {
	switch f {
	case LaTeX:
		return "% " + text.Escape(t.title) + "\n" + t.LaTeX()
	case Markdown:
		return text.Markdown(t.title) + "\n\n" + t.Markdown()
	}
	return text.Escape(t.title) + "\n\n" + t.Render() + "\n"
}

func (r *ComparisonReport) tables() []titledTable {
	protocol := fmt.Sprintf("%s %v, filter %v, %v ties", r.Provenance.Data.Name, r.Split, r.Filter, r.Ties)
	tables := []titledTable{{protocol, r.checkpointTable()}}
	for _, c := range r.Comparisons {
		against := fmt.Sprintf("%s against %s: %s", c.Other, c.Base, protocol)
		tables = append(tables, titledTable{against, c.wholeTable(r.Provenance.Bootstrap.By)})
		for rest := c.Groups; len(rest) > 0; {
			by, last := rest[0].By, len(rest)
			if i := slices.IndexFunc(rest, func(g Contrast) bool { return g.By != by }); i >= 0 {
				last = i
			}
			title := against + ", by " + by
			if by == zCaseName {
				title += " (convention " + r.ZConvention + ")"
			}
			side := rest[last-1].Side
			title = fmt.Sprintf("%s, side %v", title, side)
			tables = append(tables, titledTable{title, groupTable(r.Provenance.Bootstrap.By, rest[:last])})
			rest = rest[last:]
		}
		tables = append(tables, titledTable{against + ", the queries that changed most", c.changedTable()})
	}
	return tables
}

func (r *ComparisonReport) checkpointTable() *text.Table {
	header := []any{"checkpoint", "side", "queries", "MRR " + intervalHeading(r.Provenance.Bootstrap.By), "MR"}
	t := newTable(2, append(header, hitsHeader(r.Checkpoints[0].Results[0].Hits)...))
	for _, c := range r.Checkpoints {
		for _, res := range c.Results {
			row := []any{c.Name, res.Side.String(), text.Comma(res.N),
				interval(res.MRR, res.MRRCI, res.ClusterCount, 4), res.MR.format(2)}
			t.AppendRow(append(row, hitsCells(res.Hits)...))
		}
	}
	return t
}

func (c *NamedComparison) wholeTable(by Clustering) *text.Table {
	t := newTable(2, []any{
		"side", "metric", "base", "other", "difference " + intervalHeading(by), "p", "wins", "losses", "equal"})
	for _, of := range c.Whole {
		for _, m := range of.Metrics {
			decimals := 4
			if m.Metric == "mr" {
				decimals = 2
			}
			t.AppendRow([]any{of.Side.String(), m.Metric, m.Base.format(decimals), m.Other.format(decimals),
				interval(m.Difference, m.CI, of.ClusterCount, decimals), m.P.format(4),
				text.Comma(of.Wins), text.Comma(of.Losses), text.Comma(of.Equal)})
		}
	}
	return t
}

// groupTable gives a line for each group with the MRR and the last Hits@k, for the last selection
// of sides.
func groupTable(by Clustering, contrasts []Contrast) *text.Table {
	metrics, side := contrasts[0].Metrics, contrasts[len(contrasts)-1].Side
	shown := []int{0}
	if last := len(metrics) - 1; strings.HasPrefix(metrics[last].Metric, hitsKey) {
		shown = append(shown, last)
	}
	header := []any{contrasts[0].By, "queries"}
	for _, m := range shown {
		name := metrics[m].Metric
		header = append(header, "base "+name, "other "+name, "difference "+intervalHeading(by), "p")
	}
	t := newTable(1, append(header, "wins", "losses"))
	for _, c := range contrasts {
		if c.Side != side {
			continue
		}
		row := []any{c.Group, text.Comma(c.N)}
		for _, at := range shown {
			m := c.Metrics[at]
			row = append(row, m.Base.format(4), m.Other.format(4),
				interval(m.Difference, m.CI, c.ClusterCount, 4), m.P.format(4))
		}
		t.AppendRow(append(row, text.Comma(c.Wins), text.Comma(c.Losses)))
	}
	return t
}

func (c *NamedComparison) changedTable() *text.Table {
	t := newTable(4, []any{"side", "head", "relation", "tail", "base rank", "other rank"})
	for _, q := range c.Changed {
		t.AppendRow([]any{q.Side, q.Head, q.Relation, q.Tail,
			Number(q.BaseRank).format(-1), Number(q.OtherRank).format(-1)})
	}
	return t
}

// writeCSV writes a line for each difference. It leaves names unescaped, so programs can compare
// them.
func (r *ComparisonReport) writeCSV(w io.Writer) error {
	lines := csv.NewWriter(w)
	// The writer remembers its first error, and Error returns it.
	_ = lines.Write([]string{
		"data", "split", "filter", "ties", "base", "other", "by", "group", "side", "queries", "wins", "losses", "equal",
		"metric", "base_value", "other_value", "difference", "ci_low", "ci_high", "p",
		"ci_by", "clusters", "effective_clusters",
	})
	number := func(n Number) string {
		if math.IsNaN(float64(n)) {
			return ""
		}
		return strconv.FormatFloat(float64(n), 'g', -1, 64)
	}
	for _, c := range r.Comparisons {
		for _, of := range slices.Concat(c.Whole, c.Groups) {
			for _, m := range of.Metrics {
				_ = lines.Write([]string{
					r.Provenance.Data.Name, r.Split.String(), r.Filter.String(), r.Ties.String(), c.Base, c.Other, of.By, of.Group,
					of.Side.String(), strconv.Itoa(of.N), strconv.Itoa(of.Wins), strconv.Itoa(of.Losses),
					strconv.Itoa(of.Equal),
					m.Metric, number(m.Base), number(m.Other), number(m.Difference), number(m.CI[0]),
					number(m.CI[1]), number(m.P),
					r.Provenance.Bootstrap.By.String(), strconv.Itoa(of.Clusters), number(of.Effective),
				})
			}
		}
	}
	lines.Flush()
	return lines.Error()
}
