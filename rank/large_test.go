package rank

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/kgtest"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/engine"
	"github.com/mquine/mquine/rank/internal/ranktest"
)

// largeGraph has enough entities for several panel groups on every tier. One query has more targets
// than one row of a block can have (engine.MostTargets), and as many answers known from training. Some
// targets repeat or are known from training. The graph also has loops and entities without triples.
func largeGraph() *kg.Graph {
	rng := rand.New(rand.NewPCG(17, 8))
	g := ranktest.Graph(rng, 1700, 3, 600, 20, 25)
	for e := range int32(1080) {
		split := kg.Test
		if e%2 == 0 {
			split = kg.Train
		}
		g.Splits[split] = append(g.Splits[split], kg.Triple{Head: 3, Relation: 1, Tail: e})
	}
	g.Splits[kg.Test] = append(g.Splits[kg.Test], g.Splits[kg.Test][:10]...)
	g.Splits[kg.Test] = append(g.Splits[kg.Test], g.Splits[kg.Train][:10]...)
	g.Splits[kg.Test] = append(g.Splits[kg.Test], kg.Triple{Head: 7, Relation: 0, Tail: 7})
	return g
}

// largeKinds fill the rows of the entities. The entries of relations are normally distributed,
// unless a kind fills them too.
var largeKinds = []ranktest.Kind{
	{Name: "norms over six orders of magnitude", Fill: func(rng *rand.Rand, c model.Config, ts [][]float32) {
		width := len(ts[0]) / c.Entities
		for e := range c.Entities {
			ranktest.Normal(rng, ts[0][e*width:(e+1)*width], math.Pow(10, 6*rng.Float64()-3))
		}
	}},
	{Name: "one ulp apart", Fill: ranktest.VectorKinds[1].Fill}, // more pending candidates than a block holds at a time
	{Name: "few distinct rows", Fill: ranktest.VectorKinds[2].Fill},
	{Name: "any bits", Fill: func(rng *rand.Rand, c model.Config, ts [][]float32) {
		for i := range ts[0] {
			for {
				ts[0][i] = math.Float32frombits(rng.Uint32())
				if v := float64(ts[0][i]); !math.IsNaN(v) && !math.IsInf(v, 0) {
					break
				}
			}
		}
	}},
	{Name: "collapsed", Fill: ranktest.VectorKinds[8].Fill},
	{Name: "small, then large and aligned", Fill: func(rng *rand.Rand, c model.Config, ts [][]float32) {
		// Rounding errors of the large candidates add up, and the small ones are in the first
		// panels.
		width := len(ts[0]) / c.Entities
		for i, x := range ts {
			for j := range x {
				x[j] = 0.3 * float32(1+1e-6*rng.NormFloat64())
				if i == 2 {
					x[j] = -x[j]
				}
				if i == 0 && j < 900*width {
					x[j] *= 1e-3
				}
			}
		}
	}},
}

// newLargeModel is like ranktest.Model but gives relations entries of ordinary size, unless the
// kind fills them.
func newLargeModel(t *testing.T, name string, d int, g *kg.Graph, kind ranktest.Kind) model.Model {
	return ranktest.Model(t, name, d, g, 3, ranktest.Kind{Name: kind.Name,
		Fill: func(rng *rand.Rand, c model.Config, ts [][]float32) {
			for _, x := range ts[1:] {
				ranktest.Normal(rng, x, 0.3)
			}
			kind.Fill(rng, c, ts)
		}})
}

func TestExactLarge(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	g := largeGraph()
	index, test := kgtest.Index(t, g), g.Splits[kg.Test]
	// The triples of the query with many targets have just as many head queries, so only a few of
	// these are asked.
	asked := map[kg.Side][]kg.Triple{kg.Tail: test, kg.Head: slices.Concat(test[:30], test[len(test)-25:])}
	for _, kind := range largeKinds {
		for _, c := range []struct {
			name string
			d    int
		}{{"mquine", 4}, {"transe-l1", 150}, {"rotate", 70}, {"protate", 3}, {"complex", 8}} {
			if testing.Short() && c.name != "mquine" {
				continue
			}
			m := newLargeModel(t, c.name, c.d, g, kind)
			for side, triples := range asked {
				want := bruteForce(m, g, triples, []kg.Side{side}, m.NewWorker(backends[0]).Reference)
				for i, b := range backends {
					o := Options{Backend: b, Threads: i + 1, Sides: []kg.Side{side}}
					if i == 1 {
						o.FeatureMemory = 700 * featureBytes(engine.WidestTower(m))
					}
					for _, o.Screen = range []Screen{AutoScreen, Int8Screen, Int16Screen} {
						if !o.Screen.Fits(m.Tower(side).Compare) || sameTwin(b, o.Screen, m.Tower(side).Compare) {
							continue
						}
						got, err := Run(context.Background(), m, index, triples, o)
						require.NoError(t, err)
						wrong := 0
						for j := range want {
							if want[j] != got.Ranks[j] {
								wrong++
							}
						}
						assert.Zero(t, wrong, "%s, %s, %s, %s, %s: wrong ranks of %d", kind.Name, c.name, b.Tier,
							o.Screen, side, len(want))
					}
				}
			}
		}
	}
}

// TestPredictLarge checks that the lists of every model are exact, with enough terms and candidates
// for early exit and several panel groups.
func TestPredictLarge(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	g := largeGraph()
	index := kgtest.Index(t, g)
	rng := rand.New(rand.NewPCG(3, 1))
	var queries []kg.Query
	for i := range 11 {
		queries = append(queries, kg.Query{Side: kg.Side(i % 2), Relation: int32(i % 3), Anchor: int32(rng.IntN(1700))})
	}
	queries = append(queries, queries[0])
	for _, kind := range largeKinds {
		for _, name := range model.Names() {
			d := 150
			if ranktest.HasMatrices(ranktest.Config(t, name, d, g)) {
				d = 12
			}
			m := newLargeModel(t, name, d, g, kind)
			reference := m.NewWorker(backends[0])
			var want [][]Prediction
			for _, q := range queries {
				known := index.Answers(q)
				var list []Prediction
				for e := range int32(m.Config().Entities) {
					_, isKnown := slices.BinarySearch(known.Entities, e)
					list = append(list, Prediction{e, reference.Reference(q, e), isKnown})
				}
				slices.SortStableFunc(list, func(a, b Prediction) int { return cmp.Compare(b.Score, a.Score) })
				want = append(want, list[:5])
			}
			for i, b := range backends {
				if testing.Short() && b.Tier == kernel.Generic {
					continue
				}
				o := Options{Backend: b, Threads: i + 1, Screen: Float32Screen}
				if i == 1 {
					o.FeatureMemory = 700 * featureBytes(engine.WidestTower(m))
				}
				got, err := Predict(context.Background(), m, index, queries, Top{K: 5}, o)
				require.NoError(t, err)
				assert.Equal(t, want, got, "%s, %s, %s", kind.Name, name, b.Tier)
			}
		}
	}
}
