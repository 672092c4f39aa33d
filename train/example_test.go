package train_test

import (
	"context"
	"fmt"
	"log"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/train"
	"github.com/mquine/mquine/train/recipe"
)

// A Trainer trains one epoch after another.
func Example() {
	g := &kg.Graph{
		Name:     "cities",
		Entities: kg.NewVocabulary("Lyon", "Paris", "France", "Europe"), Relations: kg.NewVocabulary("in"),
	}
	g.Splits[kg.Train] = []kg.Triple{
		{Head: 0, Relation: 0, Tail: 2}, {Head: 1, Relation: 0, Tail: 2}, {Head: 2, Relation: 0, Tail: 3},
	}
	backend, err := kernel.New()
	if err != nil {
		log.Fatal(err)
	}
	c, err := recipe.DefaultFor("mquine")
	if err != nil {
		log.Fatal(err)
	}
	c.Dim, c.Batch, c.ValidEvery = 4, 1, 0
	t, err := train.NewTrainer(context.Background(), c, g, train.Machine{Backend: backend, Threads: 1})
	if err != nil {
		log.Fatal(err)
	}
	e, err := t.Epoch(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("epoch %d: %d steps, loss %.2f\n", e.Epoch, t.StepsPerEpoch(), e.Loss.Total)
	// Output: epoch 1: 5 steps, loss 1.32
}
