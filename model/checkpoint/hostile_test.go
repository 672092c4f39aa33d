package checkpoint_test

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/model/checkpoint"
)

// pickler writes the instructions of a pickle.
type pickler struct{ bytes.Buffer }

func (p *pickler) text(s string) {
	p.WriteByte('X')
	p.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(s))))
	p.WriteString(s)
}

func (p *pickler) number(n int64) {
	p.WriteString("\x8a\x08")
	p.Write(binary.LittleEndian.AppendUint64(nil, uint64(n)))
}

func (p *pickler) tuple(numbers ...int64) {
	p.WriteByte('(')
	for _, n := range numbers {
		p.number(n)
	}
	p.WriteByte('t')
}

// tensorPickle describes a tensor in a pickle of torch.save.
type tensorPickle struct {
	name, key     string
	count, offset int64
	shape, stride []int64
}

// state returns the pickle of a dictionary of float32 tensors.
func state(tensors ...tensorPickle) string {
	var p pickler
	p.WriteString("\x80\x02}(")
	for _, t := range tensors {
		p.text(t.name)
		p.WriteString("ctorch._utils\n_rebuild_tensor_v2\n((")
		p.text("storage")
		p.WriteString("ctorch\nFloatStorage\n")
		p.text(t.key)
		p.text("cpu")
		p.number(t.count)
		p.WriteString("tQ")
		p.number(t.offset)
		p.tuple(t.shape...)
		p.tuple(t.stride...)
		p.WriteString("\x89}tR")
	}
	p.WriteString("u.")
	return p.String()
}

