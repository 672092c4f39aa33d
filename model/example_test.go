package model_test

import (
	"fmt"
	"log"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
)

// A TransE model of three entities and one relation scores the answers to a query.
func Example() {
	m, err := model.New(model.Config{
		Model: "transe-l1", Dim: 2, Entities: 3, Relations: 1, Hyper: map[string]float64{model.Gamma: 6},
	}, [][]float32{
		{1, 2, 0, 4, 1.5, 2}, // the rows of the entities
		{0.5, -1},            // the row of the relation
	})
	if err != nil {
		log.Fatal(err)
	}
	backend, err := kernel.New()
	if err != nil {
		log.Fatal(err)
	}
	worker := m.NewWorker(backend)
	query := kg.Query{Side: kg.Tail, Relation: 0, Anchor: 0} // (entity 0, relation 0, ?)
	for e := range int32(3) {
		reference := worker.Reference(query, e)
		fmt.Printf("entity %d: reference score %v, printed as %v\n", e, reference, m.Score(reference))
	}
	// Output:
	// entity 0: reference score -1.5, printed as 4.5
	// entity 1: reference score -4.5, printed as 1.5
	// entity 2: reference score -1, printed as 5
}

// This example prints the shapes of MQuinE's parameters for 100 entities and 7 relations.
func ExampleParameters() {
	parameters, err := model.Parameters(model.Config{Model: "mquine", Dim: 3, Entities: 100, Relations: 7})
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range parameters {
		fmt.Println(p.Name, p.Dims())
	}
	// Output:
	// entity [100 6]
	// relation.head [7 3 3]
	// relation.tail [7 3 3]
	// relation.cross [7 3 3]
}

// This example prints the hyper-parameters of pRotatE, with the values that a new model gets.
func ExampleInitialConfig() {
	c, err := model.InitialConfig(model.Config{Model: "protate", Dim: 28})
	if err != nil {
		log.Fatal(err)
	}
	spec, err := model.Lookup(c.Model)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(spec.Score)
	for _, h := range spec.Hyper {
		fmt.Println(h.Key, h.Of(c))
	}
	// Output:
	// γ − m Σ|sin(θ_h + θ_r − θ_t)|
	// gamma 12
	// embedding_range 0.5
	// modulus 0.25
}
