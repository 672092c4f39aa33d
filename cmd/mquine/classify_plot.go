package main

import (
	"fmt"

	"github.com/mquine/mquine/internal/plot"
	"github.com/mquine/mquine/metrics/classify"
)

// plotClassification draws the reliability, the ROC curve and the precision–recall curve as SVG.
func plotClassification(r *classified, examples []classify.Example) []byte {
	title := fmt.Sprintf("%s %s, %s, side %s: ", r.Provenance.Data.Name, r.Split, r.Provenance.Checkpoint.ModelText(),
		r.Side)
	unit := []float64{0, 1}

	reliability := plot.Series{Name: r.Calibration.Method.String()}
	for _, b := range r.Reliability.Bins {
		if b.N > 0 {
			reliability.Points = append(reliability.Points, plot.Point{
				X: float64(b.Predicted), Y: float64(b.Observed),
				Hover: fmt.Sprintf("%d triples: predicted %.3f, observed %.3f", b.N, b.Predicted, b.Observed),
			})
		}
	}
	diagonal := plot.Series{
		Name: "ideal", Hue: plot.Soft, Dashed: true, Points: []plot.Point{{X: 0, Y: 0}, {X: 1, Y: 1}},
	}

	positives, negatives := float64(r.Result.TP+r.Result.FN), float64(r.Result.TN+r.Result.FP)
	roc := plot.Series{Name: "ROC", Points: []plot.Point{{X: 0, Y: 0}}}
	precision := plot.Series{Name: "precision"}
	for _, p := range thinned(classify.Curve(examples)) {
		tp, fp := float64(p.TP), float64(p.FP)
		roc.Points = append(roc.Points, plot.Point{X: fp / negatives, Y: tp / positives})
		precision.Points = append(precision.Points, plot.Point{X: tp / positives, Y: tp / (tp + fp)})
	}
	return plot.SVG(
		plot.Chart{
			Title: fmt.Sprintf("%sreliability, ECE %s", title, r.Reliability.ECE.Format(4)),
			X:     plot.Axis{Label: "predicted probability", Include: unit},
			Y:     plot.Axis{Label: "share of true triples", Include: unit},

			Series: []plot.Series{diagonal, reliability},
		},
		plot.Chart{
			Title: fmt.Sprintf("%sROC, area %s", title, r.Result.ROCAUC.Format(4)),
			X:     plot.Axis{Label: "false positive rate", Include: unit},
			Y:     plot.Axis{Label: "true positive rate", Include: unit}, Series: []plot.Series{diagonal, roc},
		},
		plot.Chart{
			Title: fmt.Sprintf("%sprecision–recall, AP %s", title, r.Result.AP.Format(4)),
			X:     plot.Axis{Label: "recall", Include: unit},
			Y:     plot.Axis{Label: "precision", Include: unit}, Series: []plot.Series{precision},
		},
	)
}

// thinned returns fewer than 1000 points of a curve: every n-th point, counted back from the last.
func thinned(curve []classify.Point) []classify.Point {
	step := max(1, len(curve)/500)
	var kept []classify.Point
	for i := len(curve) - 1; i >= 0; i -= step {
		kept = append([]classify.Point{curve[i]}, kept...)
	}
	return kept
}
