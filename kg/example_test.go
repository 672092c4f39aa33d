package kg_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/mquine/mquine/kg"
)

// This example writes a data set as text files, reads it and asks for known answers.
func Example() {
	dir, err := os.MkdirTemp("", "family")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	for name, text := range map[string]string{
		"train.txt": "anna\tparent_of\tbert\nanna\tparent_of\tclara\nbert\tsibling_of\tclara\n",
		"test.txt":  "clara\tsibling_of\tbert\nanna\tparent_of\tdora\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			log.Fatal(err)
		}
	}

	g, err := kg.Open(context.Background(), dir)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("entities:", g.Entities.Labels())
	for _, note := range g.Notes {
		fmt.Println("note:", note)
	}

	// Which entities are known answers to (anna, parent_of, ?)?
	index, err := kg.NewIndex(context.Background(), g)
	if err != nil {
		log.Fatal(err)
	}
	anna, _ := g.Entities.ID("anna")
	parentOf, _ := g.Relations.ID("parent_of")
	answers := index.Answers(kg.Query{Side: kg.Tail, Relation: parentOf, Anchor: anna})
	for i, e := range answers.Entities {
		fmt.Println(g.Entities.Label(e), "is in train:", answers.Splits[i].Has(kg.Train))
	}

	// Output:
	// entities: [anna bert clara dora]
	// note: there is no split "valid"
	// note: 1 entity occurs in no training triple
	// bert is in train: true
	// clara is in train: true
	// dora is in train: false
}

func ExampleTriple_Query() {
	t := kg.Triple{Head: 7, Relation: 1, Tail: 9}
	for _, side := range []kg.Side{kg.Tail, kg.Head} {
		q, answer := t.Query(side)
		fmt.Printf("%v query: relation %d, anchor %d, answer %d\n", q.Side, q.Relation, q.Anchor, answer)
	}
	// Output:
	// tail query: relation 1, anchor 7, answer 9
	// head query: relation 1, anchor 9, answer 7
}

func ExampleIndex_Categories() {
	g := &kg.Graph{
		Entities:  kg.NewVocabulary("anna", "bert", "clara", "Norway"),
		Relations: kg.NewVocabulary("lives_in", "parent_of"),
	}
	g.Splits[kg.Train] = []kg.Triple{
		{Head: 0, Relation: 0, Tail: 3}, {Head: 1, Relation: 0, Tail: 3}, {Head: 2, Relation: 0, Tail: 3},
		{Head: 0, Relation: 1, Tail: 1}, {Head: 0, Relation: 1, Tail: 2},
	}
	index, err := kg.NewIndex(context.Background(), g)
	if err != nil {
		log.Fatal(err)
	}
	for r, category := range index.Categories() {
		fmt.Println(g.Relations.Label(int32(r)), category)
	}
	// Output:
	// lives_in N-1
	// parent_of 1-N
}

func ExampleGraph_Relabel() {
	g := &kg.Graph{Name: "small", Entities: kg.NewVocabulary("a", "b"), Relations: kg.NewVocabulary("r")}
	g.Splits[kg.Test] = []kg.Triple{{Head: 0, Relation: 0, Tail: 1}}

	// A checkpoint numbers the same labels in a different order, and has one more label.
	relabelled, err := g.Relabel(kg.NewVocabulary("c", "b", "a"), kg.NewVocabulary("r"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(relabelled.Splits[kg.Test], relabelled.Notes)

	_, err = g.Relabel(kg.NewVocabulary("a"), kg.NewVocabulary("r"))
	fmt.Println(err)
	// Output:
	// [{2 0 1}] [1 entity that is only in the checkpoint stays a candidate]
	// data set small: the checkpoint lacks 1 entity of the data (b): use the checkpoint's data set
}
