package metrics

import (
	"context"
	"fmt"
	"math/bits"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/zpattern"
	"github.com/mquine/mquine/rank"
)

const zCaseName = "z-case"

// zCaseKey groups queries by the Z-case of their triple: its exposure to the Z-paradox
// (docs/zvalues.md).
func zCaseKey(ctx context.Context, g *kg.Graph, o KeyOptions) (Key, error) {
	if err := zpattern.CheckMemory(g, len(o.Triples), len(o.Sides.List())); err != nil {
		return Key{}, err
	}
	x, err := zpattern.NewIndex(ctx, g)
	if err != nil {
		return Key{}, err
	}
	var cases [2]map[kg.Triple]zpattern.Case
	for _, side := range o.Sides.List() {
		values, err := x.Values(ctx, o.Triples, side, o.Convention, o.Threads, nil)
		if err != nil {
			return Key{}, err
		}
		cases[side] = make(map[kg.Triple]zpattern.Case, len(values))
		for i, v := range values {
			cases[side][o.Triples[i]] = v.Case
		}
	}
	var labels []string
	for c := range zpattern.NumCases {
		labels = append(labels, c.String())
	}
	return Key{
		Labels:     labels,
		Ordered:    true,
		Convention: o.Convention.String(),
		Group: func(r *rank.Rank) int {
			c, ok := cases[r.Side][r.Triple]
			if !ok {
				panic(fmt.Sprintf("metrics: the %v query of %v is not in KeyOptions", r.Side, r.Triple))
			}
			return int(c)
		},
	}, nil
}

// degreeKey groups queries by the number of distinct training triples with the target as head or
// tail: 0, 1, 2-3, 4-7, …
func degreeKey(ctx context.Context, g *kg.Graph, o KeyOptions) (Key, error) {
	x, err := o.trainingIndex(ctx, g)
	if err != nil {
		return Key{}, err
	}
	degrees := x.Degrees(kg.Train)
	largest := 0
	for _, d := range degrees {
		largest = max(largest, d)
	}
	labels := []string{"0", "1"}
	for digits := 2; digits <= bits.Len(uint(largest)); digits++ {
		labels = append(labels, fmt.Sprintf("%d-%d", 1<<(digits-1), 1<<digits-1))
	}
	return Key{
		Labels:  labels,
		Ordered: true,
		Group: func(r *rank.Rank) int {
			_, answer := r.Triple.Query(r.Side)
			return bits.Len(uint(degrees[answer]))
		},
	}, nil
}
