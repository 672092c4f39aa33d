package metrics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank"
)

// ComparisonSchema is the version of ComparisonReport's JSON. An incompatible change increases the
// number. firstComparisonSchema is the previous version, which ComparisonReport can still read.
const (
	ComparisonSchema      = "mquine.compare/2"
	firstComparisonSchema = "mquine.compare/1"
)

// ComparisonReport holds the results of checkpoints for the same queries, and compares each with
// the first, the base. The JSON lists the fields in this order.
type ComparisonReport struct {
	Schema     string      `json:"schema"`
	Provenance Provenance  `json:"provenance"`
	Split      kg.Split    `json:"split"`
	Filter     rank.Filter `json:"filter"`
	Ties       rank.Ties   `json:"ties"`
	// LeftOut counts the queries of the split that the ranks lack, as after eval --skip-excluded.
	LeftOut int `json:"left_out_queries,omitempty"`
	// ZConvention is the convention of groups by Z-case, if there are any.
	ZConvention string `json:"z_convention,omitempty"`
	// RankBounds are the upper bounds of the RankCounts of results.
	RankBounds []int `json:"rank_bounds"`
	// Checkpoints begins with the base. Comparisons contains an item for each of the others.
	Checkpoints []ComparedCheckpoint `json:"checkpoints"`
	Comparisons []NamedComparison    `json:"comparisons"`
}

// ComparedCheckpoint is one of the checkpoints of a comparison.
type ComparedCheckpoint struct {
	// Name is the name of the checkpoint in tables. Path is its folder or ranks file. For a ranks
	// file, the other fields of Checkpoint are empty.
	Name string `json:"name"`
	Checkpoint
	// Candidates is the number of entities in the checkpoint, or of relations if relations are ranked. It is
	// 0 for a ranks file, which does not contain the number.
	Candidates int `json:"candidates,omitempty"`
	// Restricted says that the ranks are among restricted candidates or given negatives.
	Restricted bool `json:"restricted,omitempty"`
	// Tolerance is the tolerance of the ranks. It is zero if only equal scores count as equal.
	Tolerance rank.Tolerance `json:"tolerance,omitzero"`
	// Results holds the metrics of each selection of sides.
	Results []Result `json:"results"`
	// Ranks are the ranks of the same queries in the same order for all checkpoints.
	Ranks []rank.Rank `json:"-"`
}

// NamedComparison is a Comparison with names instead of identifiers.
type NamedComparison struct {
	Base    string         `json:"base"`
	Other   string         `json:"other"`
	Whole   []Contrast     `json:"whole"`
	Groups  []Contrast     `json:"groups"`
	Changed []ChangedQuery `json:"changed"`
}

// ChangedQuery is a Change with labels instead of identifiers.
type ChangedQuery struct {
	Side      string  `json:"side"`
	Head      string  `json:"head"`
	Relation  string  `json:"relation"`
	Tail      string  `json:"tail"`
	BaseRank  float64 `json:"base_rank"`
	OtherRank float64 `json:"other_rank"`
	// These are the readable labels of identifiers, if there are any.
	HeadLabel     string `json:"head_label,omitempty"`
	RelationLabel string `json:"relation_label,omitempty"`
	TailLabel     string `json:"tail_label,omitempty"`
}

// CompareAll compares checkpoints with the first one, the base, by their ranks on a split of g (see
// Compare). g uses the base's identifiers. All fields of the checkpoints except Results must be
// set. CompareAll returns an error without checkpoints.
func CompareAll(
	ctx context.Context, g *kg.Graph, split kg.Split, checkpoints []ComparedCheckpoint, o CompareOptions,
) (*ComparisonReport, error) {
	if len(checkpoints) == 0 {
		return nil, errors.New("a comparison needs a base: give at least one checkpoint")
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	bootstrap := bootstrapOf(o.CIBy)
	bootstrap.Permutations, bootstrap.PermutationSeed = permutations, permutationSeed
	r := &ComparisonReport{
		Schema:     ComparisonSchema,
		Provenance: Provenance{Data: Data{Name: g.Name}, Bootstrap: bootstrap},
		Split:      split, Filter: o.Filter, Ties: o.Ties, ZConvention: zConvention(o.Keys),
		RankBounds: rankBounds(0), Comparisons: []NamedComparison{},
	}
	filters := []rank.Filter{o.Filter}
	for _, c := range checkpoints {
		if err := checkCounted(c.Ranks, filters); err != nil {
			return nil, fmt.Errorf("checkpoint %s: %w", c.Name, err)
		}
		if bounds := rankBounds(largestRank(c.Ranks, filters)); len(bounds) > len(r.RankBounds) {
			r.RankBounds = bounds
		}
	}
	report := o.Progress
	for i, c := range checkpoints {
		var err error
		c.Results, _, err = Summarize(ctx, c.Ranks, SummaryOptions{
			Sides: o.Sides, Filters: filters, Ties: []rank.Ties{o.Ties}, Hits: o.Hits, CIBy: o.CIBy, Threads: o.Threads,
		})
		if err != nil {
			return nil, err
		}
		for j := range c.Results { // all checkpoints have the same bounds
			counts := &c.Results[j].RankCounts
			*counts = append(*counts, make([]int, len(r.RankBounds)-len(*counts))...)
		}
		r.Checkpoints = append(r.Checkpoints, c)
		if i == 0 {
			continue
		}
		base := checkpoints[0]
		if report != nil {
			o.Progress = func(done, total int) { report((i-1)*total+done, (len(checkpoints)-1)*total) }
		}
		comparison, err := Compare(ctx, base.Ranks, c.Ranks, o)
		if err != nil {
			return nil, err
		}
		r.Comparisons = append(r.Comparisons, comparison.named(g, base.Name, c.Name))
	}
	return r, nil
}

// named returns the comparison with the labels of g. Empty lists are [] in JSON, not null.
func (c Comparison) named(g *kg.Graph, base, other string) NamedComparison {
	n := NamedComparison{Base: base, Other: other, Whole: c.Whole, Groups: c.Groups, Changed: []ChangedQuery{}}
	if n.Groups == nil {
		n.Groups = []Contrast{}
	}
	for _, q := range c.Changed {
		n.Changed = append(n.Changed, ChangedQuery{
			Side: q.Side.String(), Head: g.Entities.Label(q.Triple.Head),
			Relation: g.Relations.Label(q.Triple.Relation),
			Tail:     g.Entities.Label(q.Triple.Tail), BaseRank: q.Base, OtherRank: q.Other,
		})
	}
	return n
}

// UnmarshalJSON reads a comparison of this version or of the first one.
func (r *ComparisonReport) UnmarshalJSON(text []byte) error {
	type plain ComparisonReport
	if err := json.Unmarshal(text, (*plain)(r)); err != nil {
		return err
	}
	switch r.Schema {
	case ComparisonSchema:
		return nil
	case firstComparisonSchema:
	default:
		return fmt.Errorf("the comparison has schema %.40q, but this mquine reads %s and %s",
			r.Schema, ComparisonSchema, firstComparisonSchema)
	}
	var old struct {
		Checkpoints []struct {
			SHA256 string `json:"checkpoint_sha256"`
		} `json:"checkpoints"`
	}
	if err := json.Unmarshal(text, &old); err != nil {
		return err
	}
	for i := range old.Checkpoints {
		r.Checkpoints[i].SHA256 = old.Checkpoints[i].SHA256
	}
	return r.Provenance.readFirst(text)
}
