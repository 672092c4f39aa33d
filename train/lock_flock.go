//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package train

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// lock keeps other processes from working in the folder of a file, until the returned file is closed
// or the process ends, however it ends. The file may be replaced by the process that has the lock, before
// it lets go. A file system without locks is worked on without.
func lock(path string) (*os.File, error) {
	// Opened for writing, because NFS has no exclusive locks on files that are open for reading.
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err == nil && !isAt(file, path) { // it was replaced meanwhile
		err = unix.EWOULDBLOCK
	}
	switch {
	case err == nil || slices.ContainsFunc([]error{unix.ENOLCK, unix.ENOSYS, unix.EOPNOTSUPP}, func(e error) bool { return errors.Is(err, e) }):
		return file, nil
	case errors.Is(err, unix.EWOULDBLOCK):
		err = fmt.Errorf("another process is at work in %s: wait until it ends, or stop it", filepath.Dir(path))
	default:
		err = fmt.Errorf("locking %s: %w", path, err)
	}
	return nil, errors.Join(err, file.Close())
}
