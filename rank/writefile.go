package rank

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/google/renameio/v2"

	"github.com/mquine/mquine/internal/text"
)

// WriteFile makes the file of a path with what write writes: all of it, or the path stays as it
// was. A symbolic link stays one, and the file that it leads to is replaced. "-" is standard output,
// and a path that is not a regular file (a pipe, a terminal) is written to directly, since it cannot
// be replaced; what could control a terminal is escaped on one. An error says what could not be
// written, without the name of a temporary file.
func WriteFile(path string, write func(w io.Writer) error) error {
	if path == "-" {
		return writeError("standard output", buffered(text.Exact(os.Stdout), write))
	}
	target := path
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		target = resolved
	}
	if info, err := os.Stat(target); err == nil && !info.Mode().IsRegular() {
		return writeError(path, writeInPlace(target, write))
	}
	return writeError(path, replaceFile(target, write))
}

func writeInPlace(path string, write func(w io.Writer) error) (err error) {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return buffered(text.Exact(file), write)
}

func replaceFile(path string, write func(w io.Writer) error) error {
	file, err := renameio.NewPendingFile(path,
		renameio.WithTempDir(filepath.Dir(path)), renameio.WithPermissions(0o644), renameio.WithExistingPermissions())
	if err != nil {
		return err
	}
	defer file.Cleanup() // does nothing once the file has its name
	if err := buffered(file, write); err != nil {
		return err
	}
	return file.CloseAtomicallyReplace()
}

func buffered(w io.Writer, write func(w io.Writer) error) error {
	buf := bufio.NewWriterSize(w, 1<<16)
	if err := write(buf); err != nil {
		return err
	}
	return buf.Flush()
}

// writeError says what could not be written and what to do; the name of a temporary file is of
// no use to the reader.
func writeError(name string, err error) error {
	if err == nil {
		return nil
	}
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		err = pathError.Err
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("cannot write %s: %w; free some space or choose another place", name, err)
	}
	return fmt.Errorf("cannot write %s: %w", name, err)
}
