// Package atomicfile writes files and folders that appear either complete or not at all. Begin with
// Write and Folder.
//
// A writer creates a file or folder under a temporary name in the folder of its final name, syncs
// it, renames it, and syncs that folder. An error or a crash leaves the previous contents in place.
// A temporary name has the form ".NAME.RANDOM.mquine-tmp", where RANDOM is 16 hexadecimal digits.
// The writing process holds a lock on the file or folder, so Sweep can recognise and remove what
// killed processes left behind. Every writer sweeps the folder that it writes to.
package atomicfile

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mquine/mquine/internal/filelock"
	"github.com/mquine/mquine/internal/text"
)

// Write stores the output of write, which it buffers, in the file at path. It creates the file or
// replaces an existing one. It follows symbolic links and replaces the file to which they lead. It
// does not replace pipes, terminals and open descriptors such as /dev/stdout, but writes to them,
// and escapes control characters on a terminal. If it replaces a file, the permissions remain the
// same. The permissions of a new file follow the umask.
//
// If only the last step fails, because the system does not let this user replace the file at path, Write
// keeps the complete new file beside it under another name, and the error gives the name.
//
// An error names path and says why the file cannot be written, unless write itself returns an error that is not one of
// w. Write returns such an error unchanged.
func Write(path string, write func(w io.Writer) error) error {
	return WriteContext(context.Background(), path, write)
}

// WriteContext is like Write, but stops waiting for the reader of a pipe a second after the context is cancelled, and
// returns an error that wraps the context's error. Files are written to their end.
func WriteContext(ctx context.Context, path string, write func(w io.Writer) error) error {
	return explain(path, writeTo(ctx, path, write))
}

// WriteBytes is like Write but takes the data.
func WriteBytes(path string, data []byte) error {
	return Write(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

func writeTo(ctx context.Context, path string, write func(w io.Writer) error) error {
	target, inPlace, err := Target(path)
	if err != nil {
		return err
	}
	if inPlace {
		return writeInPlace(ctx, target, write)
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

func writeInPlace(ctx context.Context, path string, write func(w io.Writer) error) (err error) {
	// Without a reader, a named pipe does not open.
	file, err := await(ctx, func() (*os.File, error) { return openInPlace(path) })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return buffered(text.Exact(Patient(ctx, file)), write)
}

func buffered(w io.Writer, write func(w io.Writer) error) error {
	output := &recorder{w: w}
	buffer := bufio.NewWriterSize(output, 1<<16)
	if err := write(buffer); err != nil {
		if output.err == nil {
			return sourceError{err}
		}
		return err
	}
	return buffer.Flush()
}

// recorder writes to w and keeps the last error.
type recorder struct {
	w   io.Writer
	err error
}

func (r *recorder) Write(p []byte) (n int, err error) {
	n, r.err = r.w.Write(p)
	return n, r.err
}

// sourceError is an error of what is written, not of writing.
type sourceError struct{ error }

// File is a file under a temporary name. Write to it, then call Commit or Discard.
type File struct {
	file    *os.File
	target  string
	closed  bool
	pending int // bytes written since the last sync
}

// Name returns the temporary path.
func (f *File) Name() string { return f.file.Name() }

// Write writes to the file, and syncs it every 64 MiB. A single sync of a large file at the end
// would take a long time, and no signal could interrupt it.
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

// Create begins a new file at path. Unlike Write, it does not follow a symbolic link at path:
// Commit replaces the link. The caller finishes with Commit. Deferring Discard is safe, because it
// does nothing after Commit.
func Create(path string) (*File, error) {
	file, err := create(path)
	return file, explain(path, err)
}

func create(target string) (*File, error) {
	Sweep(filepath.Dir(target))
	var made *os.File
	_, err := reserve(target, func(temporary string) (*os.File, error) {
		var err error
		made, err = filelock.Create(temporary)
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

// Commit syncs the file and renames it to its final name, replacing an existing file.
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
	// Rename before closing, because closing releases the lock.
	if err := replace(f.Name(), f.target); err != nil {
		return f.keep(err)
	}
	f.closed = true
	return errors.Join(f.file.Close(), SyncFolder(filepath.Dir(f.target)))
}

// keep moves the complete file to a new name that no sweep removes, and adds the name to err, the error of
// replacing the target. The file may hold the result of hours of work. If keep fails, it returns err.
func (f *File) keep(err error) error {
	extension := filepath.Ext(f.target)
	base := strings.TrimSuffix(filepath.Base(f.target), extension)
	empty, failed := os.CreateTemp(filepath.Dir(f.target), base+".*"+extension)
	if failed != nil {
		return err
	}
	if failed := errors.Join(empty.Close(), replace(f.Name(), empty.Name())); failed != nil {
		_ = os.Remove(empty.Name()) // the error of replacing the target matters more
		return err
	}
	f.closed = true
	_ = f.file.Close() // commit has synced the file
	return fmt.Errorf("%w; the complete file is %s", text.Cause(err), empty.Name())
}

// Discard removes the file, unless it was committed.
func (f *File) Discard() {
	if f.closed {
		return
	}
	f.closed = true
	_ = os.Remove(f.Name()) // if this fails, a later sweep removes the file
	_ = f.file.Close()
}

// named replaces the temporary name in the text of an error with the final name.
func (f *File) named(err error) error { return rename(err, f.Name(), f.target) }

// explain wraps an error in a writeError for path, unless the error already wraps one or is not of writing.
func explain(path string, err error) error {
	if err == nil || errors.As(err, new(*writeError)) {
		return err
	}
	if source := (sourceError{}); errors.As(err, &source) {
		return source.error
	}
	return &writeError{path, err}
}

// writeError says which file or folder could not be written, why, and what to do if that is known.
type writeError struct {
	path string
	err  error
}

func (e *writeError) Error() string {
	message := fmt.Sprintf("cannot write %s: %v", e.path, text.Cause(e.err))
	switch {
	case DiskFull(e.err):
		message += "; free some space or choose another place"
	case errors.Is(e.err, fs.ErrPermission):
		message += "; choose a place that you may write to"
	}
	return message
}

func (e *writeError) Unwrap() error { return e.err }

// DiskFull reports whether err says that the disk is full or that a quota is used up.
func DiskFull(err error) bool {
	return slices.ContainsFunc(fullErrors, func(full error) bool { return errors.Is(err, full) })
}

// rename returns err with a different text, in which the path to replaces the path from.
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
