package catalogue

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/mquine/mquine/kg"
)

// names are names of data sets: those that are a plain, visible folder on any system.
var names = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)

// Import reads the data set in the folder source, in any form that kg.Open reads, and writes it
// into the folder dir/name, as gzip with LF line ends and under the same identifiers. The folder
// appears when it is whole. It returns what it wrote.
func Import(ctx context.Context, dir, source, name string, options ...kg.OpenOption) (*kg.Graph, error) {
	if !names.MatchString(name) {
		return nil, fmt.Errorf("%q is no name for a data set: use letters, digits, dots, hyphens and underscores", name)
	}
	target := filepath.Join(dir, name)
	if _, err := os.Lstat(target); err == nil {
		return nil, fmt.Errorf("there is a data set %s already, in %s: choose another name, or remove that folder", name, target)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("importing %s: %w", name, err)
	}
	if _, known := Find(name); known {
		return nil, fmt.Errorf("%s is the name of a public data set, whose checksums %q verifies: choose another name, or use that",
			name, "mquine data get "+name+" --from "+source)
	}

	folder, err := filepath.Abs(source) // kg.Open takes what has no separator for a name
	if err != nil {
		return nil, fmt.Errorf("importing %s: %w", source, err)
	}
	g, err := kg.Open(ctx, folder, options...)
	if err != nil {
		return nil, err
	}
	g.Name = name
	if err := kg.Write(ctx, target, g, kg.Gzip()); err != nil {
		return nil, err
	}
	g.Dir = target
	return g, nil
}
