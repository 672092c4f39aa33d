package rank

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/modeltest"
)

// plausibility scores a candidate of a query; more is better.
type plausibility = func(q kg.Query, e int32) float64

// bruteForce ranks without the package: every score from score, every known answer from a scan of the
// splits.
func bruteForce(m model.Model, g *kg.Graph, triples []kg.Triple, sides []kg.Side, score plausibility) []Rank {
	type key struct {
		side      kg.Side
		rel, anch int32
	}
	known := map[key]map[int32][3]bool{}
	for split, ts := range g.Splits {
		for _, t := range ts {
			for _, k := range []struct {
				key
				answer int32
			}{{key{kg.Tail, t.Relation, t.Head}, t.Tail}, {key{kg.Head, t.Relation, t.Tail}, t.Head}} {
				if known[k.key] == nil {
					known[k.key] = map[int32][3]bool{}
				}
				in := known[k.key][k.answer]
				in[split] = true
				known[k.key][k.answer] = in
			}
		}
	}
	var ranks []Rank
	for _, side := range sides {
		for _, t := range triples {
			r := Rank{Triple: t, Side: side}
			q, truth := t.Query(side)
			k := key{side, q.Relation, q.Anchor}
			want := score(q, truth)
			for e := range int32(m.Config().Entities) {
				in := known[k][e]
				left := [NumFilters]bool{true, !in[0], !in[0] && !in[1] && !in[2]}
				for f := range NumFilters {
					if e == truth {
						r.Candidates[f]++
						continue
					}
					if !left[f] {
						continue
					}
					r.Candidates[f]++
					switch s := score(q, e); {
					case s > want:
						r.Better[f]++
					case s == want:
						r.Equal[f]++
					}
				}
			}
			ranks = append(ranks, r)
		}
	}
	return ranks
}

// newBruteScorer returns −s(h, r, t) in the reference's order of operations, written out entry by
// entry from the tensors.
func newBruteScorer(m model.Model) plausibility {
	c, tensors := m.Config(), m.Tensors()
	d := c.Dim
	P := d * (d + 1) / 2
	entity := func(e int32) []float64 {
		x := make([]float64, d*d)
		for i := range d {
			for j := range d {
				lo, hi := min(i, j), max(i, j)
				x[i*d+j] = float64(tensors[0][int(e)*P+hi*(hi+1)/2+lo])
				if i == j {
					x[i*d+j] *= 2
				}
			}
		}
		return x
	}
	relation := func(k int, r int32) []float64 {
		x := make([]float64, d*d)
		if k < len(tensors) {
			for i, v := range tensors[k][int(r)*d*d : (int(r)+1)*d*d] {
				x[i] = float64(v)
			}
		}
		return x
	}
	product := func(a, b []float64) []float64 {
		x := make([]float64, d*d)
		for i := range d {
			for j := range d {
				sum := 0.0
				for k := range d {
					term := a[i*d+k] * b[k*d+j]
					sum = sum + float64(term)
				}
				x[i*d+j] = sum
			}
		}
		return x
	}
	type pair struct{ e, r int32 }
	hp, ht, hs := map[pair][]float64{}, map[pair][]float64{}, map[pair][]float64{}
	memo := func(table map[pair][]float64, e, r int32, f func() []float64) []float64 {
		if _, ok := table[pair{e, r}]; !ok {
			table[pair{e, r}] = f()
		}
		return table[pair{e, r}]
	}
	return func(q kg.Query, e int32) float64 {
		h, r, t := q.Anchor, q.Relation, e
		if q.Side == kg.Head {
			h, t = t, h
		}
		p := memo(hp, h, r, func() []float64 { return product(entity(h), relation(1, r)) })
		s := memo(hs, h, r, func() []float64 { return product(entity(h), relation(3, r)) })
		rt := memo(ht, t, r, func() []float64 { return product(relation(2, r), entity(t)) })
		x := product(s, entity(t))
		total := 0.0
		for j := range d {
			column := 0.0
			for i := range d {
				v := p[i*d+j] - rt[i*d+j]
				if c.Model == "mquine" {
					v = float64(v) + x[i*d+j]
				}
				column = column + float64(v*v)
			}
			total += column
		}
		return -total
	}
}

// randomGraph has n entities, r relations and skewed degrees.
func randomGraph(rng *rand.Rand, n, r, train, valid, test int) *kg.Graph {
	g := &kg.Graph{Name: "random", Entities: kg.NewVocabulary(), Relations: kg.NewVocabulary()}
	for i := range n {
		g.Entities.Add(fmt.Sprintf("e%d", i))
	}
	for i := range r {
		g.Relations.Add(fmt.Sprintf("r%d", i))
	}
	skewed := func() int32 { return int32(float64(n) * rng.Float64() * rng.Float64()) }
	for split, count := range []int{train, valid, test} {
		for range count {
			g.Splits[split] = append(g.Splits[split], kg.Triple{Head: skewed(), Relation: int32(rng.IntN(r)), Tail: skewed()})
		}
	}
	return g
}

