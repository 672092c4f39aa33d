package cuda

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel/cuda/internal/source"
)

// TestImagesAreFresh checks that the stamps of the embedded PTX match the sources. CI also
// regenerates the PTX and compares the bytes.
func TestImagesAreFresh(t *testing.T) {
	files, err := source.Read("src")
	require.NoError(t, err)
	entries, err := images.ReadDir("ptx")
	require.NoError(t, err)
	assert.Len(t, entries, len(files), "one .ptx for each .cu")
	for _, f := range files {
		ptx, err := images.ReadFile("ptx/" + f.Name + ".ptx")
		require.NoError(t, err)
		stamp, _, _ := bytes.Cut(ptx, []byte("\n"))
		assert.Equal(t, f.Stamp(), string(stamp)+"\n",
			"%s.ptx is older than its source: run go generate ./kernel/cuda", f.Name)
	}
}
