package metrics

import (
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel/kerneltest"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/kgtest"
	"github.com/mquine/mquine/kg/synth"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank"
)

// The weights that FitEnsemble finds give an MRR at least as high as equal weights, as each member
// alone and, with two members, as any weights on its coarse grid. They do not depend on the number
// of threads.
func TestFitEnsemble(t *testing.T) {
	backend := kerneltest.Best(t)
	g, _, err := synth.Families(t.Context(), synth.Config{Seed: 1, Entities: 120, Train: 500, Valid: 60, Test: 20})
	require.NoError(t, err)
	index := kgtest.Index(t, g)
	var members []model.Member
	for i, name := range []string{"complex", "distmult", "mquine"} {
		c := model.Config{Model: name, Dim: 4, Entities: g.Entities.Len(), Relations: g.Relations.Len()}
		m, err := model.Random(t.Context(), c, uint64(i))
		require.NoError(t, err)
		members = append(members, model.Member{Model: m, Weight: 9})
	}
	mrr := func(weights ...float64) float64 {
		var list []model.Member
		for i, w := range weights {
			m := members[i]
			m.Weight = w
			list = append(list, m)
		}
		m, err := model.NewEnsemble(list)
		require.NoError(t, err)
		r, err := rank.Run(t.Context(), m, index, g.Splits[kg.Valid], rank.Options{Backend: backend, Threads: 2})
		require.NoError(t, err)
		var sum float64
		for _, x := range r.Ranks {
			sum += 1 / (1 + float64(x.Better[rank.All]) + float64(x.Equal[rank.All])/2)
		}
		return sum / float64(len(r.Ranks))
	}
	for n := 2; n <= 3; n++ {
		var first []float64
		for threads := 1; threads <= 3; threads += 2 {
			calls, last := 0, 0
			weights, best, err := FitEnsemble(t.Context(), members[:n], index, g.Splits[kg.Valid], FitOptions{
				Rank: rank.Options{Backend: backend, Threads: threads},
				Progress: func(done, total int) {
					calls++
					assert.Equal(t, calls, done)
					assert.GreaterOrEqual(t, total, max(done, last))
					last = total
				},
			})
			require.NoError(t, err)
			assert.Equal(t, calls, last, "the last total is the number of calls")
			assert.Equal(t, 1.0, weights[slices.IndexFunc(weights, func(w float64) bool { return w > 0 })])
			assert.InDelta(t, mrr(weights...), best, 1e-12)
			if first == nil {
				first = weights
			}
			assert.Equal(t, first, weights)
			if n == 2 {
				for e := -3.0; e <= 3; e++ {
					assert.GreaterOrEqual(t, best, mrr(1, math.Pow(4, e)))
				}
			}
			assert.GreaterOrEqual(t, best, mrr([]float64{1, 1, 1}[:n]...))
			for i := range n {
				alone := make([]float64, n)
				alone[i] = 1
				assert.GreaterOrEqual(t, best, mrr(alone...))
			}
		}
	}
	assert.Equal(t, 9.0, members[0].Weight, "the caller's members do not change")
}

// If a member only does harm, FitEnsemble gives it weight 0, also the first one. It finds weights far
// from 1. A search of all powers of √2, with ranks from single reference scores, finds nothing
// better.
func TestFitEnsembleFarWeights(t *testing.T) {
	backend := kerneltest.Best(t)
	const entities, relations, scale = 40, 3, 12
	models := map[string]model.Model{}
	for name, factor := range map[string]float32{"good": 1, "large": scale, "other": 1} {
		c := model.Config{Model: "distmult", Dim: 12, Entities: entities, Relations: relations}
		m, err := model.Random(t.Context(), c, uint64(len(name))<<8+uint64(name[0]))
		require.NoError(t, err)
		for _, tensor := range m.Tensors() {
			for i := range tensor {
				tensor[i] *= factor
			}
		}
		models[name] = m
	}
	g := &kg.Graph{Name: "answers", Entities: kg.NewVocabulary(), Relations: kg.NewVocabulary()}
	for i := range entities {
		g.Entities.Add(strconv.Itoa(i))
	}
	for i := range relations {
		g.Relations.Add(strconv.Itoa(i))
	}
	for name, c := range map[string]struct {
		members []string
		truth   []float64 // the weights of the sum whose best answers are the triples
		want    []float64 // nil: not known in advance
	}{
		"the second does harm": {[]string{"good", "large"}, []float64{1, 0}, []float64{1, 0}},
		"the first does harm":  {[]string{"large", "good"}, []float64{0, 1}, []float64{0, 1}},
		"two do harm":          {[]string{"large", "good", "other"}, []float64{0, 1, 0}, []float64{0, 1, 0}},
		"a small weight":       {[]string{"good", "large"}, []float64{1, 1 / math.Pow(scale, 3)}, nil},
		"a large weight":       {[]string{"large", "good"}, []float64{1 / math.Pow(scale, 3), 1}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var members []model.Member
			var workers []model.Worker
			for _, m := range c.members {
				members = append(members, model.Member{Model: models[m]})
				workers = append(workers, models[m].NewWorker(backend))
			}
			score := func(weights []float64, q kg.Query, e int32) (sum float64) {
				for i, w := range workers {
					sum += weights[i] * w.Reference(q, e)
				}
				return sum
			}
			var triples []kg.Triple
			known := map[kg.Triple]bool{}
			for i := range int32(entities * relations) {
				q := kg.Query{Side: kg.Tail, Relation: i % relations, Anchor: i / relations}
				best := int32(0)
				for e := range int32(entities) {
					if score(c.truth, q, e) > score(c.truth, q, best) {
						best = e
					}
				}
				triples = append(triples, kg.Triple{Head: q.Anchor, Relation: q.Relation, Tail: best})
				known[triples[i]] = true
			}
			mrr := func(weights ...float64) (sum float64) {
				for _, tr := range triples {
					for _, side := range []kg.Side{kg.Tail, kg.Head} {
						q, target := tr.Query(side)
						rank, want := 1.0, score(weights, q, target)
						for e := range int32(entities) {
							if s := score(weights, q, e); s > want && !known[q.Triple(e)] {
								rank++
							}
						}
						sum += 1 / rank
					}
				}
				return sum / float64(2*len(triples))
			}

			g.Splits = [kg.NumSplits][]kg.Triple{kg.Train: triples, kg.Valid: triples}
			o := FitOptions{Rank: rank.Options{Backend: backend, Threads: 1}}
			weights, best, err := FitEnsemble(t.Context(), members, kgtest.Index(t, g), triples, o)
			require.NoError(t, err)
			assert.InDelta(t, mrr(weights...), best, 1e-12)
			if c.want != nil {
				assert.Equal(t, c.want, weights)
			}
			if len(weights) == 2 {
				for half := -30.0; half <= 30; half++ {
					assert.GreaterOrEqual(t, best, mrr(1, math.Pow(2, half/2)), "2^%v", half/2)
				}
			}
		})
	}
}
