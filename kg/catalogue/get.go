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

	"golang.org/x/sys/unix"

	"github.com/mquine/mquine/internal/atomicfile"
)

// Fetcher brings data sets into a folder.
type Fetcher struct {
	// Dir is the folder of the data sets; it is made if it does not exist.
	Dir string
	// Progress, if not nil, is told how many bytes of an address have come, of how many; −1 if
	// the server does not say. It is called often.
	Progress func(address string, done, total int64)
	// Log, if not nil, is given what a user should know while it happens, one sentence each.
	Log func(string)

	client  *http.Client
	backoff []time.Duration // the waits between attempts
	stall   time.Duration   // how long a server may be silent
	window  time.Duration   // how long it may take for the next
	least   int64           // bytes
	// opened is called by tests between the opening of a folder and its lock.
	opened func()
}

// NewFetcher returns a Fetcher into the folder dir.
func NewFetcher(dir string) *Fetcher {
	return &Fetcher{
		Dir:     dir,
		client:  newClient(),
		backoff: []time.Duration{time.Second, 2 * time.Second, 4 * time.Second},
		stall:   30 * time.Second,
		window:  time.Minute,
		least:   60 << 10, // 1 KiB a second
		opened:  func() {},
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

// Result says what Get did.
type Result struct {
	// Dir is the data set's folder.
	Dir string
	// Fetched names the files that came; none if all were there already.
	Fetched []string
	// Notes tells what a user should know, such as files that could not be checked.
	Notes []string
}

// Get brings the data set into the folder Dir/name. It fetches the files that are not there from
// the set's origins or, if from is not empty, from there: a folder or an archive (.tar.gz, .tgz)
// with the files, or one of the files, each a path or an http(s) address. Files that are there
// are verified and stay.
//
// A file is stored, as gzip with LF line ends, only after its sums were found right, and a set
// of which nothing is there appears as a whole. What an interrupted Get has fetched stays in
// Dir/.name.part, where the next one goes on; after a full disk nothing stays.
func (f *Fetcher) Get(ctx context.Context, d Dataset, from string) (Result, error) {
	result := Result{Dir: filepath.Join(f.Dir, d.Name)}
	for _, file := range d.Files {
		if len(file.Sums) == 0 {
			result.Notes = append(result.Notes, fmt.Sprintf("no checksum of %s is known: only its number of lines is checked", file.Name))
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
	// Another process may have fetched the set between the look and the lock.
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
		f.log("what has come stays in %s, where the same command goes on", s.dir)
		return result, fmt.Errorf("fetching %s was interrupted: %w", d.Name, context.Cause(ctx))
	case errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT):
		s.discard()
		return result, fmt.Errorf("the disk is full: %s needs more room in %s, and what was fetched is removed: %w", d.Name, f.Dir, err)
	case err != nil:
		return result, err
	}
	for _, file := range missing {
		if file.Required() {
			return result, fmt.Errorf("%s could not be fetched: %s", d.Name, s.explain())
		}
		result.Notes = append(result.Notes, fmt.Sprintf("%s is absent, which only triple classification needs: %s", file.Name, s.explain()))
	}
	result.Fetched, err = s.install(result.Dir)
	return result, err
}

// verifyPresent verifies those of the set's files that dir holds.
func (d Dataset) verifyPresent(ctx context.Context, dir string) error {
	for _, file := range d.Files {
		path, err := file.Find(dir)
		if err == nil && path != "" {
			err = file.Verify(ctx, path)
		}
		if mismatch := (*mismatchError)(nil); errors.As(err, &mismatch) {
			return fmt.Errorf("%w; remove it and run the same command to fetch it again", err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// staging is the hidden folder in which a data set is put together.
type staging struct {
	*Fetcher
	set      Dataset
	dir      string
	lock     *os.File
	problems []error // why files could not be had, origin by origin
}

// openStaging makes and locks the folder. Only the owner of the lock renames or removes the folder of
// its name, so that a lock on a folder that has the name is a lock on what the name stands for.
func (f *Fetcher) openStaging(d Dataset) (*staging, error) {
	dir := filepath.Join(f.Dir, "."+d.Name+".part")
	const attempts = 100 // far more than there are processes that end at the same moment
	for range attempts {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return nil, fmt.Errorf("making a folder for %s: %w", d.Name, err)
		}
		lock, err := os.Open(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue // another process has just finished with it
		}
		if err != nil {
			return nil, fmt.Errorf("making a folder for %s: %w", d.Name, err)
		}
		f.opened()
		// The lock ends with the process or when the folder is closed.
		if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			lock.Close()
			return nil, fmt.Errorf("another process is fetching %s into %s: wait for it (%w)", d.Name, f.Dir, err)
		}
		s := &staging{Fetcher: f, set: d, dir: dir, lock: lock}
		if s.owned() {
			return s, nil
		}
		lock.Close()
	}
	return nil, fmt.Errorf("other processes keep fetching %s into %s: wait for them", d.Name, f.Dir)
}

// owned tells whether the locked folder still has its name: the process that had it before may have
// renamed or removed it after it was opened here.
func (s *staging) owned() bool {
	locked, err := s.lock.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(s.dir)
	return err == nil && os.SameFile(locked, named)
}

// close frees the folder and removes it if it holds nothing to go on from.
func (s *staging) close() {
	if s.owned() { // and has not been installed
		os.Remove(s.dir)
	}
	s.lock.Close()
}

func (s *staging) discard() { os.RemoveAll(s.dir) }

// missing returns those of the files that are not staged.
func (s *staging) missing(files []File) ([]File, error) {
	return Dataset{Files: files}.Missing(s.dir)
}

func (s *staging) explain() string {
	if len(s.problems) == 0 {
		return "no public origin of it is known"
	}
	text := make([]string, len(s.problems))
	for i, p := range s.problems {
		text[i] = p.Error()
	}
	return strings.Join(text, "; ")
}

// install makes the staged files visible in the data set's folder and returns their names.
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
		case !staged: // left by a download from another origin
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
