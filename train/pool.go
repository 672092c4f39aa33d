package train

import (
	"context"
	"math/rand/v2"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/train/recipe"
)

// pool is a set of goroutines that work on the same items. All threads make one pool. With two blocks each half of the
// threads makes one too, which takes a block forward and backward, so that the halves wait for each other only then.
type pool struct {
	scratch  []stepScratch // of each goroutine
	comparer comparer
	scores   linalg.Matrix // of a block
}

func newPool(c *recipe.Recipe, b *linalg.Backend, m model.Trainable, s []stepScratch) *pool {
	return &pool{scratch: s, comparer: newComparer(c, b, m.Training(), len(s))}
}

func (p *pool) threads() int { return len(p.scratch) }

// parallel calls work for every item, with the memory of the goroutine that calls.
func (p *pool) parallel(ctx context.Context, items int, work func(c *stepScratch, item int)) error {
	return kernel.Parallel(ctx, len(p.scratch), items, func(worker, item int) { work(&p.scratch[worker], item) })
}

// stepScratch is the memory of a goroutine.
type stepScratch struct {
	worker    model.TrainingWorker
	ahead     *linalg.Prefetcher // fetches during the worker's products of small matrices
	objective objective
	pcg       *rand.PCG
	anchor    []float32 // with entries dropped
	features  []float32 // gradient of a feature row
	gradient  []float32 // of an entity or a relation
	part      []float32 // of the gradient of an entity

	// The pairs of a feature row, some at a time.
	queries [linalg.ProductChunk]int32
	dScores [linalg.ProductChunk]float32
}

func newStepScratch(c *recipe.Recipe, b *linalg.Backend, m model.Trainable, tables []parameterTable) stepScratch {
	ahead, width := b.NewPrefetcher(), tables[0].width
	return stepScratch{
		worker: m.NewTrainingWorker(ahead.Backend, c.Regulariser), ahead: ahead,
		objective: objective{config: c, backend: b}, pcg: rand.NewPCG(0, 0),
		anchor: kernel.AlignedFloat32(width), features: kernel.AlignedFloat32(m.Training().Width),
		gradient: kernel.AlignedFloat32(max(width, relationWidth(tables))), part: kernel.AlignedFloat32(width),
	}
}
