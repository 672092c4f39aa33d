package train

import (
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/train/recipe"
)

// regulariser computes the weights of the model's penalties. The regulariser of a step is λ_reg/B
// times the sum of the penalties over the B positives of the batch.
type regulariser struct {
	lambda float64
	// products is the weight of the queries' penalties, and thirdPair the weight of the third pair of
	// dura (see linearRelations). The weight of other penalties is 1.
	products, thirdPair float64
	warmup              int     // epochs of linear warm-up of lambda
	factor              float64 // λ_reg/B of the step; 0 without a regulariser
	// orthogonality is λ_ortho, and orthogonalityFactor is λ_ortho/B of the step.
	orthogonality, orthogonalityFactor float64
	// entityCounts and relationCounts hold how many times each entity and each relation occurs in the positives.
	entityCounts, relationCounts []int32
}

func newRegulariser(c *recipe.Recipe, entities, relations int) *regulariser {
	r := &regulariser{
		lambda: c.LambdaReg, products: c.DuraProducts, thirdPair: c.DuraPair, warmup: c.RegWarmup,
		orthogonality: c.Orthogonality,
		entityCounts:  make([]int32, entities), relationCounts: make([]int32, relations),
	}
	if c.Regulariser == model.NoPenalty {
		r.lambda = 0
	}
	return r
}

// begin sets the weights for the positives of a step.
func (r *regulariser) begin(epoch int, positives []kg.Triple) {
	r.factor = r.lambda / float64(len(positives))
	r.orthogonalityFactor = r.orthogonality / float64(len(positives))
	if epoch+1 < r.warmup {
		r.factor *= float64(epoch+1) / float64(r.warmup)
	}
	for _, t := range positives {
		r.entityCounts[t.Head]++
		r.entityCounts[t.Tail]++
		r.relationCounts[t.Relation]++
	}
}

// end resets the weights. Its argument must be the positives that were passed to begin.
func (r *regulariser) end(positives []kg.Triple) {
	for _, t := range positives {
		r.entityCounts[t.Head], r.entityCounts[t.Tail], r.relationCounts[t.Relation] = 0, 0, 0
	}
}

// ofQuery returns the weight of the penalty on a query, which counts the given number of times.
func (r *regulariser) ofQuery(count float64) float64 { return r.factor * r.products * count }

// ofEntity returns the weight of the penalty on an entity.
func (r *regulariser) ofEntity(e int32) float64 { return r.factor * float64(r.entityCounts[e]) }

// ofRelation returns the weight of the penalty on a relation.
func (r *regulariser) ofRelation(i int32) float64 { return r.factor * float64(r.relationCounts[i]) }

// ofMatrices returns the weight of the penalty of orthogonality on a relation.
func (r *regulariser) ofMatrices(i int32) float64 {
	return r.orthogonalityFactor * float64(r.relationCounts[i])
}
