package train

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/train/internal/stream"
	"github.com/mquine/mquine/train/internal/traintest"
	"github.com/mquine/mquine/train/recipe"
)

// After catch-up, rows equal the results of plain Adam, which updates all rows in every step, with
// zero gradients for rows without one. At the end of an epoch, the moments are equal, too.
func TestAdamCatchesUp(t *testing.T) {
	const rows, width, stepsPerEpoch = 5, 3, 40
	rng := rand.New(rand.NewPCG(5, 0))
	for _, test := range []struct {
		name   string
		change func(*recipe.Recipe)
	}{
		{"as by default", func(*recipe.Recipe) {}},
		{"warm-up and cosine", func(c *recipe.Recipe) { c.Warmup, c.Decay = 1.5, recipe.CosineDecay }},
		{"short memory", func(c *recipe.Recipe) { c.Beta1, c.Beta2 = 0.5, 0.9 }},
		{"long memory", func(c *recipe.Recipe) { c.Beta1, c.Beta2 = 0.99, 0.9999 }},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := recipe.Default()
			c.Epochs = 5
			test.change(&c)
			values := make([]float32, rows*width)
			want, m, v := make([]float64, rows*width), make([]float64, rows*width), make([]float64, rows*width)
			for i := range values {
				values[i] = rng.Float32()
				want[i] = float64(values[i])
			}
			o := newOptimiser(&c, machineOf(t, 2), []parameterTable{{name: "x", width: width, values: values}})
			check := func(row int) {
				t.Helper()
				for i := row * width; i < (row+1)*width; i++ {
					require.InDelta(t, want[i], values[i], 2e-6, "row %d after %d steps", row, o.step)
				}
			}
			for step := 1; step <= c.Epochs*stepsPerEpoch; step++ {
				o.begin(stepsPerEpoch)
				for row := range rows {
					gradient := make([]float32, width)
					// Row 0 has a gradient in every step, but row 4 rarely does.
					if given := rng.IntN(1<<(2*row)) == 0; given {
						for i := range gradient {
							gradient[i] = float32(rng.NormFloat64())
						}
						require.NoError(t, o.catchUp(t.Context(), usedRows{entities: []int32{int32(row)}}))
						check(row)
						o.entity(0, append([]float32(nil), gradient...))
					}
					for i := range gradient {
						k, g := row*width+i, float64(gradient[i])
						m[k] = c.Beta1*m[k] + (1-c.Beta1)*g
						v[k] = c.Beta2*v[k] + (1-c.Beta2)*g*g
						mean := m[k] / (1 - math.Pow(c.Beta1, float64(step)))
						spread := v[k] / (1 - math.Pow(c.Beta2, float64(step)))
						want[k] -= o.rate * mean / (math.Sqrt(spread) + c.Epsilon)
					}
				}
				if step%stepsPerEpoch > 0 {
					continue
				}
				require.NoError(t, o.flush(t.Context()))
				for row := range rows {
					check(row)
				}
				for k := range m {
					require.InDelta(t, m[k], o.tables[0].first[k], 1e-6)
					require.InDelta(t, v[k], o.tables[0].second[k], 1e-6)
				}
			}
		})
	}
}

func TestLearningRate(t *testing.T) {
	c := recipe.Default()
	c.LearningRate, c.Epochs, c.Warmup = 1, 10, 2
	at := func(decay recipe.Decay, step int) float64 {
		c.Decay = decay
		return (&optimiser{config: &c, step: step}).nextRate(5)
	}
	for step := range 10 {
		assert.InDelta(t, float64(step+1)/10, at(recipe.NoDecay, step), 1e-12)
	}
	assert.Equal(t, 1.0, at(recipe.NoDecay, 49))
	assert.InDelta(t, 0.5, at(recipe.LinearDecay, 30), 1e-12)
	assert.InDelta(t, 0.5, at(recipe.CosineDecay, 30), 1e-12)
	assert.InDelta(t, (1+math.Cos(math.Pi/4))/2, at(recipe.CosineDecay, 20), 1e-12)
}

// The learning rate rises to learning_rate and no further, even if the warm-up ends within a step.
func TestWarmupWithinStep(t *testing.T) {
	for _, test := range []struct {
		warmup        float64
		stepsPerEpoch int
		want          []float64
	}{
		{0.5, 1, []float64{1, 1}},
		{0.01, 10, []float64{1, 1}},
		{0.25, 10, []float64{0.4, 0.8, 1, 1}},
		{1.5, 3, []float64{2. / 9, 4. / 9, 6. / 9, 8. / 9, 1, 1}},
		{2, 2, []float64{0.25, 0.5, 0.75, 1, 1}},
	} {
		c := recipe.Default()
		c.LearningRate, c.Epochs, c.Warmup = 1, 10, test.warmup
		for step, want := range test.want {
			got := (&optimiser{config: &c, step: step}).nextRate(test.stepsPerEpoch)
			assert.InDelta(t, want, got, 1e-12, "%v epochs of %d steps, step %d", test.warmup, test.stepsPerEpoch, step)
		}
	}
}

