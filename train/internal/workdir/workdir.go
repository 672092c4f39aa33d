// Package workdir creates and locks the folder of a long job. The folder appears together with all
// its files, and only one process at a time uses it.
package workdir

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/mquine/mquine/internal/atomicfile"
)

// Create creates a folder that appears together with the given files. The folder must not exist.
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
		return fmt.Errorf("the folder %s already exists: continue it with --resume if it is a run or a search, "+
			"or choose another folder", exists.Path)
	}
	return err
}
