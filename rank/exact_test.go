package rank

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/kgtest"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/ranktest"
)

// plausibility scores a candidate of a query. Larger is better.
type plausibility = func(q kg.Query, e int32) float64

// bruteForce computes ranks without the package's own code. It calls score for every candidate of a
// query, and scans the splits for known answers.
func bruteForce(m model.Model, g *kg.Graph, triples []kg.Triple, sides []kg.Side, score plausibility) []Rank {
	return bruteForceAmong(m, g, triples, sides, score, func(kg.Query, int32) bool { return true })
}

// bruteForceAmong is bruteForce for the candidates for which has returns true. A target that is not
// one of them competes with them, but does not count as a candidate.
func bruteForceAmong(m model.Model, g *kg.Graph, triples []kg.Triple, sides []kg.Side, score plausibility,
	has func(kg.Query, int32) bool) []Rank {
	type candidate struct {
		score float64
		in    [3]bool // the splits with the candidate as a known answer
	}
	asked := map[kg.Query][]candidate{} // targets of one query share its scores
	for _, side := range sides {
		for _, t := range triples {
			q, _ := t.Query(side)
			if asked[q] != nil {
				continue
			}
			list := make([]candidate, m.Config().Entities)
			for e := range list {
				list[e].score = score(q, int32(e))
			}
			asked[q] = list
		}
	}
	for split, ts := range g.Splits {
		for _, t := range ts {
			if list := asked[kg.Query{Side: kg.Tail, Relation: t.Relation, Anchor: t.Head}]; list != nil {
				list[t.Tail].in[split] = true
			}
			if list := asked[kg.Query{Side: kg.Head, Relation: t.Relation, Anchor: t.Tail}]; list != nil {
				list[t.Head].in[split] = true
			}
		}
	}
	var ranks []Rank
	for _, side := range sides {
		for _, t := range triples {
			r := Rank{Triple: t, Side: side}
			q, target := t.Query(side)
			want := asked[q][target].score
			for e, c := range asked[q] {
				left := [NumFilters]bool{true, !c.in[0], !c.in[0] && !c.in[1] && !c.in[2]}
				for f := range NumFilters {
					switch {
					case !has(q, int32(e)):
					case int32(e) == target:
						r.Candidates[f]++
					case !left[f]:
					case c.score > want:
						r.Candidates[f]++
						r.Better[f]++
					case c.score == want:
						r.Candidates[f]++
						r.Equal[f]++
					default:
						r.Candidates[f]++
					}
				}
			}
			ranks = append(ranks, r)
		}
	}
	return ranks
}

// newBruteScorer returns a function that computes −s(h, r, t) entry by entry from the tensors, with
// the operations of the reference score in their order.
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
	hp, ht, hs, es := map[pair][]float64{}, map[pair][]float64{}, map[pair][]float64{}, map[pair][]float64{}
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
		var x []float64
		if c.Model == "mquine" {
			x = product(s, memo(es, t, 0, func() []float64 { return entity(t) }))
		}
		total := 0.0
		for j := range d {
			column := 0.0
			for i := range d {
				v := p[i*d+j] - rt[i*d+j]
				if x != nil {
					v = float64(v) + x[i*d+j]
				}
				column = column + float64(v*v)
			}
			total += column
		}
		return -total
	}
}

