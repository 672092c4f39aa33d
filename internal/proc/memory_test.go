package proc

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// leave makes AvailableMemory return room until the test ends.
func leave(t *testing.T, room Room) {
	before := AvailableMemory
	t.Cleanup(func() { AvailableMemory = before })
	AvailableMemory = func() Room { return room }
}

func TestCheckMemory(t *testing.T) {
	const mib, gib = 1 << 20, 1 << 30
	needs := []Need{{"parameters", 4 * gib}, {"optimiser", 3*gib + 512*mib}, {"index", mib}}
	check := func() error { return CheckMemory("training", "lower dim", needs...) }

	leave(t, Unlimited)
	assert.NoError(t, check())
	leave(t, Room{7*gib + 513*mib, "a limit"})
	assert.NoError(t, check(), "it fits to the byte")
	leave(t, Room{7*gib + 513*mib - 1, "a limit"})
	assert.EqualError(t, check(),
		"training needs about 7.5 GiB of memory (parameters 4.0 GiB, optimiser 3.5 GiB), "+
			"but only 7.5 GiB is available (a limit): lower dim")
	leave(t, Room{0, "a limit"})
	assert.NoError(t, CheckMemory("training", "lower dim", Need{"parameters", Negligible - 1}))
}

func TestTightest(t *testing.T) {
	assert.Equal(t, Unlimited, tightest(nil))
	assert.Equal(t, Room{2, "b"}, tightest([]Room{{3, "a"}, {2, "b"}, {4, "c"}}))
	assert.Equal(t, Room{0, "b"}, tightest([]Room{{3, "a"}, {-2, "b"}}), "the process uses more than the limit allows")
}
