package zpattern_test

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/zpattern"
)

// actors returns a graph of films and actors. Bert acts in both films, and Clara only in the
// second.
//
//	film1 → bert ← film2 → clara
//
// The test triple (film1, has_actor, clara) has one Z-pattern, which this path shows.
func actors() *kg.Graph {
	g := &kg.Graph{
		Name:      "actors",
		Entities:  kg.NewVocabulary("film1", "film2", "bert", "clara"),
		Relations: kg.NewVocabulary("has_actor"),
	}
	g.Splits[kg.Train] = []kg.Triple{{Head: 0, Tail: 2}, {Head: 1, Tail: 2}, {Head: 1, Tail: 3}}
	g.Splits[kg.Test] = []kg.Triple{{Head: 0, Tail: 3}}
	return g
}

// label returns the labels of a triple as text.
func label(g *kg.Graph, t kg.Triple) string {
	head, tail := g.Entities.Label(t.Head), g.Entities.Label(t.Tail)
	return fmt.Sprintf("(%s, %s, %s)", head, g.Relations.Label(t.Relation), tail)
}

// This example counts and lists the Z-patterns of a test triple.
func Example() {
	g := actors()
	index, err := zpattern.NewIndex(context.Background(), g)
	if err != nil {
		log.Fatal(err)
	}
	test := g.Splits[kg.Test]
	values, err := index.Values(context.Background(), test, kg.Tail, zpattern.Definition, 0, nil)
	if err != nil {
		log.Fatal(err)
	}
	for i, t := range test {
		v := values[i]
		fmt.Printf("%s: n_Z = %d, rank_Z = %d, %v\n", label(g, t), v.Z, v.Rank, v.Case)
		for p := range index.Patterns(t, zpattern.Definition) {
			for _, edge := range p.Triples(t) {
				fmt.Println("  ", label(g, edge))
			}
		}
	}
	// Output:
	// (film1, has_actor, clara): n_Z = 1, rank_Z = 1, easy
	//    (film1, has_actor, bert)
	//    (film2, has_actor, bert)
	//    (film2, has_actor, clara)
}

// This example draws additional positives for a training query, as Z-sampling does.
func ExampleSampler_Sample() {
	g := actors()
	index, err := zpattern.NewIndex(context.Background(), g)
	if err != nil {
		log.Fatal(err)
	}
	sampler := index.NewSampler()

	// Clara is a negative sample for the query (film1, has_actor, ?).
	query := kg.Query{Side: kg.Tail, Relation: 0, Anchor: 0}
	negatives := []int32{3}
	rng := rand.New(rand.NewPCG(1, 2))
	sample, size := sampler.Sample(nil, query, negatives, 10, rng)
	fmt.Println("triples in S_Z:", size)
	for _, t := range sample {
		fmt.Println(label(g, t))
	}
	// Output:
	// triples in S_Z: 3
	// (film1, has_actor, bert)
	// (film2, has_actor, bert)
	// (film2, has_actor, clara)
}
