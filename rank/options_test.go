package rank

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/kgtest"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/ranktest"
)

// TestOptionsErrors checks that options with values that no ranking can follow are errors.
func TestOptionsErrors(t *testing.T) {
	g := ranktest.Graph(rand.New(rand.NewPCG(44, 1)), 20, 2, 60, 10, 10)
	x, test := kgtest.Index(t, g), g.Splits[kg.Test]
	for _, c := range []struct {
		model, want string
		o           Options
	}{
		{"distmult", "-5 bytes for features: set FeatureMemory to at least 1", Options{FeatureMemory: -5}},
		{"distmult", "side 3 is unknown", Options{Sides: []kg.Side{kg.Tail, 3}}},
		{"distmult", "rank: Sides contains tail twice, which would count its queries twice: give it once",
			Options{Sides: []kg.Side{kg.Tail, kg.Head, kg.Tail}}},
		{"distmult", "screen Screen(77) is not for model distmult", Options{Screen: 77}},
		{"distmult", "screen fp16 is not for model distmult", Options{Screen: halfScreen}},
		{"transe-l1", "screen int16 is not for model transe-l1, which uses comparison l1: set Screen to AutoScreen",
			Options{Screen: Int16Screen}},
		{"rotate", "screen int8 is not for model rotate", Options{Screen: Int8Screen}},
		{"transe-l1", "", Options{Screen: Int8Screen}},
		{"hake", "", Options{Screen: Float32Screen}},
		{"distmult", "", Options{Screen: int16Tiles}},
	} {
		m := ranktest.Model(t, c.model, 4, g, 1, ranktest.VectorKinds[0])
		_, err := Run(t.Context(), m, x, test, c.o)
		if c.want == "" {
			assert.NoError(t, err)
			continue
		}
		assert.ErrorContains(t, err, c.want)
	}
}

// TestEmptySides checks that an empty list of sides means the same as nil.
func TestEmptySides(t *testing.T) {
	g := ranktest.Graph(rand.New(rand.NewPCG(44, 4)), 20, 2, 60, 10, 10)
	m, x := ranktest.Model(t, "distmult", 4, g, 1, ranktest.VectorKinds[0]), kgtest.Index(t, g)
	want, err := Run(t.Context(), m, x, g.Splits[kg.Test], Options{})
	require.NoError(t, err)
	got, err := Run(t.Context(), m, x, g.Splits[kg.Test], Options{Sides: []kg.Side{}})
	require.NoError(t, err)
	assert.Equal(t, want.Ranks, got.Ranks)
	assert.Len(t, got.Ranks, 2*len(g.Splits[kg.Test]))
}

// TestUnusedOptions checks that candidates have no effect on functions that do not use them, even if Run would
// refuse them.
func TestUnusedOptions(t *testing.T) {
	g := ranktest.Graph(rand.New(rand.NewPCG(44, 5)), 20, 2, 60, 10, 10)
	m, x := ranktest.Model(t, "distmult", 4, g, 1, ranktest.VectorKinds[0]), kgtest.Index(t, g)
	among := NewCandidates(3)
	among.Restrict(kg.Tail, 2, []int32{7, 25})
	test := g.Splits[kg.Test]
	for name, call := range map[string]func(Options) (any, error){
		"Scores": func(o Options) (any, error) { return Scores(t.Context(), m, test, BothSides, o) },
		"Relations": func(o Options) (any, error) {
			r, err := Relations(t.Context(), m, x, test, o)
			require.NoError(t, err)
			return r.Ranks, nil
		},
		"PredictRelations": func(o Options) (any, error) {
			return PredictRelations(t.Context(), m, x, test, Top{K: 2}, o)
		},
		"SimilarEntities": func(o Options) (any, error) {
			return SimilarEntities(t.Context(), m, []int32{3, 5}, Cosine, 4, o)
		},
		"SimilarRelations": func(o Options) (any, error) {
			return SimilarRelations(t.Context(), m, []int32{0}, Cosine, 1, o)
		},
	} {
		want, err := call(Options{})
		require.NoError(t, err, name)
		got, err := call(Options{Shard: Range{30, 10}, Among: among})
		require.NoError(t, err, name)
		require.Equal(t, want, got, name)
	}
}

