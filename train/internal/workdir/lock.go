package workdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/mquine/mquine/internal/filelock"
	"github.com/mquine/mquine/internal/text"
)

// Lock is an advisory lock on a folder. A nil Lock locks nothing.
type Lock struct {
	path string
	file *os.File
}

// Acquire locks a folder by locking the file at path, until Close or the end of the process. The
// process that holds the lock may replace the file once, before it closes the lock. On a file
// system without locks, Acquire only opens the file. On Windows, which cannot replace a locked file,
// Acquire locks the folder itself.
func Acquire(path string) (*Lock, error) {
	dir := filepath.Dir(path)
	if runtime.GOOS == "windows" {
		path = dir
	}
	file, err := filelock.Open(path, os.O_RDWR)
	if err == nil {
		err = filelock.Lock(file)
		if err == nil && !isAt(file, path) { // another process replaced it before it was locked
			err = filelock.ErrHeld
		}
		if err != nil && !errors.Is(err, filelock.ErrUnsupported) {
			_ = file.Close()
		}
	}
	switch {
	case errors.Is(err, filelock.ErrHeld):
		return nil, fmt.Errorf("another process is using %s: wait until it ends, or stop it", dir)
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS):
		return nil, fmt.Errorf("cannot write to %s: %w; copy it to a folder that you may write to", dir,
			text.Cause(err))
	case err != nil && !errors.Is(err, filelock.ErrUnsupported):
		return nil, err
	}
	return &Lock{path, file}, nil
}

// Close releases the lock.
func (l *Lock) Close() error {
	if l == nil {
		return nil
	}
	return l.file.Close()
}

// Check returns an error if the path no longer leads to the locked file. In that case, the folder
// was removed or replaced, and further writes would recreate parts of it.
func (l *Lock) Check() error {
	if isAt(l.file, l.path) {
		return nil
	}
	return fmt.Errorf("%s was removed or replaced while the folder was in use, so nothing more is written there: "+
		"restore it and use --resume, or start again", l.path)
}

// isAt reports whether path leads to the open file.
func isAt(file *os.File, path string) bool {
	mine, err := file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(mine, there)
}
