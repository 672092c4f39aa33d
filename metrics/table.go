package metrics

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/rank"
)

// WriteTable prints the results under one tie rule as a table, with a line for each filter and
// selection of sides. A title and an explanation of the numbers surround it.
func (r *Report) WriteTable(w io.Writer, ties rank.Ties) error {
	p := printer{out: w}
	p.println(r.title(ties))
	p.println()

	header := []any{"filter", "side", "queries", "MRR " + intervalHeading(r.Provenance.Bootstrap.By), "MR", "median", "GMR", "AMR", "AMRI"}
	if len(r.Results) > 0 {
		header = append(header, hitsHeader(r.Results[0].Hits)...)
	}
	t := newTable(2, header)
	for _, res := range r.Results {
		if res.Ties != ties {
			continue
		}
		cells := []any{
			res.Filter.String(), res.Side.String(), text.Comma(res.N),
			interval(res.MRR, res.MRRCI, res.ClusterCount, 4),
			res.MR.format(2), res.Median.format(-1), res.GMR.format(2), res.AMR.format(4), res.AMRI.format(4),
		}
		t.AppendRow(append(cells, hitsCells(res.Hits)...))
	}
	p.println(t.Render())
	p.println()
	p.println(r.protocol(ties))
	return p.err
}

// WriteGroups prints a table for each key of the groups, under one tie rule and the last filter.
func (r *Report) WriteGroups(w io.Writer, ties rank.Ties) error {
	p := printer{out: w}
	filters, sides := r.switches()
	if len(filters) == 0 {
		return nil
	}
	filter, side := filters[len(filters)-1], sides[len(sides)-1]

	rest := slices.DeleteFunc(slices.Clone(r.Groups), func(g Result) bool {
		return g.Ties != ties || g.Filter != filter
	})
	for len(rest) > 0 {
		by := rest[0].By
		header := []any{by, "queries", "MRR " + intervalHeading(r.Provenance.Bootstrap.By)}
		for _, s := range sides[:len(sides)-1] {
			header = append(header, s.String()+" MRR")
		}
		header = append(header, hitsHeader(rest[0].Hits)...)
		t := newTable(1, header)
		for len(rest) > 0 && rest[0].By == by {
			// The selections of sides for a group are consecutive. The line shows the last one.
			n := 1
			for n < len(rest) && rest[n].By == by && rest[n].Group == rest[0].Group {
				n++
			}
			group, main := rest[:n], rest[n-1]
			rest = rest[n:]
			cells := []any{main.Group, text.Comma(main.N), interval(main.MRR, main.MRRCI, main.ClusterCount, 4)}
			for _, part := range group[:n-1] {
				cells = append(cells, part.MRR.format(4))
			}
			t.AppendRow(append(cells, hitsCells(main.Hits)...))
		}
		p.println()
		title := fmt.Sprintf("By %s: filter %v, side %v, %v ties", by, filter, side, ties)
		if by == zCaseName {
			title += ", convention " + r.ZConvention
		}
		p.println(title)
		p.println()
		p.println(t.Render())
	}
	return p.err
}

// title describes the evaluation in one line.
func (r *Report) title(ties rank.Ties) string {
	filters, _ := r.switches()
	names := make([]string, len(filters))
	for i, f := range filters {
		names[i] = f.String()
	}
	return fmt.Sprintf("%s %s: %s (d = %d), %s candidates, %v ties, filters %s",
		text.Escape(r.Provenance.Data.Name), r.Split, text.Escape(r.Provenance.Checkpoint.Model), r.Provenance.Checkpoint.Dim, text.Comma(r.Candidates), ties,
		strings.Join(names, ", "))
}

