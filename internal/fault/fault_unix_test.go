//go:build unix

package fault

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"hash/maphash"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// truncated maps a file of four pages and truncates the file to one page.
func truncated(t *testing.T) []byte {
	t.Helper()
	page := unix.Getpagesize()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte{1}, 4*page), 0o600))
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	memory, err := unix.Mmap(int(file.Fd()), 0, 4*page, unix.PROT_READ, unix.MAP_SHARED)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Munmap(memory)) })
	require.NoError(t, os.Truncate(path, int64(page)))
	return memory
}

func guarded(work func()) (err error) {
	defer Guard().Catch(&err)
	work()
	return nil
}

var (
	sink   byte
	errCut = errors.New("the file was cut")
)

// Guard catches faults in Go code, in the runtime's copying and hashing, and in another package's
// assembly.
func TestGuard(t *testing.T) {
	memory := truncated(t)
	defer Watch(memory, func() error { return errCut })()
	seed := maphash.MakeSeed()
	for name, read := range map[string]func(){
		"byte": func() { sink = memory[len(memory)-1] },
		"sum": func() {
			for _, v := range memory {
				sink += v
			}
		},
		"copy":    func() { copy(make([]byte, len(memory)), memory) },
		"equal":   func() { sink += byte(bytes.Compare(memory, bytes.Repeat([]byte{1}, len(memory)))) },
		"maphash": func() { maphash.Bytes(seed, memory) },
		"sha256":  func() { sha256.Sum256(memory) },
		"text":    func() { sink = string(memory)[0] },
	} {
		for range 100 {
			require.ErrorIs(t, guarded(read), errCut, name)
		}
		assert.NoError(t, guarded(func() { sink = memory[0] }), "the first page is still there")
	}
	assert.False(t, debug.SetPanicOnFault(false), "Catch restores the setting of the goroutine")
}

// Guard does not change errors or panics, except for faults in watched memory.
func TestGuardPassesOn(t *testing.T) {
	other := errors.New("another")
	fails := func() (err error) {
		defer Guard().Catch(&err)
		return other
	}
	assert.ErrorIs(t, fails(), other)

	memory := truncated(t)
	forget := Watch(memory, func() error { return errCut })
	var none *int
	for name, work := range map[string]func(){
		"panic": func() { panic("mine") },
		"nil":   func() { sink = byte(*none) },
		"index": func() { sink = memory[len(memory):][0] },
	} {
		assert.Panics(t, func() { _ = guarded(work) }, name)
		assert.False(t, debug.SetPanicOnFault(false), name)
	}
	require.ErrorIs(t, guarded(func() { sink = memory[len(memory)-1] }), errCut)
	forget()
	assert.Panics(t, func() { _ = guarded(func() { sink = memory[len(memory)-1] }) }, "no longer watched")
}

// With several watched files, the error names the file in which the fault occurred.
func TestWatchSeveral(t *testing.T) {
	first, second := truncated(t), truncated(t)
	errFirst, errSecond := errors.New("first"), errors.New("second")
	defer Watch(first, func() error { return errFirst })()
	defer Watch(second, func() error { return errSecond })()
	assert.ErrorIs(t, guarded(func() { sink = first[len(first)-1] }), errFirst)
	assert.ErrorIs(t, guarded(func() { sink = second[len(second)-1] }), errSecond)
	inner := func() (err error) {
		defer Guard().Catch(&err)
		_ = guarded(func() { sink = first[len(first)-1] })
		sink = second[len(second)-1] // the outer guard still holds
		return nil
	}
	assert.ErrorIs(t, inner(), errSecond)
}

func TestGuardAllocatesNothing(t *testing.T) {
	assert.Zero(t, testing.AllocsPerRun(100, func() { _ = guarded(func() {}) }))
}

func BenchmarkGuard(b *testing.B) {
	for b.Loop() {
		_ = guarded(func() {})
	}
}
