package kg

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mquine/mquine/internal/compressed"
)

const (
	trainText = "anna\tlikes\tbert\nbert\tlikes\tclara\nclara\tknows\tanna\n"
	validText = "dora\tlikes\tanna\n"
	testText  = "anna\thates\temil\n"
)

func TestOpenNumbersLabelsByAppearance(t *testing.T) {
	g, err := Open(t.Context(), writeFolder(t, map[string]string{
		"train.txt": trainText, "valid.txt": validText, "test.txt": testText,
	}))
	require.NoError(t, err)
	assert.Equal(t, []string{"anna", "bert", "clara", "dora", "emil"}, g.Entities.Labels())
	assert.Equal(t, []string{"likes", "knows", "hates"}, g.Relations.Labels())
	assert.Equal(t, [NumSplits][]Triple{
		Train: {{0, 0, 1}, {1, 0, 2}, {2, 1, 0}},
		Valid: {{3, 0, 0}},
		Test:  {{0, 2, 4}},
	}, g.Splits)
	assert.Equal(t, []string{
		"2 entities occur in no training triple",
		"1 relation occurs in no training triple",
	}, g.Notes)
}

func TestOpenReadsEveryFormOfASplit(t *testing.T) {
	want := [][3]string{{"anna", "likes", "bert"}, {"bert", "likes", "clara"}, {"clara", "knows", "anna"}}
	for form, text := range map[string]string{
		"plain":              trainText,
		"CRLF":               strings.ReplaceAll(trainText, "\n", "\r\n"),
		"no last line end":   strings.TrimSuffix(trainText, "\n"),
		"lone CR at the end": strings.TrimSuffix(trainText, "\n") + "\r",
		"byte order mark":    "\ufeff" + trainText,
		"blank last line":    trainText + "\n",
		"blank last CRLF":    trainText + "\r\n",
	} {
		for _, compression := range compressed.Extensions() {
			t.Run(form+compression, func(t *testing.T) {
				g, err := Open(t.Context(), writeFolder(t, map[string]string{"train.txt" + compression: text}))
				require.NoError(t, err)
				assert.Equal(t, want, named(g, Train))
			})
		}
	}
}

func TestOpenDoesNotChangeLabels(t *testing.T) {
	g, err := Open(t.Context(), writeFolder(t, map[string]string{"train.txt": "00260881\t /a/b \tZoë 漢\u00a0\n"}))
	require.NoError(t, err)
	assert.Equal(t, [][3]string{{"00260881", " /a/b ", "Zoë 漢\u00a0"}}, named(g, Train))
}

func TestOpenDistinguishesMissingAndEmptySplits(t *testing.T) {
	g, err := Open(t.Context(), writeFolder(t, map[string]string{"train.txt": trainText, "test.txt": testText}))
	require.NoError(t, err)
	assert.True(t, g.Has(Train))
	assert.False(t, g.Has(Valid))
	assert.Nil(t, g.Splits[Valid])
	assert.Contains(t, g.Notes, `there is no split "valid"`)
	_, err = g.Triples(Valid)
	assert.ErrorContains(t, err, "has no valid split: put valid.txt")

	for name, text := range map[string]string{
		"valid.txt":     "",
		"valid.txt.gz":  "",
		"valid.txt.zst": "\n",
		"valid.nt":      "# no statement\n\n",
		"valid.nt.gz":   "\n",
	} {
		dir := writeFolder(t, map[string]string{"train.txt": trainText, name: text, "test.txt": testText})
		_, err := Open(t.Context(), dir)
		assert.EqualError(t, err, filepath.Join(dir, name)+
			" has no triples: remove the file if the data set has no valid split, or fetch or copy it again")
	}
}