// checkpointKind fills the tensors of a model.
type checkpointKind struct {
	name string
	fill func(rng *rand.Rand, m model.Config, tensors [][]float32)
}

func normal(rng *rand.Rand, x []float32, scale float64) {
	for i := range x {
		x[i] = float32(rng.NormFloat64() * scale)
	}
}

var checkpointKinds = []checkpointKind{
	{"random", func(rng *rand.Rand, c model.Config, ts [][]float32) {
		for _, x := range ts {
			normal(rng, x, 0.3)
		}
	}},
	{"clustered", func(rng *rand.Rand, c model.Config, ts [][]float32) {
		for _, x := range ts[1:] {
			normal(rng, x, 0.3)
		}
		p := model.Triangle(c.Dim)
		for e := range c.Entities {
			if e%8 == 0 {
				normal(rng, ts[0][e*p:(e+1)*p], 0.5)
				continue
			}
			center := ts[0][e/8*8*p:][:p]
			for i := range p {
				ts[0][e*p+i] = center[i] + float32(rng.NormFloat64()*1e-6)
			}
		}
	}},
	{"one ulp apart", func(rng *rand.Rand, c model.Config, ts [][]float32) {
		for _, x := range ts {
			normal(rng, x, 0.3)
		}
		p := model.Triangle(c.Dim)
		first := slices.Clone(ts[0][:p])
		for e := range c.Entities {
			row := ts[0][e*p : (e+1)*p]
			copy(row, first)
			i := rng.IntN(p)
			row[i] = float32(float64(row[i]) * (1 + float64(rng.IntN(3)-1)*0x1p-23))
		}
	}},
	{"few distinct rows", func(rng *rand.Rand, c model.Config, ts [][]float32) {
		for _, x := range ts {
			normal(rng, x, 0.3)
		}
		p := model.Triangle(c.Dim)
		for e := 5; e < c.Entities; e++ {
			copy(ts[0][e*p:(e+1)*p], ts[0][rng.IntN(5)*p:][:p])
		}
	}},
	{"small integers", func(rng *rand.Rand, c model.Config, ts [][]float32) {
		for _, x := range ts {
			for i := range x {
				x[i] = float32(rng.IntN(3) - 1)
			}
		}
	}},
	{"constant score", func(rng *rand.Rand, c model.Config, ts [][]float32) {
		// With H = 3I for every other entity and Rᵗ = 3Rᶜ, s does not depend on T but in its last bits.
		for _, x := range ts {
			normal(rng, x, 0.3)
		}
		d, p := c.Dim, model.Triangle(c.Dim)
		if len(ts) > 3 {
			for i, v := range ts[3] {
				ts[2][i] = 3 * v
			}
		}
		for e := 0; e < c.Entities; e += 2 {
			clear(ts[0][e*p : (e+1)*p])
			for i := range d {
				ts[0][e*p+i*(i+1)/2+i] = 1.5
			}
		}
	}},
	{"huge norms", func(rng *rand.Rand, c model.Config, ts [][]float32) {
		for _, x := range ts {
			normal(rng, x, 1)
		}
		p := model.Triangle(c.Dim)
		for e := range c.Entities {
			scale := []float32{1, 1e10, 1e19, 1e25, 3e37}[rng.IntN(5)]
			for i := range p {
				ts[0][e*p+i] *= scale
			}
		}
	}},
	{"sums beyond float32", func(rng *rand.Rand, c model.Config, ts [][]float32) {
		normal(rng, ts[0], 1e9)
		for _, x := range ts[1:] {
			normal(rng, x, 1e8)
		}
	}},
	{"sums below float32", func(rng *rand.Rand, c model.Config, ts [][]float32) {
		normal(rng, ts[0], 1e-12)
		for _, x := range ts[1:] {
			normal(rng, x, 1e-10)
		}
	}},
	{"aligned", func(rng *rand.Rand, c model.Config, ts [][]float32) {
		// Every term of a dot product has one sign and nearly one size: rounding errors add up.
		for i, x := range ts {
			for j := range x {
				x[j] = 0.3 * float32(1+1e-6*rng.NormFloat64())
				if i == 2 {
					x[j] = -x[j]
				}
			}
		}
	}},
	{"tiny norms", func(rng *rand.Rand, c model.Config, ts [][]float32) {
		for _, x := range ts {
			normal(rng, x, 1e-3)
		}
		p := model.Triangle(c.Dim)
		for e := range c.Entities {
			scale := []float32{1, 1e-10, 1e-20, 1e-35, 1e-42, 0}[rng.IntN(6)]
			for i := range p {
				ts[0][e*p+i] *= scale
			}
		}
	}},
	{"collapsed", func(rng *rand.Rand, c model.Config, ts [][]float32) {
		for _, x := range ts[1:] {
			normal(rng, x, 0.3)
		}
		for i := range ts[0] {
			ts[0][i] = 0.25
		}
	}},
}

