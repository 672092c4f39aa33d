//go:build linux && (amd64 || arm64) && !nocuda

package rank_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel/cuda/standin"
	"github.com/mquine/mquine/rank"
	"github.com/mquine/mquine/rank/gpu"
)

// TestDevicesChangingCheckpoint changes the file of a checkpoint during a ranking on devices. The
// ranking must end as it does on the processor, and free the devices' memory.
func TestDevicesChangingCheckpoint(t *testing.T) {
	driver := standin.Use(t)
	e, err := gpu.Open(0)
	require.NoError(t, err)
	defer e.Close()
	rank.CheckChanging(t, rank.Options{Threads: 2, Engine: e})
	bytes, _, streams := driver.Held()
	assert.Zero(t, bytes, "device memory is left")
	assert.Zero(t, streams, "streams are left")
}