func TestExact(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(7, 7))
	g := ranktest.Graph(rng, 150, 4, 600, 60, 60)
	index := kgtest.Index(t, g)
	sides := []kg.Side{kg.Tail, kg.Head}
	for _, kind := range ranktest.MatrixKinds {
		for _, name := range []string{"mquine", "mquade"} {
			for _, d := range []int{1, 2, 7, 12, 24} {
				if testing.Short() && d > 7 {
					continue
				}
				test := g.Splits[kg.Test]
				if d > 7 {
					test = test[:20] // reference scores take d³ operations
				}
				m := ranktest.Model(t, name, d, g, uint64(d), kind)
				want := bruteForce(m, g, test, sides, newBruteScorer(m))
				for _, b := range backends {
					for _, o := range []Options{
						{Threads: 1}, {Threads: 3}, {Threads: 2, FeatureMemory: 40 * featureBytes(d*(d+1))},
						{Threads: 2, Screen: Int8Screen},
						{Threads: 1, Screen: Int8Screen, FeatureMemory: 60 * featureBytes(d*(d+1))},
						{Threads: 2, Screen: Int16Screen},
						{Threads: 1, Screen: Int16Screen, FeatureMemory: 60 * featureBytes(d*(d+1))},
						{Threads: 2, Screen: int16Tiles},
						{Threads: 1, Screen: int16Tiles, FeatureMemory: 60 * featureBytes(d*(d+1))},
					} {
						if sameTwin(b, o.Screen, m.Tower(kg.Tail).Compare) {
							continue
						}
						if b.Tier == kernel.Generic && d > 12 { // these would take half of the test's time
							continue
						}
						o.Backend = b
						got, err := Run(context.Background(), m, index, test, o)
						require.NoError(t, err)
						if !assert.Equal(t, want, got.Ranks, "%s, %s d = %d, %s, %d threads", kind.Name, name, d,
							b.Tier, o.Threads) {
							return
						}
					}
				}
			}
		}
	}
}

// sameTwin reports whether a tier screens a comparison with the portable twin, which the tests of the
// generic tier cover.
func sameTwin(b *kernel.Backend, s Screen, c kernel.Comparison) bool {
	return s == int16Tiles && c == kernel.Dot && !b.Features.Has(kernel.FeatureAMX) && b.Tier != kernel.Generic
}

// TestExactVectors checks the counting for all vector models against the models' reference scores.
// modeltest.Conform compares these scores with plain formulas, bit for bit. The models include some
// with features that depend on the side, with reciprocal relations, and with a tensor that all triples
// share. MQuinE with several blocks is tested, too.
func TestExactVectors(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(7, 8))
	g := ranktest.Graph(rng, 150, 4, 600, 60, 60)
	index := kgtest.Index(t, g)
	for k, kind := range ranktest.VectorKinds {
		for _, d := range []int{1, 7, 70, 300} {
			if testing.Short() && d > 70 {
				continue
			}
			test := g.Splits[kg.Test]
			if d > 70 {
				test = test[:20]
			}
			configs := ranktest.VectorConfigs(d, g)
			if d == 7 {
				configs = append(configs, model.Config{
					Model: "mquine", Dim: 4, Entities: g.Entities.Len(), Relations: g.Relations.Len(),
					Hyper: map[string]float64{"blocks": 3},
				})
			}
			if d == 300 { // one-byte codes of L1 distances may exit after 512 coordinates
				configs = append(configs, model.Config{
					Model: "transe-l1", Dim: 700, Entities: g.Entities.Len(), Relations: g.Relations.Len(),
				})
			}
			for i, c := range configs {
				if d > 70 && (i+k)%3 != 0 && c.Dim <= d {
					continue // every model is tested with a third of the kinds
				}
				m := ranktest.ModelOf(t, c, uint64(d), kind)
				want := bruteForce(m, g, test, []kg.Side{kg.Tail, kg.Head},
					m.NewWorker(backends[len(backends)-1]).Reference)
				for _, b := range backends {
					for _, o := range []Options{
						{Threads: 1}, {Threads: 2, FeatureMemory: 40 * featureBytes(2*d)},
						{Threads: 2, Screen: Int8Screen}, {Threads: 2, Screen: Int16Screen},
						{Threads: 2, Screen: int16Tiles},
					} {
						if !o.Screen.Fits(m.Tower(kg.Tail).Compare) {
							continue
						}
						if sameTwin(b, o.Screen, m.Tower(kg.Tail).Compare) {
							continue
						}
						o.Backend = b
						got, err := Run(context.Background(), m, index, test, o)
						require.NoError(t, err)
						if !assert.Equal(t, want, got.Ranks, "%s, %s d = %d, %s, %d threads", kind.Name, c.Model, d,
							b.Tier, o.Threads) {
							return
						}
					}
				}
			}
		}
	}
}
