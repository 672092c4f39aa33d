package main

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/mquine/mquine/kg"
)

// keep is the share of a drawn cluster's triples that the sample keeps. Likewise, a test split
// contains only a part of the triples of a query or an entity.
const keep = 0.25

// design is a way to sample the population without replacement.
type design struct {
	name string
	// draw returns the indices of the sampled triples.
	draw func() []int
}

// designs returns the sampling designs. Their samples have o.size triples on average.
func designs(triples []pair, o options) []design {
	rng := rand.New(rand.NewPCG(o.seed, 0))
	share := float64(o.size) / float64(len(triples))
	all := []design{{"triples", func() []int { return rng.Perm(len(triples))[:o.size] }}}
	for _, c := range []struct {
		name string
		key  func(t kg.Triple) kg.Query
	}{
		{"queries (h, r, ?)", func(t kg.Triple) kg.Query { q, _ := t.Query(kg.Tail); return q }},
		{"queries (?, r, t)", func(t kg.Triple) kg.Query { q, _ := t.Query(kg.Head); return q }},
		{"heads", func(t kg.Triple) kg.Query { return kg.Query{Anchor: t.Head} }},
		{"tails", func(t kg.Triple) kg.Query { return kg.Query{Anchor: t.Tail} }},
		{"relations", func(t kg.Triple) kg.Query { return kg.Query{Relation: t.Relation} }},
	} {
		clusters := clustersOf(triples, c.key)
		count := max(1, int(math.Round(share/keep*float64(len(clusters)))))
		all = append(all, design{c.name, func() (of []int) {
			for _, cluster := range rng.Perm(len(clusters))[:count] {
				for _, i := range clusters[cluster] {
					if rng.Float64() < keep {
						of = append(of, i)
					}
				}
			}
			return of
		}})
	}
	// A triple is sampled if both of its entities are drawn, so each drawn entity keeps only a part
	// of its triples.
	var entities int32
	for i := range triples {
		t := triples[i][kg.Tail].Triple
		entities = max(entities, t.Head+1, t.Tail+1)
	}
	return append(all, design{"entities", func() (of []int) {
		in := make([]bool, entities)
		for e := range in {
			in[e] = rng.Float64() < math.Sqrt(share)
		}
		for i := range triples {
			if t := triples[i][kg.Tail].Triple; in[t.Head] && in[t.Tail] {
				of = append(of, i)
			}
		}
		return of
	}})
}

// clustersOf groups the indices of the triples by key. Clusters are in the order of their first
// triple.
func clustersOf(triples []pair, key func(t kg.Triple) kg.Query) [][]int {
	members := map[kg.Query][]int{}
	for i := range triples {
		k := key(triples[i][kg.Tail].Triple)
		members[k] = append(members[k], i)
	}
	clusters := make([][]int, 0, len(members))
	for _, of := range members {
		clusters = append(clusters, of)
	}
	slices.SortFunc(clusters, func(a, b []int) int { return cmp.Compare(a[0], b[0]) })
	return clusters
}
