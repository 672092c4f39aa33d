package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/mquine/mquine/internal/filelock"
	"github.com/mquine/mquine/internal/text"
)

// ExistsError means that the folder to be created already exists. It matches fs.ErrExist.
type ExistsError struct{ Path string }

func (e *ExistsError) Error() string {
	return e.Path + " already exists: remove it or choose another folder"
}

// Is reports whether target is fs.ErrExist.
func (e *ExistsError) Is(target error) bool { return target == fs.ErrExist }

// Folder creates the folder dir with the files that fill writes to a temporary folder. It creates
// parent folders as needed. dir appears once all of its contents are on disk. Folder never replaces
// anything: if dir already exists, the error is an ExistsError. After any other error, Folder has
// not created dir, unless only the last step failed, the sync of the parent folder.
//
// fill must sync the files that it writes, as Write, File and Folder do.
func Folder(dir string, fill func(temporary string) error) error {
	dir = filepath.Clean(dir)
	if _, err := os.Lstat(dir); err == nil {
		return &ExistsError{dir}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return explain(dir, err)
	}
	parent := filepath.Dir(dir)
	if err := makeParents(parent); err != nil {
		return explain(dir, err)
	}
	temporary, err := temporaryFolder(parent, filepath.Base(dir), 0o777)
	if err != nil {
		return explain(dir, err)
	}
	defer temporary.Remove()
	err = fill(temporary.Path)
	if err == nil {
		err = SyncFolder(temporary.Path)
	}
	if err != nil {
		return rename(err, temporary.Path, dir)
	}
	if err := renameNew(temporary.Path, dir); errors.Is(err, fs.ErrExist) {
		return &ExistsError{dir}
	} else if err != nil {
		return explain(dir, err)
	}
	temporary.release()
	return SyncFolder(parent)
}

// makeParents creates a folder and its missing parents, and syncs each of them.
func makeParents(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := makeParents(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return SyncFolder(parent)
}

// Temporary is a folder that exists until Remove.
type Temporary struct {
	Path string
	lock *os.File
}

// TemporaryFolder creates a folder in the folder parent, with a temporary name derived from base.
// Only this user can read the new folder. If the process dies before Remove, the next writer in
// parent removes it.
func TemporaryFolder(parent, base string) (*Temporary, error) {
	temporary, err := temporaryFolder(parent, base, 0o700)
	if err != nil {
		return nil, fmt.Errorf("cannot create a temporary folder in %s: %w", parent, text.Cause(err))
	}
	return temporary, nil
}

func temporaryFolder(parent, base string, mode fs.FileMode) (*Temporary, error) {
	Sweep(parent)
	var lock *os.File
	path, err := reserve(filepath.Join(parent, base), func(path string) (*os.File, error) {
		if err := os.Mkdir(path, mode); err != nil {
			return nil, err
		}
		var err error
		if lock, err = filelock.Open(path, os.O_RDONLY); err != nil {
			_ = os.Remove(path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = errSwept
		}
		return lock, err
	})
	if err != nil {
		return nil, err
	}
	return &Temporary{path, lock}, nil
}

// Remove removes the folder and its contents. A second call does nothing.
func (t *Temporary) Remove() error {
	if t.lock == nil {
		return nil
	}
	defer t.release()
	return os.RemoveAll(t.Path)
}

func (t *Temporary) release() {
	_ = t.lock.Close()
	t.lock = nil
}

// SyncFolder syncs the directory entries of a folder to disk. It returns nil if this user cannot
// read the folder, or if the file system cannot sync folders, as on Windows. In these cases, the
// files are in place, and the system syncs the entries later.
func SyncFolder(dir string) error {
	folder, err := os.Open(dir)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	err = folder.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) || errors.Is(err, fs.ErrPermission) {
		err = nil
	}
	return errors.Join(err, folder.Close())
}
