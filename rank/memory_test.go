package rank

import (
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/proc"
	"github.com/mquine/mquine/internal/proc/proctest"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/kerneltest"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/kgtest"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/engine"
)

// numbered returns a model with one relation and the given number of entities. The entities'
// parameters are distinct but otherwise arbitrary.
func numbered(t *testing.T, name string, dim, entities int) model.Model {
	c := model.Config{Model: name, Dim: dim, Entities: entities, Relations: 1}
	parameters, err := model.Parameters(c)
	require.NoError(t, err)
	var tensors [][]float32
	for _, s := range parameters {
		values := make([]float32, s.Len())
		for i := range values {
			values[i] = float32(i*7919%10007) / 10007
		}
		tensors = append(tensors, values)
	}
	m, err := model.New(c, tensors)
	require.NoError(t, err)
	return m
}

// someTriples returns n distinct triples of a model with one relation and the given number of
// entities.
func someTriples(n, entities int) []kg.Triple {
	triples := make([]kg.Triple, n)
	for i := range triples {
		triples[i] = kg.Triple{Head: int32(i / entities), Tail: int32(i % entities)}
	}
	return triples
}

func memoryOptions(t *testing.T) Options {
	return Options{Backend: kerneltest.Best(t), Threads: 2}
}

type prepare = func(*testing.T) ([]proc.Need, func() error)

func TestMemory(t *testing.T) {
	emptyIndex := func(entities int) *kg.Index {
		return kgtest.Index(t, &kg.Graph{Entities: numberedVocabulary(entities), Relations: kg.NewVocabulary("r")})
	}
	ranking := func(name string, dim, entities, triples int, change func(*Options)) prepare {
		return func(t *testing.T) ([]proc.Need, func() error) {
			m, x, asked := numbered(t, name, dim, entities), emptyIndex(entities), someTriples(triples, entities)
			o := memoryOptions(t)
			change(&o)
			needs := append(scoringNeeds(m, o, o.Threads), rankNeed(triples, o))
			return needs, func() error { _, err := Run(t.Context(), m, x, asked, o); return err }
		}
	}
	predicting := func(entities, queries, k int, features int64) prepare {
		return func(t *testing.T) ([]proc.Need, func() error) {
			m, x, o := numbered(t, "distmult", 8, entities), emptyIndex(entities), memoryOptions(t)
			o.FeatureMemory = features
			asked := make([]kg.Query, queries)
			for i := range asked {
				asked[i] = kg.Query{Side: kg.Side(i / entities), Anchor: int32(i % entities)}
			}
			panels := o.Backend.Panels(m.Tower(kg.Tail).Compare)
			listed := o.Threads * predictBlock(panels.QueryBlock(m.Tower(kg.Tail).Psi), panels.MR, k, queries,
				o.Threads)
			needs := append(scoringNeeds(m, o, o.Threads), answersNeeds(m, x, asked, Top{K: k}, listed)...)
			if features > 0 {
				before := (entities - 1) / cpuSlice(o.job(m, engine.Plan{})) * cpuSlice(o.job(m, engine.Plan{}))
				needs = append(needs, keptNeed(int64(queries)*int64(min(2*k, before))))
			}
			return needs, func() error { _, err := Predict(t.Context(), m, x, asked, Top{K: k}, o); return err }
		}
	}
	drawing := func(entities, triples, n int) prepare {
		return func(t *testing.T) ([]proc.Need, func() error) {
			d := Sampling{Negatives: n, Order: make([]int32, entities)}
			for i := range d.Order {
				d.Order[i] = int32(i)
			}
			x, asked, o := emptyIndex(entities), someTriples(triples, entities), memoryOptions(t)
			o.Sides = []kg.Side{kg.Tail, kg.Head}
			need, err := d.need(x, asked, o)
			require.NoError(t, err)
			return []proc.Need{need}, func() error { _, err := Draw(t.Context(), x, asked, d, o); return err }
		}
	}
	proctest.CompareEstimates(t, []proctest.Job{
		{Name: "features", Prepare: ranking("mquine", 20, 50_000, 16, func(*Options) {})},
		{Name: "features of a distance", Prepare: ranking("transe-l1", 200, 50_000, 16, func(*Options) {})},
		{Name: "slices", Prepare: ranking("mquine", 20, 100_000, 16, func(o *Options) { o.FeatureMemory = 100 << 20 })},
		{Name: "ranks", Prepare: ranking("distmult", 2, 1000, 900_000, func(*Options) {})},
		{Name: "samples", Prepare: drawing(2000, 20_000, 1000)},
		{Name: "predictions", Prepare: predicting(2000, 3000, 2000, 0)},
		{Name: "lists between slices", Prepare: predicting(6000, 3000, 1000, 250_000)},
	})
}

