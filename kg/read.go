package kg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/mquine/mquine/internal/compressed"
	"github.com/mquine/mquine/internal/input"
	"github.com/mquine/mquine/internal/text"
)

// DataDir returns the folder of the data sets: the value of MQUINE_DATA or, if that is empty,
// mquine/datasets in the user's cache. The folder need not exist. It is an error if MQUINE_DATA names a
// file, or if it is empty and the system names no cache.
func DataDir() (string, error) {
	if dir := os.Getenv("MQUINE_DATA"); dir != "" {
		if info, err := os.Stat(dir); err == nil && !info.IsDir() {
			return "", fmt.Errorf("MQUINE_DATA names %s, which is not a folder: "+
				"set it to the folder of the data sets", dir)
		}
		return dir, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no folder for data sets (%w): set MQUINE_DATA to one", err)
	}
	return filepath.Join(cache, "mquine", "datasets"), nil
}

// Installed returns the sorted names of the data sets in DataDir. Every folder that contains a
// split is a data set, unless its name begins with a dot. If DataDir does not exist, Installed
// returns no names.
func Installed() ([]string, error) {
	dir, err := DataDir()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot list the data sets in %s: %w; MQUINE_DATA names their folder",
			dir, text.Cause(err))
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if files, err := listFolder(filepath.Join(dir, e.Name())); err == nil && files.holdSplit() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// Open reads a data set. If dataset is ".", ".." or contains a path separator, it is the path of a
// folder; otherwise it is the name of a folder in DataDir.
//
// The folder contains at least one of the splits train, valid and test, as tab-separated text
// (.txt) or N-Triples (.nt). Files of either format may be compressed (.gz, .zst). Open numbers
// labels in the order of their first appearance in train, valid and test, head before tail. If the
// folder contains a vocabulary file, Open uses the identifiers in it, and the file must contain
// every label:
//
//	entities.dict  entity_ids.del    id<TAB>label, as the RotatE repository and LibKGE write it
//	entities.tsv                     id<TAB>label
//	entities.txt                     one label per line, numbered from 0
//
// The same holds for relations. Vocabulary files may be compressed. In N-Triples, the label of an
// IRI is the IRI without its angle brackets. The label of a blank node is _:name, and a name
// identifies the same node in all files. The label of a literal is its canonical form, such as
// "chat"@fr. An error about the contents of a file names the file and the line.
//
// An empty split is an error. For a public data set in DataDir, a split that does not have the
// published number of triples is also an error, because filters might miss known answers.
func Open(ctx context.Context, dataset string, options ...OpenOption) (*Graph, error) {
	o := newOpening(options...)
	files, err := input.Await(ctx, func() (datasetFiles, error) { return findFiles(dataset, o.foreign) })
	if err != nil {
		return nil, err
	}
	o.progress.start(files.bytes)
	g := &Graph{Name: files.name, Dir: files.dir}
	o.layout = files.layout
	if g.Entities, err = o.vocabulary(ctx, files.entities); err != nil {
		return nil, err
	}
	if g.Relations, err = o.vocabulary(ctx, files.relations); err != nil {
		return nil, err
	}
	if err := g.readSplits(ctx, files.splits, o); err != nil {
		return nil, err
	}
	difference := g.comparePublished(files.splits)
	if difference != "" && files.installed {
		return nil, fmt.Errorf("%s: remove the file and run \"mquine data get %s\", "+
			"or rename the folder if it is another data set", difference, g.Name)
	}
	// Looking for defects builds an index, which takes many seconds for a hundred million triples.
	if g.Notes, err = input.Await(ctx, func() ([]string, error) { return g.describeDefects(), nil }); err != nil {
		return nil, fmt.Errorf("data set %s: %w", g.Name, err)
	}
	if difference != "" {
		g.Notes = append(g.Notes, difference)
	}
	return g, nil
}

// OpenOption changes how Open reads a data set.
type OpenOption func(*opening)

// opening holds the options of Open.
type opening struct {
	limits
	progress *progress
	// foreign accepts the files of other tools. layout is nil unless the data set has such files.
	foreign bool
	layout  *foreignLayout
}

func newOpening(options ...OpenOption) opening {
	o := opening{limits: defaultLimits}
	for _, option := range options {
		option(&o)
	}
	return o
}

// vocabulary reads a vocabulary file in the layout of the data set or in the format that its name
// implies. It returns nil if the path is empty.
func (o opening) vocabulary(ctx context.Context, path string) (v *Vocabulary, err error) {
	if path == "" {
		return nil, nil
	}
	read := readNumbered
	switch {
	case o.layout != nil:
		read = func(l *lines) (*Vocabulary, error) { return readLayout(l, o.layout.vocabulary) }
	case filepath.Ext(compressed.Trim(path)) == ".txt":
		read = readListed
	}
	err = o.readFile(ctx, path, func(l *lines) error {
		v, err = read(l)
		return err
	})
	return v, err
}

