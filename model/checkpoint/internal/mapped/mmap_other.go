//go:build !unix

package mapped

import (
	"errors"
	"io"
)

// loadBytes reads the first size bytes of the file and closes it, because some systems without mmap
// do not let other programs replace an open file.
func (f *File) loadBytes(size int) error {
	f.contents = make([]byte, size)
	if _, err := io.ReadFull(f.file, f.contents); err != nil {
		return err
	}
	if f.modified() {
		return errors.New("another program is writing to it: try again later")
	}
	err := f.file.Close()
	f.file = nil
	return err
}
