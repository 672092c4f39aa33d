package train

import (
	"context"
	"math/rand/v2"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/train/recipe"
)

// pool is a set of goroutines that share the items of a job. A step with two score matrices uses two
// pools, each with half of the threads. Each pool computes the scores and gradients of its matrix,
// and the pools wait for each other only at the end.
type pool struct {
	scratch  []stepScratch // memory of each goroutine
	comparer comparer
	scores   linalg.Matrix // the score matrix in progress
}

func newPool(c *recipe.Recipe, b *linalg.Backend, m model.Trainable, s []stepScratch) *pool {
	return &pool{scratch: s, comparer: newComparer(c, b, m.Training(), len(s))}
}

func (p *pool) threads() int { return len(p.scratch) }

// parallel calls work for every item, with the scratch memory of the calling goroutine.
func (p *pool) parallel(ctx context.Context, items int, work func(c *stepScratch, item int)) error {
	return kernel.Parallel(ctx, len(p.scratch), items, func(worker, item int) { work(&p.scratch[worker], item) })
}

// stepScratch is the scratch memory of a goroutine.
type stepScratch struct {
	worker          model.TrainingWorker
	droppedRelation relationCopy       // for queries with dropout of the relation's parameters
	prefetcher      *linalg.Prefetcher // runs during the worker's products of small matrices
	objective       objective
	orthogonality   orthogonality
	prediction      predictionScratch
	pcg             *rand.PCG
	anchor          []float32                 // an embedding with dropout applied
	batch           linalg.Matrix             // embeddings of several entities
	dPenalties      [querySegmentSize]float64 // derivatives with respect to the penalties of a segment's queries
	dPhi            []float32                 // gradient of a feature row outside score matrices
	gradient        []float32                 // first term of an entity's gradient, or gradient of a relation
	term            []float32                 // another term of an entity's gradient

	// queries and dScores hold one chunk of the pairs of a feature row.
	queries [linalg.ProductChunk]int32
	dScores [linalg.ProductChunk]float32
}

func newStepScratch(c *recipe.Recipe, b *linalg.Backend, m model.Trainable, tables []parameterTable) stepScratch {
	prefetcher, width := b.NewPrefetcher(), tables[0].width
	scratch := stepScratch{
		worker:        m.NewTrainingWorker(prefetcher.Backend, c.Regulariser),
		prefetcher:    prefetcher,
		objective:     objective{config: c, backend: b},
		orthogonality: orthogonality{backend: b},
		pcg:           rand.NewPCG(0, 0),
		anchor:        kernel.AlignedFloat32(width),
		batch:         linalg.NewMatrix(model.MaxBatch, width),
		dPhi:          kernel.AlignedFloat32(m.Training().Width),
		gradient:      kernel.AlignedFloat32(max(width, relationSize(tables))),
		term:          kernel.AlignedFloat32(width),
	}
	if c.RelationDropout > 0 {
		scratch.droppedRelation = newRelationCopy(c, prefetcher.Backend, m, tables)
	}
	return scratch
}