// readSplits reads the splits in parallel. The path of a missing split is empty. Without a given
// vocabulary, readSplits first numbers the labels of every split separately. It then renumbers them
// in the order in which a sequential read would number them.
func (g *Graph) readSplits(ctx context.Context, paths [NumSplits]string, o opening) error {
	var (
		tables [NumSplits]tripleTable
		errs   [NumSplits]error
		all    sync.WaitGroup
	)
	for s, path := range paths {
		if path != "" {
			all.Go(func() { tables[s], errs[s] = o.readTripleFile(ctx, path, g.Entities, g.Relations) })
		}
	}
	all.Wait()
	// Report the error of the first failing split, not of the first failing goroutine, so the error
	// is always the same.
	for s, err := range errs {
		if err == nil && paths[s] != "" && len(tables[s].triples) == 0 {
			err = fmt.Errorf("%s has no triples: remove the file if the data set has no %v split, "+
				"or fetch or copy it again", paths[s], Split(s))
		}
		if err != nil {
			return err
		}
	}

	for s, table := range tables {
		if paths[s] == "" {
			continue
		}
		// Without a given vocabulary, the graph continues the numbers of the first split.
		g.Entities, g.Relations = cmp.Or(g.Entities, table.entities), cmp.Or(g.Relations, table.relations)
		entities, relations := addAll(g.Entities, table.entities), addAll(g.Relations, table.relations)
		if n := max(g.Entities.Len(), g.Relations.Len()); n > o.labels {
			return fmt.Errorf("data set %s has more than %s labels, which is the limit", g.Name, text.Comma(o.labels))
		}
		for i := range table.triples {
			t := &table.triples[i]
			if entities != nil {
				t.Head, t.Tail = entities[t.Head], entities[t.Tail]
			}
			if relations != nil {
				t.Relation = relations[t.Relation]
			}
		}
		g.Splits[s] = table.triples
	}
	return nil
}

// addAll adds the labels of the vocabulary part to the vocabulary whole. It returns the labels'
// identifiers there, or nil if part is whole, as a given vocabulary is.
func addAll(whole, part *Vocabulary) []int32 {
	if part == whole {
		return nil
	}
	ids := make([]int32, part.Len())
	for i, label := range part.Labels() {
		ids[i] = whole.Add(label)
	}
	return ids
}

// IsFolder reports whether a data set is given as a folder, not as a name: as ".", ".." or a path with
// a separator.
func IsFolder(dataset string) bool {
	return dataset == "." || dataset == ".." || strings.ContainsAny(dataset, "/"+string(filepath.Separator))
}

// Folder returns the folder of a data set, which must exist: dataset itself if IsFolder, otherwise
// the folder of that name in DataDir.
func Folder(dataset string) (string, error) {
	switch {
	case dataset == "":
		return "", errors.New("no data set named: give a name or a folder (a value with a slash)")
	case IsFolder(dataset):
		if info, err := os.Stat(dataset); err != nil {
			return "", fmt.Errorf("data set folder %s: %w", dataset, text.Cause(err))
		} else if !info.IsDir() {
			return "", fileError(dataset)
		}
		return dataset, nil
	}
	parent, err := DataDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(parent, dataset)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return "", unknownDataset(dataset, parent)
	}
	return dir, nil
}

// fileError returns the error for a file in place of a data set.
func fileError(path string) error {
	return fmt.Errorf("data set folder %s is a file: give the folder that contains it, "+
		"or make splits of its triples with \"mquine data split FILE --out DIR\"", path)
}

func unknownDataset(name, parent string) error {
	if info, err := os.Stat(name); err == nil {
		if info.IsDir() {
			return fmt.Errorf("no data set %q in %s: to use the folder of that name in the working directory, "+
				"write ./%[1]s", name, parent)
		}
		return fileError(name)
	}
	const most = 5
	there := "it has no data sets"
	if names, err := Installed(); err == nil && len(names) > 0 {
		there = "it has " + strings.Join(text.Nearest(name, names, most), ", ")
		if more := len(names) - most; more > 0 {
			there += fmt.Sprintf(" and %d more", more)
		}
	}
	return fmt.Errorf("no data set %q in %s (%s): run \"mquine data list\" to see the public data sets, "+
		"or set MQUINE_DATA to the folder that contains it", name, parent, there)
}

// folder holds the path of a folder and the names of its files.
type folder struct {
	dir   string
	names map[string]bool
}

func listFolder(dir string) (folder, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return folder{}, err
	}
	f := folder{dir, make(map[string]bool, len(entries))}
	for _, e := range entries {
		f.names[e.Name()] = true
	}
	return f, nil
}

// find returns the path of the only file with one of the given names, with or without compression,
// or "" if there is no such file. Two such files are an error.
func (f folder) find(names []string) (string, error) {
	found := ""
	for _, name := range names {
		for _, compression := range compressed.Extensions() {
			n := name + compression
			if !f.names[n] {
				continue
			}
			if found != "" {
				return "", fmt.Errorf("%s has both %s and %s: remove one of them", f.dir, found, n)
			}
			found = n
		}
	}
	if found == "" {
		return "", nil
	}
	return filepath.Join(f.dir, found), nil
}

