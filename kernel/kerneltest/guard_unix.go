//go:build unix

package kerneltest

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Guarded returns n zeros that end at an unreadable page, so a kernel that reads or writes past the
// end faults. A second guard page precedes them; it catches accesses before the beginning if the
// values fill whole pages. The memory is valid until the test ends.
func Guarded[T any](t testing.TB, n int) []T {
	var zero T
	size, page := n*int(unsafe.Sizeof(zero)), unix.Getpagesize()
	pages := (size+page-1)/page + 1
	memory, err := unix.Mmap(-1, 0, (pages+1)*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Munmap(memory)) })
	for _, guard := range [][]byte{memory[:page], memory[pages*page:]} {
		require.NoError(t, unix.Mprotect(guard, unix.PROT_NONE))
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(memory[pages*page-size:]))), n)
}