// A gradient with a norm above the limit is scaled down to the limit.
func TestClip(t *testing.T) {
	c := recipe.Default()
	c.Dim, c.Batch, c.Optimiser, c.LearningRate, c.Clip, c.Dropout = 3, 20, recipe.SGD, 1, 1e-3, 0
	tr := trainerFor(t, c, traintest.RandomGraph(8, 3, 40, 3), machineOf(t, 2).Backend, 2)
	var before []float32
	for _, tensor := range tr.model.Tensors() {
		before = append(before, tensor...)
	}
	_, err := tr.step(t.Context(), firstItems(20), 0)
	require.NoError(t, err)
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

// Dropout drops the given share of the entries and preserves the mean.
func TestDropoutMean(t *testing.T) {
	drop := dropout{0.3, 1, useDropout}
	pcg := rand.NewPCG(0, 0)
	var sum, dropped float64
	x := kernel.AlignedFloat32(1000)
	for q := range 50 {
		for i := range x {
			x[i] = 1
		}
		drop.apply(x, pcg, 1, 2, q)
		for _, v := range x {
			sum += float64(v)
			if v == 0 {
				dropped++
			}
		}
	}
	assert.InDelta(t, 0.3, dropped/50_000, 0.01)
	assert.InDelta(t, 1, sum/50_000, 0.015)
}

// Gradients equal central differences of the loss with dropout.
func TestDropout(t *testing.T) {
	for _, p := range [][3]float64{{0.3, 0, 0}, {0, 0.4, 0}, {0.3, 0.4, 0}, {0, 0, 0.3}, {0.3, 0.2, 0.4}} {
		t.Run(fmt.Sprintf("queries %v, anchors %v, relations %v", p[0], p[1], p[2]), func(t *testing.T) {
			checkDropoutGradients(t, func(c *recipe.Recipe) {
				c.Dropout, c.EntityDropout, c.RelationDropout = p[0], p[1], p[2]
			})
		})
	}
	for _, name := range []string{"mquade", "rescal", "complex", "cp", "seek", "quate", "transe-l2"} {
		t.Run(name, func(t *testing.T) {
			checkDropoutGradients(t, func(c *recipe.Recipe) {
				c.Model, c.Reciprocal, c.Dropout, c.RelationDropout = name, name == "complex", 0, 0.3
			})
		})
	}
}

// Dropout takes 16 random bits for an entry, lowest first, and drops it if they are below the probability.
func TestDropoutBits(t *testing.T) {
	drop := dropout{0.3, 1, useDropout}
	pcg := rand.NewPCG(0, 0)
	for n := range 11 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(i) - 4.5
		}
		drop.apply(x, pcg, 1, 2, n)
		stream.Seed(pcg, 1, useDropout, 1, 2, n)
		var bits uint64
		for i, got := range x {
			if i%4 == 0 {
				bits = pcg.Uint64()
			}
			want := (float32(i) - 4.5) * float32(1/(1-math.Floor(0.3*65536)/65536))
			if uint16(bits) < 19660 {
				want = 0
			}
			require.Equal(t, math.Float32bits(want), math.Float32bits(got), "entry %d of %d", i, n)
			bits >>= 16
		}
	}
}

func checkDropoutGradients(t *testing.T, change func(*recipe.Recipe)) {
	c := recipe.Default()
	change(&c)
	c.Dim, c.Batch = 5, 12
	tr := trainerFor(t, c, traintest.RandomGraph(8, 3, 40, 3), machineOf(t, 1).Backend, 1)
	s := tr.stepper
	w, err := tr.prepare(t.Context(), firstItems(12), 0)
	require.NoError(t, err)
	loss := func() float64 { return runStep(t, tr, w).Total }
	loss()
	gradient := append([]float32(nil), tr.kept.entities.Row(3)...)
	relation := append([]float32(nil), tr.kept.relations.Row(0)...)
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
	check(s.tables[0].row(int(s.used.entities[3])), gradient)
	for _, table := range s.relationTables {
		check(table.row(int(s.used.relations[0])), relation[:table.width])
		relation = relation[table.width:]
	}
}
