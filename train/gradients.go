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
// gradient. It may also change the parameters of the row, because no other gradient needs them.
type gradientSink interface {
	// entity accepts the gradient of entity usedRows.entities[k].
	entity(k int, gradient []float32)
	// relation accepts the gradient of relation usedRows.relations[k]: the gradients of its rows in
	// all tensors, one after the other.
	relation(k int, gradient []float32)
	// global accepts the gradients of the global tensors, one after the other. If the model has
	// such tensors, a step calls global once, after all other calls.
	global(ctx context.Context, gradient []float32) error
}

// gradients is a gradientSink that stores copies of the gradients.
type gradients struct {
	entities, relations linalg.Matrix
	globals             []float32
	squares             []float64 // scratch memory of norm
}

// begin allocates memory for the gradients of a step.
func (g *gradients) begin(rows usedRows, tables []parameterTable) {
	g.entities.Resize(len(rows.entities), tables[0].width)
	g.relations.Resize(len(rows.relations), relationSize(tables))
	g.globals = g.globals[:0]
}

func (g *gradients) entity(k int, gradient []float32)   { copy(g.entities.Row(k), gradient) }
func (g *gradients) relation(k int, gradient []float32) { copy(g.relations.Row(k), gradient) }

func (g *gradients) global(_ context.Context, gradient []float32) error {
	g.globals = append(g.globals[:0], gradient...)
	return nil
}

// norm returns the Euclidean norm of all gradients.
func (g *gradients) norm(ctx context.Context, threads int) (float64, error) {
	n := g.entities.Rows
	rows := n + g.relations.Rows
	g.squares = resize(g.squares, rows+globalChunks(len(g.globals)))
	err := kernel.Parallel(ctx, threads, len(g.squares), func(_, k int) {
		var row []float32
		switch {
		case k < n:
			row = g.entities.Row(k)
		case k < rows:
			row = g.relations.Row(k - n)
		default:
			row = globalChunk(g.globals, k-rows)
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

// globalChunkSize is the number of entries of a global tensor that a goroutine processes at a time.
const globalChunkSize = 1 << 13

func globalChunks(n int) int { return (n + globalChunkSize - 1) / globalChunkSize }

// globalChunk returns chunk i of the entries x of a global tensor.
func globalChunk(x []float32, i int) []float32 {
	return x[i*globalChunkSize : min((i+1)*globalChunkSize, len(x))]
}
