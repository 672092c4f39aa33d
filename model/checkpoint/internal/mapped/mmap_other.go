//go:build !unix

package mapped

import (
	"io"
	"os"
)

// load reads the first size bytes of file.
func load(file *os.File, size int) ([]byte, func() error, error) {
	bytes := make([]byte, size)
	if _, err := io.ReadFull(file, bytes); err != nil {
		return nil, nil, err
	}
	return bytes, func() error { return nil }, nil
}
