package train

import (
	"context"
	"math"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/train/recipe"
)

// optimiser updates the parameters. It is a gradientSink that updates each row immediately, while
// the row and its gradient are in a near cache.
//
// Adam (Kingma and Ba, 2014) updates every row in every step, including rows without a gradient.
// optimiser implements it as lazy Adam with a catch-up: before a row is next used, and at the end
// of an epoch, the row gets all updates that it missed (docs/training.md, "Optimisers").
type optimiser struct {
	config  *recipe.Recipe
	backend *linalg.Backend
	threads int
	step    int     // number of the current step, from 1; between steps, the number of steps done
	rate    float64 // learning rate of the step
	tables  []optimiserTable
	used    usedRows // rows that the step uses
	// sizes holds, for every step since the last flush, the factor of m/√v in Adam's update.
	sizes []float64
}

// optimiserTable is a tensor with the state of each row. Moments that the optimiser does not use
// are nil.
type optimiserTable struct {
	parameterTable
	first, second []float32
	// last holds, with Adam, the step up to which each row's moments are current. It is nil for
	// global tensors, because every step updates them.
	last []int
}

// moment returns row i of first or second, or nil if the optimiser does not use them.
func (t *optimiserTable) moment(moments []float32, i int) []float32 {
	if moments == nil {
		return nil
	}
	return moments[i*t.width : (i+1)*t.width]
}

func newOptimiser(c *recipe.Recipe, m Machine, tables []parameterTable) *optimiser {
	o := &optimiser{config: c, backend: linalg.New(m.Backend), threads: m.Threads}
	for _, values := range tables {
		t := optimiserTable{parameterTable: values}
		if t.frozen {
			o.tables = append(o.tables, t)
			continue
		}
		if c.Optimiser != recipe.SGD {
			t.second = kernel.AlignedFloat32(len(t.values))
		}
		if c.Optimiser == recipe.Adam {
			t.first = kernel.AlignedFloat32(len(t.values))
			if t.axis != model.Global {
				t.last = make([]int, t.rows())
			}
		}
		o.tables = append(o.tables, t)
	}
	return o
}

// nextRate returns the learning rate of the next step.
func (o *optimiser) nextRate(stepsPerEpoch int) float64 {
	c := o.config
	now, end := float64(o.step)/float64(stepsPerEpoch), float64(c.Epochs) // in epochs
	if now < c.Warmup {
		steps := c.Warmup * float64(stepsPerEpoch) // perhaps not a whole number
		return c.LearningRate * min(float64(o.step+1), steps) / steps
	}
	left := 1.0
	if end > c.Warmup {
		left = max(0, 1-(now-c.Warmup)/(end-c.Warmup))
	}
	switch c.Decay {
	case recipe.LinearDecay:
		return c.LearningRate * left
	case recipe.CosineDecay:
		return c.LearningRate * (1 - math.Cos(math.Pi*left)) / 2
	}
	return c.LearningRate
}

// begin begins the next step.
func (o *optimiser) begin(stepsPerEpoch int) {
	o.rate = o.nextRate(stepsPerEpoch)
	o.step++
	c, t := o.config, float64(o.step)
	o.sizes = append(o.sizes, o.rate*math.Sqrt(1-math.Pow(c.Beta2, t))/(1-math.Pow(c.Beta1, t)))
}

// catchUp applies missed steps to the parameters of all rows that the step uses. update later
// applies them to the moments.
func (o *optimiser) catchUp(ctx context.Context, used usedRows) error {
	o.used = used
	if o.config.Optimiser != recipe.Adam {
		return nil
	}
	n := len(used.entities)
	return kernel.Parallel(ctx, o.threads, n+len(used.relations), func(_, k int) {
		if k < n {
			o.applyMissed(&o.tables[0], int(used.entities[k]), o.nextEntity(k), o.step-1)
			return
		}
		for i := range o.tables {
			if t := &o.tables[i]; t.axis == model.PerRelation && !t.frozen {
				r := int(used.relations[k-n])
				o.applyMissed(t, r, r, o.step-1)
			}
		}
	})
}

// nextEntity returns the entity that a goroutine is likely to update after usedRows.entities[k].
func (o *optimiser) nextEntity(k int) int {
	return int(o.used.entities[min(k+o.threads, len(o.used.entities)-1)])
}

// fused reports whether a row is updated as soon as its gradient is complete. With clip,
// applyClipped updates all rows once the norm of the gradients is known.
func (o *optimiser) fused() bool { return o.config.Clip == 0 }

// applyClipped clips the gradients of a step and updates all rows.
func (o *optimiser) applyClipped(ctx context.Context, g *gradients) error {
	norm, err := g.norm(ctx, o.threads)
	if err != nil {
		return err
	}
	factor := min(1, o.config.Clip/norm)
	n := g.entities.Rows
	err = kernel.Parallel(ctx, o.threads, n+g.relations.Rows, func(_, k int) {
		update, gradients := o.entity, &g.entities
		if k >= n {
			k -= n
			update, gradients = o.relation, &g.relations
		}
		gradient := gradients.Row(k)
		if factor < 1 {
			o.backend.Scale(gradient, float32(factor))
		}
		update(k, gradient)
	})
	if err != nil {
		return err
	}
	if factor < 1 {
		o.backend.Scale(g.globals, float32(factor))
	}
	return o.global(ctx, g.globals)
}

