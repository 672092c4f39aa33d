package kernel

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugePages asks for huge pages under a large allocation, which a strip or panel crosses by the
// dozen otherwise. It is a wish: failure changes nothing but speed.
func hugePages(p unsafe.Pointer, bytes int) {
	const huge = 2 << 20
	from := (uintptr(p) + huge - 1) &^ (huge - 1)
	to := (uintptr(p) + uintptr(bytes)) &^ (huge - 1)
	if to > from {
		part := unsafe.Slice((*byte)(unsafe.Add(p, from-uintptr(p))), to-from)
		_ = unix.Madvise(part, unix.MADV_HUGEPAGE)
	}
}