// zipOf returns an archive of the given records, each a name and its contents.
func zipOf(t testing.TB, method uint16, records ...[2]string) []byte {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, r := range records {
		w, err := z.CreateHeader(&zip.FileHeader{Name: r[0], Method: method})
		require.NoError(t, err)
		_, err = io.WriteString(w, r[1])
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	return out.Bytes()
}

// system is a pickle that calls os.system when Python loads it.
const system = "\x80\x02cposix\nsystem\nX\x0c\x00\x00\x00touch called\x85R."

// nestedSystem is a dictionary whose entry "state_dict" is the result of a call to os.system. The
// pickle names the function with the instruction STACK_GLOBAL instead of GLOBAL.
const nestedSystem = "\x80\x04}\x8c\x0astate_dict}\x8c\x01x\x8c\x02os\x8c\x06system\x93\x8c\x0ctouch called\x85Rss."

// hostileTorch returns hostile torch files. The keys say what is wrong with them.
func hostileTorch(t testing.TB) map[string][]byte {
	const huge = 1 << 40
	stored := func(code string, more ...[2]string) []byte {
		return zipOf(t, zip.Store, append([][2]string{{"archive/data.pkl", code}}, more...)...)
	}
	elements := [2]string{"archive/data/0", strings.Repeat("\x00\x00\x80\x3f", 16)}
	one := func(count, offset int64, shape, stride []int64) []byte {
		return stored(state(tensorPickle{"x", "0", count, offset, shape, stride}), elements)
	}
	files := map[string][]byte{
		"calls os.system":       []byte(system),
		"an archive that calls": stored(system),
		"nested calls":          stored(nestedSystem),
		"a reconstructor": stored("\x80\x02ccopyreg\n_reconstructor\n(cos\npopen\n" +
			"c__builtin__\nobject\nNtR."),
		"eval":                      stored("\x80\x02cbuiltins\neval\nX\x01\x00\x00\x001\x85R."),
		"an extension":              stored("\x80\x02\x82\x01."),
		"huge shape":                one(16, 0, []int64{huge, huge}, []int64{huge, 1}),
		"large shape":               one(16, 0, []int64{huge}, []int64{1}),
		"repeated elements":         one(16, 0, []int64{huge, 16}, []int64{0, 1}),
		"huge stride":               one(16, 0, []int64{4, 4}, []int64{huge, 1}),
		"stride that overflows":     one(16, 0, []int64{4, 4}, []int64{math.MaxInt64, 1}),
		"negative stride":           one(16, 15, []int64{16}, []int64{-1}),
		"negative shape":            one(16, 0, []int64{-4, -4}, []int64{4, 1}),
		"offset":                    one(16, 16, []int64{16}, []int64{1}),
		"negative offset":           one(16, -1, []int64{4}, []int64{1}),
		"huge storage":              one(huge, 0, []int64{4, 4}, []int64{4, 1}),
		"storage that overflows":    one(1<<62, 0, []int64{4, 4}, []int64{4, 1}),
		"negative storage":          one(-1, 0, []int64{4, 4}, []int64{4, 1}),
		"strides for another shape": one(16, 0, []int64{4, 4}, []int64{1}),
		"missing storage": stored(state(
			tensorPickle{"x", "7", 16, 0, []int64{16}, []int64{1}}), elements),
		"one storage, two sizes": stored(state(tensorPickle{"x", "0", 16, 0, []int64{16}, []int64{1}},
			tensorPickle{"y", "0", 8, 0, []int64{8}, []int64{1}}), elements),
		"storage outside the archive": stored(state(
			tensorPickle{"x", "../../../../etc/passwd", 16, 0, []int64{16}, []int64{1}}), elements),
		"pickle outside the archive": zipOf(t, zip.Store, [2]string{"../../data.pkl", state()}),
		"absolute pickle":            zipOf(t, zip.Store, [2]string{"/etc/data.pkl", state()}),
		"two pickles": zipOf(t, zip.Store, [2]string{"a/data.pkl", state()},
			[2]string{"b/data.pkl", state()}),
		"one record twice": stored(state(), elements, elements),
		"compressed":       zipOf(t, zip.Deflate, [2]string{"archive/data.pkl", strings.Repeat("\x00", 1<<22)}),
		"compressed storage": zipOf(t, zip.Deflate, [2]string{"archive/data.pkl", state(
			tensorPickle{"x", "0", 1 << 20, 0, []int64{1 << 20}, []int64{1}})},
			[2]string{"archive/data/0", strings.Repeat("\x00", 1<<22)}),
		"big-endian":        stored(state(), [2]string{"archive/byteorder", "big"}),
		"long string":       stored("\x80\x04\x8d\x00\x00\x00\x00\x00\x00\x00\x40."),
		"long number":       stored("\x80\x02\x8b\xff\xff\xff\x7f."),
		"nested lists":      stored("\x80\x02" + strings.Repeat("]", 1<<16) + strings.Repeat("a", 1<<16-1) + "."),
		"doubled tuples":    stored("\x80\x02)" + strings.Repeat("2\x86", 1<<16) + "."),
		"list in itself":    stored("\x80\x02]q\x00h\x00a."),
		"protocol 0":        stored("cos\nsystem\n(S'ls'\ntR."),
		"protocol 99":       stored("\x80\x63."),
		"an empty pickle":   stored(""),
		"an empty archive":  zipOf(t, zip.Store),
		"no dictionary":     stored("\x80\x02K\x01."),
		"text":              []byte("version https://git-lfs.github.com/spec/v1\n"),
		"a beginning":       []byte("PK\x03\x04"),
		"an old pickle":     []byte("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."),
		"overlapping tails": overlapping(t),
	}
	return files
}

// overlapping returns an archive in which the entries of many storages refer to the same bytes.
// Computing all their checksums would take much longer than reading the file once.
func overlapping(t testing.TB) []byte {
	const storages = 64
	var tensors []tensorPickle
	records := [][2]string{{"archive/data.pkl", ""}}
	for i := range storages {
		key := fmt.Sprintf("%02d", i)
		tensors = append(tensors, tensorPickle{"t" + key, key, 1 << 12, 0, []int64{1 << 12}, []int64{1}})
		contents := ""
		if i == 0 {
			contents = strings.Repeat("\x00", 1<<14)
		}
		records = append(records, [2]string{"archive/data/" + key, contents})
	}
	records[0][1] = state(tensors...)
	file := zipOf(t, zip.Store, records...)
	// Make the entries of the central directory refer to the first storage.
	first := bytes.Index(file, []byte("PK\x01\x02"))
	var offset, sizes []byte
	for at := first; at >= 0 && at+46 < len(file); {
		name := string(file[at+46:][:binary.LittleEndian.Uint16(file[at+28:])])
		switch {
		case name == "archive/data/00":
			offset, sizes = bytes.Clone(file[at+42:][:4]), bytes.Clone(file[at+16:][:12])
		case strings.HasPrefix(name, "archive/data/"):
			copy(file[at+42:], offset)
			copy(file[at+16:], sizes)
		}
		next := bytes.Index(file[at+4:], []byte("PK\x01\x02"))
		if next < 0 {
			break
		}
		at += 4 + next
	}
	return file
}

// hostileNpy returns hostile .npy files.
func hostileNpy() map[string][]byte {
	array := func(descr, order, shape string) []byte {
		header := fmt.Sprintf("{'descr': %s, 'fortran_order': %s, 'shape': %s, }", descr, order, shape)
		file := binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(header)))
		return append(append(file, header...), make([]byte, 64)...)
	}
	return map[string][]byte{
		"huge shape":      array("'<f4'", "False", "(1099511627776, 1099511627776)"),
		"large shape":     array("'<f4'", "False", "(1099511627776,)"),
		"negative shape":  array("'<f4'", "False", "(-1, 16)"),
		"many axes":       array("'<f4'", "False", "("+strings.Repeat("1,", 4096)+")"),
		"objects":         array("'|O'", "False", "(2, 8)"),
		"records":         array("[('x', '<f4')]", "False", "(2, 8)"),
		"Fortran":         array("'<f4'", "True", "(2, 8)"),
		"code":            array("__import__('os').system('touch called')", "False", "(2, 8)"),
		"another shape":   array("'<f4'", "False", "(4, 4)"),
		"long header":     []byte("\x93NUMPY\x02\x00\xff\xff\xff\xff{"),
		"version":         []byte("\x93NUMPY\x09\x00\x10\x00{}"),
		"a pickled array": []byte("\x93NUMPY\x01\x00\x02\x00{}" + system),
		"an archive":      []byte("PK\x03\x04"),
	}
}

