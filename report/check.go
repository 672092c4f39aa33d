package report

import (
	"errors"
	"fmt"

	"github.com/mquine/mquine/metrics"
)

// check returns an error if the page cannot show an item. The error names the item.
func (p *Page) check() error {
	for _, e := range p.Evaluations {
		if err := checkEvaluation(e.Report); err != nil {
			return fmt.Errorf("the page cannot show evaluation %q: %w; correct it, or leave it out", e.Name, err)
		}
	}
	for _, c := range p.Comparisons {
		if err := checkComparison(c.ComparisonReport); err != nil {
			return fmt.Errorf("the page cannot show comparison %q: %w; correct it, or leave it out", c.Name, err)
		}
	}
	for _, r := range p.Runs {
		if len(r.Epochs) == 0 {
			return fmt.Errorf("the page cannot show run %q: it has no finished epoch; correct it, or leave it out",
				r.Name)
		}
	}
	return nil
}

// checkEvaluation returns an error if the page cannot show an evaluation.
func checkEvaluation(r *metrics.Report) error {
	if r == nil || len(r.Results) == 0 {
		return errors.New("it has no results")
	}
	for _, results := range [][]metrics.Result{r.Results, r.Groups} {
		for _, res := range results {
			if err := checkResult(res, r.RankBounds); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkResult returns an error if the numbers of a result contradict their definitions.
func checkResult(r metrics.Result, bounds []int) error {
	if r.N < 0 {
		return fmt.Errorf("the number of queries is %d, but must not be negative", r.N)
	}
	shares := []metrics.Number{r.MRR, r.MRRCI[0], r.MRRCI[1]}
	for _, h := range r.Hits {
		shares = append(shares, h.Share)
	}
	for _, v := range shares {
		if v < 0 || v > 1 { // false for NaN
			return fmt.Errorf("an MRR or Hits@k is %v, but must be from 0 to 1", v)
		}
	}
	if r.MR < 1 {
		return fmt.Errorf("a mean rank is %v, but must be at least 1", r.MR)
	}
	if len(r.RankCounts) > len(bounds) {
		return errors.New("there are more rank counts than bounds")
	}
	for i, n := range r.RankCounts {
		if n < 0 || bounds[i] < 1 || i > 0 && bounds[i] <= bounds[i-1] {
			return errors.New("the rank counts or their bounds are wrong")
		}
	}
	return nil
}

// checkComparison returns an error if the page cannot show a comparison.
func checkComparison(r *metrics.ComparisonReport) error {
	if r == nil || len(r.Checkpoints) == 0 {
		return errors.New("it has no checkpoints")
	}
	for _, c := range r.Checkpoints {
		if len(c.Results) == 0 {
			return fmt.Errorf("checkpoint %q has no results", c.Name)
		}
		for _, res := range c.Results {
			if err := checkResult(res, r.RankBounds); err != nil {
				return err
			}
		}
	}
	for _, pair := range r.Comparisons {
		if len(pair.Whole) == 0 {
			return fmt.Errorf("the comparison of %q with %q has no differences", pair.Other, pair.Base)
		}
	}
	return nil
}
