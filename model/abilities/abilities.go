// Package abilities decides which relation patterns a model can express, such as symmetry,
// composition and 1-N relations, and whether the model is free of the Z-paradox (Liu et al., 2024).
//
// docs/abilities.md defines the patterns, and says what it means to express one. [Decide] checks
// every verdict with the model's own scores. A "yes" has parameters that express the pattern. A
// "no" has an argument that the scores confirm, for random parameters or for parameters that a
// search found. The file table.go has an entry for each model.
package abilities

import (
	"context"
	"fmt"
	"slices"

	"github.com/mquine/mquine/model"
)

// Verdict says whether a model can express a pattern.
type Verdict string

// The verdicts.
const (
	Yes Verdict = "yes"
	No  Verdict = "no"
)

// Finding is the verdict on a model and a pattern.
type Finding struct {
	Model   string  `json:"model"`
	Pattern string  `json:"pattern"`
	Verdict Verdict `json:"verdict"`
	// Reason is the construction or the argument, in one or two sentences.
	Reason string `json:"reason"`
	// Paper is the verdict of the table in the MQuinE paper (section 3), or empty.
	Paper Verdict `json:"paper,omitempty"`
}

// Differs reports whether the paper has a different verdict.
func (f Finding) Differs() bool { return f.Paper != "" && f.Paper != f.Verdict }

// Pattern is a property that relations can have together, such as symmetry or composition.
type Pattern struct {
	// Name identifies the pattern, and Short heads its column in a table.
	Name, Short string
	// Means describes the pattern in one line.
	Means string
	// True lists the triples that must have the best scores, such as "a r b, b r a", and False the
	// triples that must have worse scores. Rules lists implications that hold for all entities,
	// such as "x r y → y r x".
	True, False, Rules string

	graph
}

// Patterns returns all patterns, in the order of a table.
func Patterns() []*Pattern { return slices.Clone(patterns) }

// Has reports whether the package has an entry for the model with the given name.
func Has(name string) bool {
	_, ok := entries[name]
	return ok
}

// Decide returns the findings for a model, one for each pattern, in the order of Patterns. It checks
// every verdict and returns an error if a check fails, or if the package has no entry for the model.
func Decide(ctx context.Context, spec *model.Spec) ([]Finding, error) {
	e, ok := entries[spec.Name]
	if !ok {
		return nil, fmt.Errorf("model %s has no entry in the table of abilities (model/abilities/table.go)", spec.Name)
	}
	var list []Finding
	for _, p := range patterns {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		c, ok := e.cells[p.Name]
		if !ok {
			return nil, fmt.Errorf("model %s has no verdict on the pattern %s (model/abilities/table.go)",
				spec.Name, p.Name)
		}
		if err := c.proof.check(subject{spec, e.scale}, p); err != nil {
			return nil, fmt.Errorf("model %s, pattern %s, verdict %s: %w",
				spec.Name, p.Name, c.proof.verdict(), err)
		}
		list = append(list, Finding{
			Model: spec.Name, Pattern: p.Name, Verdict: c.proof.verdict(), Reason: c.reason,
			Paper: paper[spec.Name][p.Name],
		})
	}
	return list, nil
}

// entry holds the verdicts on a model.
type entry struct {
	scale scale
	cells map[string]cell // by the name of the pattern
}

// cell is the verdict on a model and a pattern, with its reason in words.
type cell struct {
	reason string
	proof  proof
}

// proof is a verdict that can be checked.
type proof interface {
	verdict() Verdict
	// check returns an error if the scores of the model contradict the verdict.
	check(s subject, p *Pattern) error
}
