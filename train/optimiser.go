package train

import (
	"context"
	"math"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/linalg"
)

// optimiser moves parameters against their gradients.
//
// Adam (Kingma and Ba 2014) moves every row in every step, also those without a gradient. Here these
// rest: what they missed is made up for before they are next used, and at the end of an epoch
// (docs/training.md).
type optimiser struct {
	config  *Config
	backend *linalg.Backend
	threads int
	step    int     // done, or that of now
	rate    float64 // learning rate of the step
	tables  []parameterTable
	// sizes has, for every step since all rows were up to date, the factor of m/√v in Adam's movement.
	sizes []float64
}

// parameterTable is a tensor as rows, with the state of each. Moments that an optimiser does not
// have are nil.
type parameterTable struct {
	name          string
	width         int
	values        []float32
	first, second []float32
	last          []int // with Adam, the step of each row's moments
}

func (t *parameterTable) row(values []float32, i int) []float32 {
	return values[i*t.width : (i+1)*t.width]
}

func newOptimiser(c *Config, m Machine, names []string, tensors [][]float32, widths []int) *optimiser {
	o := &optimiser{config: c, backend: linalg.New(m.Backend), threads: m.Threads}
	for i, values := range tensors {
		t := parameterTable{name: names[i], width: widths[i], values: values}
		if c.Optimiser != sgdOptimiser {
			t.second = kernel.AlignedFloat32(len(values))
		}
		if c.Optimiser == adamOptimiser {
			t.first = kernel.AlignedFloat32(len(values))
			t.last = make([]int, len(values)/widths[i])
		}
		o.tables = append(o.tables, t)
	}
	return o
}

// nextRate returns the learning rate of the next step, with so many steps in an epoch.
func (o *optimiser) nextRate(stepsPerEpoch int) float64 {
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

// begin begins the next step, with so many steps in an epoch.
func (o *optimiser) begin(stepsPerEpoch int) {
	o.rate = o.nextRate(stepsPerEpoch)
	o.step++
	c, t := o.config, float64(o.step)
	o.sizes = append(o.sizes, o.rate*math.Sqrt(1-math.Pow(c.Beta2, t))/(1-math.Pow(c.Beta1, t)))
}

// atOnce tells whether rows move one by one, each as soon as it has its gradient. They cannot where
// that has to wait for the norm of all gradients; then there is moveAll.
func (o *optimiser) atOnce() bool { return o.config.Clip == 0 }

// moveAll makes the step along the gradients of s, clipped.
func (o *optimiser) moveAll(ctx context.Context, s *stepper) error {
	norm, err := s.gradientNorm(ctx)
	if err != nil {
		return err
	}
	scale := min(1, o.config.Clip/norm)
	n, d2 := len(s.entities), s.dim*s.dim
	return kernel.Parallel(ctx, o.threads, n+len(s.touched), func(_, k int) {
		move := func(table, row int, gradient []float32) {
			if scale < 1 {
				o.backend.Scale(gradient, float32(scale))
			}
			o.move(table, row, row, gradient)
		}
		if k < n {
			move(0, int(s.entities[k]), s.gradient.Row(k))
			return
		}
		g := s.relationGradient.Row(k - n)
		for i := range o.tables[1:] {
			move(1+i, int(s.touched[k-n]), g[i*d2:(i+1)*d2])
		}
	})
}

// move moves a row of a table, which is up to date, against its gradient. The one that is likely to be
// next comes nearer meanwhile.
func (o *optimiser) move(table, row, next int, gradient []float32) {
	c, t := o.config, &o.tables[table]
	values := t.row(t.values, row)
	switch c.Optimiser {
	case sgdOptimiser:
		o.backend.Axpy(values, float32(-o.rate), gradient)
	case adagradOptimiser:
		o.backend.Adagrad(values, t.row(t.second, row), gradient, linalg.AdagradStep{Rate: float32(o.rate), Epsilon: float32(c.Epsilon)})
	case adamOptimiser:
		missed := o.step - t.last[row] - 1
		t.last[row] = o.step
		step := linalg.NewAdamStep(o.rate, c.Beta1, c.Beta2, c.Epsilon, o.step, missed)
		o.backend.Adam(values, t.row(t.first, row), t.row(t.second, row), gradient, step, (next-row)*t.width)
	}
}

// wake brings a row of a table up to date, but for its moments: it moves by what it missed since its
// last gradient, before the step of now. next is as with move.
func (o *optimiser) wake(table, row, next int) {
	if o.config.Optimiser == adamOptimiser {
		o.makeUp(&o.tables[table], row, next, o.step-1)
	}
}

// makeUp moves a row by the steps without a gradient after that of its moments, up to the given one.
//
// i steps after it the moments are β₁ⁱm and β₂ⁱv, so that all of them move along m/√v, by the sum of
// the sizes times (β₁/√β₂)ⁱ. Only ε does not go with it: it is that of the first of these steps.
func (o *optimiser) makeUp(t *parameterTable, row, next, until int) {
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
		sum += power * size
	}
	epsilon := c.Epsilon * math.Sqrt(1-math.Pow(c.Beta2, float64(t.last[row]+1)))
	o.backend.AdamCatchUp(t.row(t.values, row), t.row(t.first, row), t.row(t.second, row), float32(sum), float32(epsilon), (next-row)*t.width)
}

// settle brings all rows up to date, with their moments.
func (o *optimiser) settle(ctx context.Context) error {
	defer func() { o.sizes = o.sizes[:0] }()
	for i := range o.tables {
		t := &o.tables[i]
		err := kernel.Parallel(ctx, o.threads, len(t.last), func(_, row int) {
			if missed := float64(o.step - t.last[row]); missed > 0 {
				o.makeUp(t, row, min(row+o.threads, len(t.last)-1), o.step)
				o.backend.Scale(t.row(t.first, row), float32(math.Pow(o.config.Beta1, missed)))
				o.backend.Scale(t.row(t.second, row), float32(math.Pow(o.config.Beta2, missed)))
				t.last[row] = o.step
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// resume takes the optimiser, settled, to a step.
func (o *optimiser) resume(step int) {
	o.step = step
	for _, t := range o.tables {
		for row := range t.last {
			t.last[row] = step
		}
	}
}

// gradientNorm returns the Euclidean norm of all gradients.
func (s *stepper) gradientNorm(ctx context.Context) (float64, error) {
	n := len(s.entities)
	s.penalties = resize(s.penalties, n+len(s.touched)) // sums of squares, row by row
	err := s.crew.parallel(ctx, len(s.penalties), func(_ *stepScratch, k int) {
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
