package train

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/rank"
)

// Score is a row of metrics of the validation split, with realistic ties.
type Score struct {
	Side   rank.Sides  `json:"side"`
	Filter rank.Filter `json:"filter"`
	MRR    float64     `json:"mrr"`
	MR     float64     `json:"mr"`
	Hits1  float64     `json:"hits@1"`
	Hits3  float64     `json:"hits@3"`
	Hits10 float64     `json:"hits@10"`
}

// metric names one number of the validation.
type metric struct {
	name   string
	side   rank.Sides
	filter rank.Filter
}

var metricNames = []string{"mrr", "hits@1", "hits@3", "hits@10"}

// parseMetric reads a name such as mrr/both/all.
func parseMetric(text string) (m metric, err error) {
	parts := strings.Split(text, "/")
	bad := fmt.Errorf("metric %q: give %s, a side (tail, head or both) and a filter (none, train or all), such as mrr/both/all",
		text, strings.Join(metricNames, ", "))
	if len(parts) != 3 || !slices.Contains(metricNames, parts[0]) {
		return m, bad
	}
	m.name = parts[0]
	if m.side, err = rank.ParseSides(parts[1]); err != nil {
		return m, bad
	}
	if m.filter, err = rank.ParseFilter(parts[2]); err != nil {
		return m, bad
	}
	return m, nil
}

// of returns the number that m names; more is better.
func (m metric) of(scores []Score) float64 {
	for _, s := range scores {
		if s.Side == m.side && s.Filter == m.filter {
			switch m.name {
			case "hits@1":
				return s.Hits1
			case "hits@3":
				return s.Hits3
			case "hits@10":
				return s.Hits10
			}
			return s.MRR
		}
	}
	return 0
}

// scoresOf measures ranks by side and filter.
func scoresOf(ranks []rank.Rank) []Score {
	var scores []Score
	for f := range rank.NumFilters {
		for _, side := range []rank.Sides{rank.TailSide, rank.HeadSide, rank.BothSides} {
			r := metrics.Measure(ranks, side, f, rank.Realistic, []int{1, 3, 10})
			scores = append(scores, Score{
				Side: side, Filter: f, MRR: float64(r.MRR), MR: float64(r.MR),
				Hits1: float64(r.Hits[0].Share), Hits3: float64(r.Hits[1].Share), Hits10: float64(r.Hits[2].Share),
			})
		}
	}
	return scores
}
