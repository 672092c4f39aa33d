package train

import (
	"context"
	"math"

	"github.com/mquine/mquine/kernel"
)

// optimiser moves parameters against their gradients.
//
// A row without a gradient rests. When Adam (Kingma and Ba 2014) comes to it again, its moments first
// decay by the steps that it missed, as they would have without gradients; what it would have moved
// meanwhile is left out. Bias is corrected by the step of the whole training.
type optimiser struct {
	config *Config
	step   int // done
	tables []parameterTable
}

// parameterTable is a tensor as rows, with the state of each. Moments that an optimiser does not
// have are nil.
type parameterTable struct {
	name          string
	width         int
	values        []float32
	first, second []float32
	last          []float32 // step of the last gradient of each row, a whole number
}

// maxSteps is the number of steps that a float32 counts exactly.
const maxSteps = 1 << 24

func newOptimiser(c *Config, names []string, tensors [][]float32, widths []int) *optimiser {
	o := &optimiser{config: c}
	for i, values := range tensors {
		t := parameterTable{name: names[i], width: widths[i], values: values}
		if c.Optimiser != sgdOptimiser {
			t.second = make([]float32, len(values))
		}
		if c.Optimiser == adamOptimiser {
			t.first = make([]float32, len(values))
			t.last = make([]float32, len(values)/widths[i])
		}
		o.tables = append(o.tables, t)
	}
	return o
}

// rate returns the learning rate of the next step, with so many steps in an epoch.
func (o *optimiser) rate(stepsPerEpoch int) float64 {
	c := o.config
	now, end := float64(o.step)/float64(stepsPerEpoch), float64(c.Epochs)
	if now < c.Warmup {
		return c.LearningRate * float64(o.step+1) / (c.Warmup * float64(stepsPerEpoch))
	}
	left := 1.0
	if end > c.Warmup {
		left = max(0, 1-(now-c.Warmup)/(end-c.Warmup))
	}
	switch c.Decay {
	case linearDecay:
		return c.LearningRate * left
	case cosineDecay:
		return c.LearningRate * (1 - math.Cos(math.Pi*left)) / 2
	}
	return c.LearningRate
}

// mover moves a row of a tensor against its gradient, which it may change.
type mover func(table, row int, gradient []float32)

// begin begins a step in which the rows move one by one. It is nil if that has to wait for the norm
// of all gradients; then there is move.
func (o *optimiser) begin(b *kernel.Backend, rate float64) mover {
	if o.config.Clip > 0 {
		return nil
	}
	o.step++
	return func(table, row int, gradient []float32) { o.moveRow(b, &o.tables[table], row, gradient, rate, 1) }
}

// move makes a step along the gradients of s, clipped.
func (o *optimiser) move(ctx context.Context, s *stepper, rate float64) error {
	norm, err := s.gradientNorm(ctx)
	if err != nil {
		return err
	}
	scale := 1.0
	if norm > o.config.Clip {
		scale = o.config.Clip / norm
	}
	o.step++
	n, d2 := len(s.entities), s.dim*s.dim
	return kernel.Parallel(ctx, s.threads, n+len(s.touched), func(_, k int) {
		if k < n {
			o.moveRow(s.backend, &o.tables[0], int(s.entities[k]), s.gradient.Row(k), rate, scale)
			return
		}
		g := s.relationGradient.Row(k - n)
		for i := range o.tables[1:] {
			o.moveRow(s.backend, &o.tables[1+i], int(s.touched[k-n]), g[i*d2:(i+1)*d2], rate, scale)
		}
	})
}

// moveRow changes row i of a table by its gradient, which it may scale.
func (o *optimiser) moveRow(b *kernel.Backend, t *parameterTable, i int, gradient []float32, rate, scale float64) {
	first, last := i*t.width, (i+1)*t.width
	c, values := o.config, t.values[first:last]
	if scale != 1 {
		b.Scale(gradient, float32(scale))
	}
	switch c.Optimiser {
	case sgdOptimiser:
		b.Axpy(values, float32(-rate), gradient)
	case adagradOptimiser:
		b.Adagrad(values, t.second[first:last], gradient, kernel.AdagradStep{Rate: float32(rate), Epsilon: float32(c.Epsilon)})
	case adamOptimiser:
		missed := o.step - int(t.last[i]) - 1
		t.last[i] = float32(o.step)
		step := kernel.NewAdamStep(rate, c.Beta1, c.Beta2, c.Epsilon, o.step, missed)
		b.Adam(values, t.first[first:last], t.second[first:last], gradient, step)
	}
}

// gradientNorm returns the Euclidean norm of all gradients.
func (s *stepper) gradientNorm(ctx context.Context) (float64, error) {
	n := len(s.entities)
	s.penalties = resize(s.penalties, n+len(s.touched)) // sums of squares, row by row
	err := kernel.Parallel(ctx, s.threads, len(s.penalties), func(_, k int) {
		row := s.relationGradient.Row(max(0, k-n))
		if k < n {
			row = s.gradient.Row(k)
		}
		var sum float64
		for _, g := range row {
			sum += float64(g) * float64(g)
		}
		s.penalties[k] = sum
	})
	var sum float64
	for _, p := range s.penalties {
		sum += p
	}
	return math.Sqrt(sum), err
}
