package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/mquine/mquine/internal/text"
)

// ExistsError says that a folder to be made is there already. It is an fs.ErrExist.
type ExistsError struct{ Path string }

func (e *ExistsError) Error() string {
	return e.Path + " exists already: remove it or choose another folder"
}

// Is makes errors.Is(e, fs.ErrExist) true.
func (e *ExistsError) Is(target error) bool { return target == fs.ErrExist }

// Folder makes the folder dir with what fill puts into the temporary folder that it is given. Folders above dir
// are made as needed. The folder appears when all of it is on the disk. If dir exists, the error is an ExistsError:
// nothing is ever replaced. After any error there is no folder.
//
// fill syncs the files that it writes; Write, File and Folder do.
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

// makeParents makes a folder and those above it, each on the disk.
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

// Temporary is a folder for the time of a command.
type Temporary struct {
	Path string
	lock *os.File
}

// TemporaryFolder makes a folder of this user alone, with a temporary name for base, in the folder parent. If the
// process dies before Remove, the next writer in parent removes it.
func TemporaryFolder(parent, base string) (*Temporary, error) {
	temporary, err := temporaryFolder(parent, base, 0o700)
	if err != nil {
		return nil, fmt.Errorf("making a temporary folder in %s: %w", parent, text.Cause(err))
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
		if lock, err = os.Open(path); err != nil {
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

// Remove removes the folder and all that it holds.
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

// SyncFolder puts the names that a folder holds on the disk. A folder that this user may write to but not read, or
// whose file system does not sync folders, is left to the system: what was written is in place all the same.
func SyncFolder(dir string) error {
	folder, err := os.Open(dir)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	err = folder.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil
	}
	return errors.Join(err, folder.Close())
}
