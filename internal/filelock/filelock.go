// Package filelock locks files and folders against other processes that use the package. A lock
// lasts until the file is closed or the process ends, even if it is killed.
//
// Open or create a file with Open or Create, then call Lock. Other programs can still read, rename
// and remove a locked file, even on Windows.
package filelock

import (
	"errors"
	"os"
)

var (
	// ErrHeld means that another open file, perhaps in another process, has the lock. On Windows,
	// Open can also return it.
	ErrHeld = errors.New("another process has locked it")
	// ErrUnsupported means that the system or the file system has no locks.
	ErrUnsupported = errors.New("the file system has no locks")
)

// Open opens an existing file or folder for Lock. flag is os.O_RDONLY or, for files only,
// os.O_RDWR. NFS locks only files that are open for writing.
func Open(path string, flag int) (*os.File, error) { return open(path, flag) }

// Create creates a file for Lock, open for reading and writing. The file must not exist.
func Create(path string) (*os.File, error) { return create(path) }

// Lock locks a file from Open or Create without waiting. After Lock, the path may lead to another
// file or to none, because another process may have renamed or removed the file before the lock.
func Lock(file *os.File) error { return lock(file) }
