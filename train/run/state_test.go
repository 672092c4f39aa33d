package run

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/train/internal/traintest"
)

// A state with any flipped bit is refused.
func TestDamagedState(t *testing.T) {
	c := traintest.Small(1)
	c.Dim = 2
	dir := trainIn(t, traintest.FamiliesFolder(t), c, machineOf(t, 1))
	path := filepath.Join(dir, stateName)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	header := 8 + int(binary.LittleEndian.Uint64(whole))
	// Flip one bit in every byte of the header, which contains the counts, and in every 61st byte
	// of the tensors.
	r := &Run{Dir: dir, Recipe: c}
	require.NoError(t, r.readState(t.Context()))
	for at := 0; at < len(whole); {
		bit := byte(1 << (at % 8))
		whole[at] ^= bit
		require.NoError(t, os.WriteFile(path, whole, 0o600))
		err := r.readState(t.Context())
		require.ErrorContains(t, err, path, "byte %d", at)
		require.NotContains(t, err.Error(), "\n")
		whole[at] ^= bit
		if at++; at > header {
			at += 60
		}
	}
	require.NoError(t, os.WriteFile(path, whole, 0o600))
	require.NoError(t, resume(t, dir))
	whole[len(whole)-1] ^= 1
	require.NoError(t, os.WriteFile(path, whole, 0o600))
	assert.EqualError(t, resume(t, dir), path+
		" is damaged: its SHA-256 does not match; restore it from a backup"+elsewhere)
	for _, n := range []int{0, 7, 100, len(whole) - 1} {
		require.NoError(t, os.WriteFile(path, whole[:n], 0o600))
		assert.ErrorContains(t, resume(t, dir), "; if it is damaged, restore it from a backup")
	}
}

// Inconsistent counts are refused, even in a state from an earlier version, which has no SHA-256.
func TestStateCounts(t *testing.T) {
	c := traintest.Small(4)
	c.LearningRate = 0 // the first epoch is the best
	dir := trainIn(t, traintest.FamiliesFolder(t), c, machineOf(t, 1))
	files := traintest.Contents(t, dir)
	require.NoError(t, extend(t, dir, machineOf(t, 1), 6))
	writeOldState(t, dir, nil)
	require.NoError(t, resume(t, dir))
	const waited = `metadata "waited" is "%s" but must be at most the number of validations since epoch %d, the best`
	for _, test := range []struct{ key, value, want string }{
		{"epoch", "-1", `metadata "epoch" is "-1" but must be a whole number from 0`},
		{"epoch", "1.5", `metadata "epoch" is "1.5" but must be a whole number from 0`},
		{"epoch", "7", "has 7 epochs, but epochs in " + filepath.Join(dir, ConfigFile) + " is 6"},
		{"epoch", "2", fmt.Sprintf(waited, "3", 1)},
		{"epoch", "0", `metadata "steps" is "16" but must be 0 before the first epoch`},
		{"steps", "0", `metadata "steps" is 0, but 4 epochs on this data set have 16`},
		{"steps", "17", `metadata "steps" is 17, but 4 epochs on this data set have 16`},
		{"steps", "1000000000000", `metadata "steps" is 1000000000000, but 4 epochs on this data set have 16`},
		{"steps", "", `metadata "steps" is "" but must be a whole number from 0`},
		{"best", "NaN", `metadata "best" is "NaN" but must be a finite number`},
		{"best", "+Inf", `metadata "best" is "+Inf" but must be a finite number`},
		{"best_epoch", "5", `metadata "best_epoch" is "5" but must be at most 4, the last epoch`},
		{"best_epoch", "-2", `metadata "best_epoch" is "-2" but must be a whole number from 0`},
		{"best_epoch", "2", fmt.Sprintf(waited, "3", 2)},
		{"best_epoch", "0", fmt.Sprintf(waited, "3", 0)},
		{"waited", "-3", `metadata "waited" is "-3" but must be a whole number from 0`},
		{"waited", "4", fmt.Sprintf(waited, "4", 1)},
		{"format", "mquine-state/9",
			`has format "mquine-state/9", but this version of mquine reads only mquine-state/3`},
	} {
		replaceAll(t, dir, files)
		writeOldState(t, dir, map[string]string{test.key: test.value})
		traintest.Change(t, filepath.Join(dir, ConfigFile), "\nepochs: 4\n", "\nepochs: 6\n")
		before := traintest.Contents(t, dir)
		assert.ErrorContains(t, resume(t, dir), test.want)
		assert.Equal(t, before, traintest.Contents(t, dir))
	}
}

// A change to one part of a data set changes only that part's fingerprint.
func TestFingerprint(t *testing.T) {
	g := func() *kg.Graph { return traintest.RandomGraph(7, 3, 40, 1) }
	same := FingerprintOf(g())
	assert.Equal(t, same, FingerprintOf(g()))
	require.NoError(t, same.Check(FingerprintOf(g()), "there", "it"))
	// Compute the format independently.
	var text strings.Builder
	for _, triple := range g().Splits[kg.Train] {
		fmt.Fprintln(&text, g().Entities.Label(triple.Head))
		fmt.Fprintln(&text, g().Relations.Label(triple.Relation))
		fmt.Fprintln(&text, g().Entities.Label(triple.Tail))
	}
	assert.Equal(t, fmt.Sprintf("40 %x", sha256.Sum256([]byte(text.String()))), same["train"])

	for key, change := range map[string]func(*kg.Graph){
		"train":     func(g *kg.Graph) { g.Splits[kg.Train][3].Tail = (g.Splits[kg.Train][3].Tail + 1) % 7 },
		"valid":     func(g *kg.Graph) { g.Splits[kg.Valid] = g.Splits[kg.Valid][1:] },
		"test":      func(g *kg.Graph) { g.Splits[kg.Test] = nil },
		"relations": func(g *kg.Graph) { g.Relations.Add("another") },
	} {
		other := g()
		change(other)
		now := FingerprintOf(other)
		for _, part := range dataParts {
			assert.Equal(t, part.key == key, same[part.key] != now[part.key], "%s in %s", key, part.key)
		}
		assert.ErrorContains(t, same.Check(now, "there", "it"), "the data set in there has changed since it")
		assert.ErrorContains(t, now.Check(same, "there", "it"), "; restore it, or start again in another folder")
	}
}
