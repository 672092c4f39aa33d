package classify

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/mquine/mquine/metrics"
)

// Schema is the version of Report's JSON.
const Schema = "mquine.classify/1"

// Options says how to evaluate.
type Options struct {
	// OneThreshold uses the overall threshold for all relations.
	OneThreshold bool
	// UnseenTrue counts triples as true if valid has no triple of their relation, as the program of
	// CoDEx does. Otherwise, the overall threshold applies to such triples.
	UnseenTrue bool
	Method     Method
	// Bins is the number of bins of the reliability; 0 means 10. It must not be negative.
	Bins int
}

// Report is the result of an evaluation.
type Report struct {
	Schema     string             `json:"schema"`
	Provenance metrics.Provenance `json:"provenance"`
	// Split names the split that is classified. The thresholds and the calibration come from valid.
	Split string `json:"split"`
	// Side is the side of the queries whose scores are used.
	Side string `json:"side"`
	// Negatives is "files" or "generated". Seed is the seed of generated false triples, and Missing
	// counts the true triples of the split without one.
	Negatives string  `json:"negatives"`
	Seed      *uint64 `json:"seed,omitempty"`
	Missing   int     `json:"missing_negatives,omitempty"`
	// Thresholds is "relation" or "overall". Threshold is the overall threshold. Unseen counts the
	// triples of relations without a threshold, and UnseenAs says how they are classified: "overall" or
	// "true".
	Thresholds string  `json:"thresholds"`
	Threshold  float64 `json:"overall_threshold"`
	Unseen     int     `json:"unseen"`
	UnseenAs   string  `json:"unseen_as,omitempty"`
	// Valid holds the measures on the examples that the thresholds were fitted to. Its accuracy is
	// therefore optimistic. Result holds the measures on the split.
	Valid  Result `json:"valid"`
	Result Result `json:"result"`

	Calibration *Calibration `json:"calibration"`
	Reliability Reliability  `json:"reliability"`
	// Relations holds the measures of each relation of the split. Relations with more triples come
	// first.
	Relations []Relation `json:"relations"`
}

// Relation holds the measures of a relation.
type Relation struct {
	ID   int32  `json:"-"`
	Name string `json:"relation"`
	// Label is the readable label of the relation, if there is one.
	Label string `json:"label,omitempty"`
	// Threshold is nil if all triples of the relation count as true.
	Threshold *float64 `json:"threshold"`
	Result
}

// Evaluate fits thresholds and a calibration to valid, and measures them on test. It returns the
// thresholds, and the report without the fields that describe the data and the checkpoint. All
// triples have the same weight: accuracy and F1 are not averaged over relations.
func Evaluate(valid, test []Example, o Options) (*Report, Thresholds, error) {
	if o.Bins < 0 {
		return nil, Thresholds{}, fmt.Errorf(
			"the reliability cannot have %d bins: choose at least 1, or 0 for 10", o.Bins)
	}
	fitted, err := FitThresholds(valid)
	if err != nil {
		return nil, fitted, fmt.Errorf("validation split: %w", err)
	}
	if err := check(test); err != nil {
		return nil, fitted, fmt.Errorf("evaluated split: %w", err)
	}
	r := &Report{Schema: Schema, Thresholds: "relation", Threshold: fitted.Overall}
	if o.OneThreshold {
		r.Thresholds, fitted.Relations = "overall", nil
	} else {
		for _, e := range test {
			if _, seen := fitted.Relations[e.Triple.Relation]; !seen {
				r.Unseen++
			}
		}
		r.UnseenAs = "overall"
		if o.UnseenTrue {
			r.UnseenAs, fitted.Overall = "true", math.Inf(-1)
		}
	}
	r.Valid, r.Result = Measure(valid, fitted), Measure(test, fitted)
	if r.Calibration, err = Calibrate(o.Method, valid); err != nil {
		return nil, fitted, err
	}
	r.Reliability = NewReliability(r.Calibration, test, cmp.Or(o.Bins, 10))
	for id, of := range byRelation(test) {
		relation := Relation{ID: id, Result: Measure(of, fitted)}
		if t := fitted.Of(id); !math.IsInf(t, -1) {
			relation.Threshold = &t
		}
		r.Relations = append(r.Relations, relation)
	}
	slices.SortFunc(r.Relations, func(a, b Relation) int {
		return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.ID, b.ID))
	})
	return r, fitted, nil
}
