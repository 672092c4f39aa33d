// Package atomicfile writes files and folders that appear whole or not at all.
//
// Both are made under a temporary name beside their own, synced, renamed, and the parent folder is synced. An
// error or a crash leaves what was there before. A temporary name is ".NAME.RANDOM.mquine-tmp", with 16 hexadecimal
// digits, and its owner holds a lock on it for as long as the owner lives. So Sweep can tell, and remove, what a
// killed process left; every writer sweeps the folder that it writes to.
package atomicfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/mquine/mquine/internal/text"
)

// Write replaces or makes the file at path with what write writes, through a buffer. A symbolic link stays
// one, and the file that it leads to is replaced or made. Write writes directly to a pipe, a terminal or an open
// descriptor such as /dev/stdout, which cannot be replaced, and escapes control characters on a terminal. A file
// that is replaced keeps its permissions; the permissions of a new one follow the umask.
//
// An error says that path cannot be written and why.
func Write(path string, write func(w io.Writer) error) error {
	return explain(path, writeTo(path, write))
}

// WriteBytes is Write for data that is in memory already.
func WriteBytes(path string, data []byte) error {
	return Write(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

func writeTo(path string, write func(w io.Writer) error) error {
	target, inPlace, err := Target(path)
	if err != nil {
		return err
	}
	if inPlace {
		return writeInPlace(target, write)
	}
	file, err := create(target)
	if err != nil {
		return err
	}
	defer file.Discard()
	if err := buffered(file, write); err != nil {
		return file.named(err)
	}
	return file.Commit()
}

func writeInPlace(path string, write func(w io.Writer) error) (err error) {
	file, err := openInPlace(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return buffered(text.Exact(file), write)
}

func buffered(w io.Writer, write func(w io.Writer) error) error {
	buffer := bufio.NewWriterSize(w, 1<<16)
	if err := write(buffer); err != nil {
		return err
	}
	return buffer.Flush()
}

// File is a file under its temporary name. It is written to and then either committed or discarded.
type File struct {
	file    *os.File
	target  string
	closed  bool
	pending int // bytes written since the last sync
}

// Name returns the temporary path.
func (f *File) Name() string { return f.file.Name() }

// Write writes to the file, and to the disk piece by piece: nothing can stop a process while the system flushes a
// large file at the end.
func (f *File) Write(p []byte) (int, error) {
	const piece = 1 << 26
	if f.pending += len(p); f.pending > piece {
		f.pending = 0
		if err := f.file.Sync(); err != nil {
			return 0, err
		}
	}
	return f.file.Write(p)
}

// Create begins the file at path, in the folder that path names: a symbolic link at path is replaced. The caller
// ends with Commit; Discard after that does nothing, so that it can be deferred.
func Create(path string) (*File, error) {
	file, err := create(path)
	return file, explain(path, err)
}

func create(target string) (*File, error) {
	Sweep(filepath.Dir(target))
	var made *os.File
	_, err := reserve(target, func(temporary string) (*os.File, error) {
		var err error
		made, err = os.OpenFile(temporary, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		return made, err
	})
	if err != nil {
		return nil, err
	}
	file := &File{file: made, target: target}
	if info, err := os.Stat(target); err == nil && info.Mode().IsRegular() {
		if err := made.Chmod(info.Mode().Perm()); err != nil {
			file.Discard()
			return nil, err
		}
	}
	return file, nil
}

// Commit puts the file on the disk under its name, in the place of one that is there.
func (f *File) Commit() error {
	if err := f.commit(); err != nil {
		f.Discard()
		return explain(f.target, f.named(err))
	}
	return nil
}

func (f *File) commit() error {
	if err := f.file.Sync(); err != nil {
		return err
	}
	// Renamed before it is closed, because its lock ends when it closes.
	if err := os.Rename(f.Name(), f.target); err != nil {
		return err
	}
	f.closed = true
	return errors.Join(f.file.Close(), SyncFolder(filepath.Dir(f.target)))
}

// Discard removes the file, unless it was committed.
func (f *File) Discard() {
	if f.closed {
		return
	}
	f.closed = true
	_ = os.Remove(f.Name()) // what stays is swept later
	_ = f.file.Close()
}

// named replaces the temporary name in an error by the name of the file.
func (f *File) named(err error) error { return rename(err, f.Name(), f.target) }

// explain says what could not be written, once, and what to do where that is known.
func explain(path string, err error) error {
	if err == nil || errors.As(err, new(*writeError)) {
		return err
	}
	return &writeError{path, err}
}

// writeError is an error about a file or folder that could not be written.
type writeError struct {
	path string
	err  error
}

func (e *writeError) Error() string {
	message := fmt.Sprintf("cannot write %s: %v", e.path, text.Cause(e.err))
	if errors.Is(e.err, syscall.ENOSPC) || errors.Is(e.err, syscall.EDQUOT) {
		message += "; free some space or choose another place"
	}
	return message
}

func (e *writeError) Unwrap() error { return e.err }

// rename returns err with another name for a path in its text.
func rename(err error, from, to string) error {
	if err == nil || !strings.Contains(err.Error(), from) {
		return err
	}
	return renamed{err, from, to}
}

type renamed struct {
	error
	from, to string
}

func (e renamed) Error() string { return strings.ReplaceAll(e.error.Error(), e.from, e.to) }
func (e renamed) Unwrap() error { return e.error }
