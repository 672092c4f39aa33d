//go:build unix

package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// checkLink refuses a symbolic link in a sticky folder that everyone can write to, unless it
// belongs to this user or to the owner of the folder.
func checkLink(path string, link fs.FileInfo) error {
	parent, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return err
	}
	const shared = fs.ModeSticky | 0o002
	owner, ok := link.Sys().(*syscall.Stat_t)
	folder, known := parent.Sys().(*syscall.Stat_t)
	if parent.Mode()&shared != shared || !ok || !known {
		return nil
	}
	if int(owner.Uid) != os.Geteuid() && owner.Uid != folder.Uid {
		return errors.New("it is a symbolic link that another user put into a folder that everyone can write to")
	}
	return nil
}

// openInPlace opens a target that cannot be replaced. It duplicates an open descriptor, so the
// output follows earlier output even if the descriptor is a regular file.
func openInPlace(path string) (*os.File, error) {
	n, isOpen := descriptor(path)
	if !isOpen {
		return os.OpenFile(path, os.O_WRONLY, 0)
	}
	shared, err := unix.Dup(n)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(shared), path), nil
}
