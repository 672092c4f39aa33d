package kg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/mquine/mquine/internal/input"
	"github.com/mquine/mquine/internal/text"
)

// DataDir returns the folder that holds the data sets: the value of MQUINE_DATA, or else
// mquine/datasets in the user's cache. It need not exist.
func DataDir() (string, error) {
	if dir := os.Getenv("MQUINE_DATA"); dir != "" {
		return dir, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("there is no folder for data sets (%w): set MQUINE_DATA to one", err)
	}
	return filepath.Join(cache, "mquine", "datasets"), nil
}

// Installed returns the names of the data sets in DataDir, sorted: the folders that hold a
// split. It is empty if DataDir does not exist.
func Installed() ([]string, error) {
	dir, err := DataDir()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing the data sets: %w", err)
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

// Open reads a data set: a folder if dataset holds a path separator, otherwise the folder of
// that name in DataDir.
//
// The folder holds the splits train, valid and test, at least one of them, as tab-separated text
// (.txt) or N-Triples (.nt), either also compressed (.gz, .zst). Labels are numbered in the order
// of their first appearance in train, valid and test, head before tail, unless the folder holds
// a vocabulary, which then must have every label:
//
//	entities.dict  entity_ids.del    id<TAB>label, as the RotatE repository and LibKGE write it
//	entities.tsv                     id<TAB>label
//	entities.txt                     one label a line, numbered from 0
//
// and the same for relations, compressed or not. In N-Triples, the label of an IRI is the IRI
// without its angle brackets, that of a blank node _:name, the same node in all files, and that
// of a literal its canonical form, such as "chat"@fr. Whatever is wrong in a file is an error with
// file and line.
//
// A split that is there and holds no triple is an error, and so is a public data set in DataDir
// with a split of another number of triples than was published: known answers would be missing
// from every filter.
func Open(ctx context.Context, dataset string, options ...OpenOption) (*Graph, error) {
	o := newOpening(options...)
	files, err := input.Await(ctx, func() (datasetFiles, error) { return findFiles(dataset) })
	if err != nil {
		return nil, err
	}
	o.progress.start(files.bytes)
	g := &Graph{Name: files.name, Dir: files.dir}
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
		return nil, fmt.Errorf("%s: remove the file and run \"mquine data get %s\", or rename the folder if it holds another data set",
			difference, g.Name)
	}
	// Which takes as long as an index does, many seconds for a hundred million triples.
	if g.Notes, err = input.Await(ctx, func() ([]string, error) { return g.describeDefects(), nil }); err != nil {
		return nil, fmt.Errorf("data set %s: %w", g.Name, err)
	}
	if difference != "" {
		g.Notes = append(g.Notes, difference)
	}
	return g, nil
}

// OpenOption changes how Open reads.
type OpenOption func(*opening)

// opening is how Open reads.
type opening struct {
	limits
	progress *progress
}

func newOpening(options ...OpenOption) opening {
	o := opening{limits: defaultLimits}
	for _, option := range options {
		option(&o)
	}
	return o
}

// vocabulary reads the vocabulary file at path, in the form that its name says; it returns nil if
// the path is empty.
func (o opening) vocabulary(ctx context.Context, path string) (v *Vocabulary, err error) {
	if path == "" {
		return nil, nil
	}
	read := readNumbered
	if filepath.Ext(trimCompression(path)) == ".txt" {
		read = readListed
	}
	err = o.readFile(ctx, path, func(l *lines) error {
		v, err = read(l)
		return err
	})
	return v, err
}

// readSplits reads the splits side by side, each with label numbers of its own unless a
// vocabulary is given, and then numbers the labels as one reading of all files would. The path of
// a split that is not there is empty.
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
	// The first split that fails is the one to tell, whichever goroutine came first.
	for s, err := range errs {
		if err == nil && paths[s] != "" && len(tables[s].triples) == 0 {
			err = fmt.Errorf("%s holds no triple: if the data set has no %v split, remove the file; otherwise fetch or copy it again",
				paths[s], Split(s))
		}
		if err != nil {
			return err
		}
	}

	if g.Entities == nil {
		g.Entities = NewVocabulary()
	}
	if g.Relations == nil {
		g.Relations = NewVocabulary()
	}
	for s, table := range tables {
		if paths[s] == "" {
			continue
		}
		// With a given vocabulary, the table's is the graph's, and nothing moves.
		entities, relations := addAll(g.Entities, table.entities), addAll(g.Relations, table.relations)
		if n := max(g.Entities.Len(), g.Relations.Len()); n > o.labels {
			return fmt.Errorf("data set %s has more than %s labels, which is as many as can be numbered", g.Name, text.Comma(o.labels))
		}
		for i, t := range table.triples {
			table.triples[i] = Triple{entities[t.Head], relations[t.Relation], entities[t.Tail]}
		}
		g.Splits[s] = table.triples
	}
	return nil
}

