package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/pflag"

	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/rank"
)

// protocol names a fixed choice of sides, filters and ties.
type protocol string

const (
	// fullProtocol leaves the choice to the flags.
	fullProtocol protocol = "full"
	// rotateProtocol is that of the RotatE repository. Its own ties fall as an unstable sort leaves
	// them.
	rotateProtocol protocol = "rotate"
)

// follow sets what the protocol says, which flags must then not say.
func (e *evaluation) follow(flags *pflag.FlagSet) error {
	if e.protocol == fullProtocol {
		return nil
	}
	for _, name := range []string{"sides", "filters", "ties"} {
		if flags.Changed(name) {
			return fmt.Errorf("--protocol %s says which sides, filters and ties: leave out --%s", e.protocol, name)
		}
	}
	e.sides, e.filters, e.ties = rank.BothSides, []rank.Filter{rank.All}, rank.Optimistic
	return nil
}

// keep drops the results that are not of the protocol: it has one average over both sides.
func (p protocol) keep(r *metrics.Report) {
	if p == fullProtocol {
		return
	}
	r.Results = slices.DeleteFunc(r.Results, func(x metrics.Result) bool {
		return x.Side != rank.BothSides || x.Ties != rank.Optimistic
	})
	r.Groups = slices.DeleteFunc(r.Groups, func(x metrics.GroupResult) bool {
		return x.Side != rank.BothSides || x.Ties != rank.Optimistic
	})
}

// announce names the protocol above the tables.
func (p protocol) announce(w io.Writer) error {
	if p == fullProtocol {
		return nil
	}
	_, err := fmt.Fprintf(w, "Protocol %s: both sides in one average, filter all, optimistic ties\n", p)
	return err
}
