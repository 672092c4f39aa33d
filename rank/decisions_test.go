package rank

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/kerneltest"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/kgtest"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/engine"
	"github.com/mquine/mquine/rank/internal/ranktest"
)

// decisionKinds lists checkpoints that test single decisions of a ranking, which random checkpoints
// hardly ever require.
var decisionKinds = []struct {
	ranktest.Kind
	models []string
}{
	// Entities of size 0 have intervals that are points and touch the target's interval. Rows of
	// zeros with different signs are different parameters, so they are compared.
	{ranktest.Kind{Name: "zeros of both signs", Fill: func(rng *rand.Rand, c model.Config, ts [][]float32) {
		ranktest.Normal(rng, ts[1], 0.3)
		clear(ts[1][:len(ts[1])/c.Relations]) // also one relation
		for i := range ts[0] {
			ts[0][i] = float32(math.Copysign(0, float64(rng.IntN(2))-0.5))
		}
	}}, []string{"transe-l1", "rotate"}},
	// For H = 3I, B = H Rᶜ − Rᵗ is nearly 0, and so is ψ. The scores of tails differ by less than
	// their rounding errors, which grow with the tail.
	{ranktest.Kind{Name: "rounding errors of large entities",
		Fill: func(rng *rand.Rand, c model.Config, ts [][]float32) {
			for _, x := range ts {
				ranktest.Normal(rng, x, 0.3)
			}
			d, p := c.Dim, model.Triangle(c.Dim)
			for i := range ts[3] {
				ts[3][i] = float32(rng.IntN(9) - 4)
				ts[2][i] = 3 * ts[3][i]
				if i%(d*d) == 0 {
					ts[3][i], ts[2][i] = 0, 3e-16
				}
			}
			for e := range c.Entities {
				row := ts[0][e*p : (e+1)*p]
				if e < 64 && e%2 == 0 {
					clear(row)
					for i := range d {
						row[i*(i+1)/2+i] = 1.5
					}
					continue
				}
				scale := float32(1e4)
				if e >= 64 { // in other slices
					scale = 1e-3
				}
				for i := range row {
					row[i] *= scale
				}
			}
		}}, []string{"mquine"}},
	{ranktest.Kind{Name: "different rows with one hash", Fill: func(rng *rand.Rand, c model.Config, ts [][]float32) {
		for _, x := range ts {
			ranktest.Normal(rng, x, 0.3)
		}
		width := len(ts[0]) / c.Entities
		for i := range ts[1] {
			ts[1][i] *= 1e12 // so that only reference scores distinguish candidates
		}
		a, b := rowsWithOneHash(rng, width)
		for e := range c.Entities {
			copy(ts[0][e*width:], [][]float32{a, b}[e%2])
		}
	}}, []string{"transe-l1"}},
}

// rowsWithOneHash returns two rows with the same hash. They need at least three entries.
func rowsWithOneHash(rng *rand.Rand, width int) (a, b []float32) {
	// The last entry can compensate for a difference of the lower 32 bits of the hash before it.
	before := func(row []float32) uint64 {
		var h uint64
		for _, v := range row[:width-1] {
			h = (h ^ uint64(math.Float32bits(v))) * 0x9e3779b97f4a7c15
			h ^= h >> 29
		}
		return h
	}
	seen := map[uint64][]float32{}
	for range 1 << 20 {
		b := make([]float32, width)
		ranktest.Normal(rng, b[:width-1], 0.3)
		h := before(b)
		if a, ok := seen[h>>32]; ok {
			a[width-1] = 0.5
			b[width-1] = math.Float32frombits(math.Float32bits(0.5) ^ uint32(h) ^ uint32(before(a)))
			if math.Abs(float64(b[width-1])) < 1e10 && oneHash(a, b) {
				return a, b
			}
		}
		seen[h>>32] = b
	}
	panic("found no two rows with the same hash: has HashEntity changed?")
}

// oneHash reports whether two entities with different rows have the same hash.
func oneHash(a, b []float32) bool {
	c := model.Config{Model: "distmult", Dim: len(a), Entities: 2}
	m, err := model.New(c, [][]float32{slices.Concat(a, b), nil})
	return err == nil && m.HashEntity(0) == m.HashEntity(1) && !m.SameEntity(0, 1)
}

func TestExactDecisions(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	g := ranktest.Graph(rand.New(rand.NewPCG(7, 10)), 150, 2, 300, 60, 300)
	index, test := kgtest.Index(t, g), g.Splits[kg.Test]
	for _, kind := range decisionKinds {
		for _, name := range kind.models {
			m := ranktest.Model(t, name, 4, g, 1, kind.Kind)
			score := newBruteScorer(m)
			if name != "mquine" {
				score = m.NewWorker(backends[0]).Reference
			}
			want := bruteForce(m, g, test, []kg.Side{kg.Tail, kg.Head}, score)
			for _, b := range backends {
				for _, o := range []Options{
					{Threads: 1}, {Threads: 1, FeatureMemory: 50 * featureBytes(engine.WidestTower(m))},
					{Threads: 2, Screen: Int8Screen}, {Threads: 2, Screen: Int16Screen},
				} {
					if sameTwin(b, o.Screen, m.Tower(kg.Tail).Compare) || !o.Screen.Fits(m.Tower(kg.Tail).Compare) {
						continue
					}
					o.Backend = b
					got, err := Run(context.Background(), m, index, test, o)
					require.NoError(t, err)
					assert.Equal(t, want, got.Ranks, "%s, %s, %s, %v", kind.Name, name, b.Tier, o.Screen)
				}
			}
		}
	}
}

// TestPanelGroupsBoundTheirCandidates checks that the bounds of a panel group hold for each of its
// candidates, in any order of the candidates.
func TestPanelGroupsBoundTheirCandidates(t *testing.T) {
	backend := kerneltest.Best(t)
	g := ranktest.Graph(rand.New(rand.NewPCG(7, 12)), 3000, 1, 0, 0, 1)
	ranks := []Rank{{Triple: g.Splits[kg.Test][0], Side: kg.Tail}}
	for _, c := range []struct {
		model  string
		screen Screen
	}{
		{"transe-l1", Float32Screen}, {"transe-l1", Int8Screen}, {"transe-l2", Int8Screen}, // not in panel order
	} {
		m := ranktest.Model(t, c.model, 8, g, 1, ranktest.VectorKinds[0])
		e := loadAll(t, m, backend, c.screen, ranks, 3000)
		f := e.features
		require.Equal(t, c.screen, f.screen.name())
		for at, i := range f.RowAt {
			group := at / (groupPanels * f.nr)
			squares := 0.0
			for _, v := range f.Row(i) {
				squares += float64(v) * float64(v)
			}
			sizes, width := make([]float64, 1), f.Tower.Phi
			e.workers.Get(0).Features(kg.Tail, 0, []int32{i},
				model.Rows{Values: make([]float32, width), Width: width}, sizes)
			assert.LessOrEqual(t, math.Sqrt(squares), f.groupNorms[group])
			assert.LessOrEqual(t, sizes[0], f.groupSizes[group])
		}
	}
}