func TestOpenRecognisesGitLFSPointers(t *testing.T) {
	const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
	for _, name := range []string{"test.txt", "test.txt.gz", "test.nt.zst", "entities.dict", "relations.txt.gz"} {
		dir := writeFolder(t, map[string]string{"train.txt": trainText})
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(pointer), 0o644)) // never compressed
		_, err := Open(t.Context(), dir)
		assert.EqualError(t, err, "reading "+filepath.Join(dir, name)+
			": it is a Git LFS pointer, not the file itself: run \"git lfs pull\" in its repository and copy it again")
	}
}

func TestOpenNotesDefects(t *testing.T) {
	g, err := Open(t.Context(), writeFolder(t, map[string]string{
		"train.txt": "a\tr\tb\na\tr\tb\nb\tr\ta\na\tr\tb\n",
		"valid.txt": "a\tr\tb\nb\tr\ta\n",
		"test.txt":  "a\tr\tb\na\tr\tc\n",
	}))
	require.NoError(t, err)
	assert.Len(t, g.Splits[Train], 4)
	assert.Equal(t, []string{
		"train: 2 triples repeat an earlier one; repeats remain queries, but count only once as known answers " +
			"and in training",
		"train and valid share 2 triples",
		"train and test share 1 triple",
		"valid and test share 1 triple",
		"1 entity occurs in no training triple",
	}, g.Notes)
}

// Labels that only Unicode normalization makes equal are different, and a note says so.
func TestLabelsInUnicodeForms(t *testing.T) {
	g, err := Open(t.Context(), writeFolder(t, map[string]string{
		"train.txt": "caf\u00e9\tr\ta\ncafe\u0301\tr\tb\ncafe\tr\tb\nA\u030a\tr\ta\n\u212b\tr\ta\n",
		"valid.txt": "a\tr\tb\n", "test.txt": "b\tr\ta\n",
	}))
	require.NoError(t, err)
	assert.Equal(t, []string{ // neither form of Å is NFC, and one of the two counts
		`2 entities differ from another one only in Unicode normalization, such as "cafe\u0301": ` +
			"if they are the same, write all labels in the form NFC",
	}, g.Notes)
}

// Labels that differ only in spaces at the ends are different, and a note says so. Suggestions show the
// spaces.
func TestLabelsWithSpaces(t *testing.T) {
	g, err := Open(t.Context(), writeFolder(t, map[string]string{
		"train.txt": "flu\tr\tb\nflu \tr\ta\n cold\tr\ta\na\tr\t\u00a0b\na\tr \tb\n",
		"valid.txt": "a\tr\tb\n", "test.txt": "b\tr\ta\n",
	}))
	require.NoError(t, err)
	assert.Equal(t, []string{
		`2 entities differ from another one only in spaces at the ends, such as "flu ": if they are the same, ` +
			"remove the spaces",
		`1 relation differs from another one only in spaces at the ends, such as "r ": if they are the same, ` +
			"remove the spaces",
	}, g.Notes)
	single, err := OpenTriples(t.Context(), filepath.Join(g.Dir, "train.txt"))
	require.NoError(t, err)
	assert.Equal(t, g.Notes, single.Notes)
	_, err = g.Entities.Find("the graph", "entity", "flux")
	assert.EqualError(t, err, `the graph has no entity "flux"; did you mean flu, "flu "`)
	_, err = g.Entities.Find("the graph", "entity", "cold")
	assert.EqualError(t, err, `the graph has no entity "cold"; did you mean " cold"`)
}

// Data after the end of a gzip archive are not called a truncation.
func TestOpenRejectsDataAfterAnArchive(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "train.txt.gz")
	archive := compressedText(t, path, "a\tr\tb\n")
	for _, c := range []struct{ more, want string }{
		{"more", path + ": other data follow the end of the gzip archive: remove them, or fetch the file again"},
		{"\x00", path + ": other data follow the end of the gzip archive: remove them, or fetch the file again"},
		{string(archive[:12]), path + ":2: cannot read any further (unexpected EOF): the file may be damaged or " +
			"truncated; fetch it again"},
	} {
		require.NoError(t, os.WriteFile(path, []byte(string(archive)+c.more), 0o644))
		_, err := Open(t.Context(), dir)
		assert.EqualError(t, err, c.want)
	}
}

