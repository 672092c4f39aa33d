package rank_test

import (
	"context"
	"fmt"
	"log"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank"
)

// family returns a graph of four people, and a DistMult model of two dimensions.
func family() (*kg.Graph, model.Model, error) {
	g := &kg.Graph{Name: "family", Entities: kg.NewVocabulary(), Relations: kg.NewVocabulary()}
	for _, name := range []string{"Ann", "Bob", "Cyd", "Dan"} {
		g.Entities.Add(name)
	}
	g.Relations.Add("knows")
	g.Splits[kg.Train] = []kg.Triple{{Head: 0, Tail: 1}}
	g.Splits[kg.Test] = []kg.Triple{{Head: 0, Tail: 2}}
	m, err := model.New(model.Config{Model: "distmult", Dim: 2, Entities: 4, Relations: 1}, [][]float32{
		{ // entities
			4, 0,
			3, 1,
			2, 2,
			0, 8,
		},
		{1, 1}, // relations
	})
	return g, m, err
}

// This example ranks both sides with the best kernels of this machine, which the zero value of
// Options selects.
func Example() {
	g, m, err := family()
	if err != nil {
		log.Fatal(err)
	}
	test := g.Splits[kg.Test] // (Ann, knows, Cyd)
	index, err := kg.NewIndex(context.Background(), g)
	if err != nil {
		log.Fatal(err)
	}
	ranking, err := rank.Run(context.Background(), m, index, test, rank.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range ranking.Ranks {
		fmt.Printf("%v: %d better, %d equal; rank %v, without answers known from train %v\n", r.Side,
			r.Better[rank.None], r.Equal[rank.None],
			rank.Realistic.Rank(&r, rank.None), rank.Realistic.Rank(&r, rank.Train))
	}
	// Output:
	// tail: 2 better, 0 equal; rank 3, without answers known from train 2
	// head: 1 better, 2 equal; rank 3, without answers known from train 3
}

func ExamplePredict() {
	g, m, err := family()
	if err != nil {
		log.Fatal(err)
	}
	queries := []kg.Query{{Side: kg.Tail, Relation: 0, Anchor: 0}} // (Ann, knows, ?)
	index, err := kg.NewIndex(context.Background(), g)
	if err != nil {
		log.Fatal(err)
	}
	answers, err := rank.Predict(context.Background(), m, index, queries, rank.Top{K: 3}, rank.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, a := range answers[0] {
		fmt.Println(g.Entities.Label(a.Answer), a.Score, a.Known)
	}
	// Output:
	// Ann 16 false
	// Bob 12 true
	// Cyd 8 true
}

// This example divides the candidates of a ranking, as one might among machines. The counts of
// ranges add up.
func ExampleAdd() {
	g, m, err := family()
	if err != nil {
		log.Fatal(err)
	}
	index, err := kg.NewIndex(context.Background(), g)
	if err != nil {
		log.Fatal(err)
	}
	var total []rank.Rank
	for _, entities := range []rank.Range{{First: 0, Last: 2}, {First: 2, Last: 4}} {
		o := rank.Options{Sides: []kg.Side{kg.Tail}, Shard: entities}
		shard, err := rank.Run(context.Background(), m, index, g.Splits[kg.Test], o)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("better:", shard.Ranks[0].Better[rank.None])
		if total == nil {
			total = shard.Ranks
		} else if err := rank.Add(total, shard.Ranks); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("together:", total[0].Better[rank.None])
	// Output:
	// better: 2
	// better: 0
	// together: 2
}
