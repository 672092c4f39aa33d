package filelock

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

func open(path string, _ int) (*os.File, error) { return exclusively(path, windows.OPEN_EXISTING) }

func create(path string) (*os.File, error) { return exclusively(path, windows.CREATE_NEW) }

// lock does nothing, because open and create already open the file exclusively.
func lock(*os.File) error { return nil }

// exclusively opens a file or folder for writing, and prevents other opens for writing until it is
// closed. LockFileEx is unsuitable: it does not lock folders, and others cannot read the locked
// part of a file.
func exclusively(path string, disposition uint32) (*os.File, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	const (
		access = windows.GENERIC_READ | windows.GENERIC_WRITE
		share  = windows.FILE_SHARE_READ | windows.FILE_SHARE_DELETE
		// Folders need backup semantics. A link at path is not followed.
		attributes = windows.FILE_ATTRIBUTE_NORMAL | windows.FILE_FLAG_BACKUP_SEMANTICS |
			windows.FILE_FLAG_OPEN_REPARSE_POINT
	)
	handle, err := windows.CreateFile(name, access, share, nil, disposition, attributes, 0)
	if errors.Is(err, windows.ERROR_SHARING_VIOLATION) {
		err = ErrHeld
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(handle), path), nil
}
