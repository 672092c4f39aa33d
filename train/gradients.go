package train

import (
	"context"
	"math"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/linalg"
)

// usedRows lists the entities and the relations whose parameters a step uses, in ascending order.
type usedRows struct{ entities, relations []int32 }

// gradientSink accepts the gradients of a step one at a time, while each is still in a near cache.
// Several goroutines call its methods, once for each row in usedRows. A method may overwrite the
// gradient. It may also change the parameters of the row, because the step no longer needs them.
type gradientSink interface {
	// entity accepts the gradient of entity usedRows.entities[k].
	entity(k int, gradient []float32)
	// relation accepts the gradient of relation usedRows.relations[k]: the gradients of its rows in
	// all tensors, one after the other.
	relation(k int, gradient []float32)
}

// gradients is a gradientSink that stores copies of the gradients.
type gradients struct {
	entities, relations linalg.Matrix
	squares             []float64 // scratch memory of norm
}

// begin allocates memory for the gradients of a step.
func (g *gradients) begin(rows usedRows, tables []parameterTable) {
	size(&g.entities, len(rows.entities), tables[0].width)
	size(&g.relations, len(rows.relations), relationWidth(tables))
}

func (g *gradients) entity(k int, gradient []float32)   { copy(g.entities.Row(k), gradient) }
func (g *gradients) relation(k int, gradient []float32) { copy(g.relations.Row(k), gradient) }

// norm returns the Euclidean norm of all gradients.
func (g *gradients) norm(ctx context.Context, threads int) (float64, error) {
	n := g.entities.Rows
	g.squares = resize(g.squares, n+g.relations.Rows)
	err := kernel.Parallel(ctx, threads, len(g.squares), func(_, k int) {
		row := g.relations.Row(max(0, k-n))
		if k < n {
			row = g.entities.Row(k)
		}
		var sum float64
		for _, x := range row {
			sum += float64(x) * float64(x)
		}
		g.squares[k] = sum
	})
	var sum float64
	for _, s := range g.squares {
		sum += s
	}
	return math.Sqrt(sum), err
}