// addAll adds the labels of part to whole and returns their identifiers there.
func addAll(whole, part *Vocabulary) []int32 {
	ids := make([]int32, part.Len())
	for i, label := range part.Labels() {
		ids[i] = whole.Add(label)
	}
	return ids
}

// Folder returns the folder of a data set: dataset itself if it holds a path separator, otherwise the folder of
// that name in DataDir. Either must exist.
func Folder(dataset string) (string, error) {
	switch {
	case dataset == "":
		return "", errors.New("no data set named: give a name or a folder (a value with a slash)")
	case dataset == ".", dataset == "..", strings.ContainsRune(dataset, '/'), strings.ContainsRune(dataset, filepath.Separator):
		if info, err := os.Stat(dataset); err != nil {
			return "", fmt.Errorf("data set folder %s: %w", dataset, text.Cause(err))
		} else if !info.IsDir() {
			return "", fmt.Errorf("data set folder %s: it is a file; name the folder that holds it", dataset)
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

func unknownDataset(name, parent string) error {
	const most = 5
	there := "no data set is there"
	if names, err := Installed(); err == nil && len(names) > 0 {
		there = "there are " + strings.Join(text.Nearest(name, names, most), ", ")
		if more := len(names) - most; more > 0 {
			there += fmt.Sprintf(" and %d more", more)
		}
	}
	return fmt.Errorf("no data set %q in %s (%s): \"mquine data list\" shows what can be fetched; or set MQUINE_DATA to the folder that holds it",
		name, parent, there)
}

// folder is a folder and the names of its files.
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

// find returns the path of the one file that is present among names, each of which may be
// compressed, or "" if there is none.
func (f folder) find(names []string) (string, error) {
	found := ""
	for _, name := range names {
		for _, compression := range compressions {
			n := name + compression
			if !f.names[n] {
				continue
			}
			if found != "" {
				return "", fmt.Errorf("%s holds both %s and %s: remove one of them", f.dir, found, n)
			}
			found = n
		}
	}
	if found == "" {
		return "", nil
	}
	return filepath.Join(f.dir, found), nil
}

// splitFiles lists the names, without compression, of the files that can hold a split.
func splitFiles(s Split) []string { return []string{s.String() + ".txt", s.String() + ".nt"} }

func (f folder) holdSplit() bool {
	for s := range NumSplits {
		if path, err := f.find(splitFiles(s)); path != "" || err != nil {
			return true
		}
	}
	return false
}

// datasetFiles are the files of a data set; the path of one that is not there is empty.
type datasetFiles struct {
	name, dir string
	// installed says that the folder is the one of that name in DataDir.
	installed           bool
	entities, relations string
	splits              [NumSplits]string
	// bytes is the size of all of them, as far as it is known.
	bytes int64
}

// findFiles finds the files of a data set.
func findFiles(dataset string) (datasetFiles, error) {
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
		return d, fmt.Errorf("%s holds no data set: it needs train.txt, valid.txt or test.txt (or .nt; also .gz or .zst)", d.dir)
	}
	abs, err := filepath.Abs(d.dir)
	if err != nil {
		return d, fmt.Errorf("data set %s: %w", dataset, err)
	}
	d.name = filepath.Base(abs)
	d.installed = isInstalled(d.dir, d.name)

	if d.entities, err = files.find(vocabularyFiles("entities", "entity_ids")); err != nil {
		return d, err
	}
	if d.relations, err = files.find(vocabularyFiles("relations", "relation_ids")); err != nil {
		return d, err
	}
	for s := range NumSplits {
		if d.splits[s], err = files.find(splitFiles(s)); err != nil {
			return d, err
		}
	}
	for _, path := range append(d.splits[:], d.entities, d.relations) {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			d.bytes += info.Size()
		}
	}
	return d, nil
}

// isInstalled tells whether dir, however it is written, is the folder of that name in DataDir.
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

// vocabularyFiles lists the names, without compression, of the files that can hold a vocabulary.
func vocabularyFiles(name, libkgeName string) []string {
	return []string{name + ".dict", libkgeName + ".del", name + ".tsv", name + ".txt"}
}