// splitFiles lists the possible names of a split's file, without compression.
func splitFiles(s Split) []string { return []string{s.String() + ".txt", s.String() + ".nt"} }

func (f folder) holdSplit() bool {
	for s := range NumSplits {
		if path, err := f.find(splitFiles(s)); path != "" || err != nil {
			return true
		}
	}
	return false
}

// withoutSplit returns the error for a folder without a split, which says how to make it a data set.
func (f folder) withoutSplit() error {
	if l := f.foreign(); l != nil {
		return fmt.Errorf("%s has the files of %s: install the data set with "+
			"\"mquine data import DIR --name NAME\", which can read them", f.dir, l.tool)
	}
	var misnamed, right []string
	for s := range NumSplits {
		if path, err := f.find([]string{s.String() + ".tsv"}); path != "" && err == nil {
			name := filepath.Base(path)
			misnamed = append(misnamed, name)
			right = append(right, strings.Replace(name, ".tsv", ".txt", 1))
		}
	}
	if misnamed != nil {
		return fmt.Errorf("%s is not a data set: rename %s to %s", f.dir,
			strings.Join(misnamed, ", "), strings.Join(right, ", "))
	}
	return fmt.Errorf("%s is not a data set: "+
		"it needs train.txt, valid.txt or test.txt (or .nt; also .gz or .zst); "+
		"\"mquine data split FILE --out DIR\" makes them from one file of triples", f.dir)
}

// datasetFiles lists the files of a data set. The path of a missing file is empty.
type datasetFiles struct {
	name, dir string
	// installed reports whether the folder is in DataDir.
	installed           bool
	entities, relations string
	splits              [NumSplits]string
	// layout is nil unless another tool wrote the files.
	layout *foreignLayout
	// bytes is the total size of the regular files.
	bytes int64
}

// findFiles finds the files of a data set. foreign accepts the files of other tools.
func findFiles(dataset string, foreign bool) (datasetFiles, error) {
	var d datasetFiles
	var err error
	if d.dir, err = Folder(dataset); err != nil {
		return d, err
	}
	files, err := listFolder(d.dir)
	if err != nil {
		return d, fmt.Errorf("reading the folder %s: %w", d.dir, text.Cause(err))
	}
	if !files.holdSplit() {
		if d.layout = files.foreign(); d.layout == nil || !foreign {
			return d, files.withoutSplit()
		}
	}
	abs, err := filepath.Abs(d.dir)
	if err != nil {
		return d, fmt.Errorf("data set %s: %w", dataset, err)
	}
	d.name = filepath.Base(abs)
	d.installed = isInstalled(d.dir, d.name)

	entities, relations, splits := entityFiles, relationFiles, splitFiles
	if l := d.layout; l != nil {
		entities, relations, splits = []string{l.entities}, []string{l.relations}, l.split
	}
	if d.entities, err = files.find(entities); err != nil {
		return d, err
	}
	if d.relations, err = files.find(relations); err != nil {
		return d, err
	}
	for s := range NumSplits {
		if d.splits[s], err = files.find(splits(s)); err != nil {
			return d, err
		}
	}
	if d.layout != nil && (d.entities == "" || d.relations == "") {
		return d, fmt.Errorf("%s needs %s and %s, which give the labels of the identifiers in the files of %s",
			d.dir, d.layout.entities, d.layout.relations, d.layout.tool)
	}
	for _, path := range append(d.splits[:], d.entities, d.relations) {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			d.bytes += info.Size()
		}
	}
	return d, nil
}

// isInstalled reports whether the path dir leads to the folder with the given name in DataDir.
func isInstalled(dir, name string) bool {
	parent, err := DataDir()
	if err != nil {
		return false
	}
	here, err := os.Stat(dir)
	if err != nil {
		return false
	}
	there, err := os.Stat(filepath.Join(parent, name))
	return err == nil && os.SameFile(here, there)
}

// The possible names of the vocabularies' files, without compression.
var (
	entityFiles   = []string{"entities.dict", "entity_ids.del", "entities.tsv", "entities.txt"}
	relationFiles = []string{"relations.dict", "relation_ids.del", "relations.tsv", "relations.txt"}
)

// IsDataFile reports whether a file with this name, in the folder of a data set, belongs to the data
// set: a split, false triples, a vocabulary or readable labels. The data set may be one that only
// ForeignFiles reads. The name may end with the extension of a compressed file.
func IsDataFile(name string) bool {
	names := slices.Concat(entityFiles, relationFiles, []string{labelsName})
	for _, l := range foreignLayouts {
		names = append(names, l.entities, l.relations)
	}
	for s := range NumSplits {
		names = append(names, slices.Concat(splitFiles(s), negativesFiles(s))...)
		for _, l := range foreignLayouts {
			names = append(names, l.split(s)...)
		}
	}
	return slices.Contains(names, compressed.Trim(name))
}
