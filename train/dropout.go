package train

import (
	"math"
	"math/rand/v2"

	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/train/internal/stream"
	"github.com/mquine/mquine/train/recipe"
)

// dropout sets each entry of a vector to zero with the given probability and multiplies the others
// by a factor that preserves the mean. Calls to apply with the same epoch, step and query drop the
// same entries, so a second call can apply the dropout to the gradient.
type dropout struct {
	probability float64 // apply rounds it down to a multiple of 2⁻¹⁶
	seed, use   uint64
}

// apply drops entries of x. It overwrites pcg.
func (d *dropout) apply(x []float32, pcg *rand.PCG, epoch, step, query int) {
	if d.probability == 0 {
		return
	}
	stream.Seed(pcg, d.seed, d.use, epoch, step, query)
	const bits = 16
	limit := uint64(d.probability * (1 << bits))
	factor := float32(1 / (1 - float64(limit)/(1<<bits)))
	for len(x) > 0 {
		r := pcg.Uint64()
		some := x[:min(64/bits, len(x))]
		for j, v := range some {
			// A branch would be mispredicted for many entries. keep has all bits set, or none.
			keep := ^uint32(int64(r&(1<<bits-1)-limit) >> 63)
			some[j] = math.Float32frombits(math.Float32bits(v*factor) & keep)
			r >>= bits
		}
		x = x[len(some):]
	}
}

// relationCopy is a model with a single relation, whose parameters may have dropped entries. It shares
// all other parameters with the model that it copies.
type relationCopy struct {
	parameters []float32 // the relation's rows of all tensors, one after another
	worker     model.TrainingWorker
}

// newRelationCopy returns a copy of m without parameters of its relation.
func newRelationCopy(
	c *recipe.Recipe, b *linalg.Backend, m model.Trainable, tables []parameterTable,
) (copied relationCopy) {
	copied.parameters = make([]float32, relationSize(tables))
	left := copied.parameters
	var tensors [][]float32
	for _, t := range tables {
		if t.axis != model.PerRelation {
			tensors = append(tensors, t.values)
			continue
		}
		tensors = append(tensors, left[:t.width])
		left = left[t.width:]
	}
	config := m.Config()
	config.Relations = 1
	single, err := model.New(config, tensors)
	if err != nil {
		panic(err) // m has the same tensors, with more relations
	}
	copied.worker = single.(model.Trainable).NewTrainingWorker(b, c.Regulariser)
	return copied
}
