//go:build !unix

package mapped

import (
	"errors"
	"io"
)

// loadBytes reads the first size bytes of the file and closes it: systems that cannot map a file may
// not replace one that is open either.
func (f *File) loadBytes(size int) error {
	f.contents = make([]byte, size)
	if _, err := io.ReadFull(f.file, f.contents); err != nil {
		return err
	}
	if f.modified() {
		return errors.New("another program writes to it: try again when it has ended")
	}
	err := f.file.Close()
	f.file = nil
	return err
}
