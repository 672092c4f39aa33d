package main

import (
	"fmt"
	"slices"

	"github.com/spf13/pflag"

	"github.com/mquine/mquine/metrics"
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
	const (
		exact     = "which computes exact scores on the processor"
		relations = "whose candidates are relations"
	)
	for _, flag := range []struct {
		given     bool
		name, why string
	}{
		{e.backend == cudaBackend, "--backend cuda", exact}, {len(e.gpus.indices) > 0, "--devices", exact},
		{e.peak, "--peak", exact}, {e.screen != rank.AutoScreen, "--screen", exact},
		{e.restriction.given(), "a restriction of the candidates", relations},
		{e.negatives.given(), "a list of negatives", relations}, {e.sample.n > 0, "--sample", relations},
	} {
		if flag.given {
			return fmt.Errorf("%s does not apply to --side relation, %s: leave it out", flag.name, flag.why)
		}
	}
	return nil
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
