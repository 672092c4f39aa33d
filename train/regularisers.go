package train

import (
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"

	"github.com/mquine/mquine/train/recipe"
)

// regulariser weighs the model's penalties: the regulariser is λ_reg/B times their sum over the B positives of a batch.
type regulariser struct {
	lambda float64
	warmup int     // epochs in which lambda rises
	factor float64 // λ_reg/B of the step; 0 without a regulariser
	// How often the batch's positives have each entity and relation.
	entities, relations []int32
}

func newRegulariser(c *recipe.Recipe, entities, relations int) *regulariser {
	r := &regulariser{lambda: c.LambdaReg, warmup: c.RegWarmup,
		entities: make([]int32, entities), relations: make([]int32, relations)}
	if c.Regulariser == model.NoPenalty {
		r.lambda = 0
	}
	return r
}

// begin begins a step.
func (r *regulariser) begin(epoch int, positives []kg.Triple) {
	r.factor = r.lambda / float64(len(positives))
	if epoch+1 < r.warmup {
		r.factor *= float64(epoch+1) / float64(r.warmup)
	}
	for _, t := range positives {
		r.entities[t.Head]++
		r.entities[t.Tail]++
		r.relations[t.Relation]++
	}
}

// end ends the step that began with the positives.
func (r *regulariser) end(positives []kg.Triple) {
	for _, t := range positives {
		r.entities[t.Head], r.entities[t.Tail], r.relations[t.Relation] = 0, 0, 0
	}
}

// ofEntity and ofRelation return the weights of the penalties of an entity and a relation.
func (r *regulariser) ofEntity(e int32) float64   { return r.factor * float64(r.entities[e]) }
func (r *regulariser) ofRelation(i int32) float64 { return r.factor * float64(r.relations[i]) }
