package rank

import (
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/proc/proctest"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/kerneltest"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/kgtest"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/ranktest"
)

// bruteRelations ranks relations by definition: it scores every relation of every triple, and looks
// for known triples one by one.
func bruteRelations(g *kg.Graph, triples []kg.Triple, score func(q kg.Query, e int32) float64) []Rank {
	var ranks []Rank
	for _, t := range triples {
		rank := Rank{Triple: t, Side: kg.Relation}
		target := score(kg.Query{Side: kg.Tail, Relation: t.Relation, Anchor: t.Head}, t.Tail)
		for relation := range int32(g.Relations.Len()) {
			other := kg.Triple{Head: t.Head, Relation: relation, Tail: t.Tail}
			s := score(kg.Query{Side: kg.Tail, Relation: relation, Anchor: t.Head}, t.Tail)
			for f := range NumFilters {
				removed := false
				for split, known := range g.Splits {
					for _, k := range known {
						removed = removed || k == other && other != t && f.Splits().Has(kg.Split(split))
					}
				}
				switch {
				case removed:
					continue
				case other == t:
				case s > target:
					rank.Better[f]++
				case s == target:
					rank.Equal[f]++
				}
				rank.Candidates[f]++
			}
		}
		ranks = append(ranks, rank)
	}
	return ranks
}

// sameRelations gives groups of relations the same parameters, so that their scores tie.
func sameRelations(c model.Config, tensors [][]float32) {
	parameters, err := model.Parameters(c)
	if err != nil {
		panic(err)
	}
	for i, p := range parameters {
		if p.Axis == model.PerRelation {
			width := p.Width()
			for r := range c.Relations {
				copy(tensors[i][r*width:][:width], tensors[i][r%4*width:][:width])
			}
		}
	}
}

func TestRelations(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	g := ranktest.Graph(rand.New(rand.NewPCG(5, 1)), 8, 9, 120, 30, 50)
	index := kgtest.Index(t, g)
	random := ranktest.VectorKinds[0]
	tied := ranktest.Kind{Name: "same relations", Fill: func(rng *rand.Rand, c model.Config, ts [][]float32) {
		random.Fill(rng, c, ts)
		sameRelations(c, ts)
	}}
	configs := ranktest.VectorConfigs(6, g)
	for _, name := range []string{"mquine", "mquade"} {
		configs = append(configs, model.Config{Model: name, Dim: 5, Entities: 8, Relations: 9})
	}
	for _, c := range configs {
		for _, kind := range []ranktest.Kind{random, tied} {
			m := ranktest.ModelOf(t, c, 6, kind)
			score := m.NewWorker(backends[0]).Reference
			if c.Model == "mquine" || c.Model == "mquade" {
				score = newBruteScorer(m)
			}
			want := bruteRelations(g, g.Splits[kg.Test], score)
			ties := 0
			for i, b := range backends {
				r, err := Relations(t.Context(), m, index, g.Splits[kg.Test], Options{Backend: b, Threads: 1 + i})
				require.NoError(t, err)
				require.Equal(t, want, r.Ranks, "%s, reciprocal: %v, %s", c.Model, c.Reciprocal, kind.Name)
			}
			for _, r := range want {
				ties += int(r.Equal[None])
			}
			if kind.Name == tied.Name {
				assert.Positive(t, ties, c.Model)
			}
		}
	}
}

// TestRelationsInChunks checks that triples of several chunks have the same ranks as each triple
// alone.
func TestRelationsInChunks(t *testing.T) {
	g := ranktest.Graph(rand.New(rand.NewPCG(5, 2)), 40, 3, 2*relationChunk, 0, 0)
	m := ranktest.Model(t, "distmult", 4, g, 7, ranktest.VectorKinds[0])
	index := kgtest.Index(t, g)
	all, err := Relations(t.Context(), m, index, g.Splits[kg.Train], Options{Threads: 3})
	require.NoError(t, err)
	for i := range 20 {
		at := i * len(g.Splits[kg.Train]) / 20
		one, err := Relations(t.Context(), m, index, g.Splits[kg.Train][at:at+1], Options{Threads: 3})
		require.NoError(t, err)
		require.Equal(t, one.Ranks[0], all.Ranks[at])
	}
	none, err := Relations(t.Context(), m, index, nil, Options{})
	require.NoError(t, err)
	require.Empty(t, none.Ranks)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Relations(ctx, m, index, g.Splits[kg.Train], Options{})
	require.ErrorIs(t, err, context.Canceled)
	_, err = Run(t.Context(), m, index, g.Splits[kg.Train], Options{Sides: []kg.Side{kg.Relation}})
	require.ErrorContains(t, err, "call Relations")
}

