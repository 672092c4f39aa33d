package kg

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// sorted returns the triples of a split as sorted labels.
func sorted(g *Graph, s Split) [][3]string {
	triples := named(g, s)
	slices.SortFunc(triples, func(a, b [3]string) int { return slices.Compare(a[:], b[:]) })
	return triples
}

// shuffled returns the graph with its training triples in another order, and with other
// identifiers.
func shuffled(g *Graph, seed uint64) *Graph {
	out := &Graph{Name: g.Name, Entities: NewVocabulary(), Relations: NewVocabulary()}
	triples := named(g, Train)
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(triples), func(i, j int) {
		triples[i], triples[j] = triples[j], triples[i]
	})
	for _, t := range triples {
		out.Splits[Train] = append(out.Splits[Train],
			Triple{out.Entities.Add(t[0]), out.Relations.Add(t[1]), out.Entities.Add(t[2])})
	}
	return out
}

// keepsInvariant reports whether every entity and relation of the held-out triples is in a training
// triple.
func keepsInvariant(train, held [][3]string) bool {
	return !slices.ContainsFunc(held, func(h [3]string) bool {
		has := func(is func(t [3]string) bool) bool { return slices.ContainsFunc(train, is) }
		return !has(func(t [3]string) bool { return t[0] == h[0] || t[2] == h[0] }) ||
			!has(func(t [3]string) bool { return t[0] == h[2] || t[2] == h[2] }) ||
			!has(func(t [3]string) bool { return t[1] == h[1] })
	})
}

// samePair reports whether two triples connect the same two entities.
func samePair(a, b [3]string) bool {
	return a[0] == b[0] && a[2] == b[2] || a[0] == b[2] && a[2] == b[0]
}

func TestDivide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t)
		all, withRepeats := named(g, Train), *g
		repeats, err := g.DropRepeats(context.Background())
		require.NoError(t, err)
		var distinct [][3]string
		for _, x := range all {
			if !slices.Contains(distinct, x) {
				distinct = append(distinct, x)
			}
		}
		require.Equal(t, distinct, named(g, Train))
		require.Equal(t, len(all)-len(distinct), repeats)

		d := Division{
			Valid: rapid.IntRange(0, 12).Draw(t, "valid"), Test: rapid.IntRange(0, 12).Draw(t, "test"),
			Seed: rapid.Uint64().Draw(t, "seed"), KeepPairs: rapid.Bool().Draw(t, "pairs"),
		}
		got, err := withRepeats.Divide(context.Background(), d)
		require.NoError(t, err)
		train, valid, test := named(got, Train), named(got, Valid), named(got, Test)

		// Every distinct triple is in one split, and every split keeps the order.
		for _, split := range [][][3]string{train, valid, test} {
			at := -1
			for _, x := range split {
				next := slices.Index(distinct, x)
				require.Greater(t, next, at)
				at = next
			}
		}
		together := slices.Concat(train, valid, test)
		require.ElementsMatch(t, distinct, together)

		held := slices.Concat(valid, test)
		require.True(t, keepsInvariant(train, held))
		require.LessOrEqual(t, len(valid), d.Valid)
		require.LessOrEqual(t, len(test), d.Test)
		for _, s := range []Split{Valid, Test} {
			require.Equal(t, len(got.Splits[s]) > 0, got.Has(s))
		}
		entities, relations := got.numberedByAppearance()
		require.True(t, entities && relations)

		// No further triple or pair can be held out: it would not fit, or it is needed.
		room := max(d.Valid-len(valid), d.Test-len(test))
		linked := 0
		for _, x := range train {
			group := [][3]string{x}
			if d.KeepPairs {
				group = slices.DeleteFunc(slices.Clone(train), func(y [3]string) bool { return !samePair(x, y) })
				require.False(t, slices.ContainsFunc(held, func(y [3]string) bool { return samePair(x, y) }))
			}
			rest := slices.DeleteFunc(slices.Clone(train), func(y [3]string) bool { return slices.Contains(group, y) })
			require.True(t, len(group) > room || !keepsInvariant(rest, group), "%v could be held out", group)
		}
		for _, x := range test {
			if slices.ContainsFunc(train, func(y [3]string) bool { return samePair(x, y) }) {
				linked++
			}
			if d.KeepPairs {
				require.False(t, slices.ContainsFunc(valid, func(y [3]string) bool { return samePair(x, y) }))
			}
		}
		require.Equal(t, linked, got.Linked(Test))

		// Neither the order of lines nor the identifiers matter.
		again, err := shuffled(g, d.Seed).Divide(context.Background(), d)
		require.NoError(t, err)
		for s := range NumSplits {
			require.Equal(t, sorted(got, s), sorted(again, s))
		}
	})
}

