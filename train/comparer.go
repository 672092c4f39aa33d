package train

import (
	"context"

	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/train/recipe"
)

// comparer scores queries against features, and takes the gradients of the scores back to both. It belongs to a pool
// of goroutines, which share the work on a block; any of them may call the methods for pairs.
type comparer interface {
	// scores writes the score of each query (a row of psi) and each feature row, without the query's constant.
	scores(ctx context.Context, scores, psi, phi linalg.Matrix) error
	// gradients writes the gradients of queries and features, given the derivative of the loss by each score.
	gradients(ctx context.Context, dPsi, dPhi, dScores, psi, phi linalg.Matrix) error

	// pairScores writes the scores of a query and some feature rows.
	pairScores(scores, psi []float32, phi linalg.Matrix, rows []int32)
	// addGradient adds to dX the gradient of a vector x, given the derivatives of the loss by the scores of x and some
	// rows of y: of a query and features, or of a feature row and queries.
	addGradient(dX, dScores, x []float32, y linalg.Matrix, rows []int32)
}

// dotProducts compare by ψ·φ. With Ψ and Φ the matrices of a block and W = ∂L/∂S of its scores S,
//
//	S = Ψ Φᵀ,  ∂L/∂Ψ = W Φ,  ∂L/∂Φ = Wᵀ Ψ.
type dotProducts struct {
	backend *linalg.Backend
	product *linalg.Product
}

func newComparer(c *recipe.Recipe, b *linalg.Backend, t model.Training, threads int) comparer {
	switch {
	case t.Distance != nil:
		return newDistances(*t.Distance, b, threads)
	case c.Products == recipe.SplitBF16:
		return &dotProducts{b, b.NewSplitProduct(threads)}
	}
	return &dotProducts{b, b.NewProduct(threads)}
}

func (d *dotProducts) scores(ctx context.Context, scores, psi, phi linalg.Matrix) error {
	return d.product.NT(ctx, scores, psi, phi, false)
}

func (d *dotProducts) gradients(ctx context.Context, dPsi, dPhi, dScores, psi, phi linalg.Matrix) error {
	if err := d.product.NN(ctx, dPsi, dScores, phi, false); err != nil {
		return err
	}
	return d.product.TN(ctx, dPhi, dScores, psi, false)
}

func (d *dotProducts) pairScores(scores, psi []float32, phi linalg.Matrix, rows []int32) {
	for k, row := range rows {
		scores[k] = float32(d.backend.Dot(psi, phi.Row(int(row))))
	}
}

func (d *dotProducts) addGradient(dX, dScores, _ []float32, y linalg.Matrix, rows []int32) {
	for k, row := range rows {
		d.backend.Axpy(dX, dScores[k], y.Row(int(row)))
	}
}