func numberedVocabulary(n int) *kg.Vocabulary {
	v := kg.NewVocabulary()
	for i := range n {
		v.Add(strconv.Itoa(i))
	}
	return v
}

// TestTooLittleMemory checks that, with little memory, slices are smaller and the ranks are the
// same. With too little memory, Run must return an error.
func TestTooLittleMemory(t *testing.T) {
	const entities = 40_000
	m, asked, o := numbered(t, "mquine", 20, entities), someTriples(40, entities), memoryOptions(t)
	x := kgtest.Index(t, &kg.Graph{Entities: numberedVocabulary(entities), Relations: kg.NewVocabulary("r")})
	want, err := Run(t.Context(), m, x, asked, o)
	require.NoError(t, err)
	bytes, slices := Memory(m, o)
	assert.Equal(t, 1, slices)

	proctest.Leave(t, bytes+bytes/8+sliceReserve+1<<20)
	fitted, err := Fit(t.Context(), m, len(asked), o)
	require.NoError(t, err)
	assert.EqualValues(t, DefaultFeatureMemory, fitted.FeatureMemory, "it fits without a change")

	proctest.Leave(t, bytes+sliceReserve)
	fitted, err = Fit(t.Context(), m, len(asked), o)
	require.NoError(t, err)
	least, slices := Memory(m, fitted)
	assert.Equal(t, 2, slices)
	assert.Less(t, least, bytes)
	got, err := Run(t.Context(), m, x, asked, o)
	require.NoError(t, err)
	assert.Equal(t, want.Ranks, got.Ranks)

	proctest.Leave(t, 40<<20)
	_, err = Run(t.Context(), m, x, asked, o)
	assert.ErrorContains(t, err, "ranking with mquine, d = 20, among 40,000 candidates needs about 6")
	assert.ErrorContains(t, err, " but only 40 MiB is available (a limit of the test): "+
		"use fewer threads, or make more memory available")
	o.FeatureMemory = 33 << 20
	proctest.Leave(t, 33<<20)
	_, err = Run(t.Context(), m, x, asked, o)
	assert.ErrorContains(t, err, "ranking with mquine", "a given bound is kept")

	queries := make([]kg.Query, 20_000)
	for i := range queries {
		queries[i].Anchor = int32(i)
	}
	proctest.Leave(t, 8<<30)
	_, err = Predict(t.Context(), m, x, queries, Top{K: 1 << 30}, memoryOptions(t))
	assert.ErrorContains(t, err, "predicting with mquine, d = 20, among 40,000 candidates "+
		"needs about 18 GiB of memory "+
		"(answers 18 GiB), but only 8.0 GiB is available (a limit of the test): ask for fewer answers or fewer queries")
}

// TestOrdinaryRankingsFit checks that rankings of the usual data sets fit into one GiB in one
// slice.
func TestOrdinaryRankingsFit(t *testing.T) {
	proctest.Leave(t, 1<<30)
	for name, c := range map[string]struct{ dim, entities, triples int }{
		"fb15k-237": {38, 14_541, 20_466}, "wn18rr": {35, 40_943, 3134}, "yago3-10": {18, 123_182, 5000},
	} {
		m, o := numbered(t, "mquine", c.dim, c.entities), memoryOptions(t)
		fitted, err := Fit(t.Context(), m, c.triples, o)
		require.NoError(t, err, name)
		_, slices := Memory(m, fitted)
		assert.Equal(t, 1, slices, name)
	}
}

// TestDefaultOptions checks that the zero value of Options means the best backend, all processors
// and both sides, and that a negative number of threads is an error.
func TestDefaultOptions(t *testing.T) {
	m := numbered(t, "distmult", 4, 30)
	o, err := Fit(t.Context(), m, 10, Options{})
	require.NoError(t, err)
	best, err := kernel.New()
	require.NoError(t, err)
	assert.Equal(t, best.Tier, o.Backend.Tier)
	assert.Equal(t, best.Features, o.Backend.Features)
	assert.Equal(t, runtime.GOMAXPROCS(0), o.Threads)
	assert.Equal(t, []kg.Side{kg.Tail, kg.Head}, o.Sides)

	x := kgtest.Index(t, &kg.Graph{Entities: numberedVocabulary(30), Relations: kg.NewVocabulary("r")})
	want, err := Run(t.Context(), m, x, someTriples(5, 30), memoryOptions(t))
	require.NoError(t, err)
	got, err := Run(t.Context(), m, x, someTriples(5, 30), Options{})
	require.NoError(t, err)
	assert.Equal(t, want.Ranks, got.Ranks)
	_, err = Predict(t.Context(), m, x, []kg.Query{{}}, Top{K: 3}, Options{})
	require.NoError(t, err)
	_, err = Run(t.Context(), m, x, nil, Options{Threads: -1})
	assert.ErrorContains(t, err, "rank: -1 threads")
}
