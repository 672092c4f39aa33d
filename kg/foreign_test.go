package kg

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// openKE and libKGE hold the same graph, as the tools write it.
var (
	openKE = map[string]string{
		"entity2id.txt":   "4\nanna\t0\nbob\t2\nzoë with a space\t1\nunused\t3\n",
		"relation2id.txt": "2\r\nlikes\t1\r\nknows\t0\r\n",
		"train2id.txt":    "3\n0 2 1\n2\t1\t0\n0 2 1 \n",
		"valid2id.txt.gz": "1\n1 0 0\n",
		"test2id.txt":     "1\n2 2 1\n\n",
		"test2id_all.txt": "not read",
	}
	libKGE = map[string]string{
		"entity_ids.del":   "0\tanna\n1\tzoë with a space\n2\tbob\n3\tunused\n",
		"relation_ids.del": "0\tknows\n1\tlikes\n",
		"train.del":        "0\t1\t2\n2\t0\t1\n0\t1\t2\n",
		"valid.del":        "1\t0\t0\n",
		"test.del.zst":     "2\t1\t2\n",
		"dataset.yaml":     "not read",
	}
	foreignGraph = map[string]string{
		"entities.tsv":  "0\tanna\n1\tzoë with a space\n2\tbob\n3\tunused\n",
		"relations.tsv": "0\tknows\n1\tlikes\n",
		"train.txt":     "anna\tlikes\tbob\nbob\tknows\tzoë with a space\nanna\tlikes\tbob\n",
		"valid.txt":     "zoë with a space\tknows\tanna\n",
		"test.txt":      "bob\tlikes\tbob\n",
	}
)

func TestForeignFiles(t *testing.T) {
	want, err := Open(t.Context(), writeFolder(t, foreignGraph))
	require.NoError(t, err)
	for tool, files := range map[string]map[string]string{"OpenKE": openKE, "LibKGE": libKGE} {
		dir := writeFolder(t, files)
		got, err := Open(t.Context(), dir, ForeignFiles())
		require.NoError(t, err)
		assert.Equal(t, want.Splits, got.Splits, tool)
		assert.Equal(t, want.Entities.Labels(), got.Entities.Labels(), tool)
		assert.Equal(t, want.Relations.Labels(), got.Relations.Labels(), tool)
		assert.Equal(t, want.Notes, got.Notes, tool)

		_, err = Open(t.Context(), dir)
		assert.EqualError(t, err, dir+" has the files of "+tool+
			`: install the data set with "mquine data import DIR --name NAME", which can read them`)
	}

	// LibKGE keeps the original files beside its own.
	both := maps.Clone(libKGE)
	both["train.txt"] = "anna\tlikes\tbob\n"
	g, err := Open(t.Context(), writeFolder(t, both), ForeignFiles())
	require.NoError(t, err)
	assert.Equal(t, [NumSplits][]Triple{Train: {{Head: 0, Relation: 1, Tail: 2}}}, g.Splits)
}

func TestForeignFilesRefused(t *testing.T) {
	for name, c := range map[string]struct {
		files      map[string]string
		file, text string // "" removes the file
		want       string
	}{
		"too few": {openKE, "train2id.txt", "3\n0 2 1\n",
			"train2id.txt:1: the file should have 3 triples, but has 1"},
		"too many": {openKE, "train2id.txt", "0\n0 2 1\n",
			"train2id.txt:1: the file should have 0 triples, but has 1"},
		"no count": {openKE, "train2id.txt", "0 2 1\n",
			`train2id.txt:1: the first line is "0 2 1", not the number of triples`},
		"empty file": {openKE, "train2id.txt", "\n", "train2id.txt:1: the file is empty"},
		"no triples": {openKE, "train2id.txt", "0\n", "train2id.txt has no triples"},
		"entity": {openKE, "train2id.txt", "1\n0 4 1\n",
			`train2id.txt:2: tail: "4" is not an identifier in entity2id.txt, which has 4 labels`},
		"relation": {openKE, "train2id.txt", "1\n0 1 2\n",
			`train2id.txt:2: relation: "2" is not an identifier in relation2id.txt, which has 2 labels`},
		"negative": {libKGE, "train.del", "-1\t0\t0\n",
			`train.del:1: head: "-1" is not an identifier in entity_ids.del`},
		"label": {libKGE, "train.del", "0\tlikes\t2\n",
			`train.del:1: relation: "likes" is not an identifier in relation_ids.del`},
		"two fields": {libKGE, "train.del", "0\t1\t2\n0\t1\n",
			"train.del:2: 2 fields instead of 3: a line is the identifiers of head, relation and tail"},
		"four fields": {openKE, "train2id.txt", "1\n0 1 1 1\n",
			"train2id.txt:2: 4 fields instead of 3: a line is the identifiers of head, tail and relation"},
		"blank line": {libKGE, "train.del", "0\t1\t2\n\n0\t1\t2\n", "train.del:2: blank line"},
		"no labels": {libKGE, "relation_ids.del", "",
			"needs entity_ids.del and relation_ids.del, which give the labels of the identifiers in " +
				"the files of LibKGE"},
		"vocabulary": {openKE, "entity2id.txt", "2\nanna\t0\n",
			"entity2id.txt:1: the file should have 2 labels, but has 1"},
	} {
		files := maps.Clone(c.files)
		if files[c.file] = c.text; c.text == "" {
			delete(files, c.file)
		}
		_, err := Open(t.Context(), writeFolder(t, files), ForeignFiles())
		assert.ErrorContains(t, err, c.want, name)
	}
	_, err := Open(t.Context(), writeFolder(t, map[string]string{"train.del": "", "train.del.gz": ""}), ForeignFiles())
	assert.ErrorContains(t, err, "has both train.del and train.del.gz")
}

func FuzzForeignTriples(f *testing.F) {
	for _, seed := range []string{
		"3\n0 2 1\n2\t1\t0\n0 2 1 \n", "0\t1\t2\n", "-1 0 0\n", "1\n\n", "\n", "1\n0 1\n", "9\n9 9 9\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		for _, layout := range foreignLayouts {
			table := newTripleTable(numberedLabels(4), numberedLabels(3), 5)
			if err := layout.readTriples(newLines(t.Context(), "fuzz", bytes.NewReader(content)), &table); err != nil {
				assert.Contains(t, err.Error(), "fuzz:")
				continue
			}
			var again strings.Builder
			if layout.count {
				fmt.Fprintln(&again, len(table.triples))
			}
			for _, triple := range table.triples {
				ids := [3]int32{triple.Head, triple.Relation, triple.Tail}
				var line [3]string
				for part, column := range layout.columns {
					line[column] = fmt.Sprint(ids[part])
				}
				fmt.Fprintln(&again, strings.Join(line[:], "\t"))
			}
			second := newTripleTable(numberedLabels(4), numberedLabels(3), 5)
			lines := newLines(t.Context(), "again", strings.NewReader(again.String()))
			require.NoError(t, layout.readTriples(lines, &second))
			assert.True(t, slices.Equal(table.triples, second.triples))
		}
	})
}