// TestPredictRelations compares the lists with lists by definition: every relation is scored and
// looked up among the known triples, and the relations are sorted.
func TestPredictRelations(t *testing.T) {
	g := ranktest.Graph(rand.New(rand.NewPCG(5, 3)), 12, 9, 2*relationChunk, 30, 40)
	index := kgtest.Index(t, g)
	asked := slices.Concat(g.Splits[kg.Test], g.Splits[kg.Train], []kg.Triple{{Head: 1, Relation: -1, Tail: 1}})
	for _, c := range ranktest.VectorConfigs(4, g) {
		kind := ranktest.Kind{Name: "same relations", Fill: func(rng *rand.Rand, c model.Config, ts [][]float32) {
			ranktest.VectorKinds[0].Fill(rng, c, ts)
			sameRelations(c, ts)
		}}
		m := ranktest.ModelOf(t, c, 3, kind)
		w := m.NewWorker(kerneltest.Best(t))
		for k, filterKnown := range map[int]bool{1: true, 4: false, 100: true} {
			top := Top{K: k, FilterKnown: filterKnown}
			got, err := PredictRelations(t.Context(), m, index, asked, top, Options{Threads: k})
			require.NoError(t, err)
			require.Len(t, got, len(asked))
			for i, a := range asked[:80] {
				var want []Prediction
				for r := range int32(g.Relations.Len()) {
					triple := kg.Triple{Head: a.Head, Relation: r, Tail: a.Tail}
					q, tail := triple.Query(kg.Tail)
					known := false
					for _, split := range g.Splits {
						known = known || slices.Contains(split, triple)
					}
					if !known || !filterKnown {
						want = append(want, Prediction{r, w.Reference(q, tail), known})
					}
				}
				// An insertion sort, in which later relations do not pass equal ones.
				for n := range want {
					for ; n > 0 && want[n].Score > want[n-1].Score; n-- {
						want[n], want[n-1] = want[n-1], want[n]
					}
				}
				want = want[:min(k, len(want))]
				require.Equal(t, len(want), len(got[i]))
				for n := range want {
					require.Equal(t, want[n], got[i][n], "%s, answer %d", c.Model, n)
				}
			}
		}
	}
}

// TestPredictManyRelations checks that the predictions for many triples among many relations equal the
// predictions for one triple, and that their scores do not take up memory all at once.
func TestPredictManyRelations(t *testing.T) {
	const relations, bytes = 4096, 16 << 20
	g := ranktest.Graph(rand.New(rand.NewPCG(5, 5)), 12, relations, relationChunk, 30, 40)
	index, asked := kgtest.Index(t, g), g.Splits[kg.Train][:relationChunk]
	m := ranktest.Model(t, "distmult", 1, g, 7, ranktest.VectorKinds[2])
	top, o := Top{K: 3, FilterKnown: true}, Options{Threads: 2}
	require.Greater(t, 8*relations*len(asked), bytes)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got, err := PredictRelations(t.Context(), m, index, asked, top, o)
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(bytes))
	for _, i := range []int{0, 255, 256, len(asked) - 1} {
		want, err := PredictRelations(t.Context(), m, index, asked[i:i+1], top, o)
		require.NoError(t, err)
		require.Equal(t, want[0], got[i])
	}
}

func TestPredictRelationsErrors(t *testing.T) {
	g := ranktest.Graph(rand.New(rand.NewPCG(5, 4)), 6, 2, 9, 1, 1)
	m := ranktest.Model(t, "distmult", 4, g, 7, ranktest.VectorKinds[0])
	index, asked := kgtest.Index(t, g), []kg.Triple{{Head: 1, Tail: 2}}
	_, err := PredictRelations(t.Context(), m, index, asked, Top{K: 0}, Options{})
	require.ErrorContains(t, err, "cannot predict 0 relations")
	_, err = PredictRelations(t.Context(), m, index, []kg.Triple{{Head: 1, Tail: 6}}, Top{K: 1}, Options{})
	require.ErrorContains(t, err, "outside the model's 6 entities")
	known := []kg.Triple{{Head: 0, Relation: 0, Tail: 1}, {Head: 0, Relation: 1, Tail: 1}}
	all := &kg.Graph{Entities: g.Entities, Relations: g.Relations, Splits: [kg.NumSplits][]kg.Triple{known}}
	lists, err := PredictRelations(t.Context(), m, kgtest.Index(t, all), known[:1], Top{1, true}, Options{})
	require.NoError(t, err)
	require.Equal(t, [][]Prediction{{}}, lists, "all relations are known")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = PredictRelations(ctx, m, index, asked, Top{K: 1}, Options{})
	require.ErrorIs(t, err, context.Canceled)
	proctest.Leave(t, 33<<20)
	_, err = PredictRelations(t.Context(), m, index, slices.Repeat(asked, 800_000), Top{K: 7}, Options{})
	require.ErrorContains(t, err, "choosing among 2 relations needs about 37 MiB of memory (answers 37 MiB), "+
		"but only 33 MiB is available (a limit of the test): ask for fewer answers or fewer queries")
}
