//go:build unix

package kernel_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mquine/mquine/internal/fault"
	. "github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/linalg"
)

// TestParallelFault reads the pages of a truncated file in the goroutines of Parallel, both in Go
// and in the assembly of every tier.
func TestParallelFault(t *testing.T) {
	const n = 1 << 16
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, make([]byte, 4*n), 0o600))
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	memory, err := unix.Mmap(int(file.Fd()), 0, 4*n, unix.PROT_READ, unix.MAP_SHARED)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(memory)) }()
	cut := errors.New("the file was cut")
	defer fault.Watch(memory, func() error { return cut })()
	values := unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(memory))), n)
	require.NoError(t, os.Truncate(path, 2*n))

	eachBackend(t, func(t *testing.T, b *Backend) {
		const width = 256
		vector, scores := make([]float32, width), make([]float64, 1)
		for name, read := range map[string]func(first int){
			"Go":   func(first int) { scores[0] = float64(values[first]) },
			"Dot":  func(first int) { linalg.New(b).Dot(values[first:first+width], vector) },
			"Max":  func(first int) { linalg.New(b).Max(values[first : first+width]) },
			"Pair": func(first int) { b.Pair(Dot, scores[:1], vector, values[first:first+width], width, []int32{0}) },
		} {
			for _, workers := range []int{1, 3} {
				var done atomic.Int64
				err := Parallel(t.Context(), workers, 10_000, func(_, i int) {
					if i == 5 {
						read(n - width)
					}
					done.Add(1)
				})
				require.ErrorIs(t, err, cut, "%s, %d workers", name, workers)
				if workers == 1 {
					assert.EqualValues(t, 5, done.Load(), "the fault ends the work")
				}
			}
		}
		pool := NewPool(3)
		require.ErrorIs(t, pool.Run(t.Context(), 10, func(_, i int) { scores[0] = float64(values[n-1]) }), cut)
		require.NoError(t, pool.Run(t.Context(), 10, func(_, i int) {}), "the fault does not affect the next run")
	})
}