// protocol explains the numbers.
func (r *Report) protocol(ties rank.Ties) string {
	filters, sides := r.switches()
	rankOf := map[rank.Ties]string{
		rank.Optimistic:  " (candidates with exactly its score come after it)",
		rank.Pessimistic: " + the candidates with exactly its score",
		rank.Realistic:   " + half of the candidates with exactly its score",
	}
	meaning := map[rank.Filter]string{
		rank.None:  "every entity is a candidate",
		rank.Train: "other answers known from train are not candidates",
		rank.All:   "other answers known from train, valid and test are not candidates",
	}
	lines := []string{"Rank: 1 + the candidates that score better than the target" + rankOf[ties] + "."}
	for _, f := range filters {
		lines = append(lines, fmt.Sprintf("Filter %v: %s.", f, meaning[f]))
	}
	if slices.Contains(sides, rank.BothSides) {
		lines = append(lines, "Side both: the mean over the tail and the head query of each triple.")
	}
	return strings.Join(append(lines, r.resampling()...), "\n")
}

// resampling explains the intervals.
func (r *Report) resampling() []string {
	line := fmt.Sprintf("CI: percentile bootstrap, %s resamples of the %s triples", text.Comma(resamples), r.Split)
	if r.Provenance.Bootstrap.By != ByTriple && len(r.Results) > 0 {
		all := r.Results[len(r.Results)-1]
		line += fmt.Sprintf(" in %s clusters by %v", text.Comma(all.Clusters), r.Provenance.Bootstrap.By)
	}
	lines := []string{line + "."}
	if slices.ContainsFunc(r.Results, func(res Result) bool { return tooFew(res.MRR, res.MRRCI) }) ||
		slices.ContainsFunc(r.Groups, func(g Result) bool { return tooFew(g.MRR, g.MRRCI) }) {
		lines = append(lines, fmt.Sprintf("[too few: n]: no interval, because the effective number n of clusters "+
			"is below %d.", leastClusters))
	}
	return lines
}

// switches returns the filters and the selections of sides of the results, in the order of the
// results.
func (r *Report) switches() (filters []rank.Filter, sides []rank.Sides) {
	for _, res := range r.Results {
		if !slices.Contains(filters, res.Filter) {
			filters = append(filters, res.Filter)
		}
		if !slices.Contains(sides, res.Side) {
			sides = append(sides, res.Side)
		}
	}
	return filters, sides
}

// format formats the number with the given number of decimals, or with as many as the number needs
// if decimals is −1. An undefined number is a dash.
func (n Number) format(decimals int) string {
	if math.IsNaN(float64(n)) {
		return "-"
	}
	return strconv.FormatFloat(float64(n), 'f', decimals, 64)
}

func intervalHeading(by Clustering) string { return fmt.Sprintf("[95%% CI by %v]", by) }

// interval formats a mean with its interval, or with the reason why it has none.
func interval(n Number, ci [2]Number, c ClusterCount, decimals int) string {
	switch {
	case math.IsNaN(float64(n)):
		return "-"
	case tooFew(n, ci):
		return fmt.Sprintf("%s [too few: %s]", n.format(decimals), c.Effective.format(1))
	}
	return fmt.Sprintf("%s [%s, %s]", n.format(decimals), ci[0].format(decimals), ci[1].format(decimals))
}

// tooFew reports whether a mean has no interval, because it has too few clusters.
func tooFew(n Number, ci [2]Number) bool {
	return !math.IsNaN(float64(n)) && math.IsNaN(float64(ci[0]))
}

func hitsHeader(hits Hits) []any {
	var cells []any
	for _, h := range hits {
		cells = append(cells, fmt.Sprintf("Hits@%d", h.K))
	}
	return cells
}

func hitsCells(hits Hits) []any {
	var cells []any
	for _, h := range hits {
		cells = append(cells, h.Share.format(4))
	}
	return cells
}

// newTable returns a table with text in the first columns and numbers in the others.
func newTable(textColumns int, header []any) *text.Table {
	var numbers []int
	for i := textColumns; i < len(header); i++ {
		numbers = append(numbers, i+1)
	}
	t := text.NewTable(numbers...)
	t.AppendHeader(header)
	return t
}

// printer prints lines until the first error, which it remembers.
type printer struct {
	out io.Writer
	err error
}

func (p *printer) println(line ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintln(p.out, line...)
	}
}
