// Package catalogue describes the public benchmarks for link prediction: their sizes, licences,
// checksums and origins. [Fetcher.Get] fetches a benchmark into the folder of the data sets, and
// [Import] copies other data sets there.
//
// A checksum is computed from the uncompressed text of a split with LF line ends, including one
// after the last line, and without a blank last line. Copies therefore have the same checksum
// regardless of their compression, their line ends and a blank last line.
package catalogue

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mquine/mquine/kg"
)

// Dataset is a benchmark as its authors published it.
type Dataset struct {
	// Name is the name of the folder and the value of --data. Title is the name in papers.
	Name, Title string
	// Entities and Relations are the numbers of distinct labels in all splits together.
	Entities, Relations int
	// Source names the authors and their publication. Licence names the terms, as far as they are
	// known.
	Source, Licence string
	// Files lists train, valid and test first, and then any other files.
	Files []File
	// Origins lists the addresses to fetch from, in the order in which Get tries them. An address
	// is a folder of the files, ending with a slash, or a .tar.gz or .tgz archive.
	Origins []string
}

// File is one file of a data set: a split, or the false triples of a triple classification task.
type File struct {
	// Name is the file's name without extension, such as "train".
	Name string
	// Lines is the number of lines, each of which is a triple.
	Lines int
	// Sums lists the known checksums. All of them must match.
	Sums []Sum
}

// maxBytes returns the size limit for a download of the file, in bytes: 256 bytes per line, which
// is three times the largest average length of a line in the catalogue. The limit is at least 64
// KiB, enough for a server's page about a missing file.
func (f File) maxBytes() int64 { return max(1<<16, 256*int64(f.Lines)) }

// maxArchive returns the size limit for an archive, in bytes: twice the sum of the files' limits,
// because an archive may hold other files, too.
func (d Dataset) maxArchive() (n int64) {
	for _, f := range d.Files {
		n += 2 * f.maxBytes()
	}
	return n
}

// required reports whether a data set needs the file. Only splits are required.
func (f File) required() bool {
	_, err := kg.ParseSplit(f.Name)
	return err == nil
}

// extensions lists the extensions that a file in a data set's folder may have.
var extensions = []string{".txt", ".txt.gz", ".txt.zst"}

// otherExtensions lists the extensions of files that kg.Open also reads. A data set with such a file is
// not the published one.
var otherExtensions = []string{".nt", ".nt.gz", ".nt.zst"}

// isOther reports whether a path has one of otherExtensions.
func isOther(path string) bool {
	return slices.ContainsFunc(otherExtensions, func(e string) bool { return strings.HasSuffix(path, e) })
}

// Find returns the path of the file in a data set's folder, with or without compression, or "" if
// the folder or the file does not exist. It also finds a file of N-Triples, which Verify rejects.
func (f File) Find(dir string) (string, error) {
	forms, err := f.forms(dir)
	if err != nil || len(forms) == 0 {
		return "", err
	}
	return forms[0], nil
}

// forms returns the paths of the file in a data set's folder with any extension. kg.Open accepts only one
// form of a file.
func (f File) forms(dir string) (paths []string, err error) {
	for _, extension := range slices.Concat(extensions, otherExtensions) {
		path := filepath.Join(dir, f.Name+extension)
		if _, err := os.Stat(path); err == nil {
			paths = append(paths, path)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("looking for the %s file: %w", f.Name, err)
		}
	}
	return paths, nil
}

// Triples returns the number of triples of a split.
func (d Dataset) Triples(s kg.Split) int {
	for _, f := range d.Files {
		if f.Name == s.String() {
			return f.Lines
		}
	}
	return 0
}

// Missing returns the files of the data set that are not in the folder dir. The folder need
// not exist.
func (d Dataset) Missing(dir string) ([]File, error) {
	var missing []File
	for _, f := range d.Files {
		path, err := f.Find(dir)
		if err != nil {
			return nil, err
		}
		if path == "" {
			missing = append(missing, f)
		}
	}
	return missing, nil
}

// All returns the catalogue in display order.
func All() []Dataset { return slices.Clone(datasets) }

// Find returns the data set with the given name and reports whether the catalogue contains it.
func Find(name string) (Dataset, bool) {
	i := slices.IndexFunc(datasets, func(d Dataset) bool { return d.Name == name })
	if i < 0 {
		return Dataset{}, false
	}
	return datasets[i], true
}
