//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package workdir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// lock opens and locks a file.
func lock(path string) (*os.File, error) {
	// Open for writing, because NFS cannot exclusively lock a file that is open only for reading.
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
	if err == nil && !isAt(file, path) { // another process replaced it before the lock
		err = unix.EWOULDBLOCK
	}
	switch {
	case err == nil || errors.Is(err, unix.ENOLCK) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP):
		return file, nil
	case errors.Is(err, unix.EWOULDBLOCK):
		err = fmt.Errorf("another process is using %s: wait until it ends, or stop it", filepath.Dir(path))
	default:
		err = fmt.Errorf("locking %s: %w", path, err)
	}
	return nil, errors.Join(err, file.Close())
}