func TestOpenRejectsMalformedLines(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"two fields": {"a\tr\tb\na\tr\n", "train.txt:2: 2 fields instead of 3: " +
			"a line is head, relation and tail, separated by tabs"},
		"spaces":          {"a r b\n", "train.txt:1: 1 field instead of 3"},
		"commas":          {"a,r,b\n", "train.txt:1: the fields are separated by commas: replace them with tabs"},
		"quoted commas":   {"\"a, b\",r,c\n", "train.txt:1: the fields are separated by commas"},
		"one comma":       {"a r, b\n", "train.txt:1: 1 field instead of 3"},
		"commas and tabs": {"a,b\tr,c\n", "train.txt:1: 2 fields instead of 3"},
		"N-Triples": {"<x:a> <x:r> <x:b> .\n",
			"train.txt:1: the line is N-Triples: rename the file so that its name ends with .nt"},
		"comment":         {"# comment\n", "train.txt:1: 1 field instead of 3"},
		"five fields":     {"a\tr\tb\t1\t2\n", "train.txt:1: 5 fields instead of 3"},
		"empty head":      {"a\tr\tb\n\tr\tb\n", "train.txt:2: head: empty label"},
		"empty relation":  {"a\t\tb\n", "train.txt:1: relation: empty label"},
		"empty tail":      {"a\tr\t\r\n", "train.txt:1: tail: empty label"},
		"blank line":      {"a\tr\tb\n\na\tr\tb\n", "train.txt:2: blank line"},
		"two blank lines": {"a\tr\tb\n\n\n", "train.txt:2: blank line"},
		"NUL":             {"a\tr\tb\x00\n", "train.txt:1: tail: label contains a NUL"},
		"carriage return": {"a\rb\tr\tc\n", "train.txt:1: head: label contains a carriage return: remove it, or write"},
		"bad UTF-8":       {"a\tr\tb\na\tr\xff\tb\n", "train.txt:2: relation: label is not valid UTF-8"},
		"UTF-16":          {"\xff\xfea\x00\t\x00r\x00\t\x00b\x00\n\x00", "train.txt:1: head: label is not valid UTF-8"},
		"over-long line": {"a\tr\tb\n" + strings.Repeat("x", maxLine) + "\n",
			"train.txt:2: line is longer than 256 KiB"},
		"endless line": {strings.Repeat("x", 3*maxLine), "train.txt:1: line is longer than 256 KiB"},
		"over-long label": {"a\tr\tb\n" + strings.Repeat("x", maxLabel+1) + "\tr\tb\n",
			"train.txt:2: head: label has 87,361 bytes, more than the limit of 87,360: shorten it"},
		"inner BOM": {"a\tr\tb\n\ufeffa\tr\tb\n", "train.txt:2: head: label starts with a byte order mark"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := writeFolder(t, map[string]string{"train.txt": c.text})
			_, err := Open(t.Context(), dir)
			require.ErrorContains(t, err, filepath.Join(dir, c.want))
			assert.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestOpenReportsTheFirstBadSplit(t *testing.T) {
	dir := writeFolder(t, map[string]string{
		"train.txt": strings.Repeat(trainText, 1000) + "bad\n", "valid.txt": "bad\n", "test.txt": "bad\n",
	})
	_, err := Open(t.Context(), dir)
	assert.ErrorContains(t, err, "train.txt:3001:")
}

func TestOpenRejectsDamagedArchives(t *testing.T) {
	for _, name := range []string{"train.txt.gz", "train.txt.zst"} {
		whole := compressedText(t, name, strings.Repeat(trainText, 50))
		dir := t.TempDir()
		path := filepath.Join(dir, name)
		read := func(content []byte) error {
			require.NoError(t, os.WriteFile(path, content, 0o644))
			_, err := Open(t.Context(), dir)
			return err
		}
		require.NoError(t, read(whole))
		for cut := range len(whole) {
			assert.ErrorContains(t, read(whole[:cut]), path, "cut to %d of %d bytes", cut, len(whole))
		}
		flipped := bytes.Clone(whole)
		flipped[len(flipped)-6] ^= 1 // in the checksum, or the last block before it
		assert.ErrorContains(t, read(flipped), path)
		assert.ErrorContains(t, read([]byte(trainText)), path)
	}
}

func TestOpenRejectsUnclearFolders(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"nothing":     {nil, "is not a data set: it needs train.txt, valid.txt or test.txt"},
		"other files": {map[string]string{"train.csv": ""}, "is not a data set"},
		"other extension": {map[string]string{"train.tsv": "", "valid.tsv.gz": "", "entities.tsv": ""},
			"is not a data set: rename train.tsv, valid.tsv.gz to train.txt, valid.txt.gz"},
		"two compressions": {map[string]string{"train.txt": "", "train.txt.gz": ""},
			"has both train.txt and train.txt.gz: remove one"},
		"two formats": {map[string]string{"test.txt.zst": "", "test.nt": ""}, "has both test.txt.zst and test.nt"},
		"two vocabularies": {map[string]string{"train.txt": "", "entities.dict": "", "entities.tsv.gz": ""},
			"has both entities.dict and entities.tsv.gz"},
		"two relation forms": {map[string]string{"train.txt": "", "relation_ids.del": "", "relations.txt": ""},
			"has both relation_ids.del and relations.txt"},
		"entity not in its file": {map[string]string{"train.txt": "a\tr\tb\n", "entities.txt": "a\n"},
			`train.txt:1: tail: "b" is missing from the vocabulary file`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(t.Context(), writeFolder(t, c.files))
			assert.ErrorContains(t, err, c.want)
		})
	}

	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "train.txt"), 0o755))
	_, err := Open(t.Context(), dir)
	assert.ErrorContains(t, err, "is a folder")

	_, err = Open(t.Context(), filepath.Join(dir, "absent"))
	absent := filepath.Join(dir, "absent")
	assert.EqualError(t, err, "data set folder "+absent+": no such file or directory")
	file := filepath.Join(writeFolder(t, map[string]string{"train.txt": trainText}), "train.txt")
	_, err = Open(t.Context(), file)
	assert.ErrorContains(t, err, "is a file: give the folder that contains it")
	_, err = Open(t.Context(), "")
	assert.ErrorContains(t, err, "no data set named")
}

