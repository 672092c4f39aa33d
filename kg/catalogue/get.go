package catalogue

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mquine/mquine/internal/atomicfile"
	"github.com/mquine/mquine/internal/compressed"
	"github.com/mquine/mquine/internal/filelock"
	"github.com/mquine/mquine/internal/text"
)

// Fetcher fetches data sets into a folder.
type Fetcher struct {
	// Dir is the folder of the data sets. Get creates it if necessary.
	Dir string
	// Progress, if not nil, is called often with the number of bytes received from an address and
	// the size of the file. The size is −1 if the server does not give it.
	Progress func(address string, done, total int64)
	// Log, if not nil, is called with messages for the user, for example about retries. Each
	// message is one sentence.
	Log func(string)

	client  *http.Client
	backoff []time.Duration // waits between attempts
	stall   time.Duration   // the longest silence of a server
	window  time.Duration   // the longest time in which a server may send fewer than least bytes
	least   int64
	// opened is called after a folder is opened and before it is locked. Tests set it.
	opened func()
	// lockFile locks an open folder. Tests replace it.
	lockFile func(*os.File) error
}

// NewFetcher returns a Fetcher for the folder dir.
func NewFetcher(dir string) *Fetcher {
	return &Fetcher{
		Dir:      dir,
		client:   newClient(),
		backoff:  []time.Duration{time.Second, 2 * time.Second, 4 * time.Second},
		stall:    30 * time.Second,
		window:   time.Minute,
		least:    60 << 10, // 1 KiB a second
		opened:   func() {},
		lockFile: filelock.Lock,
	}
}

func (f *Fetcher) log(format string, args ...any) {
	if f.Log != nil {
		f.Log(fmt.Sprintf(format, args...))
	}
}

func (f *Fetcher) progress(address string, done, total int64) {
	if f.Progress != nil {
		f.Progress(address, done, total)
	}
}

// Result describes what Get did.
type Result struct {
	// Dir is the data set's folder.
	Dir string
	// Fetched names the new files. It is empty if the data set was complete.
	Fetched []string
	// Notes lists what a user should know, such as files without a checksum.
	Notes []string
}

func (r *Result) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// Get installs a data set in the folder Dir/name. It verifies the files that the folder already
// contains and fetches the missing ones. It tries the origins of the data set in turn or, if the
// parameter from is not empty, uses that origin alone. An origin is the path or the http(s) address
// of a folder, an archive (.tar.gz, .tgz) or a single file.
//
// Get stores a file only if its checksums match. Stored files are compressed with gzip and have LF
// line ends. A new folder appears atomically with all its files. After an interruption, partial
// downloads stay in Dir/.name.part, and the next Get resumes them. If the disk is full, Get removes
// them.
func (f *Fetcher) Get(ctx context.Context, d Dataset, from string) (Result, error) {
	result := Result{Dir: filepath.Join(f.Dir, d.Name)}
	for _, file := range d.Files {
		if len(file.Sums) == 0 {
			result.note("no checksum of %s is known: only its number of lines is checked", file.Name)
		}
	}
	if err := d.verifyPresent(ctx, result.Dir); err != nil {
		return result, err
	}
	missing, err := d.Missing(result.Dir)
	if err != nil || len(missing) == 0 {
		return result, err
	}

	s, err := f.openStaging(d)
	if err != nil {
		return result, err
	}
	defer s.close()
	// Look again, because another process may have fetched the data set before this process
	// obtained the lock.
	if missing, err = d.Missing(result.Dir); err != nil || len(missing) == 0 {
		return result, err
	}
	origins := d.Origins
	if from != "" {
		origins = []string{from}
	}
	for i, origin := range origins {
		if missing, err = s.missing(missing); err != nil || len(missing) == 0 {
			break
		}
		if i > 0 {
			f.log("%v; trying %s", s.problems[len(s.problems)-1], origin)
		}
		if err = s.fetch(ctx, missing, origin); err != nil {
			break
		}
	}
	if err == nil {
		missing, err = s.missing(missing)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		if files, _ := os.ReadDir(s.dir); len(files) > 0 {
			f.log("the partial download stays in %s: run the same command to resume it", s.dir)
		}
		return result, fmt.Errorf("fetching %s was interrupted: %w", d.Name, context.Cause(ctx))
	case atomicfile.DiskFull(err):
		s.discard()
		return result, fmt.Errorf("the disk is full: %s needs more space in %s (the partial download is removed): %w",
			d.Name, f.Dir, err)
	case err != nil:
		return result, err
	}
	for _, file := range missing {
		if file.required() {
			return result, fmt.Errorf("%s could not be fetched: %s", d.Name, s.explain())
		}
		result.note("%s is missing (only triple classification needs it): %s", file.Name, s.explain())
	}
	result.Fetched, err = s.install(result.Dir)
	return result, err
}

