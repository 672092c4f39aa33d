package kernel

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugePages asks Linux to back a large allocation with huge pages, because a strip or a panel spans
// dozens of small ones. Failure is ignored because it only costs speed.
func hugePages(p unsafe.Pointer, bytes int) {
	const huge = 2 << 20
	from := (uintptr(p) + huge - 1) &^ (huge - 1)
	to := (uintptr(p) + uintptr(bytes)) &^ (huge - 1)
	if to > from {
		part := unsafe.Slice((*byte)(unsafe.Add(p, from-uintptr(p))), to-from)
		_ = unix.Madvise(part, unix.MADV_HUGEPAGE)
	}
}
