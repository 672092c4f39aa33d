package metrics

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank"
)

// Protocol selects the queries, the filter and the tie rule of one set of metrics.
type Protocol struct {
	// Name is the name of the protocol, or empty.
	Name string
	// Tool is the name of the tool with this protocol, or empty.
	Tool   string
	Sides  rank.Sides
	Filter rank.Filter
	Ties   rank.Ties
	// Tolerance is the largest distance at which the tool treats two scores as equal.
	Tolerance rank.Tolerance
	// OneAverage reports whether the tool prints only the mean over the queries of both sides. Other
	// tools also print, or can print, the metrics of each side.
	OneAverage bool
	// Unstable reports whether the tool ranks equal scores in the order of an unstable sort.
	Unstable bool
	// Other says on which sides the tool ranks the model by other scores than the model's, and which. It is
	// nil for almost all models.
	Other *OtherScores
}

// OtherScores says on which sides a tool ranks by other scores than the model's. Reason is a clause that says
// which.
type OtherScores struct {
	Sides  []kg.Side
	Reason string
}

// Protocols lists the named protocols: the protocols of tools, and the protocol of the figures in
// the MQuinE paper (docs/evaluation.md). KGE-DURA has the protocol of kbc.
var Protocols = []Protocol{
	{
		Name: "rotate", Tool: "the RotatE repository", Sides: rank.BothSides, Filter: rank.All, Ties: rank.Optimistic,
		OneAverage: true, Unstable: true,
	},
	{Name: "kbc", Tool: "kbc", Sides: rank.BothSides, Filter: rank.All, Ties: rank.Pessimistic},
	{
		Name: "dglke", Tool: "DGL-KE", Sides: rank.BothSides, Filter: rank.All, Ties: rank.Pessimistic,
		OneAverage: true,
	},
	{
		Name: "libkge", Tool: "LibKGE", Sides: rank.BothSides, Filter: rank.All, Ties: rank.Rounded,
		Tolerance: rank.Tolerance{Absolute: 1e-5, Relative: 1e-4},
	},
	{Name: "pykeen", Tool: "PyKEEN", Sides: rank.BothSides, Filter: rank.All, Ties: rank.Realistic},
	{Name: "openke", Tool: "OpenKE", Sides: rank.BothSides, Filter: rank.All, Ties: rank.Optimistic},
	{
		Name: OGB, Tool: "OGB", Sides: rank.BothSides, Filter: rank.None, Ties: rank.Realistic,
		OneAverage: true,
	},
	{Name: "paper", Sides: rank.TailSide, Filter: rank.All, Ties: rank.Realistic},
}

// String describes the protocol, as in "rotate: both sides in one average, filter all, optimistic
// ties".
func (p Protocol) String() string {
	sides := fmt.Sprintf("side %v", p.Sides)
	if p.Sides == rank.BothSides {
		sides = "both sides"
		if p.OneAverage {
			sides += " in one average"
		}
	}
	s := fmt.Sprintf("%s: %s, filter %v, %v ties", p.Name, sides, p.Filter, p.Ties)
	if p.Tolerance != (rank.Tolerance{}) {
		s += ", tolerance " + formatTolerance(p.Tolerance)
	}
	return s
}

func formatTolerance(t rank.Tolerance) string {
	return fmt.Sprintf("%v + %v·|score|", t.Absolute, t.Relative)
}

// float32Error estimates the error of a score that a tool computes in float32. The error depends on
// the tool's order of operations, so this is not a bound.
var float32Error = rank.Tolerance{Absolute: 1e-6, Relative: 1e-6}

// OGB is the name of the protocol of ogbl-wikikg2 and ogbl-biokg in the Open Graph Benchmark: each
// target is ranked among the negatives that the data set gives for it (Evaluator._eval_mrr in
// ogb/linkproppred/evaluate.py).
const OGB = "ogb"

// RelationProtocol is the name of the protocol of reports about the side rank.RelationSide, which
// ranks relations among all relations.
const RelationProtocol = "relation"

// Tolerances returns the tolerances that a ranking needs for Ranks and Apply.
func (p Protocol) Tolerances() []rank.Tolerance {
	t, e := p.Tolerance, float32Error
	wider := rank.Tolerance{Absolute: t.Absolute + e.Absolute, Relative: t.Relative + e.Relative}
	switch {
	case p.Tool == "":
		return nil
	case t == (rank.Tolerance{}):
		return []rank.Tolerance{wider}
	}
	return []rank.Tolerance{wider, t, {Absolute: t.Absolute - e.Absolute, Relative: t.Relative - e.Relative}}
}

// Ranks returns the ranks of a ranking under the protocol. The ranking must have been computed with
// the protocol's Tolerances.
func (p Protocol) Ranks(r *rank.Ranking) []rank.Rank {
	if p.Tolerance == (rank.Tolerance{}) {
		return r.Ranks
	}
	return r.Near[1]
}

