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

// TestDevicesBadCheckpoint ranks checkpoints whose scores overflow on devices, and changes the file of
// a checkpoint during a ranking. The ranking must end as it does on the processor, and free the
// devices' memory. The devices have not failed, so the processor must not rank in their place.
func TestDevicesBadCheckpoint(t *testing.T) {
	driver := standin.Use(t)
	e, err := gpu.Open(0)
	require.NoError(t, err)
	defer e.Close()
	e.OrProcessor(func(err error) { t.Errorf("using the processor: %v", err) })
	o := rank.Options{Threads: 2, Engine: e}
	t.Run("overflow", func(t *testing.T) { rank.CheckOverflow(t, o) })
	t.Run("changing", func(t *testing.T) { rank.CheckChanging(t, o) })
	bytes, _, open := driver.Held()
	assert.Zero(t, bytes, "memory is left")
	assert.Zero(t, open, "streams or events are left")
}
