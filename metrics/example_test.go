package metrics_test

import (
	"context"
	"fmt"
	"log"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/model/checkpoint"
	"github.com/mquine/mquine/rank"
)

// This example, which is also in the README, ranks the test split of a data set with a checkpoint
// and prints the MRR. It lacks an output comment, because it needs a data set and a checkpoint.
func Example() {
	ctx := context.Background()
	c, err := checkpoint.Open(ctx, "ckpt")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	g, err := kg.Open(ctx, "fb15k-237")
	if err != nil {
		log.Fatal(err)
	}
	// The candidates are the checkpoint's entities: use its identifiers for the data.
	if g, err = g.Relabel(c.Entities, c.Relations); err != nil {
		log.Fatal(err)
	}
	test, err := g.Triples(kg.Test)
	if err != nil {
		log.Fatal(err)
	}
	index, err := kg.NewIndex(ctx, g)
	if err != nil {
		log.Fatal(err)
	}
	ranking, err := rank.Run(ctx, c.Model, index, test, rank.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if err := c.Verify(ctx); err != nil { // the file changed while it was ranked
		log.Fatal(err)
	}
	m := metrics.Measure(ranking.Ranks, rank.BothSides, rank.All, rank.Realistic, []int{1, 10})
	fmt.Printf("MRR %.4f of %d queries\n", m.MRR, m.N)
}

// Three targets have 0, 1 and 9 better candidates among 20. Two candidates have the same score as
// the last target.
func ExampleMeasure() {
	ranks := make([]rank.Rank, 3)
	for i, better := range []int32{0, 1, 9} {
		ranks[i].Better[rank.All] = better
		ranks[i].Candidates[rank.All] = 20
	}
	ranks[2].Equal[rank.All] = 2
	for _, ties := range []rank.Ties{rank.Optimistic, rank.Realistic, rank.Pessimistic} {
		m := metrics.Measure(ranks, rank.TailSide, rank.All, ties, []int{1, 10})
		fmt.Printf("%-11v MRR %.3f, MR %.2f, Hits@10 %.2f, AMRI %.2f\n", ties, m.MRR, m.MR, m.Hits[1].Share, m.AMRI)
	}
	// Output:
	// optimistic  MRR 0.533, MR 4.33, Hits@10 1.00, AMRI 0.65
	// realistic   MRR 0.530, MR 4.67, Hits@10 0.67, AMRI 0.61
	// pessimistic MRR 0.528, MR 5.00, Hits@10 0.67, AMRI 0.58
}

// The other checkpoint ranks 40 of 60 triples better than the base.
func ExampleCompare() {
	base, other := make([]rank.Rank, 60), make([]rank.Rank, 60)
	for i := range base {
		base[i].Triple = kg.Triple{Head: int32(i), Tail: int32(i)}
		base[i].Better[rank.All] = 3
		other[i] = base[i]
		if i < 40 {
			other[i].Better[rank.All] = 0
		}
	}
	comparison, err := metrics.Compare(context.Background(), base, other, metrics.CompareOptions{
		Sides: rank.TailSide, Filter: rank.All, CIBy: metrics.ByTriple,
	})
	if err != nil {
		log.Fatal(err)
	}
	c := comparison.Whole[0]
	mrr := c.Metrics[0]
	fmt.Printf("%d wins, %d losses; MRR %.2f − %.2f = %.2f, 95%% interval %.2f to %.2f, p = %.4f\n",
		c.Wins, c.Losses, mrr.Other, mrr.Base, mrr.Difference, mrr.CI[0], mrr.CI[1], mrr.P)
	// Output:
	// 40 wins, 0 losses; MRR 0.75 − 0.25 = 0.50, 95% interval 0.41 to 0.59, p = 0.0001
}
