package zpattern

import (
	"bufio"
	"context"
	"io"
	"strconv"
	"strings"

	"github.com/mquine/mquine/kg"
)

// SplitValues holds the values of all triples of a split.
type SplitValues struct {
	Graph      *kg.Graph
	Split      kg.Split
	Sides      []kg.Side
	Convention Convention
	// Values contains a slice for each of Sides, in the order of the triples.
	Values [][]Value
}

// NewSplitValues computes the values of a split of g with [Index.Values], on the given sides, of
// which there must be at least one. It fails if there is not enough memory ([CheckMemory]). If
// progress is not nil, NewSplitValues calls it with the index of the current side, the work done
// for that side so far and the total work for it, in arbitrary units.
func NewSplitValues(
	ctx context.Context, g *kg.Graph, split kg.Split, sides []kg.Side, c Convention, threads int,
	progress func(side int, done, total int64),
) (*SplitValues, error) {
	triples, err := g.Triples(split)
	if err != nil {
		return nil, err
	}
	if err := CheckMemory(g, len(triples), len(sides)); err != nil {
		return nil, err
	}
	x, err := NewIndex(ctx, g)
	if err != nil {
		return nil, err
	}
	s := &SplitValues{Graph: g, Split: split, Sides: sides, Convention: c}
	for i, side := range sides {
		var report func(done, total int64)
		if progress != nil {
			report = func(done, total int64) { progress(i, done, total) }
		}
		values, err := x.Values(ctx, triples, side, c, threads, report)
		if err != nil {
			return nil, err
		}
		s.Values = append(s.Values, values)
	}
	return s, nil
}

// Write writes tab-separated values with a header: side, head, relation, tail, z, rank_z and case.
// Each line gives the value of a triple on one side.
func (s *SplitValues) Write(w io.Writer) error {
	lines := bufio.NewWriter(w) // keeps its first error for Flush
	write := func(fields ...string) { _, _ = lines.WriteString(strings.Join(fields, "\t") + "\n") }
	write("side", "head", "relation", "tail", "z", "rank_z", "case")
	g := s.Graph
	for i, side := range s.Sides {
		for j, t := range g.Splits[s.Split] {
			v := s.Values[i][j]
			write(side.String(), g.Entities.Label(t.Head), g.Relations.Label(t.Relation), g.Entities.Label(t.Tail),
				strconv.FormatUint(v.Z, 10), strconv.Itoa(v.Rank), v.Case.String())
		}
	}
	return lines.Flush()
}
