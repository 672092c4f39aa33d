package kg

import (
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

	_, err = g.Relabel(NewVocabulary("a"), NewVocabulary("r", "s"))
	assert.EqualError(t, err, "data set small: the checkpoint lacks 2 entities of the data (b, c): "+
		"use the checkpoint's data set")
	_, err = g.Relabel(g.Entities, NewVocabulary("r"))
	assert.EqualError(t, err, "data set small: the checkpoint lacks 1 relation of the data (s): "+
		"use the checkpoint's data set")
}