func (o *optimiser) entity(k int, gradient []float32) {
	o.update(&o.tables[0], int(o.used.entities[k]), o.nextEntity(k), gradient)
}

func (o *optimiser) relation(k int, gradient []float32) {
	r := int(o.used.relations[k])
	for i := range o.tables {
		if t := &o.tables[i]; t.axis == model.PerRelation && !t.frozen {
			o.update(t, r, r, gradient[:t.width])
			gradient = gradient[t.width:]
		}
	}
}

// global updates the global tensors, in chunks that the goroutines share.
func (o *optimiser) global(ctx context.Context, gradient []float32) error {
	for i := range o.tables {
		t := &o.tables[i]
		if t.axis != model.Global || t.frozen {
			continue
		}
		own := gradient[:t.width]
		gradient = gradient[t.width:]
		err := kernel.Parallel(ctx, o.threads, globalChunks(t.width), func(_, k int) {
			chunk := func(x []float32) []float32 {
				if x == nil {
					return nil
				}
				return globalChunk(x, k)
			}
			o.apply(chunk(t.values), chunk(t.first), chunk(t.second), chunk(own), 0, 0)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// update updates a row, which must have caught up, and prefetches the row with number next.
func (o *optimiser) update(t *optimiserTable, row, next int, gradient []float32) {
	missed := 0
	if t.last != nil {
		missed = o.step - t.last[row] - 1
		t.last[row] = o.step
	}
	values := t.row(row)
	o.apply(values, t.moment(t.first, row), t.moment(t.second, row), gradient, missed, (next-row)*t.width)
	if t.constrain != nil {
		t.constrain(values)
	}
}

// apply updates values, which have missed the given number of steps. The argument ahead is the
// distance, in entries, to the values and moments that Adam prefetches.
func (o *optimiser) apply(values, first, second, gradient []float32, missed, ahead int) {
	c := o.config
	switch c.Optimiser {
	case recipe.SGD:
		o.backend.Axpy(values, float32(-o.rate), gradient)
	case recipe.Adagrad:
		step := linalg.AdagradStep{Rate: float32(o.rate), Epsilon: float32(c.Epsilon)}
		o.backend.Adagrad(values, second, gradient, step)
	case recipe.Adam:
		step := linalg.NewAdamStep(o.rate, c.Beta1, c.Beta2, c.Epsilon, o.step, missed)
		o.backend.Adam(values, first, second, gradient, step, ahead)
	}
}

// applyMissed applies to the parameters of a row all steps that it missed, up to and including the
// step until. It prefetches the row with number next.
//
// After i steps without a gradient, the moments are β₁ⁱm and β₂ⁱv. The i-th of these steps is the
// product of m/√v, (β₁/√β₂)ⁱ and the step's entry in sizes, so applyMissed adds up the products of
// the last two factors. ε does not scale in this way, so applyMissed uses the ε of the first missed
// step for all of them.
func (o *optimiser) applyMissed(t *optimiserTable, row, next, until int) {
	missed := until - t.last[row]
	if missed <= 0 {
		return
	}
	c := o.config
	const negligible = 1e-15
	first := len(o.sizes) - (o.step - t.last[row])
	ratio := c.Beta1 / math.Sqrt(c.Beta2)
	sum, power := 0.0, 1.0
	for _, size := range o.sizes[first : first+missed] {
		if power *= ratio; power < negligible {
			break
		}
		sum += float64(power * size)
	}
	epsilon := c.Epsilon * math.Sqrt(1-math.Pow(c.Beta2, float64(t.last[row]+1)))
	o.backend.AdamCatchUp(t.row(row), t.moment(t.first, row), t.moment(t.second, row), float32(sum), float32(epsilon),
		(next-row)*t.width)
	if t.constrain != nil {
		t.constrain(t.row(row))
	}
}

// flush applies all missed steps to all rows and their moments.
func (o *optimiser) flush(ctx context.Context) error {
	defer func() { o.sizes = o.sizes[:0] }()
	for i := range o.tables {
		t := &o.tables[i]
		err := kernel.Parallel(ctx, o.threads, len(t.last), func(_, row int) {
			if missed := float64(o.step - t.last[row]); missed > 0 {
				o.applyMissed(t, row, min(row+o.threads, len(t.last)-1), o.step)
				o.backend.Scale(t.moment(t.first, row), float32(math.Pow(o.config.Beta1, missed)))
				o.backend.Scale(t.moment(t.second, row), float32(math.Pow(o.config.Beta2, missed)))
				t.last[row] = o.step
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// resume sets the number of steps done. No row may have missed steps.
func (o *optimiser) resume(step int) {
	o.step = step
	for _, t := range o.tables {
		for row := range t.last {
			t.last[row] = step
		}
	}
}
