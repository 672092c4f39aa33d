package kg

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// lowered returns an option that changes the limits.
func lowered(change func(*limits)) OpenOption { return func(o *opening) { change(&o.limits) } }

func TestOpenBoundsTheNumberOfTriples(t *testing.T) {
	for _, name := range []string{"train.txt", "train.nt"} {
		text := trainText
		if name == "train.nt" {
			text = strings.Repeat("<x:a> <x:r> <x:b> .\n", 3)
		}
		dir := writeFolder(t, map[string]string{name: text})
		_, err := Open(t.Context(), dir, lowered(func(l *limits) { l.triples = 3 }))
		require.NoError(t, err)
		_, err = Open(t.Context(), dir, lowered(func(l *limits) { l.triples = 2 }))
		assert.EqualError(t, err, dir+"/"+name+":3: more than 2 triples, which is the limit of a split")
	}
	assert.LessOrEqual(t, int64(NumSplits)*int64(defaultLimits.triples), int64(1)<<32-1, "what an Index holds")
}

func TestOpenBoundsTheNumberOfLabels(t *testing.T) {
	dir := writeFolder(t, map[string]string{"train.txt": trainText, "test.txt": testText})
	_, err := Open(t.Context(), dir, lowered(func(l *limits) { l.labels = 4 }))
	require.NoError(t, err, "anna, bert, clara and emil")
	_, err = Open(t.Context(), dir, lowered(func(l *limits) { l.labels = 3 }))
	assert.ErrorContains(t, err, "has more than 3 labels, which is the limit")
}

func TestOpenBoundsTheExpansionOfArchives(t *testing.T) {
	text := strings.Repeat("a\tr\tb\n", 100_000) // 600,000 bytes
	for name, ratio := range map[string]int64{"train.txt.gz": 100, "train.txt.zst": 1000} {
		dir := writeFolder(t, map[string]string{name: text})
		size := int64(len(compressedText(t, name, text)))
		require.Greater(t, int64(len(text)), ratio*size, "the archive is small enough for this test")

		_, err := Open(t.Context(), dir, lowered(func(l *limits) { l.Expanded, l.Ratio = int64(len(text)), ratio }))
		require.NoError(t, err, "small texts may expand by any factor")
		_, err = Open(t.Context(), dir, lowered(func(l *limits) { l.Expanded, l.Ratio = 1, int64(len(text))/size+1 }))
		require.NoError(t, err)
		_, err = Open(t.Context(), dir, lowered(func(l *limits) { l.Expanded, l.Ratio = int64(len(text))-1, ratio }))
		assert.EqualError(t, err, dir+"/"+name+" expands to more than 586 KiB and "+strconv.FormatInt(ratio, 10)+
			" times its size, which is too much: decompress it yourself if you trust it")
	}

	dir := writeFolder(t, map[string]string{"train.txt": text})
	_, err := Open(t.Context(), dir, lowered(func(l *limits) { l.Expanded, l.Ratio = 1, 1 }))
	assert.NoError(t, err, "a file that is not compressed has no such bound")
}
