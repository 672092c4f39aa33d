package train

import (
	"fmt"
	"os"
)

// checkLocked says that path no longer leads to the locked file. Its folder was removed or replaced then, and what
// this process writes would bring back a part of it.
func checkLocked(file *os.File, path string) error {
	if isAt(file, path) {
		return nil
	}
	return fmt.Errorf("%s was removed or replaced during the work on its folder, so nothing more is written there: "+
		"restore it and go on with --resume, or start again", path)
}

// isAt tells whether path leads to the file that is open.
func isAt(file *os.File, path string) bool {
	mine, err := file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(mine, there)
}
