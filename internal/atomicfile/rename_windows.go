package atomicfile

import (
	"errors"
	"os"
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

// replace renames a file and replaces a file that has the new name, even a read-only one.
func replace(from, to string) error {
	if info, err := os.Stat(to); err == nil && info.Mode()&0o200 == 0 {
		if err := os.Chmod(to, 0o666); err != nil {
			return err
		}
	}
	return patiently(func() error { return os.Rename(from, to) })
}

// patiently repeats do for up to a second while it fails because another program, such as a virus
// scanner or a reader of the previous file, has the file open.
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
