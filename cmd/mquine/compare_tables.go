package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/metrics"
)

// tableFormat is how tables are printed.
type tableFormat int

const (
	plainTable tableFormat = iota
	markdownTable
	latexTable
	csvTable
)

func (f tableFormat) String() string { return [...]string{"table", "md", "latex", "csv"}[f] }

// grid is a table before it has a format. Its first columns are text, the others numbers.
type grid struct {
	title  string
	text   int
	header []string
	rows   [][]string
}

func (r *compareReport) print(w io.Writer, f tableFormat) error {
	if f == csvTable {
		return r.writeCSV(text.Exact(w))
	}
	var parts []string
	for _, g := range r.grids() {
		parts = append(parts, g.render(f))
	}
	_, err := io.WriteString(w, strings.Join(parts, "\n"))
	return err
}

func (r *compareReport) grids() []grid {
	protocol := fmt.Sprintf("%s %v, filter %v, %v ties", r.Data, r.Split, r.Filter, r.Ties)
	grids := []grid{r.checkpointGrid(protocol)}
	for _, c := range r.Comparisons {
		against := fmt.Sprintf("%s against %s: %s", c.Other, c.Base, protocol)
		grids = append(grids, c.wholeGrid(against, r.CIBy))
		for at := 0; at < len(c.Groups); {
			end := at
			for end < len(c.Groups) && c.Groups[end].By == c.Groups[at].By {
				end++
			}
			title := against + ", by " + c.Groups[at].By
			if c.Groups[at].By == "z-case" {
				title += " (convention " + r.ZConvention + ")"
			}
			grids = append(grids, groupGrid(title, r.CIBy, c.Groups[at:end]))
			at = end
		}
		grids = append(grids, c.changedGrid(against))
	}
	return grids
}

func (r *compareReport) checkpointGrid(title string) grid {
	g := grid{title: title, text: 2,
		header: []string{"checkpoint", "side", "queries", "MRR " + intervalHeading(r.CIBy), "MR"}}
	for _, h := range r.Checkpoints[0].Results[0].Hits {
		g.header = append(g.header, fmt.Sprintf("Hits@%d", h.K))
	}
	for _, c := range r.Checkpoints {
		for _, res := range c.Results {
			row := []string{c.Name, res.Side.String(), comma(res.N),
				withInterval(res.MRR, res.MRRCI, res.ClusterCount, 4), decimal(res.MR, 2)}
			for _, h := range res.Hits {
				row = append(row, decimal(h.Share, 4))
			}
			g.rows = append(g.rows, row)
		}
	}
	return g
}

func (c *compared) wholeGrid(title string, by metrics.Clustering) grid {
	g := grid{title: title, text: 2, header: []string{
		"side", "metric", "base", "other", "difference " + intervalHeading(by), "p", "wins", "losses", "equal"}}
	for _, of := range c.Whole {
		for _, m := range of.Metrics {
			digits := 4
			if m.Metric == "MR" {
				digits = 2
			}
			g.rows = append(g.rows, []string{of.Side.String(), m.Metric, decimal(m.Base, digits), decimal(m.Other, digits),
				withInterval(m.Difference, m.CI, of.ClusterCount, digits), decimal(m.P, 4),
				comma(of.Wins), comma(of.Losses), comma(of.Equal)})
		}
	}
	return g
}

// groupGrid has a line for each group, of the last selection of sides: its MRR, and its Hits at
// the last cut-off.
func groupGrid(title string, by metrics.Clustering, contrasts []metrics.Contrast) grid {
	side := contrasts[len(contrasts)-1].Side
	g := grid{title: fmt.Sprintf("%s, side %v", title, side), text: 1, header: []string{contrasts[0].By, "queries"}}
	shown := []int{0}
	if last := len(contrasts[0].Metrics) - 1; strings.HasPrefix(contrasts[0].Metrics[last].Metric, "Hits") {
		shown = append(shown, last)
	}
	for _, m := range shown {
		name := contrasts[0].Metrics[m].Metric
		g.header = append(g.header, "base "+name, "other "+name, "difference "+intervalHeading(by), "p")
	}
	g.header = append(g.header, "wins", "losses")
	for _, c := range contrasts {
		if c.Side != side {
			continue
		}
		row := []string{c.Group, comma(c.N)}
		for _, at := range shown {
			m := c.Metrics[at]
			row = append(row, decimal(m.Base, 4), decimal(m.Other, 4),
				withInterval(m.Difference, m.CI, c.ClusterCount, 4), decimal(m.P, 4))
		}
		g.rows = append(g.rows, append(row, comma(c.Wins), comma(c.Losses)))
	}
	return g
}

func (c *compared) changedGrid(title string) grid {
	g := grid{title: title + ", the queries that changed most", text: 4, header: []string{"side", "head", "relation", "tail", "base rank", "other rank"}}
	for _, q := range c.Changed {
		g.rows = append(g.rows, []string{q.Side, q.Head, q.Relation, q.Tail,
			strconv.FormatFloat(q.BaseRank, 'f', -1, 64), strconv.FormatFloat(q.OtherRank, 'f', -1, 64)})
	}
	return g
}

