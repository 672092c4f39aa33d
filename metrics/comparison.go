package metrics

import (
	"context"
	"slices"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank"
)

// ComparisonSchema is the version of ComparisonReport's JSON. An incompatible change increases the
// number.
const ComparisonSchema = "mquine.compare/1"

// ComparisonReport holds the results of checkpoints for the same queries, and compares each with
// the first, the base. The JSON lists the fields in this order.
type ComparisonReport struct {
	Schema string      `json:"schema"`
	Data   string      `json:"data"`
	Split  kg.Split    `json:"split"`
	Filter rank.Filter `json:"filter"`
	Ties   rank.Ties   `json:"ties"`
	// CIBy is the unit that intervals resample and permutations swap. Reports of earlier versions
	// lack it; their unit is a triple.
	CIBy Clustering `json:"ci_by"`
	// ZConvention is the convention of groups by Z-case, if there are any.
	ZConvention string `json:"z_convention,omitempty"`
	// Checkpoints begins with the base. Comparisons contains an item for each of the others.
	Checkpoints []ComparedCheckpoint `json:"checkpoints"`
	Comparisons []NamedComparison    `json:"comparisons"`
}

// ComparedCheckpoint is one of the checkpoints of a comparison.
type ComparedCheckpoint struct {
	// Name is the name of the checkpoint in tables. Path is its folder or ranks file. For a ranks
	// file, Model, Dim and SHA256 are empty.
	Name   string `json:"name"`
	Path   string `json:"path"`
	Model  string `json:"model,omitempty"`
	Dim    int    `json:"dim,omitempty"`
	SHA256 string `json:"checkpoint_sha256,omitempty"`
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
}

// CompareAll compares checkpoints with the first one, the base, by their ranks on a split of g (see
// Compare). g uses the base's identifiers. All fields of the checkpoints except Results must be
// set.
func CompareAll(
	ctx context.Context, g *kg.Graph, split kg.Split, checkpoints []ComparedCheckpoint, o CompareOptions,
) (*ComparisonReport, error) {
	r := &ComparisonReport{
		Schema: ComparisonSchema, Data: g.Name, Split: split, Filter: o.Filter, Ties: o.Ties, CIBy: o.CIBy,
		ZConvention: zConvention(o.Keys), Comparisons: []NamedComparison{},
	}
	report := o.Progress
	for i, c := range checkpoints {
		results, _, err := Summarize(ctx, c.Ranks, SummaryOptions{
			Sides: o.Sides, Filters: []rank.Filter{o.Filter}, Hits: o.Hits, CIBy: o.CIBy, Threads: o.Threads,
		})
		if err != nil {
			return nil, err
		}
		c.Results = slices.DeleteFunc(results, func(res Result) bool { return res.Ties != o.Ties })
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
