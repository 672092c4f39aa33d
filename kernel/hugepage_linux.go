package kernel

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugePages asks Linux to back a large allocation of zeros with huge pages, because a strip or a
// panel spans dozens of small ones. If Go has reused memory, hugePages also returns to Linux the
// pages that Go has cleared, because they are small and would stay small. It ignores errors, which
// only cost speed.
func hugePages(p unsafe.Pointer, bytes int) {
	const huge = 2 << 20
	from := (uintptr(p) + huge - 1) &^ (huge - 1)
	to := (uintptr(p) + uintptr(bytes)) &^ (huge - 1)
	if to > from {
		part := unsafe.Slice((*byte)(unsafe.Add(p, from-uintptr(p))), to-from)
		if unix.Madvise(part, unix.MADV_HUGEPAGE) == nil {
			_ = unix.Madvise(part, unix.MADV_DONTNEED) // private anonymous memory reads as zeros again
		}
	}
}