// hostileText returns hostile vocabularies, by what is wrong with them.
func hostileText(t testing.TB) map[string][]byte {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	for range 1 << 9 {
		_, err := z.Write(make([]byte, 1<<16))
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	return map[string][]byte{
		"a long line": bytes.Repeat([]byte("x"), 1<<20), "zeros": make([]byte, 1<<16), "compressed zeros": bomb.Bytes(),
		"a huge identifier": []byte("99999999999999999999\ta\n"), "a large identifier": []byte("2147483647\ta\n"),
		"a negative identifier": []byte("-1\ta\n"), "one label": []byte("0\ta\n"), "no tab": []byte("0 a\n"),
	}
}

// hostileOptions returns hostile JSON files of options.
func hostileOptions() map[string][]byte {
	return map[string][]byte{
		"nested": []byte(strings.Repeat("[", 1<<16)), "long": bytes.Repeat([]byte(" "), 1<<21),
		"numbers": []byte(`{"model":"RotatE","hidden_dim":1e99,"gamma":1e999,"nentity":1e99,"rank":-1,"format":7}`),
	}
}

// kindOf returns the kind of hostile files that can replace a file.
func kindOf(name string) string {
	switch filepath.Ext(name) {
	case ".model", ".pt", ".pkl", ".ckpt", ".chkpnt":
		return "torch"
	case ".npy":
		return "npy"
	case ".json":
		return "options"
	case ".dict", ".del", ".txt", ".gz", ".tsv", "":
		return "text"
	}
	return ""
}

// truncated returns prefixes of a file.
func truncated(contents []byte) map[string][]byte {
	files := map[string][]byte{}
	for _, n := range []int{0, 1, 10, 100, len(contents) / 2, len(contents) - 1} {
		if n >= 0 && n < len(contents) {
			files[fmt.Sprintf("the first %d bytes", n)] = contents[:n]
		}
	}
	return files
}

// TestHostile replaces each file of a folder with hostile files, for every format. If the format
// needs the file, each hostile file must give an error of one line that names the folder. Reading
// any of them must take little memory. A truncated file may still be readable, for example without
// its last newline.
func TestHostile(t *testing.T) {
	seen := map[string]bool{}
	var folders []string
	for _, dir := range fixtureFolders(t) {
		c, err := checkpoint.Open(t.Context(), dir)
		if err != nil {
			continue // TestForeignFormats checks the error
		}
		if !seen[c.Format] {
			seen[c.Format] = true
			folders = append(folders, dir)
		}
		require.NoError(t, c.Close())
	}
	require.GreaterOrEqual(t, len(seen), 7)
	exported := filepath.Join(t.TempDir(), "exported")
	c, err := checkpoint.Open(t.Context(), folders[0])
	require.NoError(t, err)
	require.NoError(t, c.Export(t.Context(), exported, exportTo(t, "npy")))
	require.NoError(t, c.Close())

	made := map[string]map[string][]byte{
		"torch": hostileTorch(t), "npy": hostileNpy(), "options": hostileOptions(), "text": hostileText(t),
	}
	for _, dir := range append(folders, exported) {
		copied := filepath.Join(t.TempDir(), filepath.Base(dir))
		require.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
		for _, name := range parameterFiles(t, copied) {
			path := filepath.Join(copied, name)
			whole, err := os.ReadFile(path)
			require.NoError(t, err)
			check := func(contents []byte, what string) (refused bool) {
				require.NoError(t, os.WriteFile(path, contents, 0o644))
				return checkHostile(t, copied, fmt.Sprintf("%s: %s in %s", filepath.Base(dir), what, name))
			}
			for what, contents := range truncated(whole) {
				check(contents, what)
			}
			needed := check(nil, "nothing")
			for what, contents := range made[kindOf(name)] {
				refused := check(contents, what)
				assert.Equal(t, needed, refused, "%s: %s in %s", filepath.Base(dir), what, name)
			}
			require.NoError(t, os.WriteFile(path, whole, 0o644))
		}
		c, err := checkpoint.Open(t.Context(), copied)
		require.NoError(t, err, "the folder is whole again")
		require.NoError(t, c.Close())
	}
	assert.NoFileExists(t, "called")
}

// parameterFiles lists the files of a folder that a format may read.
func parameterFiles(t *testing.T, dir string) (names []string) {
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, path)
		switch filepath.Base(path) {
		case "ranks.tsv", "scores.tsv", "metrics.json", "results.json", "metadata.json", "train.log":
		default:
			if err == nil && e.Type().IsRegular() {
				names = append(names, name)
			}
		}
		return err
	})
	require.NoError(t, err)
	return names
}