// newModel returns a model of dimension d, or the largest that it has.
func newModel(t testing.TB, name string, d int, g *kg.Graph, seed uint64, kind checkpointKind) model.Model {
	spec, err := model.Lookup(name)
	require.NoError(t, err)
	d = min(d, spec.MaxDim)
	c := model.Config{Model: name, Dim: d, Entities: g.Entities.Len(), Relations: g.Relations.Len()}
	if name == "rotate" || name == "protate" {
		c.Hyper = map[string]float64{model.EmbeddingRange: 1.1}
	}
	return newModelOf(t, c, seed, kind)
}

// newModelOf is newModel for a model with hyper-parameters.
func newModelOf(t testing.TB, c model.Config, seed uint64, kind checkpointKind) model.Model {
	parameters, err := model.Parameters(c)
	require.NoError(t, err)
	var tensors [][]float32
	for _, s := range parameters {
		tensors = append(tensors, make([]float32, s.Len()))
	}
	kind.fill(rand.New(rand.NewPCG(seed, 5)), c, tensors)
	m, err := model.New(c, tensors)
	require.NoError(t, err)
	return m
}

func TestExact(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(7, 7))
	g := randomGraph(rng, 150, 4, 600, 60, 60)
	index := kg.NewIndex(g)
	sides := []kg.Side{kg.Tail, kg.Head}
	for _, kind := range checkpointKinds {
		for _, name := range []string{"mquine", "mquade"} {
			for _, d := range []int{1, 2, 7, 12, 24} {
				if testing.Short() && d > 7 {
					continue
				}
				m := newModel(t, name, d, g, uint64(d), kind)
				want := bruteForce(m, g, g.Splits[kg.Test], sides, newBruteScorer(m))
				for _, b := range backends {
					for _, o := range []Options{
						{Threads: 1}, {Threads: 3}, {Threads: 2, FeatureMemory: 40 * featureBytes(d*(d+1))},
						{Threads: 2, Screen: Int8Screen}, {Threads: 1, Screen: Int8Screen, FeatureMemory: 60 * featureBytes(d*(d+1))},
						{Threads: 2, Screen: Int16Screen}, {Threads: 1, Screen: Int16Screen, FeatureMemory: 60 * featureBytes(d*(d+1))},
					} {
						if sameTwin(b, o.Screen) {
							continue
						}
						o.Backend = b
						got, err := Run(context.Background(), m, index, g.Splits[kg.Test], o)
						require.NoError(t, err)
						if !assert.Equal(t, want, got.Ranks, "%s, %s d = %d, %s, %d threads", kind.name, name, d, b.Tier, o.Threads) {
							return
						}
					}
				}
			}
		}
	}
}

// sameTwin tells that a tier screens with the portable twin that the generic tier is tested with.
func sameTwin(b *kernel.Backend, s Screen) bool {
	return s == Int16Screen && !b.FastInt16() && b.Tier != kernel.Generic
}