// TestPredictIgnoresNegatives checks that lists for Run change neither Predict nor Discover, even
// together with restricted candidates.
func TestPredictIgnoresNegatives(t *testing.T) {
	g := ranktest.Graph(rand.New(rand.NewPCG(44, 2)), 20, 2, 60, 10, 10)
	m, x := ranktest.Model(t, "distmult", 4, g, 1, ranktest.VectorKinds[0]), kgtest.Index(t, g)
	among := NewCandidates(2)
	among.RestrictAll(kg.Tail, []int32{3, 5, 8, 13})
	results := func(o Options) (lists [][]Prediction, found []Discovered) {
		lists, err := Predict(t.Context(), m, x, []kg.Query{{Anchor: 1}}, Top{K: 3}, o)
		require.NoError(t, err)
		err = Discover(t.Context(), m, x, Discovery{Relations: []int32{0}, K: 2}, o, func(d Discovered) error {
			found = append(found, d)
			return nil
		})
		require.NoError(t, err)
		return lists, found
	}
	lists, found := results(Options{Among: among})
	ignoring, also := results(Options{Among: among, Negatives: new(Negatives)})
	assert.Equal(t, lists, ignoring)
	assert.Equal(t, found, also)
}

// TestIndexErrors checks that every function that looks up known answers refuses a nil index and,
// if it has a model, a nil model and the index of another graph. The other functions refuse a nil model too.
func TestIndexErrors(t *testing.T) {
	graph := func(entities, relations int) *kg.Graph {
		return ranktest.Graph(rand.New(rand.NewPCG(44, 3)), entities, relations, 60, 10, 10)
	}
	g := graph(20, 2)
	m, test := ranktest.Model(t, "distmult", 4, g, 1, ranktest.VectorKinds[0]), g.Splits[kg.Test]
	uses := map[string]func(m model.Model, x *kg.Index) error{
		"Run": func(m model.Model, x *kg.Index) error {
			_, err := Run(t.Context(), m, x, test, Options{})
			return err
		},
		"Relations": func(m model.Model, x *kg.Index) error {
			_, err := Relations(t.Context(), m, x, test, Options{})
			return err
		},
		"Predict": func(m model.Model, x *kg.Index) error {
			_, err := Predict(t.Context(), m, x, []kg.Query{{}}, Top{K: 1}, Options{})
			return err
		},
		"PredictRelations": func(m model.Model, x *kg.Index) error {
			_, err := PredictRelations(t.Context(), m, x, test, Top{K: 1}, Options{})
			return err
		},
		"Discover": func(m model.Model, x *kg.Index) error {
			ignore := func(Discovered) error { return nil }
			return Discover(t.Context(), m, x, Discovery{Relations: []int32{0}, K: 1}, Options{}, ignore)
		},
	}
	for name, use := range uses {
		assert.NoError(t, use(m, kgtest.Index(t, g)), name)
		assert.ErrorContains(t, use(m, nil), "the index is nil: make one with kg.NewIndex", name)
		assert.ErrorContains(t, use(nil, kgtest.Index(t, g)), "rank: the model is nil: open one with", name)
		assert.ErrorContains(t, use(m, kgtest.Index(t, graph(21, 2))),
			"the index has 21 entities and 2 relations, but the model has 20 and 2", name)
		assert.ErrorContains(t, use(m, kgtest.Index(t, graph(20, 3))),
			"the index has 20 entities and 3 relations, but the model has 20 and 2", name)
	}
	_, err := Scores(t.Context(), nil, test, BothSides, Options{})
	assert.ErrorIs(t, err, errNoModel)
	_, err = SimilarEntities(t.Context(), nil, []int32{0}, Cosine, 1, Options{})
	assert.ErrorIs(t, err, errNoModel)
	_, err = SimilarRelations(t.Context(), nil, []int32{0}, Cosine, 1, Options{})
	assert.ErrorIs(t, err, errNoModel)
	_, err = Fit(t.Context(), nil, 1, Options{})
	assert.ErrorIs(t, err, errNoModel)
	err = Discover(t.Context(), m, kgtest.Index(t, g), Discovery{Relations: []int32{0}, K: 1}, Options{}, nil)
	assert.EqualError(t, err, "rank: emit is nil: give Discover a function that takes the triples")

	order := make([]int32, 20)
	for i := range order {
		order[i] = int32(i)
	}
	_, err = Draw(t.Context(), nil, test, Sampling{Negatives: 1, Order: order}, Options{})
	assert.ErrorContains(t, err, "the index is nil")
}

// TestFilterCheck checks that the advice for a missing split fits a graph with a folder, and one without.
func TestFilterCheck(t *testing.T) {
	g := kg.Graph{}
	assert.EqualError(t, Train.Check(&g), "filter train needs the train split, which the data set does not have: "+
		"choose other filters")
	g.Name = "toy"
	assert.EqualError(t, Train.Check(&g), "filter train needs the train split, which data set toy does not have: "+
		"choose other filters")
	g.Dir = "folder"
	assert.EqualError(t, Train.Check(&g), "filter train needs the train split, which data set toy does not have: "+
		"put train.txt into folder, or choose other filters")
}
