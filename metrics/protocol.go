package metrics

import (
	"fmt"
	"slices"

	"github.com/mquine/mquine/rank"
)

// Protocol selects the queries, the filter and the tie rule of one set of metrics.
type Protocol struct {
	// Name is the name of the tool that uses this protocol, or empty.
	Name   string
	Sides  rank.Sides
	Filter rank.Filter
	Ties   rank.Ties
}

// Protocols lists the protocols of other tools, which average both sides. KGE-DURA has the protocol
// of kbc.
var Protocols = []Protocol{
	// In the RotatE repository, the order of ties depends on an unstable sort.
	{Name: "rotate", Sides: rank.BothSides, Filter: rank.All, Ties: rank.Optimistic},
	{Name: "kbc", Sides: rank.BothSides, Filter: rank.All, Ties: rank.Pessimistic},
	{Name: "dglke", Sides: rank.BothSides, Filter: rank.All, Ties: rank.Pessimistic},
	{Name: "pykeen", Sides: rank.BothSides, Filter: rank.All, Ties: rank.Realistic},
	{Name: "openke", Sides: rank.BothSides, Filter: rank.All, Ties: rank.Optimistic},
}

// String describes the protocol: "rotate: both sides in one average, filter all, optimistic ties".
func (p Protocol) String() string {
	sides := fmt.Sprintf("side %v", p.Sides)
	if p.Sides == rank.BothSides {
		sides = "both sides in one average"
	}
	return fmt.Sprintf("%s: %s, filter %v, %v ties", p.Name, sides, p.Filter, p.Ties)
}

// Apply sets the protocol of the report. It drops all other results and groups.
func (p Protocol) Apply(r *Report) {
	other := func(s rank.Sides, f rank.Filter, t rank.Ties) bool { return p != Protocol{p.Name, s, f, t} }
	r.Protocol = p.Name
	r.Results = slices.DeleteFunc(r.Results, func(x Result) bool { return other(x.Side, x.Filter, x.Ties) })
	r.Groups = slices.DeleteFunc(r.Groups, func(x Result) bool { return other(x.Side, x.Filter, x.Ties) })
}
