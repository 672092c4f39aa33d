// Package workdir keeps the folder of a long work: it appears whole, and belongs to one process at a time.
package workdir

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/mquine/mquine/internal/atomicfile"
)

// Create makes a folder, which appears with its files in it and must not exist.
func Create(dir string, files map[string][]byte) error {
	err := atomicfile.Folder(dir, func(temporary string) error {
		for name, data := range files {
			if err := atomicfile.WriteBytes(filepath.Join(temporary, name), data); err != nil {
				return err
			}
		}
		return nil
	})
	if exists := (*atomicfile.ExistsError)(nil); errors.As(err, &exists) {
		return fmt.Errorf("%s exists already: go on with it by --resume, remove it, or choose another folder",
			exists.Path)
	}
	return err
}