func TestOpenLooksUpNames(t *testing.T) {
	data := t.TempDir()
	t.Setenv("MQUINE_DATA", data)
	_, err := Open(t.Context(), "family")
	assert.EqualError(t, err, fmt.Sprintf(`no data set "family" in %s (it has no data sets): `+
		`run "mquine data list" to see the public data sets, or set MQUINE_DATA to the folder that contains it`, data))

	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir("family", 0o755))
	_, err = Open(t.Context(), "family")
	assert.EqualError(t, err, fmt.Sprintf(`no data set "family" in %s: to use the folder of that name in the `+
		"working directory, write ./family", data))
	require.NoError(t, os.Remove("family"))

	for _, name := range []string{"alpha", "beta", "families", "gamma", "delta", "epsilon", ".hidden"} {
		require.NoError(t, os.Mkdir(filepath.Join(data, name), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(data, name, "train.txt"), []byte(trainText), 0o644))
	}
	require.NoError(t, os.Mkdir(filepath.Join(data, "no-data"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(data, "README"), nil, 0o644))

	names, err := Installed()
	require.NoError(t, err)
	assert.Equal(t, []string{"alpha", "beta", "delta", "epsilon", "families", "gamma"}, names)

	g, err := Open(t.Context(), "families")
	require.NoError(t, err)
	assert.Equal(t, "families", g.Name)
	assert.Equal(t, filepath.Join(data, "families"), g.Dir)

	_, err = Open(t.Context(), "Familie")
	assert.ErrorContains(t, err, "(it has families, ")
	assert.ErrorContains(t, err, " and 1 more)")
	_, err = Open(t.Context(), "no-data")
	assert.ErrorContains(t, err, "no-data is not a data set")

	t.Chdir(filepath.Join(data, "beta"))
	g, err = Open(t.Context(), ".")
	require.NoError(t, err)
	assert.Equal(t, "beta", g.Name)
}