// Keys of different triples may be equal. The order of lines does not matter even then.
func TestDivideWithEqualKeys(t *testing.T) {
	for _, keepPairs := range []bool{false, true} {
		d := Division{Valid: 20, Test: 30, KeepPairs: keepPairs}
		divide := func(g *Graph) *Graph {
			v := newDivider(g, d)
			for i := range v.draws {
				v.draws[i].key %= 3
			}
			slices.SortFunc(v.draws, v.compare)
			return v.divide()
		}
		g := gridGraph(12)
		want := divide(g)
		for seed := range uint64(5) {
			got := divide(shuffled(g, seed))
			for s := range NumSplits {
				require.Equal(t, sorted(want, s), sorted(got, s))
			}
		}
	}
}

// gridGraph returns a graph of n entities. Two relations connect all pairs of entities, in both
// directions.
func gridGraph(n int32) *Graph {
	g := &Graph{Name: "grid", Entities: numberedLabels(int(n)), Relations: NewVocabulary("r", "s")}
	for h := range n {
		for t := range n {
			g.Splits[Train] = append(g.Splits[Train], Triple{h, 0, t}, Triple{h, 1, t})
		}
	}
	return g
}

// Sizes that no graph has are an error if they are negative, and otherwise hold out all that can be.
func TestDivideWithImpossibleSizes(t *testing.T) {
	g := gridGraph(6)
	for _, d := range []Division{{Valid: -50, Test: 100}, {Valid: 1, Test: -1}} {
		_, err := g.Divide(t.Context(), d)
		assert.ErrorContains(t, err, fmt.Sprintf("the sizes of valid and test are %d and %d: neither may be negative",
			d.Valid, d.Test))
	}
	got, err := g.Divide(t.Context(), Division{Valid: math.MaxInt, Test: math.MaxInt})
	require.NoError(t, err)
	assert.InDelta(t, len(got.Splits[Valid]), len(got.Splits[Test]), 25)
	assert.Less(t, len(got.Splits[Train]), 10)
}

// A graph without a train split does not get an empty one, which Write would refuse.
func TestDropRepeatsWithoutTrain(t *testing.T) {
	g := gridGraph(2)
	g.Splits[Test], g.Splits[Train] = g.Splits[Train], nil
	repeats, err := g.DropRepeats(t.Context())
	require.NoError(t, err)
	assert.Zero(t, repeats)
	assert.NoError(t, Write(t.Context(), filepath.Join(t.TempDir(), "g"), g))
}

// Where nothing constrains the draw, all triples are equally likely to be in each split, and the
// sizes are exact.
func TestDivideIsUniform(t *testing.T) {
	const seeds = 400
	g := gridGraph(10)
	counts := map[[3]string]*[NumSplits]int{}
	for _, x := range named(g, Train) {
		counts[x] = &[NumSplits]int{}
	}
	for seed := range uint64(seeds) {
		got, err := g.Divide(t.Context(), Division{Valid: 20, Test: 40, Seed: seed})
		require.NoError(t, err)
		require.Len(t, got.Splits[Train], 140)
		require.Len(t, got.Splits[Valid], 20)
		require.Len(t, got.Splits[Test], 40)
		for s := range NumSplits {
			for _, x := range named(got, s) {
				counts[x][s]++
			}
		}
	}
	for x, n := range counts {
		// The standard deviations are 6 and 8.
		assert.InDelta(t, seeds*0.1, n[Valid], 27, "%v", x)
		assert.InDelta(t, seeds*0.2, n[Test], 36, "%v", x)
	}
}

// If a graph grows by a tenth, and the splits with it, nearly all triples stay in their split, or
// leave train.
func TestDivideOfGrowingGraph(t *testing.T) {
	all := shuffled(gridGraph(40), 1)
	n := len(all.Splits[Train])
	part := *all
	part.Splits[Train] = all.Splits[Train][:n*10/11]
	old, err := part.Divide(t.Context(), Division{Valid: 100, Test: 200, Seed: 5})
	require.NoError(t, err)
	grown, err := all.Divide(t.Context(), Division{Valid: 110, Test: 220, Seed: 5})
	require.NoError(t, err)
	for s, least := range map[Split]int{Valid: 90, Test: 180} {
		stay := 0
		for _, x := range named(old, s) {
			if slices.Contains(named(grown, s), x) {
				stay++
			}
		}
		assert.GreaterOrEqual(t, stay, least, "%v", s)
	}
}

