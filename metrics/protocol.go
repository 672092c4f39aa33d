package metrics

import (
	"fmt"
	"slices"

	"github.com/mquine/mquine/rank"
)

// Protocol is a choice of what one set of metrics is about.
type Protocol struct {
	// Name is set for the fixed choice of another tool.
	Name   string
	Sides  rank.Sides
	Filter rank.Filter
	Ties   rank.Ties
}

// Protocols lists the protocols of other tools.
var Protocols = []Protocol{
	// The RotatE repository's own ties fall as an unstable sort leaves them.
	{Name: "rotate", Sides: rank.BothSides, Filter: rank.All, Ties: rank.Optimistic},
}

// String describes the protocol: "rotate: both sides in one average, filter all, optimistic ties".
func (p Protocol) String() string {
	sides := fmt.Sprintf("side %v", p.Sides)
	if p.Sides == rank.BothSides {
		sides = "both sides in one average"
	}
	return fmt.Sprintf("%s: %s, filter %v, %v ties", p.Name, sides, p.Filter, p.Ties)
}

// Apply names the protocol in the report, and drops the results and groups that are not of the protocol.
func (p Protocol) Apply(r *Report) {
	r.Protocol = p.Name
	r.Results = slices.DeleteFunc(r.Results, func(x Result) bool { return p != Protocol{p.Name, x.Side, x.Filter, x.Ties} })
	r.Groups = slices.DeleteFunc(r.Groups, func(x GroupResult) bool { return p != Protocol{p.Name, x.Side, x.Filter, x.Ties} })
}