// checkHostile opens and inspects the checkpoint in dir, and reports whether Open refuses it.
func checkHostile(t *testing.T, dir, what string) (refused bool) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	c, err := checkpoint.Open(t.Context(), dir)
	if refused = err != nil; refused {
		assert.ErrorContains(t, err, dir, what)
		assert.NotContains(t, err.Error(), "\n", what)
		assert.Less(t, len(err.Error()), 1000, what)
	} else {
		require.NoError(t, c.Close())
	}
	if _, err := checkpoint.Inspect(t.Context(), dir); err != nil {
		assert.ErrorContains(t, err, dir, what)
		assert.NotContains(t, err.Error(), "\n", what)
	}
	runtime.ReadMemStats(&after)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(96<<20), what)
	return refused
}

// Inspect reads tensors that share their elements, as tied weights do, but refuses a file that names the
// same elements so often that its time would not be proportional to the size of the file.
func TestInspectShared(t *testing.T) {
	dir := t.TempDir()
	const count = 1 << 16
	for _, copies := range []int{24, 64} {
		var tensors []tensorPickle
		for i := range copies {
			tensors = append(tensors, tensorPickle{fmt.Sprint(i), "0", count, 0, []int64{count}, []int64{1}})
		}
		path := filepath.Join(dir, "best_valid.model")
		require.NoError(t, os.WriteFile(path, zipOf(t, zip.Store, [2]string{"a/data.pkl", state(tensors...)},
			[2]string{"a/data/0", strings.Repeat("\x00\x00\x80\x3f", count)}), 0o644))
		i, err := checkpoint.Inspect(t.Context(), dir)
		if copies == 24 {
			require.NoError(t, err)
			assert.Equal(t, 1.0, i.Tensors[copies-1].Values.Min)
			continue
		}
		assert.EqualError(t, err, path+": its tensors share their elements so often that they have more than 8 for "+
			"each byte of the file: clone the tensors and save them again")
	}
}