// The same seed gives the same splits in every version: users rely on it.
func TestDivideIsStable(t *testing.T) {
	g := gridGraph(5)
	got, err := g.Divide(t.Context(), Division{Valid: 2, Test: 3, Seed: 1})
	require.NoError(t, err)
	assert.Equal(t, "[[1 r 2] [2 r 0]] [[0 r 2] [1 r 0] [4 r 2]]", fmt.Sprint(named(got, Valid), named(got, Test)))
	got, err = g.Divide(t.Context(), Division{Valid: 4, Test: 4, Seed: 1, KeepPairs: true})
	require.NoError(t, err)
	assert.Equal(t, "[[3 r 4] [3 s 4] [4 r 3] [4 s 3]] [[2 r 4] [2 s 4] [4 r 2] [4 s 2]]",
		fmt.Sprint(named(got, Valid), named(got, Test)))
}

func TestOpenTriples(t *testing.T) {
	const tabbed = "a\tr\tb\r\nb\tr\ta\r\n"
	dir := writeFolder(t, map[string]string{
		"all.tsv": tabbed, "plain": tabbed, "all.txt.gz": tabbed, "all.csv.zst": tabbed,
		"all.nt.gz": "<a:a> <a:r> <a:b> .\n<a:b> <a:r> <a:a> .\n",
		"ALL.NT":    "<a:a> <a:r> <a:b> .\n<a:b> <a:r> <a:a> .\n",
		"empty.tsv": "", "bad.tsv": "a\tr\tb\na r b\n", "nt.gz": "<a:a> <a:r> <a:b> .\n",
		"a.zip": "PK\x03\x04\x14\x00", "a.tsv.bz2": "BZh91AY&SY\x00", "BZh.tsv": "BZh\tr\tb\n",
		"gzip.tsv": string(compressedText(t, "a.gz", tabbed)), "zstd.nt": string(compressedText(t, "a.zst", tabbed)),
	})
	_, err := OpenTriples(t.Context(), filepath.Join(dir, "BZh.tsv"))
	require.NoError(t, err)
	for _, name := range []string{"all.tsv", "plain", "all.txt.gz", "all.csv.zst", "all.nt.gz", "ALL.NT"} {
		var last OpenProgress
		g, err := OpenTriples(t.Context(), filepath.Join(dir, name), ReportProgress(func(p OpenProgress) { last = p }))
		require.NoError(t, err)
		assert.Equal(t, name, g.Name)
		assert.Equal(t, []Triple{{0, 0, 1}, {1, 0, 0}}, g.Splits[Train])
		assert.False(t, g.Has(Valid) || g.Has(Test))
		assert.Equal(t, int64(2), last.Lines)
		assert.Equal(t, last.Total, last.Bytes)
	}
	for name, want := range map[string]string{
		"":          dir + " is a folder: give a file of triples",
		"absent":    "reading " + filepath.Join(dir, "absent") + ": no such file or directory",
		"empty.tsv": "empty.tsv has no triples: give a file with lines head, relation, tail",
		"bad.tsv":   "bad.tsv:2: 1 field instead of 3",
		"gzip.tsv":  "gzip.tsv is compressed with gzip, but its name does not end with .gz: rename it",
		"zstd.nt":   "zstd.nt is compressed with Zstandard, but its name does not end with .zst: rename it",
		"a.zip":     "a.zip is compressed with zip, which mquine does not read: decompress it first",
		"a.tsv.bz2": "a.tsv.bz2 is compressed with bzip2, which mquine does not read: decompress it first",
		"nt.gz":     "nt.gz:1: the line is N-Triples: rename the file so that its name ends with .nt.gz",
	} {
		_, err := OpenTriples(t.Context(), filepath.Join(dir, name))
		assert.ErrorContains(t, err, want)
		assert.NotContains(t, err.Error(), "\n")
	}

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = OpenTriples(cancelled, filepath.Join(dir, "all.tsv"))
	assert.ErrorIs(t, err, context.Canceled)
	g := gridGraph(3)
	_, err = g.Divide(cancelled, Division{Test: 1})
	assert.ErrorIs(t, err, context.Canceled)
	_, err = g.DropRepeats(cancelled)
	assert.ErrorIs(t, err, context.Canceled)
}

// A file in place of a data set, and a folder without splits, are errors that name the command that
// makes splits.
func TestOpenNamesTheCommandThatSplits(t *testing.T) {
	dir := writeFolder(t, map[string]string{"all.tsv": trainText})
	t.Setenv("MQUINE_DATA", t.TempDir())
	t.Chdir(dir)
	for _, dataset := range []string{"all.tsv", "./all.tsv", dir} {
		_, err := Open(t.Context(), dataset)
		require.ErrorContains(t, err, `"mquine data split FILE --out DIR"`)
		assert.False(t, strings.HasSuffix(err.Error(), "."))
	}
}
