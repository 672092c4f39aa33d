package train

import (
	"context"

	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/train/recipe"
)

// comparer computes scores from query vectors and feature vectors, and the gradients of both. It
// belongs to a pool. The methods for matrices use all goroutines of the pool, and any goroutine of
// the pool may call the methods for pairs.
//
// Scores do not include the constants of the queries.
type comparer interface {
	// scores writes the score of every row of psi with every row of phi: [queries][features].
	scores(ctx context.Context, scores, psi, phi linalg.Matrix) error
	// gradients writes the gradients with respect to psi and phi, given the derivatives of the loss
	// with respect to the scores. The previous call to scores must have used the same matrices.
	gradients(ctx context.Context, dPsi, dPhi, dScores, psi, phi linalg.Matrix) error

	// pairScores writes the score of psi with each of the given rows of phi.
	pairScores(scores, psi []float32, phi linalg.Matrix, rows []int32)
	// addPsiGradient adds the gradient with respect to psi to dPsi, given the derivatives of the
	// loss with respect to the scores of psi with the given rows of phi. addPhiGradient does the
	// same for phi and rows of psi.
	addPsiGradient(dPsi, dScores, psi []float32, phi linalg.Matrix, rows []int32)
	addPhiGradient(dPhi, dScores, phi []float32, psi linalg.Matrix, rows []int32)
}

// newComparer returns the comparer of a model for the given number of threads.
func newComparer(c *recipe.Recipe, b *linalg.Backend, t model.Training, threads int) comparer {
	switch {
	case t.Rest != nil:
		first, second := newDistances(*t.Distance, b, threads), newDistances(t.Rest.Distance, b, threads)
		return newTwoDistances(first, second, t.Rest.From)
	case t.Distance != nil:
		return newDistances(*t.Distance, b, threads)
	case t.Region != nil:
		return &regions{*t.Region, b, b.NewRegions(*t.Region, threads)}
	}
	return &dotProducts{b, newProduct(c, b, threads)}
}

// newProduct returns scratch memory for products in the arithmetic of the recipe. With independent
// negatives, that is float32, even for relation prediction.
func newProduct(c *recipe.Recipe, b *linalg.Backend, threads int) *linalg.Product {
	switch c.Effective().Products {
	case recipe.BF16:
		return b.NewBFloat16Product(threads)
	case recipe.TileBF16:
		return b.NewTileProduct(threads)
	case recipe.SplitBF16:
		return b.NewSplitProduct(threads)
	}
	return b.NewProduct(threads)
}

// dotProducts is the comparer of scores ψ·φ. With the matrices Ψ and Φ, their scores S and W =
// ∂L/∂S,
//
//	S = Ψ Φᵀ,  ∂L/∂Ψ = W Φ,  ∂L/∂Φ = Wᵀ Ψ.
type dotProducts struct {
	backend *linalg.Backend
	product *linalg.Product
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
	d.backend.Dots(scores, psi, phi, rows)
}

func (d *dotProducts) addPsiGradient(dPsi, dScores, _ []float32, phi linalg.Matrix, rows []int32) {
	d.backend.AddRows(dPsi, dScores, phi, rows)
}

func (d *dotProducts) addPhiGradient(dPhi, dScores, phi []float32, psi linalg.Matrix, rows []int32) {
	d.addPsiGradient(dPhi, dScores, phi, psi, rows)
}
