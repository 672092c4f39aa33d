//go:build unix

package mapped

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/mquine/mquine/internal/fault"
)

// loadBytes maps the first size bytes of the file, read-only.
func (f *File) loadBytes(size int) error {
	contents, err := unix.Mmap(int(f.file.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("it cannot be mapped into memory: %w", err)
	}
	forget := fault.Watch(contents, f.faulted)
	f.contents, f.unmap = contents, func() error {
		forget()
		return unix.Munmap(contents)
	}
	return nil
}
