package catalogue

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/mquine/mquine/internal/atomicfile"
	"github.com/mquine/mquine/internal/input"
	"github.com/mquine/mquine/internal/text"
)

// storedExtension is the extension of the files that Get stores.
const storedExtension = ".txt.gz"

// fetch stages the files that the origin provides. It returns errors of ctx and of the disk, which
// other origins cannot avoid, and records all other errors in s.problems.
func (s *staging) fetch(ctx context.Context, files []File, origin string) error {
	if strings.Contains(origin, "://") {
		return s.fetchRemote(ctx, files, origin)
	}
	info, err := input.Await(ctx, func() (fs.FileInfo, error) { return os.Stat(origin) })
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		s.problem("cannot read %s: %w", origin, text.Cause(err))
		return nil
	case info.IsDir():
		return s.fetchFolder(ctx, files, origin)
	case isArchive(origin):
		return s.unpack(ctx, files, origin, origin)
	}
	file, ok := s.only(files, origin, origin)
	if !ok {
		return nil
	}
	return s.tolerate(ctx, s.storeLocal(ctx, file, origin, origin))
}

// only(files, path, origin) returns the file that a single-file origin contains, judging by its
// path, and records the other files as missing.
func (s *staging) only(files []File, path, origin string) (file File, ok bool) {
	file, ok = fileCalled(files, path)
	if !ok {
		names := make([]string, len(files))
		for i, f := range files {
			names[i] = f.Name + ".txt"
		}
		s.problem("%s is neither a folder, nor a .tar.gz or .tgz archive, nor one of the missing files "+
			"(%s, or the same with .gz)", origin, strings.Join(names, ", "))
		return file, false
	}
	for _, other := range files {
		if other.Name != file.Name {
			s.problem("%s has only %s, and %s is missing too", origin, file.Name, other.Name)
		}
	}
	return file, true
}

// tolerate records an error and returns nil, unless fetch must return the error.
func (s *staging) tolerate(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || onDisk(err) {
		return err
	}
	s.problems = append(s.problems, err)
	return nil
}

func (s *staging) fetchFolder(ctx context.Context, files []File, dir string) error {
	for _, file := range files {
		path, err := file.Find(dir)
		switch {
		case err == nil && path == "":
			err = fmt.Errorf("%s has no %s.txt", dir, file.Name)
		case err == nil && isOther(path):
			err = mismatch("%s has N-Triples instead of tab-separated text", path)
		case err == nil:
			err = s.storeLocal(ctx, file, path, path)
		}
		if err := s.tolerate(ctx, err); err != nil {
			return err
		}
	}
	return nil
}

func (s *staging) fetchRemote(ctx context.Context, files []File, origin string) error {
	address, err := url.Parse(origin)
	if err != nil || address.Scheme != "http" && address.Scheme != "https" {
		s.problem("%s is not an http or https address: write a path without \"://\"", origin)
		return nil
	}
	if isArchive(origin) || isArchive(address.Path) { // the name may be in the query, or before it
		part := filepath.Join(s.dir, "archive.part")
		if err := s.download(ctx, origin, part, s.set.maxArchive()); err != nil {
			return s.tolerate(ctx, err)
		}
		return s.done(ctx, part, s.unpack(ctx, files, part, origin))
	}
	if slices.ContainsFunc(extensions, func(e string) bool { return strings.HasSuffix(address.Path, e) }) {
		file, ok := s.only(files, address.Path, origin)
		if !ok {
			return nil
		}
		return s.tolerate(ctx, s.fetchFile(ctx, file, origin))
	}

	for _, file := range files {
		plain := address.JoinPath(file.Name + ".txt")
		err := s.fetchFile(ctx, file, plain.String())
		if isAbsent(err) {
			compressed := address.JoinPath(file.Name + ".txt.gz")
			if err2 := s.fetchFile(ctx, file, compressed.String()); !isAbsent(err2) {
				err = err2
			}
		}
		reached := err == nil || isAbsent(err) || errors.As(err, new(*mismatchError))
		if err := s.tolerate(ctx, err); err != nil {
			return err
		}
		if !reached {
			return nil // the other files would fail too
		}
	}
	return nil
}

