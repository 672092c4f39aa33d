//go:build unix

package kernel

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// guarded returns n zeros that end at an unreadable page, so that a kernel that reads or writes
// past the end faults. (Reading before the beginning is caught where a slice fills its pages.)
func guarded[T any](n int) []T {
	var zero T
	size, page := n*int(unsafe.Sizeof(zero)), unix.Getpagesize()
	pages := (size+page-1)/page + 1
	mem, err := unix.Mmap(-1, 0, (pages+1)*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		panic(err)
	}
	for _, guard := range [][]byte{mem[:page], mem[pages*page:]} {
		if err := unix.Mprotect(guard, unix.PROT_NONE); err != nil {
			panic(err)
		}
	}
	mapped = append(mapped, mem)
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(mem[pages*page-size:]))), n)
}

var mapped [][]byte

// guardedScope returns what gives back all that guarded returns from now on: a process may map
// only so often.
func guardedScope() (release func()) {
	before := len(mapped)
	return func() {
		for _, mem := range mapped[before:] {
			if err := unix.Munmap(mem); err != nil {
				panic(err)
			}
		}
		mapped = mapped[:before]
	}
}