// verifyPresent verifies the files that dir already contains.
func (d Dataset) verifyPresent(ctx context.Context, dir string) error {
	for _, file := range d.Files {
		forms, err := file.forms(dir)
		switch {
		case err != nil:
			return err
		case len(forms) == 0:
			continue
		case len(forms) > 1:
			return fmt.Errorf("%s has both %s and %s: remove one of them", dir, filepath.Base(forms[0]),
				filepath.Base(forms[1]))
		}
		switch err := file.Verify(ctx, forms[0]); {
		case err == nil:
		case ctx.Err() != nil || onDisk(err): // the file may be intact
			return err
		case errors.As(err, new(*mismatchError)):
			return fmt.Errorf("%w; remove it and run the same command to fetch it again, "+
				"or rename the folder if it is another data set", err)
		case errors.Is(err, compressed.ErrPointer):
			return fmt.Errorf("%w, or remove it and run the same command to fetch it again", err)
		default:
			return fmt.Errorf("%w; remove it and run the same command to fetch it again", err)
		}
	}
	return nil
}

// staging is the hidden folder in which Get collects the files of a data set.
type staging struct {
	*Fetcher
	set      Dataset
	dir      string
	lock     *os.File
	problems []error // why files are missing, in the order of the origins
}

// openStaging creates and locks the staging folder of d. Only the owner of the lock renames or
// removes the folder. The name therefore always leads to the locked folder while the lock is held.
// On a file system without locks, openStaging only creates and opens the folder.
func (f *Fetcher) openStaging(d Dataset) (*staging, error) {
	dir := filepath.Join(f.Dir, "."+d.Name+".part")
	const attempts = 100 // more processes than are likely to finish at the same moment
	for range attempts {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return nil, fmt.Errorf("cannot create a folder for %s in %s: %w", d.Name, f.Dir, text.Cause(err))
		}
		lock, err := filelock.Open(dir, os.O_RDONLY)
		if err == nil {
			f.opened()
			if err = f.lockFile(lock); errors.Is(err, filelock.ErrUnsupported) {
				err = nil
			}
			if err != nil {
				lock.Close()
			}
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // another process has just removed or renamed it
		case errors.Is(err, filelock.ErrHeld):
			return nil, fmt.Errorf("another process is fetching %s into %s: wait for it", d.Name, f.Dir)
		case err != nil:
			return nil, fmt.Errorf("cannot lock the folder for %s: %w", d.Name, err)
		}
		s := &staging{Fetcher: f, set: d, dir: dir, lock: lock}
		if s.owned() {
			return s, nil
		}
		lock.Close()
	}
	return nil, fmt.Errorf("other processes keep fetching %s into %s: wait for them", d.Name, f.Dir)
}

// owned reports whether the locked folder still has its name. Its previous owner may have renamed
// or removed it after this process opened it.
func (s *staging) owned() bool {
	locked, err := s.lock.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(s.dir)
	return err == nil && os.SameFile(locked, named)
}

// close releases the folder, and removes it if it is empty.
func (s *staging) close() {
	if s.owned() { // not installed
		os.Remove(s.dir)
	}
	s.lock.Close()
}

func (s *staging) discard() { os.RemoveAll(s.dir) }

// problem records why a file is missing.
func (s *staging) problem(format string, args ...any) {
	s.problems = append(s.problems, fmt.Errorf(format, args...))
}

// missing returns the files that are not staged.
func (s *staging) missing(files []File) ([]File, error) {
	return Dataset{Files: files}.Missing(s.dir)
}

// explain returns all problems as one text.
func (s *staging) explain() string {
	if len(s.problems) == 0 {
		return "no public origin is known"
	}
	text := make([]string, len(s.problems))
	for i, p := range s.problems {
		text[i] = p.Error()
	}
	return strings.Join(text, "; ")
}

// install moves the staged files to the data set's folder and returns their names.
func (s *staging) install(dir string) ([]string, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("installing a data set: %w", err)
	}
	_, err = os.Stat(dir)
	whole := errors.Is(err, os.ErrNotExist)
	var names []string
	for _, e := range entries {
		from := filepath.Join(s.dir, e.Name())
		switch name, staged := strings.CutSuffix(e.Name(), storedExtension); {
		case !staged: // a partial download from another origin
			err = os.Remove(from)
		case whole:
			names, err = append(names, name), nil
		default:
			names, err = append(names, name), os.Rename(from, filepath.Join(dir, e.Name()))
		}
		if err != nil {
			return nil, fmt.Errorf("installing a data set: %w", err)
		}
	}
	if whole {
		if err := errors.Join(atomicfile.SyncFolder(s.dir), os.Rename(s.dir, dir)); err != nil {
			return nil, fmt.Errorf("installing a data set: %w", err)
		}
	}
	if err := errors.Join(atomicfile.SyncFolder(dir), atomicfile.SyncFolder(filepath.Dir(dir))); err != nil {
		return nil, fmt.Errorf("installing a data set: %w", err)
	}
	return names, nil
}
