package recipe_test

import (
	"fmt"
	"log"
	"strings"

	"github.com/mquine/mquine/train/recipe"
)

// A preset and a file change the defaults.
func Example() {
	r, err := recipe.Preset("paper", "wn18rr")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := r.Read(strings.NewReader("epochs: 20\nlearning_rate: 2e-3\n"), "options.yaml"); err != nil {
		log.Fatal(err)
	}
	if err := r.Check(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Model, r.Dim, r.Negatives, r.Loss, r.Epochs, r.LearningRate)

	_, err = r.Read(strings.NewReader("learning_rte: 1\n"), "options.yaml")
	fmt.Println(err)
	// Output:
	// mquine 35 independent nssa 20 0.002
	// options.yaml:1: unknown option "learning_rte": the nearest is learning_rate
}
