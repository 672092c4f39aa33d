package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
)

// temporaryName matches the names that temporaryPath makes and no other.
var temporaryName = regexp.MustCompile(`^\..+\.[0-9a-f]{16}\.mquine-tmp$`)

// maxBase bounds how much of a name goes into a temporary one: file systems take 255 bytes.
const maxBase = 200

// temporaryPath returns a temporary name for the file or folder at path, beside it.
func temporaryPath(path string) string {
	base := filepath.Base(path)
	base = base[:min(len(base), maxBase)]
	return filepath.Join(filepath.Dir(path), fmt.Sprintf(".%s.%016x.mquine-tmp", base, rand.Uint64()))
}

// errSwept says that a sweep removed what was just made and not yet locked.
var errSwept = errors.New("swept before it was locked")

// reserve makes a file or folder under a temporary name for path, and locks it for as long as it is open. A sweep that
// comes between making and locking takes it for the litter of a dead process: then reserve makes another.
func reserve(path string, make func(temporary string) (*os.File, error)) (temporary string, err error) {
	for {
		temporary = temporaryPath(path)
		file, err := make(temporary)
		if errors.Is(err, fs.ErrExist) || errors.Is(err, errSwept) {
			continue
		}
		if err != nil {
			return "", err
		}
		if tryLock(file) != held && isAt(file, temporary) {
			return temporary, nil
		}
		_ = file.Close()
	}
}

// isAt tells whether path itself, not what it links to, is the file that is open.
func isAt(file *os.File, path string) bool {
	mine, err := file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(path)
	return err == nil && os.SameFile(mine, there)
}

// Sweep removes from a folder the temporary files and folders that dead processes left there. It removes
// nothing that has another name, nothing whose owner lives, and nothing where owners cannot be told, as on file
// systems without locks. It follows no symbolic link below dir. What it cannot remove it leaves: litter is no
// reason to fail.
func Sweep(dir string) {
	folder, err := os.Open(dir)
	if err != nil {
		return
	}
	defer folder.Close()
	names, _ := folder.Readdirnames(-1)
	for _, name := range names {
		if temporaryName.MatchString(name) {
			sweepOne(filepath.Join(dir, name))
		}
	}
}

func sweepOne(path string) {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() && !info.IsDir() {
		return
	}
	file, err := os.Open(path)
	if err != nil {
		return
	}
	defer file.Close()
	// The lock is held while the litter goes, so that its maker cannot take it for its own.
	if tryLock(file) == taken && isAt(file, path) {
		_ = os.RemoveAll(path)
	}
}

// lockState is what became of an attempt to lock a file.
type lockState int

const (
	taken       lockState = iota
	held                  // by another process or another open file of this one
	unsupported           // by the file system
)