func TestDataDirIsInTheCacheByDefault(t *testing.T) {
	t.Setenv("MQUINE_DATA", "")
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skip(err)
	}
	dir, err := DataDir()
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(cache, "mquine", "datasets"), dir)
}

func TestDataDirIsNotAFile(t *testing.T) {
	file := filepath.Join(writeFolder(t, map[string]string{"file": ""}), "file")
	t.Setenv("MQUINE_DATA", file)
	_, err := Open(t.Context(), "umls")
	assert.EqualError(t, err,
		"MQUINE_DATA names "+file+", which is not a folder: set it to the folder of the data sets")
}

func TestOpenStopsWhenCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Open(ctx, writeFolder(t, map[string]string{"train.txt": trainText}))
	assert.ErrorIs(t, err, context.Canceled)
}

// Reading the splits in parallel gives the same graph as reading the three files one after another.
func TestOpenEqualsASequentialReading(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		var want Graph
		want.Entities, want.Relations = NewVocabulary(), NewVocabulary()
		entity := rapid.StringMatching(`[a-f]{1,2}`)
		relation := rapid.StringMatching(`r[1-4]`)
		for s := range NumSplits {
			var text strings.Builder
			want.Splits[s] = []Triple{}
			for range rapid.IntRange(1, 12).Draw(t, "lines") {
				h, r, o := entity.Draw(t, "head"), relation.Draw(t, "relation"), entity.Draw(t, "tail")
				fmt.Fprintf(&text, "%s\t%s\t%s\n", h, r, o)
				head := want.Entities.Add(h)
				want.Splits[s] = append(want.Splits[s], Triple{head, want.Relations.Add(r), want.Entities.Add(o)})
			}
			if err := os.WriteFile(filepath.Join(dir, s.String()+".txt"), []byte(text.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := Open(context.Background(), dir)
		require.NoError(t, err)
		assert.Equal(t, want.Splits, got.Splits)
		assert.Equal(t, want.Entities.Labels(), got.Entities.Labels())
		assert.Equal(t, want.Relations.Labels(), got.Relations.Labels())
	})
}

func FuzzReadTriples(f *testing.F) {
	for _, seed := range []string{
		trainText, "\ufeffa\tr\tb\r\n\n", "\ufeff\ufeffa\tr\tb\n",
		"a\tr\n", "a\t\tb", "\n\n", "a\tr\tb\x00\n", "\xff\tr\tb",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		table := newTripleTable(nil, nil, defaultLimits.triples)
		if err := readTriples(newLines(t.Context(), "fuzz", bytes.NewReader(text)), table.add); err != nil {
			assert.Contains(t, err.Error(), "fuzz:")
			return
		}
		// The triples can be written and read back.
		var again strings.Builder
		g := &Graph{Entities: table.entities, Relations: table.relations}
		require.NoError(t, g.Entities.Check())
		require.NoError(t, g.Relations.Check())
		g.Splits[Train] = table.triples
		for _, labels := range named(g, Train) {
			fmt.Fprintln(&again, strings.Join(labels[:], "\t"))
		}
		second := newTripleTable(nil, nil, defaultLimits.triples)
		require.NoError(t, readTriples(newLines(t.Context(), "again", strings.NewReader(again.String())), second.add))
		assert.Equal(t, table, second)
	})
}
