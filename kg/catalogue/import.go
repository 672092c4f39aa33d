package catalogue

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/mquine/mquine/kg"
)

// names matches the allowed names of data sets, which are portable names of visible folders.
var names = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)

// Import reads a data set from the folder source, in any format that kg.Open reads with
// kg.ForeignFiles, and writes it to the new folder dir/name, with its false triples, its readable labels
// and the file split.json of "mquine data split". The copy has the same identifiers, is compressed with
// gzip and has LF line ends. The folder is written atomically. Import returns the graph.
func Import(ctx context.Context, dir, source, name string, options ...kg.OpenOption) (*kg.Graph, error) {
	if !names.MatchString(name) {
		return nil, fmt.Errorf("%q cannot be the name of a data set: "+
			"use letters, digits, dots, hyphens and underscores, but no dot or hyphen at the start", name)
	}
	target := filepath.Join(dir, name)
	if _, err := os.Lstat(target); err == nil {
		return nil, fmt.Errorf("data set %s already exists, in %s: choose another name or remove the folder",
			name, target)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("importing %s: %w", name, err)
	}
	if _, known := Find(name); known {
		return nil, fmt.Errorf("%s is the name of a public data set: choose another name, or run %q, "+
			"which verifies the checksums", name, "mquine data get "+name+" --from "+source)
	}

	folder, err := filepath.Abs(source) // kg.Open reads a path without a separator as a name
	if err != nil {
		return nil, fmt.Errorf("importing %s: %w", source, err)
	}
	g, err := kg.Open(ctx, folder, append(slices.Clone(options), kg.ForeignFiles())...)
	if err != nil {
		return nil, err
	}
	g.Name = name
	if err := kg.Write(ctx, target, g, kg.Gzip(), kg.Extras()); err != nil {
		return nil, err
	}
	g.Dir = target
	return g, nil
}
