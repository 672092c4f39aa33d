package checkpoint_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/checkpoint"
)

// This example saves a model with its labels, opens it again and reads it. Results are valid only
// if Verify returns nil.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "checkpoint")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	dir = filepath.Join(dir, "toy")

	m, err := model.New(model.Config{Model: "distmult", Dim: 2, Entities: 2, Relations: 1},
		[][]float32{{1, 2, 3, 4}, {0.5, -1}})
	if err != nil {
		log.Fatal(err)
	}
	entities, relations := kg.NewVocabulary("ada", "charles"), kg.NewVocabulary("wrote to")
	if err := checkpoint.Save(ctx, dir, m, entities, relations, map[string]string{"dataset": "letters"}); err != nil {
		log.Fatal(err)
	}

	c, err := checkpoint.Open(ctx, dir)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	config := c.Model.Config()
	fmt.Println(c.Format, config.Model, config.Dim, c.Dataset)
	fmt.Println(c.Entities.Labels(), c.Model.Tensors()[0])
	if err := c.Verify(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// mquine/1 distmult 2 letters
	// [ada charles] [1 2 3 4]
}

// Inspect describes the tensors of a checkpoint, even one that Open refuses.
func ExampleInspect() {
	ctx := context.Background()
	i, err := checkpoint.Inspect(ctx, "../../testdata/checkpoints/complex")
	if err != nil {
		log.Fatal(err)
	}
	for _, t := range i.Tensors {
		fmt.Println(t.Name, t.DType, t.Shape, "NaN:", t.Values.NaN)
	}
	// Output:
	// entity F32 [90 22] NaN: 0
	// relation F32 [5 22] NaN: 0
}