// fetchFile downloads and stages one file.
func (s *staging) fetchFile(ctx context.Context, file File, address string) error {
	part := filepath.Join(s.dir, file.Name+".part")
	if err := s.download(ctx, address, part, file.maxBytes()); err != nil {
		return err
	}
	return s.done(ctx, part, s.storeLocal(ctx, file, part, address))
}

// done removes the download at the path part after its use, and returns err, the error from that
// use. If ctx interrupted the use, done keeps the download for the next process.
func (s *staging) done(ctx context.Context, part string, err error) error {
	if ctx.Err() != nil {
		return err
	}
	return errors.Join(err, discardPart(part))
}

// unpack stages the files that the archive at path contains. Messages name the origin instead of
// the path.
func (s *staging) unpack(ctx context.Context, files []File, path, origin string) error {
	archive, err := input.Open(ctx, path) // ctx also interrupts the skipping of a long member
	if err != nil {
		return s.tolerate(ctx, fmt.Errorf("opening an archive: %w", err))
	}
	defer archive.Close()
	content, err := uncompressed(archive)
	if err != nil {
		return s.tolerate(ctx, fmt.Errorf("%s is not an archive: %w", origin, err))
	}
	defer content.Close()

	var found []string
	members := tar.NewReader(content)
	for {
		member, err := members.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return s.tolerate(ctx, fmt.Errorf("reading the archive %s: %w", origin, err))
		}
		file, ok := fileCalled(files, member.Name)
		if !ok || member.Typeflag != tar.TypeReg {
			continue
		}
		found = append(found, file.Name)
		if err := s.tolerate(ctx, s.store(ctx, file, members, member.Name+" in "+origin)); err != nil {
			return err
		}
	}
	for _, file := range files {
		if !slices.Contains(found, file.Name) {
			s.problem("%s has no %s.txt", origin, file.Name)
		}
	}
	return nil
}

func (s *staging) storeLocal(ctx context.Context, file File, path, origin string) error {
	r, err := input.Open(ctx, path)
	if err != nil {
		return fmt.Errorf("reading a split: %w", err)
	}
	defer r.Close()
	return s.store(ctx, file, r, origin)
}

// store stages a file if it passes verification.
func (s *staging) store(ctx context.Context, file File, r io.Reader, origin string) error {
	pending, err := atomicfile.Create(filepath.Join(s.dir, file.Name+storedExtension))
	if err != nil {
		return fmt.Errorf("storing %s: %w", file.Name, err)
	}
	defer pending.Discard()
	z := gzip.NewWriter(pending)
	if _, err := file.copyText(ctx, z, r, origin); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("storing %s: %w", file.Name, err)
	}
	// Verify the stored file, not the source: later readers then see the verified bytes.
	if err := file.verify(ctx, pending.Name(), origin); err != nil {
		return err
	}
	if err := pending.Commit(); err != nil {
		return fmt.Errorf("storing %s: %w", file.Name, err)
	}
	return nil
}

// fileCalled returns the file that a path names, such as train.txt, train.txt.gz, or
// freebase_mtr100_mte100-train.txt in the first release of FB15k.
func fileCalled(files []File, name string) (File, bool) {
	stem := path.Base(filepath.ToSlash(name))
	for _, extension := range slices.Backward(extensions) {
		stem = strings.TrimSuffix(stem, extension)
	}
	i := slices.IndexFunc(files, func(f File) bool {
		return stem == f.Name || strings.HasSuffix(stem, "-"+f.Name)
	})
	if i < 0 {
		return File{}, false
	}
	return files[i], true
}

func isArchive(name string) bool {
	return strings.HasSuffix(name, ".tar.gz") || strings.HasSuffix(name, ".tgz")
}

// isAbsent reports whether a server responded that it does not have the file.
func isAbsent(err error) bool {
	status := (*statusError)(nil)
	return errors.As(err, &status) && (status.code == http.StatusNotFound || status.code == http.StatusGone)
}