// vectorKinds fill the tables of the models of vectors.
var vectorKinds = []checkpointKind{
	{"random", func(rng *rand.Rand, c model.Config, ts [][]float32) {
		for _, x := range ts {
			normal(rng, x, 0.3)
		}
	}},
	{"one ulp apart", func(rng *rand.Rand, c model.Config, ts [][]float32) {
		for _, x := range ts {
			normal(rng, x, 0.3)
		}
		width := len(ts[0]) / c.Entities
		for e := range c.Entities {
			row := ts[0][e*width : (e+1)*width]
			copy(row, ts[0][:width])
			i := rng.IntN(width)
			row[i] = float32(float64(row[i]) * (1 + float64(rng.IntN(3)-1)*0x1p-23))
		}
	}},
	{"few distinct rows", func(rng *rand.Rand, c model.Config, ts [][]float32) {
		for _, x := range ts {
			normal(rng, x, 0.3)
		}
		width := len(ts[0]) / c.Entities
		for e := 5; e < c.Entities; e++ {
			copy(ts[0][e*width:(e+1)*width], ts[0][rng.IntN(5)*width:][:width])
		}
	}},
	{"clustered", func(rng *rand.Rand, c model.Config, ts [][]float32) {
		for _, x := range ts {
			normal(rng, x, 0.3)
		}
		width := len(ts[0]) / c.Entities
		for e := 8; e < c.Entities; e++ {
			for i := range width {
				ts[0][e*width+i] = ts[0][e%8*width+i] * float32(1+1e-6*rng.NormFloat64())
			}
		}
	}},
	{"small integers", func(rng *rand.Rand, c model.Config, ts [][]float32) {
		for _, x := range ts {
			for i := range x {
				x[i] = float32(rng.IntN(3) - 1)
			}
		}
	}},
	{"aligned", func(rng *rand.Rand, c model.Config, ts [][]float32) {
		for _, x := range ts {
			for j := range x {
				x[j] = 0.3 * float32(1+1e-6*rng.NormFloat64())
			}
		}
	}},
	{"huge and tiny norms", func(rng *rand.Rand, c model.Config, ts [][]float32) {
		for _, x := range ts {
			normal(rng, x, 1)
		}
		width := len(ts[0]) / c.Entities
		for e := range c.Entities {
			scale := []float32{1, 1e-20, 1e-38, 1e-44, 1e10, 1e19, 1e20, 3e37}[rng.IntN(8)]
			for i := range width {
				ts[0][e*width+i] *= scale
			}
		}
	}},
	{"huge everywhere", func(rng *rand.Rand, c model.Config, ts [][]float32) {
		for _, x := range ts {
			normal(rng, x, 1e19)
		}
	}},
	{"collapsed", func(rng *rand.Rand, c model.Config, ts [][]float32) {
		normal(rng, ts[1], 0.3)
		for i := range ts[0] {
			ts[0][i] = 0.25
		}
	}},
	{"far from the origin", func(rng *rand.Rand, c model.Config, ts [][]float32) {
		normal(rng, ts[1], 0.3)
		for i := range ts[0] {
			ts[0][i] = float32(1000 + rng.NormFloat64())
		}
	}},
	{"dimensions of all sizes", func(rng *rand.Rand, c model.Config, ts [][]float32) {
		// The products reach from subnormal numbers to the largest that the int8 screen takes.
		normal(rng, ts[0], 0x1p-66)
		width := len(ts[1]) / c.Relations
		for i := range width {
			scale := math.Ldexp(1, rng.IntN(205)-83)
			for r := range c.Relations {
				ts[1][r*width+i] = float32(rng.NormFloat64() * scale)
			}
		}
	}},
}

func init() {
	model.Register(modeltest.CP)
	model.Register(modeltest.TuckER)
}

// vectorConfigs returns the configurations of the models without matrices, at a dimension that they have.
func vectorConfigs(d int, g *kg.Graph) (list []model.Config) {
	for _, spec := range model.Specs()[2:] {
		if d > spec.MaxDim {
			continue
		}
		c := model.Config{Model: spec.Name, Dim: d, Entities: g.Entities.Len(), Relations: g.Relations.Len()}
		switch spec.Name {
		case "rotate", "protate":
			c.Hyper = map[string]float64{model.EmbeddingRange: 1.1}
		case "cp":
			list = append(list, c)
			c.Hyper = map[string]float64{"reciprocal": 1}
		}
		list = append(list, c)
	}
	return list
}

// All other models, among them ones whose features depend on the side, with reciprocal relations and with
// a tensor that all triples share: the counting against scores of their own reference, which
// modeltest.Conform checks against plain formulas bit for bit.
func TestExactVectors(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(7, 8))
	g := randomGraph(rng, 150, 4, 600, 60, 60)
	index := kg.NewIndex(g)
	for _, kind := range vectorKinds {
		for _, d := range []int{1, 7, 70, 300} {
			if testing.Short() && d > 70 {
				continue
			}
			for _, c := range vectorConfigs(d, g) {
				m := newModelOf(t, c, uint64(d), kind)
				want := bruteForce(m, g, g.Splits[kg.Test], []kg.Side{kg.Tail, kg.Head},
					m.NewWorker(backends[len(backends)-1]).Reference)
				for _, b := range backends {
					for _, o := range []Options{{Threads: 1}, {Threads: 2, FeatureMemory: 40 * featureBytes(2*d)}, {Threads: 2, Screen: Int8Screen}, {Threads: 2, Screen: Int16Screen}} {
						if !o.Screen.Fits(m.Tower(kg.Tail).Compare) {
							continue
						}
						if sameTwin(b, o.Screen) {
							continue
						}
						o.Backend = b
						got, err := Run(context.Background(), m, index, g.Splits[kg.Test], o)
						require.NoError(t, err)
						if !assert.Equal(t, want, got.Ranks, "%s, %s d = %d, %s, %d threads", kind.name, c.Model, d, b.Tier, o.Threads) {
							return
						}
					}
				}
			}
		}
	}
}
