package train

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
)

// A row that rests has the moments that Adam with zero gradients would have given it, and its bias is
// corrected by the step of the whole training.
func TestAdamAfterRest(t *testing.T) {
	c := Default()
	backend := machineOf(t, 1).Backend
	values := []float32{1, -2, 0.5}
	o := newOptimiser(&c, []string{"x"}, [][]float32{values}, []int{3})
	want := [3]float64{1, -2, 0.5}
	var m, v [3]float64
	gradients := map[int][3]float64{1: {0.3, -1, 2}, 2: {-0.2, 0.5, 0}, 6: {1, 1, -1}}
	for step := 1; step <= 6; step++ {
		o.step = step
		g, given := gradients[step]
		for i := range want {
			m[i] = c.Beta1*m[i] + (1-c.Beta1)*g[i]
			v[i] = c.Beta2*v[i] + (1-c.Beta2)*g[i]*g[i]
			if given {
				mean, spread := m[i]/(1-math.Pow(c.Beta1, float64(step))), v[i]/(1-math.Pow(c.Beta2, float64(step)))
				want[i] -= 0.1 * mean / (math.Sqrt(spread) + c.Epsilon)
			}
		}
		if given {
			o.moveRow(backend, &o.tables[0], 0, []float32{float32(g[0]), float32(g[1]), float32(g[2])}, 0.1, 1)
		}
		for i := range want {
			assert.InDelta(t, want[i], values[i], 1e-5, "step %d", step)
		}
	}
}

func TestLearningRate(t *testing.T) {
	c := Default()
	c.LearningRate, c.Epochs, c.Warmup = 1, 10, 2
	at := func(decay string, step int) float64 {
		c.Decay = decay
		return (&optimiser{config: &c, step: step}).rate(5)
	}
	for step := range 10 {
		assert.InDelta(t, float64(step+1)/10, at(noDecay, step), 1e-12)
	}
	assert.Equal(t, 1.0, at(noDecay, 49))
	assert.InDelta(t, 0.5, at(linearDecay, 30), 1e-12)
	assert.InDelta(t, 0.5, at(cosineDecay, 30), 1e-12)
	assert.InDelta(t, (1+math.Cos(math.Pi/4))/2, at(cosineDecay, 20), 1e-12)
}

// A gradient that is longer than the limit is scaled to it.
func TestClip(t *testing.T) {
	c := Default()
	c.Dim, c.Batch, c.Optimiser, c.Clip, c.Dropout = 3, 20, sgdOptimiser, 1e-3, 0
	tr := trainerFor(t, c, randomGraph(8, 3, 40, 3), machineOf(t, 2).Backend, 2)
	w, err := tr.preparer.prepare(t.Context(), tr.triples[:20], 0, 0)
	require.NoError(t, err)
	require.NoError(t, tr.stepper.run(t.Context(), w, 0, 0, nil))
	var before []float32
	for _, tensor := range tr.model.Tensors() {
		before = append(before, tensor...)
	}
	require.NoError(t, tr.optimiser.move(t.Context(), tr.stepper, 1))
	var moved float64
	for _, tensor := range tr.model.Tensors() {
		for i, v := range tensor {
			d := float64(v) - float64(before[i])
			moved += d * d
		}
		before = before[len(tensor):]
	}
	assert.InEpsilon(t, 1e-3, math.Sqrt(moved), 1e-3)
}

// Dropout leaves the mean as it is, takes the same entries in both directions, and its gradients are
// those of the loss with what was dropped.
func TestDropout(t *testing.T) {
	for _, p := range [][2]float64{{0.3, 0}, {0, 0.4}, {0.3, 0.4}} {
		t.Run(fmt.Sprintf("queries %v, anchors %v", p[0], p[1]), func(t *testing.T) { checkDropout(t, p[0], p[1]) })
	}
}

func checkDropout(t *testing.T, ofQuery, ofAnchor float64) {
	c := Default()
	c.Dim, c.Batch, c.Dropout, c.EntityDropout = 5, 12, ofQuery, ofAnchor
	tr := trainerFor(t, c, randomGraph(8, 3, 40, 3), machineOf(t, 1).Backend, 1)
	s := tr.stepper
	var sum, dropped float64
	x := kernel.AlignedFloat32(1000)
	for q := range 50 {
		for i := range x {
			x[i] = 1
		}
		s.drop(&s.scratch[0], x, 0.3, useDropout, 1, 2, q)
		for _, v := range x {
			sum += float64(v)
			if v == 0 {
				dropped++
			}
		}
	}
	assert.InDelta(t, 0.3, dropped/50_000, 0.01)
	assert.InDelta(t, 1, sum/50_000, 0.015)

	w, err := tr.preparer.prepare(t.Context(), tr.triples[:12], 0, 0)
	require.NoError(t, err)
	loss := func() float64 {
		require.NoError(t, s.run(t.Context(), w, 0, 0, nil))
		return s.loss.Total
	}
	loss()
	gradient := append([]float32(nil), s.gradient.Row(3)...)
	relation := append([]float32(nil), s.relationGradient.Row(0)...)
	check := func(values []float32, want []float32) {
		for i, v := range values {
			const step = 1e-2
			values[i] = v + step
			above := loss()
			values[i] = v - step
			below := loss()
			values[i] = v
			assert.InDelta(t, (above-below)/(2*step), want[i], 2e-3*max(1, math.Abs(float64(want[i]))))
		}
	}
	check(s.entity(s.entities[3]), gradient)
	d2 := c.Dim * c.Dim
	for k, tensor := range tr.model.Tensors()[1:] {
		r := int(s.touched[0])
		check(tensor[r*d2:(r+1)*d2], relation[k*d2:(k+1)*d2])
	}
}
