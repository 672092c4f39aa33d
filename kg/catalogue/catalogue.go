// Package catalogue knows the public benchmarks of link prediction: their sizes, licences,
// checksums and origins. It fetches them into the folder of the data sets and imports others.
//
// Checksums are of the split as uncompressed text with LF line ends and one after the last line,
// so that a copy is recognised however it was compressed and on whichever system it was packed.
package catalogue

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/mquine/mquine/kg"
)

// Dataset is a benchmark as its authors published it.
type Dataset struct {
	// Name is the name of its folder, and what --data takes; Title is how papers write it.
	Name, Title string
	// Entities and Relations are those of all splits together.
	Entities, Relations int
	// Source says who made it, and Licence on what terms, as far as known.
	Source, Licence string
	// Files holds train, valid and test, then what else belongs to the set.
	Files []File
	// Origins are where it can be fetched, the first choice first: a folder, with a slash at the
	// end, that holds the files, or a .tar.gz or .tgz archive of them.
	Origins []string
}

// File is one file of a data set: a split, or the false triples of a triple classification task.
type File struct {
	// Name is the file's name without extension, such as "train".
	Name string
	// Lines is the number of triples, one a line.
	Lines int
	// Sums are the known checksums; all of them must agree.
	Sums []Sum
}

// maxBytes is the size of the largest download that is taken for the file: 256 bytes a line, three
// times what the longest lines of the catalogue have on average, and room for a server's page that says
// why the file is not there.
func (f File) maxBytes() int64 { return max(1<<16, 256*int64(f.Lines)) }

// maxArchive is the same for an archive of the data set, which may hold other files too.
func (d Dataset) maxArchive() (n int64) {
	for _, f := range d.Files {
		n += 2 * f.maxBytes()
	}
	return n
}

// Required tells whether a data set is incomplete without the file: it is a split.
func (f File) Required() bool {
	_, err := kg.ParseSplit(f.Name)
	return err == nil
}

// extensions lists how a file of a data set may be stored.
var extensions = []string{".txt", ".txt.gz", ".txt.zst"}

// Find returns the path of the file in a data set's folder, plain or compressed, or "" if the
// folder or the file does not exist.
func (f File) Find(dir string) (string, error) {
	for _, extension := range extensions {
		path := filepath.Join(dir, f.Name+extension)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("looking for the %s file: %w", f.Name, err)
		}
	}
	return "", nil
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

// Missing returns those of the set's files that the folder dir lacks; all, if there is none.
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

// All returns the catalogue in the order in which it is shown.
func All() []Dataset { return slices.Clone(datasets) }

// Find returns the data set of that name and whether the catalogue has it.
func Find(name string) (Dataset, bool) {
	i := slices.IndexFunc(datasets, func(d Dataset) bool { return d.Name == name })
	if i < 0 {
		return Dataset{}, false
	}
	return datasets[i], true
}