// FuzzForeign checks that Open, given any file in place of the parameters or the options of another
// tool, and a vocabulary of 0 to 2 relations, returns an error or a checkpoint.
func FuzzForeign(f *testing.F) {
	labels := "a\t0\nb\t1\n"
	ones := strings.Repeat("\x00\x00\x80\x3f", 8)
	table := func(name, key string, rows int64) tensorPickle {
		return tensorPickle{name, key, 4 * rows, 0, []int64{rows, 4}, []int64{4, 1}}
	}
	archive := func(entity, relation string, rows int64) []byte {
		return zipOf(f, zip.Store, [2]string{"a/data.pkl", state(table(entity, "0", 2), table(relation, "1", rows))},
			[2]string{"a/data/0", ones}, [2]string{"a/data/1", ones[:16*rows]})
	}
	files := []string{"best_valid.model", "model_best.pt", "trained_model.pkl", "transe.ckpt", "entity_embedding.npy",
		"config.json"}
	f.Add(0, archive("embeddings.0.weight", "embeddings.1.weight", 2), 2)
	f.Add(0, archive("embeddings.0.weight", "embeddings.1.weight", 0), 0)
	f.Add(0, archive("entity.weight", "relation.weight", 2), 2)
	f.Add(3, archive("ent_embeddings.weight", "rel_embeddings.weight", 2), 2)
	f.Add(4, []byte("\x93NUMPY\x01\x00\x38\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2,4)}"+ones), 2)
	f.Add(5, []byte(`{"model":"ComplEx","rank":2,"format":"mquine-npy/1","dim":2,"reciprocal":false}`), 2)
	if root := os.Getenv("MQUINE_FIXTURES"); root != "" {
		for i, name := range []string{"kbc-cp-umls", "libkge-transe-umls", "pykeen-transe-umls", "openke-transe-umls"} {
			contents, err := os.ReadFile(filepath.Join(root, name, files[i]))
			require.NoError(f, err)
			f.Add(i, contents, 2)
		}
	}
	f.Fuzz(func(t *testing.T, which int, contents []byte, relations int) {
		if which < 0 || which >= len(files) || relations < 0 || relations > 2 {
			return
		}
		dir := t.TempDir()
		write := func(name, text string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
		}
		for kind, n := range map[string]int{"entity": 2, "relation": relations} {
			lines, reversed := labels[:4*n], "0\ta\n1\tb\n"[:4*n]
			write(kind[:3]+"_id", lines)
			write(kind+"2id.txt", fmt.Sprintf("%d\n%s", n, lines))
			write(kind+"_ids.del", reversed)
			write(map[string]string{"entity": "entities.tsv", "relation": "relations.tsv"}[kind], reversed)
		}
		if which >= 4 {
			table := "\x93NUMPY\x01\x00\x38\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2,4)}" + ones
			for _, name := range []string{"entity_embedding", "relation_embedding", "entity", "relation"} {
				write(name+".npy", table)
			}
			write("config.json", `{"model":"ComplEx","rank":2}`)
		}
		write(files[which], string(contents))
		c, err := checkpoint.Open(t.Context(), dir)
		if err != nil {
			require.Nil(t, c)
			require.NotContains(t, err.Error(), "\n")
			return
		}
		require.NoError(t, c.Close())
	})
}
