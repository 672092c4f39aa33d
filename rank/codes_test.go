package rank

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/kerneltest"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/kgtest"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/ranktest"
)

// TestCodeWidths compares ranks with brute force on vectors whose sums of products of codes are
// close to the largest possible. For int8, it uses the largest width whose sums fit into int32, and
// larger widths; for int16, it uses the largest dimension of a model.
func TestCodeWidths(t *testing.T) {
	if testing.Short() {
		t.Skip("wide models")
	}
	backends, err := kernel.Available()
	require.NoError(t, err)
	g := ranktest.Graph(rand.New(rand.NewPCG(7, 9)), 20, 1, 1, 1, 30)
	index, test := kgtest.Index(t, g), g.Splits[kg.Test]
	for _, c := range []struct {
		d           int // complex numbers
		asked, used Screen
	}{
		{16576, Int8Screen, Int8Screen}, {16577, Int8Screen, Float32Screen}, {20000, Int8Screen, Float32Screen},
		{32768, Int16Screen, Int16Screen}, {32768, int16Tiles, Int16Screen}, // the largest dimension
	} {
		width := 2 * c.d
		groups := int8Width(width) / spread
		m := ranktest.Model(t, "complex", c.d, g, 1,
			ranktest.Kind{Fill: func(rng *rand.Rand, config model.Config, ts [][]float32) {
				for i := range c.d {
					ts[1][i] = 1
				}
				for e := range config.Entities {
					// If a run has a single nonzero entry, all its coordinates have the same
					// absolute value after the rotation. Their coarse codes are at most 126, and
					// their remainders are large and have one sign. The first run reaches 127 and
					// determines the step.
					scale := 126.49 * (1 - 0.02*rng.Float64())
					if e%2 == 1 {
						scale = -scale
					}
					row := ts[0][e*width : (e+1)*width]
					for at := range groups {
						row[at] = float32(scale * signOf(at))
					}
					row[0] *= 127 / 126.49
				}
			}})
		want := bruteForce(m, g, test, []kg.Side{kg.Tail, kg.Head}, m.NewWorker(backends[len(backends)-1]).Reference)
		for _, b := range backends {
			if sameTwin(b, c.asked, kernel.Dot) {
				continue
			}
			got, err := Run(context.Background(), m, index, test, Options{Backend: b, Threads: 2, Screen: c.asked})
			require.NoError(t, err)
			assert.Equal(t, c.used, got.Stats.Screen)
			assert.Equal(t, want, got.Ranks, "k = %d, %s", c.d, b.Tier)
		}
	}
}

// TestEndsOfLargeSums checks that rounding alone does not move a sum past a threshold. Sums of
// codes that do not fit into float32 are rounded before the comparison with thresholds, which are
// rounded too.
func TestEndsOfLargeSums(t *testing.T) {
	const offset = 1 << 25 // where float32 represents every fourth integer
	s, x := oneCodedQuery(kerneltest.Best(t), spread, &int8Format)
	s.queries.coded[0], x.groups[0] = codedQuery{step: 1, offset: offset}, codeGroup{step: 1}
	for score := range 32 {
		target := float64(score) + 0.5
		s.Low[0], s.High[0] = target, target
		s.thresholds.setRow(s.f, s.Block, &s.queries, 0, 0)
		for sum := score - 20; sum <= score+20; sum++ {
			rounded := float32(offset + sum)
			if rounded > s.thresholds.ends[1] {
				assert.Greater(t, float64(sum), target)
			}
			if rounded < s.thresholds.ends[0] {
				assert.Less(t, float64(sum), target)
			}
		}
		assert.Greater(t, float32(offset+score+20), s.thresholds.ends[1])
		assert.Less(t, float32(offset+score-20), s.thresholds.ends[0])
	}
}
