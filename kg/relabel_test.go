package kg

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRelabel(t *testing.T) {
	g := &Graph{Name: "small", Entities: NewVocabulary("a", "b", "c"), Relations: NewVocabulary("r", "s")}
	g.Splits[Train] = []Triple{{0, 0, 1}, {2, 1, 0}}
	g.Splits[Test] = []Triple{}
	out, err := g.Relabel(NewVocabulary("x", "c", "b", "a"), NewVocabulary("s", "r"))
	require.NoError(t, err)
	assert.Equal(t, []Triple{{3, 1, 2}, {1, 0, 3}}, out.Splits[Train])
	assert.Nil(t, out.Splits[Valid], "a missing split stays missing")
	assert.NotNil(t, out.Splits[Test], "an empty split stays empty")
	assert.Equal(t, []string{"1 entity that is only in the checkpoint stays a candidate"}, out.Notes)
	assert.Equal(t, []int{3, 3}, []int{g.DataEntities(), out.DataEntities()})
	again, err := out.Relabel(NewVocabulary("y", "x", "c", "b", "a"), out.Relations)
	require.NoError(t, err)
	assert.Equal(t, 3, again.DataEntities())
	again, err = out.Relabel(out.Entities, NewVocabulary("u", "s", "r", "q"))
	require.NoError(t, err)
	assert.Equal(t, []int{0, 2}, []int{out.AddedRelations(), again.AddedRelations()})

	// Labels that Restrict left out are not only in the checkpoint.
	smaller, err := g.Restrict("another checkpoint", NewVocabulary("a", "b"), NewVocabulary("r"))
	require.NoError(t, err)
	out, err = smaller.Relabel(NewVocabulary("x", "c", "b", "a"), NewVocabulary("s", "r"))
	require.NoError(t, err)
	assert.Equal(t, "1 entity that is only in the checkpoint stays a candidate", out.Notes[len(out.Notes)-1])
	assert.Zero(t, out.AddedRelations())

	_, err = g.Relabel(NewVocabulary("a"), NewVocabulary("r", "s"))
	assert.EqualError(t, err, "data set small: the checkpoint lacks 2 entities of the data (b, c): "+
		"use the checkpoint's data set")
	header, err := OpenTriples(t.Context(), filepath.Join(writeFolder(t, map[string]string{
		"all.tsv": "head\trelation\ttail\na\tr\tb\n"}), "all.tsv"))
	require.NoError(t, err)
	_, err = header.Relabel(NewVocabulary("a", "b"), NewVocabulary("r"))
	assert.EqualError(t, err, "data set all.tsv: the checkpoint lacks 2 entities of the data (head, tail; the first "+
		"line of train may be a header): use the checkpoint's data set")
	_, err = g.Relabel(g.Entities, NewVocabulary("r"))
	assert.EqualError(t, err, "data set small: the checkpoint lacks 1 relation of the data (s): "+
		"use the checkpoint's data set")
}

func TestRestrict(t *testing.T) {
	g := &Graph{Name: "small", Entities: NewVocabulary("a", "b", "c"), Relations: NewVocabulary("r", "s"),
		Notes: []string{"first"}}
	g.Splits[Train] = []Triple{{0, 0, 1}, {2, 1, 0}, {2, 0, 2}}
	g.Splits[Test] = []Triple{{1, 0, 1}, {0, 0, 0}}
	restrict := func(entities, relations *Vocabulary) *Graph {
		out, err := g.Restrict("model m", entities, relations)
		require.NoError(t, err)
		return out
	}
	out := restrict(NewVocabulary("c", "x", "a"), g.Relations)
	assert.Equal(t, []string{"a", "c"}, out.Entities.Labels())
	assert.Equal(t, g.Relations.Labels(), out.Relations.Labels())
	assert.Equal(t, []Triple{{1, 1, 0}, {1, 0, 1}}, out.Splits[Train])
	assert.Nil(t, out.Splits[Valid], "a missing split stays missing")
	assert.Equal(t, []Triple{{0, 0, 0}}, out.Splits[Test])
	assert.Equal(t,
		[]string{"first", "model m lacks 1 entity of the data: left out 1 train and 1 test triples"}, out.Notes)
	assert.Len(t, g.Notes, 1)
	assert.Equal(t, [NumSplits]int{1, 0, 1}, [NumSplits]int{out.LeftOut(Train), out.LeftOut(Valid), out.LeftOut(Test)})
	assert.Zero(t, g.LeftOut(Train))

	// The checksum is still of the whole data set, also after another change.
	whole, err := g.SHA256(t.Context())
	require.NoError(t, err)
	relabelled, err := out.Relabel(NewVocabulary("c", "x", "a"), out.Relations)
	require.NoError(t, err)
	less, err := out.Restrict("model n", NewVocabulary("c"), out.Relations)
	require.NoError(t, err)
	assert.Equal(t, 2, less.LeftOut(Train))
	_, err = relabelled.Restrict("model n", NewVocabulary("c"), out.Relations)
	assert.EqualError(t, err, "data set small has labels of a checkpoint: call Restrict before Relabel")
	for _, part := range []*Graph{out, relabelled, less} {
		digest, err := part.SHA256(t.Context())
		require.NoError(t, err)
		assert.Equal(t, whole, digest)
	}

	out = restrict(g.Entities, NewVocabulary("s"))
	assert.Equal(t, "model m lacks 1 relation of the data: left out 2 train and 2 test triples", out.Notes[1])
	assert.Equal(t, []Triple{{2, 0, 0}}, out.Splits[Train])
	assert.True(t, out.Has(Test), "the data set has the split")
	relabelled, err = out.Relabel(g.Entities, NewVocabulary("q", "s"))
	require.NoError(t, err)
	_, err = relabelled.Triples(Test)
	assert.EqualError(t, err, "data set small: model m lacks labels of every test triple: "+
		"use the data set of the checkpoint")
	_, err = relabelled.Triples(Valid)
	assert.EqualError(t, err, "data set small has no valid split")
	_, err = g.Restrict("model m", g.Entities, NewVocabulary("q"))
	assert.EqualError(t, err, "data set small: model m lacks labels of every triple: "+
		"use the data set of the checkpoint")
	assert.Same(t, g, restrict(NewVocabulary("x", "c", "b", "a"), NewVocabulary("s", "r")))
	one := &Graph{Name: "one", Entities: NewVocabulary("a", "b"), Relations: NewVocabulary("r")}
	one.Splits = [NumSplits][]Triple{{{0, 0, 0}}, {{0, 0, 0}}, {{0, 0, 1}, {0, 0, 0}}}
	out, err = one.Restrict("model m", NewVocabulary("a"), one.Relations)
	require.NoError(t, err)
	assert.Equal(t, []string{"model m lacks 1 entity of the data: left out 1 test triple"}, out.Notes)
	g.Splits[Test] = nil
	out = restrict(g.Entities, NewVocabulary("r"))
	assert.Equal(t, []Triple{{0, 0, 1}, {2, 0, 2}}, out.Splits[Train])
	assert.Equal(t, "model m lacks 1 relation of the data: left out 1 train triple", out.Notes[1])
	out, err = out.Restrict("model n", NewVocabulary("a", "b"), out.Relations)
	require.NoError(t, err)
	assert.Equal(t, []string{"model m lacks 1 relation of the data: left out 1 train triple",
		"model n lacks 1 entity of the data: left out 1 train triple"}, out.Notes[1:])
	assert.Equal(t, [2]map[string]bool{{"c": true}, {"s": true}}, out.leftOut)
}