// Deviation counts the queries whose rank under a protocol differs from the exact rank, or whose
// rank in the tool may differ from the rank under the protocol.
type Deviation struct {
	// Cause is "tolerance" if the protocol's tolerance changes the rank. It is "sort" if scores are
	// equal and the tool orders them by an unstable sort. It is "float32" if the tool's float32
	// scores may order other candidates differently. It is "scores" if the tool ranks by other scores than
	// the model's, and Reason then says which.
	Cause   string `json:"cause"`
	Queries int    `json:"queries"`
	Reason  string `json:"reason,omitempty"`
}

// otherScores is the cause of a Deviation that Protocol.Other describes.
const otherScores = "scores"

// deviations counts the deviations of a ranking.
func (p Protocol) deviations(r *rank.Ranking) []Deviation {
	count := func(cause string, deviates func(i int) bool) Deviation {
		d := Deviation{Cause: cause}
		for i := range r.Ranks {
			if p.Sides == rank.BothSides || p.Sides.List()[0] == r.Ranks[i].Side {
				if deviates(i) {
					d.Queries++
				}
			}
		}
		return d
	}
	var list []Deviation
	if p.Other != nil {
		d := count(otherScores, func(i int) bool { return slices.Contains(p.Other.Sides, r.Ranks[i].Side) })
		d.Reason = p.Other.Reason
		list = append(list, d)
	}
	ranks := p.Ranks(r)
	if p.Tolerance != (rank.Tolerance{}) {
		list = append(list, count("tolerance", func(i int) bool {
			return p.Ties.Rank(&ranks[i], p.Filter) != p.Ties.Rank(&r.Ranks[i], p.Filter)
		}))
	}
	if p.Unstable {
		list = append(list, count("sort", func(i int) bool { return ranks[i].Equal[p.Filter] > 0 }))
	}
	if p.Tool != "" {
		list = append(list, count("float32", func(i int) bool {
			near := r.Near[0][i].Equal[p.Filter] // includes scores equal in the reference, but perhaps not in float32
			if len(r.Near) > 1 {
				near -= r.Near[2][i].Equal[p.Filter]
			}
			return near > 0
		}))
	}
	return list
}

// Explain describes deviation d, out of n queries, in lines of at most 80 columns.
func (p Protocol) Explain(d Deviation, n int) string {
	of := fmt.Sprintf("%s: %s of %s", d.Cause, text.Comma(d.Queries), text.Comma(n))
	switch d.Cause {
	case "tolerance":
		return fmt.Sprintf("%s ranks differ from the ranks by exact scores. Scores within\n"+
			"%s of the target's count as equal.", of, formatTolerance(p.Tolerance))
	case "sort":
		return fmt.Sprintf("%s targets have candidates with exactly their score. For these,\n"+
			"the rank in %s depends on an unstable sort.", of, p.Tool)
	case otherScores:
		return text.Wrap(fmt.Sprintf("%s targets are ranked by other scores in %s. %s.", of, p.Tool, d.Reason))
	}
	return fmt.Sprintf("%s targets have candidates that float32 may order differently.\n"+
		"For these, the rank in %s may differ.", of, p.Tool)
}

// ProtocolNotes names the protocol of the report and its tolerance, and describes its deviations. It
// returns nil for a report without a named protocol.
func (r *Report) ProtocolNotes() []string {
	at := slices.IndexFunc(Protocols, func(p Protocol) bool { return p.Name == r.Protocol })
	if at < 0 {
		return nil
	}
	p := Protocols[at]
	name := "Protocol " + p.Name
	if r.Tolerance != nil {
		p.Tolerance = *r.Tolerance
		name += ", tolerance " + formatTolerance(p.Tolerance)
	}
	notes := []string{name + "."}
	for _, d := range r.Deviations {
		notes = append(notes, strings.ReplaceAll(p.Explain(d, r.headline().N), "\n", " "))
	}
	return notes
}

// Apply sets the protocol of the report, and counts its deviations. It drops the results and groups
// of other protocols. The report must summarise p.Ranks(ranking). If the tool also has metrics of
// each side, those results remain, before the result for both sides.
func (p Protocol) Apply(r *Report, ranking *rank.Ranking) {
	sides := selections(p.Sides)
	if p.OneAverage {
		sides = []rank.Sides{p.Sides}
	}
	other := func(x Result) bool {
		return !slices.ContainsFunc(sides, func(s rank.Sides) bool { return sameProtocol(x, s, p.Filter, p.Ties) })
	}
	r.Protocol, r.Deviations = p.Name, p.deviations(ranking)
	if p.Tolerance != (rank.Tolerance{}) {
		r.Tolerance = &p.Tolerance
	}
	r.Results = slices.DeleteFunc(r.Results, other)
	r.Groups = slices.DeleteFunc(r.Groups, other)
}
