package main

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/mquine/mquine/kg"
)

// design is a way to draw a sample from the population, without replacement.
type design struct {
	name string
	// draw returns the positions of the sample's triples.
	draw func() []int
}

// designs returns the designs, whose samples have o.size triples on average.
func designs(triples []pair, o options) []design {
	rng := rand.New(rand.NewPCG(o.seed, 0))
	share := float64(o.size) / float64(len(triples))
	all := []design{{"triples", func() []int { return rng.Perm(len(triples))[:o.size] }}}
	for _, whole := range []struct {
		name string
		key  func(t kg.Triple) kg.Query
	}{
		{"queries (h, r, ?)", func(t kg.Triple) kg.Query { q, _ := t.Query(kg.Tail); return q }},
		{"queries (?, r, t)", func(t kg.Triple) kg.Query { q, _ := t.Query(kg.Head); return q }},
		{"heads", func(t kg.Triple) kg.Query { return kg.Query{Anchor: t.Head} }},
		{"tails", func(t kg.Triple) kg.Query { return kg.Query{Anchor: t.Tail} }},
		{"relations", func(t kg.Triple) kg.Query { return kg.Query{Relation: t.Relation} }},
	} {
		members := map[kg.Query][]int{}
		for i := range triples {
			key := whole.key(triples[i][0].Triple)
			members[key] = append(members[key], i)
		}
		var clusters [][]int
		for _, of := range members {
			clusters = append(clusters, of)
		}
		slices.SortFunc(clusters, func(a, b []int) int { return cmp.Compare(a[0], b[0]) })
		count := max(1, int(math.Round(share*float64(len(clusters)))))
		all = append(all, design{whole.name, func() (of []int) {
			for _, c := range rng.Perm(len(clusters))[:count] {
				of = append(of, clusters[c]...)
			}
			return of
		}})
	}
	// A triple is in the sample if both its entities are.
	entities := int32(0)
	for i := range triples {
		entities = max(entities, triples[i][0].Triple.Head+1, triples[i][0].Triple.Tail+1)
	}
	return append(all, design{"entities, both ends", func() (of []int) {
		in := make([]bool, entities)
		for e := range in {
			in[e] = rng.Float64() < math.Sqrt(share)
		}
		for i := range triples {
			if t := triples[i][0].Triple; in[t.Head] && in[t.Tail] {
				of = append(of, i)
			}
		}
		return of
	}})
}
