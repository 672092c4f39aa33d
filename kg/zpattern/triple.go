package zpattern

import (
	"context"
	"slices"

	"github.com/mquine/mquine/kg"
)

// tripleSchema names the version of TripleReport's JSON. Incompatible changes increase the number.
const tripleSchema = "mquine.z-show/1"

// TripleReport describes the exposure of a triple, known or not, to the Z-paradox. Its JSON
// contains the fields in this order.
type TripleReport struct {
	Schema     string     `json:"schema"`
	Data       string     `json:"data"`
	Convention Convention `json:"convention"`
	Head       string     `json:"head"`
	Relation   string     `json:"relation"`
	Tail       string     `json:"tail"`
	// Splits lists the splits that contain the triple.
	Splits []kg.Split `json:"splits"`
	Z      uint64     `json:"z"`
	// Sides gives the rank of the Z-value among the candidates on each side, tail first.
	Sides []SideRank `json:"sides"`
	// Patterns lists the first patterns, in ascending order of the identifiers of e₂ and then e₃.
	Patterns []PatternLabels `json:"patterns"`
}

// SideRank is the rank of a Z-value among the candidates on one side.
type SideRank struct {
	Side  string `json:"side"`
	RankZ int    `json:"rank_z"`
	Case  Case   `json:"case"`
}

// PatternLabels is a Pattern with labels.
type PatternLabels struct {
	E2 string `json:"e2"`
	E3 string `json:"e3"`
}

// NewTripleReport describes a triple of g and lists at most limit of its patterns.
func NewTripleReport(ctx context.Context, g *kg.Graph, t kg.Triple, c Convention, limit int) (*TripleReport, error) {
	if err := CheckMemory(g, 1, 2); err != nil {
		return nil, err
	}
	x, err := NewIndex(ctx, g)
	if err != nil {
		return nil, err
	}
	r := &TripleReport{
		Schema: tripleSchema, Data: g.Name, Convention: c,
		Head: g.Entities.Label(t.Head), Relation: g.Relations.Label(t.Relation), Tail: g.Entities.Label(t.Tail),
		Splits: []kg.Split{}, Patterns: []PatternLabels{},
	}
	for split := range kg.NumSplits {
		if slices.Contains(g.Splits[split], t) {
			r.Splits = append(r.Splits, split)
		}
	}
	for _, side := range []kg.Side{kg.Tail, kg.Head} {
		values, err := x.Values(ctx, []kg.Triple{t}, side, c, 1, nil)
		if err != nil {
			return nil, err
		}
		r.Z = values[0].Z
		r.Sides = append(r.Sides, SideRank{side.String(), values[0].Rank, values[0].Case})
	}
	for p := range x.Patterns(t, c) {
		if len(r.Patterns) == limit {
			break
		}
		r.Patterns = append(r.Patterns, PatternLabels{g.Entities.Label(p.E2), g.Entities.Label(p.E3)})
	}
	return r, nil
}
