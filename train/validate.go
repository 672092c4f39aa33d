package train

import (
	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/rank"
	"github.com/mquine/mquine/train/recipe"
)

// Score holds the measures for one side and one filter on the validation split, with the realistic
// tie rule.
type Score struct {
	Side   rank.Sides  `json:"side"`
	Filter rank.Filter `json:"filter"`
	MRR    float64     `json:"mrr"`
	MR     float64     `json:"mr"`
	Hits1  float64     `json:"hits@1"`
	Hits3  float64     `json:"hits@3"`
	Hits10 float64     `json:"hits@10"`
}

// Scores is the result of a validation: a Score for each filter and side.
type Scores []Score

// Of returns the value of a metric, or 0 if there is none. The names of metrics are mrr, hits@1, hits@3
// and hits@10.
func (s Scores) Of(m recipe.Metric) float64 {
	for _, row := range s {
		if row.Side == m.Side && row.Filter == m.Filter {
			switch m.Name {
			case "mrr":
				return row.MRR
			case "hits@1":
				return row.Hits1
			case "hits@3":
				return row.Hits3
			case "hits@10":
				return row.Hits10
			}
		}
	}
	return 0
}

// scoresOf computes the measures of ranks for each filter and side.
func scoresOf(ranks []rank.Rank) Scores {
	var scores Scores
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