// decimal writes a dash for a number that is not defined.
func decimal(n metrics.Number, digits int) string {
	if math.IsNaN(float64(n)) {
		return "-"
	}
	return strconv.FormatFloat(float64(n), 'f', digits, 64)
}

func intervalHeading(by metrics.Clustering) string { return fmt.Sprintf("[95%% CI by %v]", by) }

func withInterval(n metrics.Number, ci [2]metrics.Number, clusters metrics.ClusterCount, digits int) string {
	if math.IsNaN(float64(n)) {
		return "-"
	}
	if math.IsNaN(float64(ci[0])) {
		return fmt.Sprintf("%s [too few: %s]", decimal(n, digits), decimal(clusters.Effective, 1))
	}
	return fmt.Sprintf("%s [%s, %s]", decimal(n, digits), decimal(ci[0], digits), decimal(ci[1], digits))
}

func (g grid) render(f tableFormat) string {
	switch f {
	case latexTable:
		return g.latex()
	case markdownTable:
		return g.markdown()
	}
	var numbers []int
	for i := g.text; i < len(g.header); i++ {
		numbers = append(numbers, i+1)
	}
	t := newTable(numbers...)
	t.AppendHeader(cells(g.header))
	for _, row := range g.rows {
		t.AppendRow(cells(row))
	}
	return text.Escape(g.title) + "\n\n" + t.Render() + "\n"
}

func cells(texts []string) []any {
	row := make([]any, len(texts))
	for i, text := range texts {
		row[i] = text
	}
	return row
}

// markdown writes a table of GitHub's Markdown. Its header and its numbers are mquine's own words, with brackets
// that are no links.
func (g grid) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n| %s |\n|%s%s\n", text.Markdown(g.title), strings.Join(g.header, " | "),
		strings.Repeat(" --- |", g.text), strings.Repeat(" ---:|", len(g.header)-g.text))
	for _, row := range g.rows {
		for i, cell := range row {
			if i < g.text {
				cell = text.Markdown(cell)
			}
			fmt.Fprintf(&b, "| %s ", cell)
		}
		b.WriteString("|\n")
	}
	return b.String()
}

// latex writes a tabular with the rules of the package booktabs.
func (g grid) latex() string {
	var b strings.Builder
	columns := strings.Repeat("l", g.text) + strings.Repeat("r", len(g.header)-g.text)
	fmt.Fprintf(&b, "%% %s\n\\begin{tabular}{%s}\n\\toprule\n", text.Escape(g.title), columns)
	line := func(cells []string) {
		escaped := make([]string, len(cells))
		for i, cell := range cells {
			escaped[i] = latexEscaper.Replace(text.Escape(cell))
		}
		fmt.Fprintf(&b, "%s \\\\\n", strings.Join(escaped, " & "))
	}
	line(g.header)
	b.WriteString("\\midrule\n")
	for _, row := range g.rows {
		line(row)
	}
	b.WriteString("\\bottomrule\n\\end{tabular}\n")
	return b.String()
}

// latexEscaper also protects a cell that starts with a bracket, which would else be read as an
// argument of the line break before it.
var latexEscaper = strings.NewReplacer(`\`, `\textbackslash{}`, `&`, `\&`, `%`, `\%`, `$`, `\$`, `#`, `\#`, `_`, `\_`,
	`{`, `\{`, `}`, `\}`, `~`, `\textasciitilde{}`, `^`, `\textasciicircum{}`, `[`, `{[}`, `]`, `{]}`)

// writeCSV writes a line for each difference. Names stay as they are, for programs that compare them.
func (r *compareReport) writeCSV(w io.Writer) error {
	lines := csv.NewWriter(w)
	// The writer keeps the first error for the end.
	_ = lines.Write([]string{"data", "split", "filter", "ties", "base", "other", "by", "group", "side", "queries", "wins", "losses", "equal",
		"metric", "base_value", "other_value", "difference", "ci_low", "ci_high", "p",
		"ci_by", "clusters", "effective_clusters"})
	number := func(n metrics.Number) string {
		if math.IsNaN(float64(n)) {
			return ""
		}
		return strconv.FormatFloat(float64(n), 'g', -1, 64)
	}
	for _, c := range r.Comparisons {
		for _, of := range slices.Concat(c.Whole, c.Groups) {
			for _, m := range of.Metrics {
				_ = lines.Write([]string{r.Data, r.Split.String(), r.Filter.String(), r.Ties.String(), c.Base, c.Other,
					of.By, of.Group, of.Side.String(), strconv.Itoa(of.N), strconv.Itoa(of.Wins), strconv.Itoa(of.Losses), strconv.Itoa(of.Equal),
					m.Metric, number(m.Base), number(m.Other), number(m.Difference), number(m.CI[0]), number(m.CI[1]), number(m.P),
					r.CIBy.String(), strconv.Itoa(of.Clusters), number(of.Effective)})
			}
		}
	}
	lines.Flush()
	return lines.Error()
}
