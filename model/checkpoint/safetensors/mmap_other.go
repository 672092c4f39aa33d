//go:build !unix

package safetensors

import (
	"io"
	"os"
)

// contents reads the first size bytes of file.
func contents(file *os.File, size int) ([]byte, func() error, error) {
	bytes := make([]byte, size)
	if _, err := io.ReadFull(file, bytes); err != nil {
		return nil, nil, err
	}
	return bytes, func() error { return nil }, nil
}
