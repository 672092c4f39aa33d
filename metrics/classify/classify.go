// Package classify evaluates triple classification: a model predicts whether a triple is true. It
// finds thresholds for the scores, measures their predictions, calibrates scores as probabilities,
// and generates false triples.
//
// Begin reading with Evaluate. CoDEx (Safavi and Koutra, EMNLP 2020) defines the thresholds and the
// measures; docs/classification.md describes them.
package classify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank"
)

// Example is a triple with its class and its score. A higher score is more plausible.
type Example struct {
	Triple kg.Triple
	True   bool
	// Score is the score that users see (model.Model.Score).
	Score float64
}

// Score scores true and false triples as answers to their queries on the given sides (rank.Scores). The
// examples have the order of the triples, with true triples before false ones. Of the options, Score
// uses only the backend and the threads.
func Score(
	ctx context.Context, m model.Model, positives, negatives []kg.Triple, sides rank.Sides, o rank.Options,
) ([]Example, error) {
	triples := slices.Concat(positives, negatives)
	scores, err := rank.Scores(ctx, m, triples, sides, o)
	if err != nil {
		return nil, err
	}
	examples := make([]Example, len(triples))
	for i, t := range triples {
		examples[i] = Example{Triple: t, True: i < len(positives), Score: scores[i]}
	}
	return examples, nil
}

// byScore returns the examples in ascending order of their scores.
func byScore(examples []Example) []Example {
	sorted := slices.Clone(examples)
	slices.SortStableFunc(sorted, func(a, b Example) int { return cmp.Compare(a.Score, b.Score) })
	return sorted
}

// tied calls f for each run of equal scores in sorted examples, with the numbers of true and false
// examples in the run.
func tied(sorted []Example, f func(score float64, positives, negatives int)) {
	for i := 0; i < len(sorted); {
		score, positives, negatives := sorted[i].Score, 0, 0
		for ; i < len(sorted) && cmp.Compare(sorted[i].Score, score) == 0; i++ { // NaN, too, equals itself
			if sorted[i].True {
				positives++
			} else {
				negatives++
			}
		}
		f(score, positives, negatives)
	}
}

// count returns the numbers of true and false examples.
func count(examples []Example) (positives, negatives int) {
	for _, e := range examples {
		if e.True {
			positives++
		}
	}
	return positives, len(examples) - positives
}

// check returns an error unless there are examples of both classes and all scores are finite.
func check(examples []Example) error {
	for _, e := range examples {
		if math.IsNaN(e.Score) || math.IsInf(e.Score, 0) {
			return fmt.Errorf("the score of %v is %v: scores must be finite", e.Triple, e.Score)
		}
	}
	if positives, negatives := count(examples); positives == 0 || negatives == 0 {
		return errors.New("there must be at least one true and one false triple")
	}
	return nil
}

// Thresholds decide which triples count as true. A triple counts as true if its score is at least
// the threshold of its relation.
type Thresholds struct {
	// Overall is the threshold of relations that Relations lacks.
	Overall float64
	// Relations holds the thresholds of relations.
	Relations map[int32]float64
}

// FitThresholds returns the thresholds with the highest accuracy on examples, overall and for each
// relation. It tries each score as a threshold. Among thresholds with the same accuracy, the
// smallest wins.
func FitThresholds(examples []Example) (Thresholds, error) {
	if err := check(examples); err != nil {
		return Thresholds{}, err
	}
	sorted := byScore(examples)
	t := Thresholds{Overall: threshold(sorted), Relations: map[int32]float64{}}
	for relation, of := range byRelation(sorted) {
		t.Relations[relation] = threshold(of)
	}
	return t, nil
}

// byRelation divides examples by relation. It keeps their order.
func byRelation(examples []Example) map[int32][]Example {
	of := map[int32][]Example{}
	for _, e := range examples {
		of[e.Triple.Relation] = append(of[e.Triple.Relation], e)
	}
	return of
}

// threshold returns the best threshold for sorted examples. There must be at least one example.
func threshold(sorted []Example) float64 {
	correct, _ := count(sorted) // with the lowest score as the threshold, all examples count as true
	best, most := sorted[0].Score, correct
	below := 0 // the correct predictions gained by raising the threshold above the earlier scores
	tied(sorted, func(score float64, positives, negatives int) {
		if correct+below > most {
			best, most = score, correct+below
		}
		below += negatives - positives
	})
	return best
}

