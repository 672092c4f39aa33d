//go:build amd64 && !noasm

package kernel_test

import (
	"os"
	"os/exec"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	. "github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/kerneltest"
)

// TestAMXPermission checks that creating a backend with AMX requests permission from Linux, and
// that neither importing the package nor creating a backend without AMX does.
func TestAMXPermission(t *testing.T) {
	const child = "MQUINE_TEST_AMX_CHILD"
	if os.Getenv(child) == "" {
		kerneltest.SkipWithout(t, kerneltest.Backends(t, 0)[0], FeatureAMX)
		program, err := os.Executable()
		require.NoError(t, err)
		cmd := exec.Command(program, "-test.run", "^TestAMXPermission$")
		cmd.Env = append(os.Environ(), child+"=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return
	}
	permitted := func() bool {
		const getPermission, tileData = 0x1022, 18 // ARCH_GET_XCOMP_PERM, XFEATURE_XTILEDATA
		var granted uint64
		_, _, errno := unix.RawSyscall(unix.SYS_ARCH_PRCTL, getPermission, uintptr(unsafe.Pointer(&granted)), 0)
		require.Zero(t, errno)
		return granted>>tileData&1 == 1
	}
	assert.False(t, permitted(), "before creating a backend")
	b, err := NewWithout(FeatureAMX)
	require.NoError(t, err)
	assert.False(t, b.Features.Has(FeatureAMX))
	assert.False(t, permitted(), "after creating a backend without AMX")
	b, err = New()
	require.NoError(t, err)
	assert.True(t, b.Features.Has(FeatureAMX))
	assert.True(t, permitted(), "after creating a backend with AMX")
}
