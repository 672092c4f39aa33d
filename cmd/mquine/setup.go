package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/zpattern"
	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/rank"
)

// setup holds the flags that eval and compare share: which queries to rank, and how to summarise
// the ranks.
type setup struct {
	split      kg.Split
	sides      rank.Sides
	ties       rank.Ties
	hits       []int
	by         []string
	convention zpattern.Convention // decides the groups of --by z-case
	ciBy       metrics.Clustering
}

// newSetup returns the defaults: the test split, both sides, realistic ties, Hits@1, Hits@3 and
// Hits@10, no groups, and intervals by query.
func newSetup() setup {
	return setup{
		split: kg.Test, sides: rank.BothSides, ties: rank.Realistic, hits: []int{1, 3, 10}, ciBy: metrics.ByQuery,
	}
}

// add adds the flags to a command.
func (s *setup) add(cmd *cobra.Command) {
	keys := metrics.KeyNames()
	addChoice(cmd, &s.split, "split", "rank the triples of this split: train, valid or test",
		kg.Train, kg.Valid, kg.Test)
	addSide(cmd, &s.sides, "ask for this side: tail, head, both or relation", rank.RelationSide)
	addChoice(cmd, &s.ties, "ties", "tie rule of the tables: optimistic, pessimistic, realistic or rounded",
		rank.Optimistic, rank.Pessimistic, rank.Realistic, rank.Rounded)
	cmd.Flags().Var(cutoffs{&s.hits}, "hits", "values of k in Hits@k, separated by commas")
	addChoices(cmd, &s.by, "by", "also show groups of queries by these keys, separated by commas: "+
		strings.Join(keys, ", "), keys...)
	addConvention(cmd, &s.convention)
	addChoice(cmd, &s.ciBy, "ci-by", "resample these clusters for 95% intervals: triple, query, entity or relation",
		metrics.ByTriple, metrics.ByQuery, metrics.ByEntity, metrics.ByRelation)
	inGroup(cmd, inputFlags, "split")
	inGroup(cmd, protocolFlags, "ties")
}

// checkGroups refuses flags that choose or arrange groups of queries if there are none.
func (s *setup) checkGroups(cmd *cobra.Command) error {
	for _, flag := range []string{"sort", "min", "top"} {
		if cmd.Flags().Changed(flag) && len(s.by) == 0 {
			return fmt.Errorf("--%s applies to groups of queries: add --by, or leave it out", flag)
		}
	}
	if cmd.Flags().Changed("convention") && !slices.Contains(s.by, "z-case") {
		return errors.New("--convention applies to groups by z-case: add --by z-case, or leave it out")
	}
	return nil
}

// addSide adds the flag --side. Its former name is --sides.
func addSide(cmd *cobra.Command, sides *rank.Sides, usage string, more ...rank.Sides) {
	acceptFormer(cmd, map[string]string{"sides": "side"})
	addChoice(cmd, sides, "side", usage, append([]rank.Sides{rank.TailSide, rank.HeadSide, rank.BothSides}, more...)...)
	inGroup(cmd, protocolFlags, "side")
}

// keys returns the keys by which to group the queries of triples. x indexes g, or is nil.
func (s *setup) keys(
	ctx context.Context, g *kg.Graph, x *kg.Index, triples []kg.Triple, threads int,
) ([]metrics.Key, error) {
	return metrics.NewKeys(ctx, g, s.by, metrics.KeyOptions{
		Triples: triples, Sides: s.sides, Index: x, Convention: s.convention, Threads: threads,
	})
}
