package main

import (
	"fmt"
	"slices"

	"github.com/spf13/pflag"

	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/model/checkpoint/formats"
	"github.com/mquine/mquine/rank"
)

// fullProtocol leaves sides, filters and ties to the flags.
const fullProtocol = "full"

// protocolNames returns the values of --protocol.
func protocolNames() []string {
	names := []string{fullProtocol}
	for _, p := range metrics.Protocols {
		names = append(names, p.Name)
	}
	return names
}

// named reports whether --protocol names a protocol other than fullProtocol.
func (e *evaluation) named() bool { return e.fixed.Name != "" }

// checkRelations refuses flags that do not apply to the ranking of relations.
func (e *evaluation) checkRelations() error {
	if e.sides != rank.RelationSide {
		return nil
	}
	if name := firstGiven(e.screenFlags()...); name != "" {
		return fmt.Errorf("%s does not apply to --side relation, which computes exact scores on the processor: "+
			"leave it out", name)
	}
	name := firstGiven(optionalFlag{e.restriction.given(), "a restriction of the candidates"},
		optionalFlag{e.negatives.given(), "a list of negatives"}, optionalFlag{e.sample.n > 0, "--sample"})
	if name != "" {
		return fmt.Errorf("%s does not apply to --side relation, whose candidates are relations: leave it out", name)
	}
	return nil
}

// otherScores says how the tool that wrote the checkpoint ranks it by other scores than the model's. It
// returns nil if the tool does not, or has another protocol.
func (s *subject) otherScores(protocol string) *metrics.OtherScores {
	tool := formats.Lookup(s.checkpoint.Tool())
	if len(s.members) > 1 || tool == nil || tool.Protocol != protocol {
		return nil
	}
	other, ok := formats.FindOtherScores(tool.Name, s.model.Config().Model)
	if !ok {
		return nil
	}
	return (*metrics.OtherScores)(&other)
}

// follow sets the sides, filters and ties of the protocol. It refuses flags that would set others.
// Without a protocol, given negatives are not filtered, and samples have the filter all, unless
// --filter is given.
func (e *evaluation) follow(flags *pflag.FlagSet) error {
	i := slices.IndexFunc(metrics.Protocols, func(p metrics.Protocol) bool { return p.Name == e.protocol })
	if i < 0 {
		switch {
		case flags.Changed("filter"):
		case e.negatives.given():
			e.filters = []rank.Filter{rank.None}
		case e.sample.n > 0:
			e.filters = []rank.Filter{rank.All}
		}
		return nil
	}
	for _, name := range []string{"side", "filter", "ties"} {
		if flags.Changed(name) {
			return fmt.Errorf("--protocol %s sets the sides, filters and ties: leave out --%s", e.protocol, name)
		}
	}
	if e.allTies {
		return fmt.Errorf("--protocol %s has one tie rule: leave out --all-ties", e.protocol)
	}
	e.fixed = metrics.Protocols[i]
	e.sides, e.filters, e.ties = e.fixed.Sides, []rank.Filter{e.fixed.Filter}, e.fixed.Ties
	return nil
}