// Of returns the threshold of a relation.
func (t Thresholds) Of(relation int32) float64 {
	if own, ok := t.Relations[relation]; ok {
		return own
	}
	return t.Overall
}

// Predict reports whether an example counts as true.
func (t Thresholds) Predict(e Example) bool { return e.Score >= t.Of(e.Triple.Relation) }

// Result holds the measures of predictions for a set of examples. A measure with a denominator of 0
// is undefined.
//
//	accuracy = (TP + TN) / n             precision = TP / (TP + FP)
//	F1 = 2TP / (2TP + FP + FN)           recall = TP / (TP + FN)
type Result struct {
	// N counts the examples.
	N int `json:"n"`
	// TP and TN count the correct predictions: true examples that are predicted true, and false
	// examples that are predicted false. FP counts the false examples that are predicted true, and
	// FN counts the true examples that are predicted false.
	TP int `json:"tp"`
	FP int `json:"fp"`
	TN int `json:"tn"`
	FN int `json:"fn"`

	Accuracy  metrics.Number `json:"accuracy"`
	F1        metrics.Number `json:"f1"`
	Precision metrics.Number `json:"precision"`
	Recall    metrics.Number `json:"recall"`
	// ROCAUC is the area under the ROC curve: the probability that a true example has a higher score
	// than a false one. Equal scores count one half. AP is the average precision, Σ (R_i − R_{i−1})
	// P_i over the distinct scores from high to low, with the recall R_i and the precision P_i at
	// each score. Neither measure depends on the fitted thresholds. Both are undefined if a score is
	// NaN.
	ROCAUC metrics.Number `json:"roc_auc"`
	AP     metrics.Number `json:"average_precision"`
}

// Measure returns the measures of the thresholds' predictions.
func Measure(examples []Example, t Thresholds) Result {
	r := Result{N: len(examples)}
	for _, e := range examples {
		switch predicted := t.Predict(e); {
		case predicted && e.True:
			r.TP++
		case predicted:
			r.FP++
		case e.True:
			r.FN++
		default:
			r.TN++
		}
	}
	r.Accuracy = ratio(r.TP+r.TN, r.N)
	r.F1 = ratio(2*r.TP, 2*r.TP+r.FP+r.FN)
	r.Precision = ratio(r.TP, r.TP+r.FP)
	r.Recall = ratio(r.TP, r.TP+r.FN)
	r.ROCAUC, r.AP = areas(examples)
	return r
}

// ratio returns a/b for a ≤ b. It is undefined for b = 0.
func ratio(a, b int) metrics.Number { return metrics.Number(float64(a) / float64(b)) }

// areas returns the area under the ROC curve and the average precision.
func areas(examples []Example) (auc, ap metrics.Number) {
	positives, negatives := count(examples)
	curve := Curve(examples)
	if positives == 0 || negatives == 0 || math.IsNaN(curve[len(curve)-1].Threshold) {
		return metrics.Number(math.NaN()), metrics.Number(math.NaN())
	}
	var pairs, precision float64
	var above Point
	for _, p := range curve {
		more, moreFalse := p.TP-above.TP, p.FP-above.FP
		pairs += float64(moreFalse) * (float64(above.TP) + float64(more)/2)
		precision += float64(more) * float64(p.TP) / float64(p.TP+p.FP)
		above = p
	}
	n := float64(positives)
	return metrics.Number(pairs / n / float64(negatives)), metrics.Number(precision / n)
}

// Point counts the true and the false examples with scores of at least Threshold.
type Point struct {
	Threshold float64
	TP, FP    int
}

// Curve returns a point for each distinct score, from high to low, with NaN below all others. The
// last point counts all examples. ROC curves and precision–recall curves are functions of these counts.
func Curve(examples []Example) []Point {
	sorted := byScore(examples)
	slices.Reverse(sorted)
	var curve []Point
	tp, fp := 0, 0
	tied(sorted, func(score float64, positives, negatives int) {
		tp, fp = tp+positives, fp+negatives
		curve = append(curve, Point{score, tp, fp})
	})
	return curve
}
