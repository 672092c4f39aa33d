package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/mquine/mquine/internal/plot"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/rank"
)

// chartWidth is the width of a chart in pixels. Two charts fit next to each other on a wide page.
const chartWidth = 560

// distribution returns the distribution of ranks, if the report has it.
func (e Evaluation) distribution(h metrics.Result) part {
	var bySide, byFilter []curve
	for _, r := range e.results(h.Ties) {
		if len(r.RankCounts) == 0 || r.N == 0 { // no query has a share of 0 queries
			continue
		}
		c := curve{bounds: e.RankBounds, counts: r.RankCounts}
		if r.Filter == h.Filter {
			c.name = r.Side.String()
			bySide = append(bySide, c)
		}
		if r.Side == h.Side {
			c.name = r.Filter.String()
			byFilter = append(byFilter, c)
		}
	}
	if len(bySide) == 0 {
		return part{}
	}
	candidates := e.candidates(h.Side)
	p := part{
		Title:  "Rank distribution",
		Text:   distributionText(candidates),
		Charts: []plot.Chart{distributionChart(fmt.Sprintf("By side, filter %v", h.Filter), candidates, bySide)},
		Folded: []folded{{"Shares by rank", shares(bySide)}},
	}
	if len(byFilter) > 1 {
		title := fmt.Sprintf("By filter, %s", strings.TrimSuffix(protocolName(h.Side, h.Filter, h.Ties),
			fmt.Sprintf(", filter %v, %v ties", h.Filter, h.Ties)))
		p.Charts = append(p.Charts, distributionChart(title, candidates, byFilter))
	}
	return p
}

// candidates returns the number of candidates of every query on some sides before a filter, or 0 if
// it is unknown or depends on the query.
func (e Evaluation) candidates(sides rank.Sides) int {
	if e.Restrictions == nil || sides == rank.RelationSide {
		return e.Candidates
	}
	all := -1
	for _, side := range sides.List() {
		of := e.Restrictions.Tail
		if side == kg.Head {
			of = e.Restrictions.Head
		}
		n := e.Candidates
		if of != nil {
			switch of.Kind {
			case metrics.ListedCandidates, metrics.TypedCandidates:
				n = of.Entities
			case metrics.GivenNegatives:
				n = of.Entities + 1 // the target is not listed
			}
			if of.Kind == metrics.GivenNegatives && of.Fewest < of.Entities || of.Kind == metrics.ObservedCandidates {
				n = 0
			}
		}
		if all >= 0 && n != all {
			return 0
		}
		all = n
	}
	return all
}

// distributionText describes a chart of distributions with the given number of candidates, or with
// an unknown number if it is 0.
func distributionText(candidates int) string {
	s := "Each line shows the share of queries whose true answer has this rank or a better one."
	if candidates > 0 {
		s += " The dashed line is chance: a random order of all candidates."
	}
	return s
}

// curve is a distribution of ranks: counts[i] ranks are at most bounds[i] and above bounds[i−1].
type curve struct {
	name           string
	bounds, counts []int
}

// shares returns the cumulative shares at the bounds.
func (c curve) shares() []float64 {
	total := 0
	for _, n := range c.counts {
		total += n
	}
	shares := make([]float64, len(c.bounds))
	sum := 0
	for i := range c.bounds {
		if i < len(c.counts) {
			sum += c.counts[i]
		}
		shares[i] = float64(sum) / float64(max(total, 1))
	}
	return shares
}

// distributionChart draws cumulative distributions of ranks. Without a number of candidates, it has no
// line for chance.
func distributionChart(title string, candidates int, curves []curve) plot.Chart {
	c := plot.Chart{
		Title: title, Width: chartWidth,
		X: plot.Axis{Label: "rank", Log: true, Format: func(v float64) string { return text.Comma(int(v)) }},
		Y: plot.Axis{
			Label: "share of queries", Include: []float64{0, 1},
			Format: func(v float64) string { return number(metrics.Number(math.Round(1000*v)/10), -1) + "%" },
		},
	}
	largest := 1
	for _, of := range curves {
		s := plot.Series{Name: of.name}
		for i, share := range of.shares() {
			at := of.bounds[i]
			if candidates > 0 {
				at = min(at, candidates) // the last bound may exceed the number of candidates
			}
			largest = max(largest, at)
			s.Points = append(s.Points, plot.Point{
				X: float64(at), Y: share,
				Hover: fmt.Sprintf("%s: rank ≤ %s for %s", of.name, text.Comma(at), percent(metrics.Number(share))),
			})
		}
		c.Series = append(c.Series, s)
	}
	if candidates > 0 {
		c.Series = append(c.Series, chance(candidates, largest))
	}
	return c
}

// chance returns the distribution of the ranks of a random order of all candidates.
func chance(candidates, largest int) plot.Series {
	s := plot.Series{Name: "chance", Hue: plot.Soft, Dashed: true}
	const steps = 40
	for i := range steps + 1 {
		at := math.Pow(float64(min(largest, candidates)), float64(i)/steps)
		s.Points = append(s.Points, plot.Point{X: at, Y: at / float64(candidates), Hover: "chance"})
	}
	return s
}

// shares returns the table of cumulative distributions.
func shares(curves []curve) table {
	t := table{Caption: "Share of queries by rank", Columns: textColumns("Rank at most")}
	for _, c := range curves {
		t.Columns = append(t.Columns, column{Name: c.name})
	}
	for i, bound := range curves[0].bounds {
		row := texts(text.Comma(bound))
		for _, c := range curves {
			row = append(row, texts(number(metrics.Number(c.shares()[i]), 4))...)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
