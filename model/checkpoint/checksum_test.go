package checkpoint

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/checkpoint/safetensors"
)

// checksumOf computes the checksum of a file's data, given the number of bytes of each tensor.
func checksumOf(data []byte, sizes ...int) string {
	all := sha256.New()
	for _, size := range sizes {
		for rest := size; rest > 0; {
			n := min(rest, 1<<20)
			piece := sha256.Sum256(data[:n])
			all.Write(piece[:])
			data, rest = data[n:], rest-n
		}
	}
	return fmt.Sprintf("%x", all.Sum(nil))
}

// The saved checksum equals the checksum that a simple loop computes. The entity tensors have less
// than one MiB, exactly two MiB, and slightly more than two MiB of data.
func TestChecksumOfPieces(t *testing.T) {
	for entities, want := range map[int]int{10: 1, 1 << 15: 2, 1<<15 + 1: 3} {
		m := newTrained(t, model.Config{Model: "distmult", Dim: 16, Entities: entities, Relations: 3}, counting())
		dir := filepath.Join(t.TempDir(), "ckpt")
		require.NoError(t, m.save(dir))
		file, err := safetensors.Open(filepath.Join(dir, parametersName))
		require.NoError(t, err)
		defer file.Close()
		sizes := []int{64 * entities, 64 * 3}
		require.Equal(t, want, (sizes[0]+1<<20-1)/(1<<20))
		data := file.Bytes()[len(file.Bytes())-sizes[0]-sizes[1]:]
		assert.Equal(t, checksumOf(data, sizes...), file.Metadata()["parameters_sha256"])
	}
}

// Open detects a flipped bit in any byte of the parameters. It still reads checkpoints without a
// checksum, which earlier versions wrote.
func TestOpenRefusesDamage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ckpt")
	require.NoError(t, toy(t).save(dir))
	path := filepath.Join(dir, parametersName)
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	for at := len(file) - 132; at < len(file); at++ {
		file[at] ^= 1
		require.NoError(t, os.WriteFile(path, file, 0o644))
		c, err := Open(t.Context(), dir)
		require.ErrorContains(t, err, path+" is damaged: the checksum of its parameters is ")
		require.ErrorContains(t, err, "restore it from a copy, or remove parameters_sha256 from the metadata")
		require.NotContains(t, err.Error(), "\n")
		require.Nil(t, c)
		_, err = Inspect(t.Context(), dir)
		require.NoError(t, err, "the file can nevertheless be inspected")
		file[at] ^= 1
	}
	require.NoError(t, os.WriteFile(path, file, 0o644))
	c, err := Open(t.Context(), dir)
	require.NoError(t, err)
	require.NoError(t, c.Close())

	old := small()
	require.NotContains(t, old.metadata, "parameters_sha256")
	c, err = Open(t.Context(), old.write(t))
	require.NoError(t, err)
	require.NoError(t, c.Close())
}
