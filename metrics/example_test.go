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

// Rank the test split of a data set with a checkpoint and print a metric. (This is the README's
// example; it is compiled, not run, since it needs both.)
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
	// The candidates are the checkpoint's entities: put the data into its numbering.
	if g, err = g.Relabel(c.Entities, c.Relations); err != nil {
		log.Fatal(err)
	}
	test, err := g.Triples(kg.Test)
	if err != nil {
		log.Fatal(err)
	}
	ranking, err := rank.Run(ctx, c.Model, kg.NewIndex(g), test, rank.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if err := c.Verify(ctx); err != nil { // the file was changed while it was ranked
		log.Fatal(err)
	}
	m := metrics.Measure(ranking.Ranks, rank.BothSides, rank.All, rank.Realistic, []int{1, 10})
	fmt.Printf("MRR %.4f of %d queries\n", m.MRR, m.N)
}
