//go:build unix

package mapped

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// load maps the first size bytes of file, read-only.
func load(file *os.File, size int) ([]byte, func() error, error) {
	bytes, err := unix.Mmap(int(file.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, fmt.Errorf("it cannot be mapped into memory: %w", err)
	}
	return bytes, func() error { return unix.Munmap(bytes) }, nil
}
