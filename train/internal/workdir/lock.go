package workdir

import (
	"fmt"
	"os"
)

// Lock keeps other processes from working in the folder of a file. A nil Lock keeps nobody.
type Lock struct {
	path string
	file *os.File
}

// Acquire takes the lock of the folder that the file at path is in, until it is closed or the process ends, however it
// ends. The file may be replaced by the process that has the lock, before it lets go. A file system without locks is
// worked on without.
func Acquire(path string) (*Lock, error) {
	file, err := lock(path)
	if err != nil {
		return nil, err
	}
	return &Lock{path, file}, nil
}

// Close lets other processes work in the folder.
func (l *Lock) Close() error {
	if l == nil {
		return nil
	}
	return l.file.Close()
}

// Check says that the path no longer leads to the locked file. Its folder was removed or replaced then, and what this
// process writes would bring back a part of it.
func (l *Lock) Check() error {
	if isAt(l.file, l.path) {
		return nil
	}
	return fmt.Errorf("%s was removed or replaced during the work on its folder, so nothing more is written there: "+
		"restore it and go on with --resume, or start again", l.path)
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
