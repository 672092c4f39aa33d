package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"unicode/utf8"

	"github.com/mquine/mquine/internal/filelock"
)

// temporaryName matches exactly the names that temporaryPath returns.
var temporaryName = regexp.MustCompile(`^\..+\.[0-9a-f]{16}\.mquine-tmp$`)

// maxBase is the largest number of bytes of the final name in a temporary name. File systems allow
// names of 255 bytes.
const maxBase = 200

// temporaryPath returns a temporary name for the file or folder at path, in the same folder. It does
// not cut a character in half, because some file systems refuse names that are not UTF-8.
func temporaryPath(path string) string {
	base := filepath.Base(path)
	if n := maxBase; len(base) > n {
		for n > maxBase-utf8.UTFMax && !utf8.RuneStart(base[n]) {
			n--
		}
		base = base[:n]
	}
	return filepath.Join(filepath.Dir(path), fmt.Sprintf(".%s.%016x.mquine-tmp", base, rand.Uint64()))
}

// errSwept means that another process swept a new file before this process locked it.
var errSwept = errors.New("swept before it was locked")

// reserve creates a file or folder under a temporary name for path and locks it until it is closed.
// Before it is locked, a sweep may remove it, mistaking it for a leftover from a dead process.
// reserve then tries again.
func reserve(path string, make func(temporary string) (*os.File, error)) (temporary string, err error) {
	for {
		temporary = temporaryPath(path)
		file, err := make(temporary)
		if errors.Is(err, fs.ErrExist) || errors.Is(err, errSwept) || errors.Is(err, filelock.ErrHeld) {
			continue
		}
		if err != nil {
			return "", err
		}
		if !errors.Is(filelock.Lock(file), filelock.ErrHeld) && isAt(file, temporary) {
			return temporary, nil
		}
		_ = file.Close()
	}
}

// isAt reports whether path leads to the open file. It does not follow a symbolic link at path.
func isAt(file *os.File, path string) bool {
	mine, err := file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(path)
	return err == nil && os.SameFile(mine, there)
}

// Sweep removes the temporary files and folders that dead processes left in dir. It recognises them
// by their names and their released locks, so it removes nothing on file systems without locks. It
// does not follow symbolic links in dir. It ignores errors, because a leftover file is not a reason
// to fail.
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
	file, err := filelock.Open(path, os.O_RDONLY)
	if err != nil {
		return
	}
	defer file.Close()
	// Hold the lock while removing the file, so a writer that has just created it cannot lock it.
	if filelock.Lock(file) == nil && isAt(file, path) {
		_ = os.RemoveAll(path)
	}
}
