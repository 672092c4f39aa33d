package run

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/train/internal/traintest"
	"github.com/mquine/mquine/train/recipe"
)

// ReadHistory reads an unfinished run that another process has locked, without its data set.
func TestReadHistory(t *testing.T) {
	data, dir := traintest.FamiliesFolder(t), filepath.Join(t.TempDir(), "run")
	c := traintest.Recipe(func(*recipe.Recipe) {})
	require.NoError(t, create(t, dir, data, c))
	h, err := ReadHistory(t.Context(), dir)
	require.NoError(t, err)
	assert.Empty(t, h.Epochs)

	r, err := Open(t.Context(), dir, Options{Machine: machineOf(t, 2)})
	require.NoError(t, err)
	defer r.Close()
	require.NoError(t, r.TrainTo(t.Context(), 2, func(Epoch) {}))
	require.NoError(t, os.Rename(data, data+"-moved"))
	h, err = ReadHistory(t.Context(), dir)
	require.NoError(t, err)
	assert.Equal(t, History{data, c, r.Log()}, h)

	require.NoError(t, os.WriteFile(filepath.Join(dir, logName), []byte("{\"epoch\": 1}\n{\"epoch\": 3}\n"), 0o666))
	_, err = ReadHistory(t.Context(), dir)
	assert.ErrorContains(t, err, "log.jsonl:2: epoch 3 follows epoch 1")
	_, err = ReadHistory(t.Context(), t.TempDir())
	assert.ErrorContains(t, err, "is not a run folder: it has no config.yaml")
	_, err = ReadHistory(t.Context(), filepath.Join(dir, bestName))
	assert.EqualError(t, err, filepath.Join(dir, bestName)+" is not a run folder, but a folder in one: give "+dir)
	t.Chdir(filepath.Join(dir, bestName))
	_, err = ReadHistory(t.Context(), "../..")
	assert.EqualError(t, err, "../.. is not a run folder: it has no config.yaml")
	_, err = ReadHistory(t.Context(), filepath.Join(dir, ConfigFile))
	assert.EqualError(t, err, filepath.Join(dir, ConfigFile)+" is not a folder: give the folder of a run")
	_, err = ReadHistory(t.Context(), dir+"-2")
	assert.EqualError(t, err, "run folder "+dir+"-2 does not exist")
}
