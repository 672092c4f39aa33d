package atomicfile

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/windows"
)

// fullErrors are the errors of a full disk.
var fullErrors = []error{windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL, windows.ERROR_DISK_QUOTA_EXCEEDED,
	syscall.ENOSPC}

// renameNew renames a folder and fails if the new name exists.
func renameNew(from, to string) error {
	err := patiently(func() error {
		old, err := windows.UTF16PtrFromString(from)
		if err != nil {
			return err
		}
		name, err := windows.UTF16PtrFromString(to)
		if err != nil {
			return err
		}
		return windows.MoveFileEx(old, name, windows.MOVEFILE_WRITE_THROUGH)
	})
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

// replace renames a file within its folder and replaces a file that has the new name, even one that
// is read-only or that this process has open and locked. os.Root.Rename can replace open files,
// unlike os.Rename.
func replace(from, to string) error {
	folder, err := os.OpenRoot(filepath.Dir(to))
	if err != nil {
		return err
	}
	defer folder.Close()
	if info, err := os.Stat(to); err == nil && info.Mode()&0o200 == 0 {
		if err := os.Chmod(to, 0o666); err != nil {
			return err
		}
	}
	return patiently(func() error { return folder.Rename(filepath.Base(from), filepath.Base(to)) })
}

// patiently calls do again for a second while a virus scanner or an indexer has a file open.
func patiently(do func() error) (err error) {
	for wait := time.Millisecond; wait < time.Second; wait *= 2 {
		err = do()
		if !errors.Is(err, windows.ERROR_SHARING_VIOLATION) && !errors.Is(err, windows.ERROR_ACCESS_DENIED) {
			break
		}
		time.Sleep(wait)
	}
	return err
}
