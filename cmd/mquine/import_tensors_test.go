package main

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/fixture"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/checkpoint"
)

// Tables that the user describes give the same checkpoint as the folder of the tool that wrote
// them.
func TestImportTensors(t *testing.T) {
	for _, c := range []struct {
		fixture string
		flags   []string
		files   map[string]string // maps a flag to a file in the folder, or a table in it
	}{
		{"dglke-rotate-umls", []string{"--model", "rotate", "--gamma", "9", "--embedding-range", "0.6875"},
			map[string]string{"entity": "umls_RotatE_entity.npy", "relation": "umls_RotatE_relation.npy",
				"entities": "entities.tsv", "relations": "relations.tsv"}},
		{"kbc-complex-umls", []string{"--model", "complex", "--reciprocal", "offset"},
			map[string]string{"entity": "best_valid.model:embeddings.0.weight",
				"relation": "best_valid.model:embeddings.1.weight", "entities": "ent_id", "relations": "rel_id"}},
		{"rotate-repo-distmult-umls", []string{"--model", "distmult", "--gamma", "200", "--embedding-range", "6.3125"},
			map[string]string{"entity": "checkpoint:model_state_dict/entity_embedding",
				"relation": "relation_embedding.npy", "entities": "entities.dict", "relations": "relations.dict"}},
	} {
		t.Run(c.fixture, func(t *testing.T) {
			dir := fixture.Dir(t, c.fixture)
			out := filepath.Join(t.TempDir(), "out")
			args := append([]string{"import", "--from", "tensors", out}, c.flags...)
			for flag, file := range c.files {
				args = append(args, "--"+flag, filepath.Join(dir, file))
			}
			succeed(t, args...)
			got, err := checkpoint.Open(t.Context(), out)
			require.NoError(t, err)
			defer got.Close()
			want, err := checkpoint.Open(t.Context(), dir)
			require.NoError(t, err)
			defer want.Close()
			assert.Equal(t, want.Model.Tensors(), got.Model.Tensors())
			assert.Equal(t, want.Model.Config().Reciprocal, got.Model.Config().Reciprocal)
			assert.Equal(t, want.Entities.Labels(), got.Entities.Labels())
			assert.Equal(t, want.Relations.Labels(), got.Relations.Labels())
		})
	}
}

// Tables in a safetensors file may be in half precision, as published models often are.
func TestImportHalfPrecision(t *testing.T) {
	dir := t.TempDir()
	header := `{"e":{"dtype":"BF16","shape":[2,2],"data_offsets":[0,8]},` +
		`"r":{"dtype":"F16","shape":[1,2],"data_offsets":[8,12]}}`
	contents := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	for _, bits := range []uint16{0x3f80, 0xc000, 0x3dcd, 0x0001, 0x3c00, 0xb555} {
		contents = binary.LittleEndian.AppendUint16(contents, bits)
	}
	file, out := filepath.Join(dir, "tables.safetensors"), filepath.Join(dir, "out")
	for name, text := range map[string]string{
		"tables.safetensors": string(contents), "e.txt": "0\ta\n1\tb\n", "r.txt": "0\tr\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	o := succeed(t, "import", "--from", "tensors", out, "--model", "distmult", "--entity", file+":e",
		"--relation", file+":r", "--entities", filepath.Join(dir, "e.txt"), "--relations", filepath.Join(dir, "r.txt"))
	assert.Contains(t, o.stderr, "was converted from bfloat16 to float32")
	assert.Contains(t, o.stderr, "was converted from float16 to float32")
	got, err := checkpoint.Open(t.Context(), out)
	require.NoError(t, err)
	defer got.Close()
	assert.Equal(t, [][]float32{
		{1, -2, 0x1.9ap-4, 0x1p-133}, // 0x3dcd is 0.1 to 8 bits; 0x0001 is bfloat16's smallest number
		{1, -0x1.554p-2},             // 0xb555 is −1/3 to 11 bits
	}, got.Model.Tensors())
}

// import offers the hyper-parameters of the models that --model accepts, and no others.
func TestImportTensorsHyperParameters(t *testing.T) {
	cmd := newImportCommand()
	for _, h := range model.HyperParameters() {
		var names []string
		for _, spec := range model.Specs() {
			has := slices.ContainsFunc(spec.Hyper, func(x *model.HyperParameter) bool { return x.Key == h.Key })
			if has && cmd.Flags().Set("model", spec.Name) == nil {
				names = append(names, spec.Name)
			}
		}
		flag := cmd.Flags().Lookup(h.Flag())
		require.Equal(t, names != nil, flag != nil, h.Flag())
		if flag != nil {
			assert.True(t, strings.HasSuffix(flag.Usage, " ("+strings.Join(names, ", ")+")"), flag.Usage)
		}
	}
	assert.Nil(t, cmd.Flags().Lookup("image-height"), "ConvE has more than two tables")
	assert.NotNil(t, cmd.Flags().Lookup("gamma"))
}

func TestImportTensorsWrong(t *testing.T) {
	dir := fixture.Dir(t, "kbc-complex-umls")
	out := filepath.Join(t.TempDir(), "out")
	table, labels := filepath.Join(dir, "best_valid.model"), filepath.Join(dir, "ent_id")
	all := func(entity, relation string, more ...string) []string {
		return append([]string{"import", "--from", "tensors", out, "--model", "complex", "--entity", entity,
			"--relation", relation, "--entities", labels, "--relations", filepath.Join(dir, "rel_id")}, more...)
	}
	mquine(t, "import", "--from", "tensors", out).requireSentence(t, exitUsage, "--from tensors needs --model")
	mquine(t, "import", "--from", "tensors", out, "--model", "rotate", "--entity", table, "--relation", table,
		"--entities", labels, "--relations", labels).
		requireSentence(t, exitUsage, "--model rotate needs --embedding-range")
	mquine(t, "import", dir, out, "--model", "complex").
		requireSentence(t, exitUsage, "--model cannot be given without --from tensors")
	mquine(t, all(table+":embeddings.0.weight", table+":embeddings.1.weight")...).
		requireSentence(t, exitFailed, "has 92 rows for 46 relations")
	mquine(t, all(table+":nosuch", table+":embeddings.1.weight")...).
		requireSentence(t, exitFailed, `has no tensor "nosuch": it has "embeddings.0.weight", "embeddings.1.weight"`)
	mquine(t, all(table, table+":embeddings.1.weight")...).requireSentence(t, exitFailed, `has no tensor ""`)
	mquine(t, all(table+":embeddings.1.weight", table+":embeddings.1.weight", "--reciprocal", "offset")...).
		requireSentence(t, exitFailed, `has 92 rows, but the vocabulary`)
	// Two bad tables are two errors, and each says which flag names the table.
	mquine(t, all(dir, filepath.Join(dir, "none.npy"))...).requireSentence(t, exitFailed,
		"import: --entity: reading "+dir+": it is not a regular file: name a file, or copy the data to one; "+
			"--relation: reading "+filepath.Join(dir, "none.npy")+": no such file or directory")
	assert.NoDirExists(t, out)
}
