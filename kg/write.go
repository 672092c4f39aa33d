package kg

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/klauspost/compress/gzip"

	"github.com/mquine/mquine/internal/atomicfile"
	"github.com/mquine/mquine/internal/input"
)

// A WriteOption changes the files that Write writes.
type WriteOption func(*graphWriter)

// Gzip makes Write compress the splits, as .txt.gz, and the extras.
func Gzip() WriteOption { return func(w *graphWriter) { w.gzip = true } }

// Extras makes Write copy the false triples and the readable labels in the folder of the graph
// (ReadNegatives, ReadLabels), and the file split.json, in which "mquine data split" records how it
// made the splits.
func Extras() WriteOption { return func(w *graphWriter) { w.extras = true } }

// Beside makes Write add a file with the given name and content. The name must not contain a folder, and
// must not be the name of a file that belongs to a data set (IsDataFile); otherwise, Write returns an
// error.
func Beside(name string, content []byte) WriteOption {
	return func(w *graphWriter) { w.beside = append(w.beside, file{name, content}) }
}

// file is a small file with its content.
type file struct {
	name    string
	content []byte
}

// Write writes g to the new folder dir, from which Open reads the same splits with the same
// identifiers. Each split becomes a .txt file. Write adds entities.tsv or relations.tsv if the
// order of appearance in the splits does not give the identifiers of g. The folder is written
// atomically: after an error or a cancellation, it does not exist.
func Write(ctx context.Context, dir string, g *Graph, options ...WriteOption) error {
	w := graphWriter{ctx: ctx, graph: g}
	for _, o := range options {
		o(&w)
	}
	if err := w.check(); err != nil {
		return fmt.Errorf("writing data set %s: %w", g.Name, err)
	}
	return atomicfile.Folder(dir, func(temporary string) error {
		w.dir = temporary
		return w.write()
	})
}

// graphWriter writes a graph to a folder.
type graphWriter struct {
	ctx    context.Context
	graph  *Graph
	gzip   bool
	extras bool
	beside []file
	dir    string
}

// check returns an error if Open could not read the files that Write would create.
func (w *graphWriter) check() error {
	if !slices.ContainsFunc(w.graph.Splits[:], func(t []Triple) bool { return t != nil }) {
		return errors.New("it has no split")
	}
	for s := range NumSplits {
		if w.graph.Has(s) && len(w.graph.Splits[s]) == 0 {
			return fmt.Errorf("its %v split is empty", s)
		}
	}
	for _, v := range []*Vocabulary{w.graph.Entities, w.graph.Relations} {
		if err := v.Check(); err != nil {
			return err
		}
	}
	for _, f := range w.beside {
		switch {
		case f.name == "." || f.name != filepath.Base(f.name) || !filepath.IsLocal(f.name):
			return fmt.Errorf("%q is not the name of a file: leave out folders", f.name)
		case IsDataFile(f.name):
			return fmt.Errorf("%s is the name of a file of a data set: choose another name", f.name)
		}
	}
	return nil
}

func (w *graphWriter) write() error {
	for s := range NumSplits {
		if w.graph.Has(s) {
			if err := w.writeTriples(s.String()+".txt", w.graph.Splits[s]); err != nil {
				return err
			}
		}
	}
	if w.extras {
		if err := w.writeExtras(); err != nil {
			return err
		}
	}
	for _, f := range w.beside {
		if err := atomicfile.WriteBytes(filepath.Join(w.dir, f.name), f.content); err != nil {
			return err
		}
	}
	entities, relations := w.graph.numberedByAppearance()
	if !entities {
		if err := WriteVocabulary(filepath.Join(w.dir, "entities.tsv"), w.graph.Entities); err != nil {
			return err
		}
	}
	if !relations {
		return WriteVocabulary(filepath.Join(w.dir, "relations.tsv"), w.graph.Relations)
	}
	return nil
}

// splitRecordName is the file in which "mquine data split" records how it made the splits.
const splitRecordName = "split.json"

// copySplitRecord copies the record of the splits in the folder of the graph, if there is one. Another
// program may use the name for a folder, which it leaves out.
func (w *graphWriter) copySplitRecord() error {
	if w.graph.Dir == "" {
		return nil
	}
	path := filepath.Join(w.graph.Dir, splitRecordName)
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular():
		return nil
	case err != nil:
		return fmt.Errorf("copying the record of the splits: %w", err)
	}
	from, err := input.Open(w.ctx, path)
	if err != nil {
		return err
	}
	defer from.Close()
	return atomicfile.Write(filepath.Join(w.dir, splitRecordName), func(to io.Writer) error {
		_, err := io.Copy(to, from)
		return err
	})
}

// writeExtras writes the files that Extras describes.
func (w *graphWriter) writeExtras() error {
	if err := w.copySplitRecord(); err != nil {
		return err
	}
	for s := range NumSplits {
		negatives, err := ReadNegatives(w.ctx, w.graph, s)
		if err != nil {
			return err
		}
		if negatives != nil {
			if err := w.writeTriples(negativesFiles(s)[0], negatives); err != nil {
				return err
			}
		}
	}
	labels, err := ReadLabels(w.ctx, w.graph.Dir)
	if err != nil || labels == nil {
		return err
	}
	return w.writeText(labelsName, func(out *bufio.Writer) error {
		for _, identifier := range slices.Sorted(maps.Keys(labels)) {
			fmt.Fprintf(out, "%s\t%s\n", identifier, labels[identifier])
		}
		return nil
	})
}

func (w *graphWriter) writeTriples(name string, triples []Triple) error {
	return w.writeText(name, func(out *bufio.Writer) error {
		for i, t := range triples {
			const triplesPerCheck = 1 << 12
			if i%triplesPerCheck == 0 {
				if err := w.ctx.Err(); err != nil {
					return err
				}
			}
			out.WriteString(w.graph.Entities.Label(t.Head))
			out.WriteByte('\t')
			out.WriteString(w.graph.Relations.Label(t.Relation))
			out.WriteByte('\t')
			out.WriteString(w.graph.Entities.Label(t.Tail))
			out.WriteByte('\n')
		}
		return nil
	})
}

// writeText writes a file, whose name gets the suffix .gz if the writer compresses. The function write
// need not check the errors of its writer: the writer keeps its first error.
func (w *graphWriter) writeText(name string, write func(*bufio.Writer) error) error {
	if w.gzip {
		name += ".gz"
	}
	return atomicfile.Write(filepath.Join(w.dir, name), func(out io.Writer) error {
		finish := func() error { return nil }
		if w.gzip {
			z := gzip.NewWriter(out)
			out, finish = z, z.Close
		}
		text := bufio.NewWriterSize(out, 1<<16)
		return cmp.Or(write(text), text.Flush(), finish())
	})
}

// numberedByAppearance reports whether the entities, and whether the relations, are numbered in the
// order in which they appear in the splits.
func (g *Graph) numberedByAppearance() (entities, relations bool) {
	entities, relations = true, true
	var nextEntity, nextRelation int32
	appear := func(id int32, next *int32, ordered *bool) {
		if id == *next {
			*next++
		} else if id > *next {
			*ordered = false
		}
	}
	for _, triples := range g.Splits {
		for _, t := range triples {
			appear(t.Head, &nextEntity, &entities)
			appear(t.Tail, &nextEntity, &entities)
			appear(t.Relation, &nextRelation, &relations)
		}
	}
	return entities && int(nextEntity) == g.Entities.Len(), relations && int(nextRelation) == g.Relations.Len()
}

// WriteVocabulary writes a vocabulary as lines id<TAB>label in the order of the identifiers. It
// creates or replaces the file atomically.
func WriteVocabulary(path string, v *Vocabulary) error {
	if err := v.Check(); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return atomicfile.Write(path, func(w io.Writer) error {
		for id, label := range v.Labels() {
			if _, err := fmt.Fprintf(w, "%d\t%s\n", id, label); err != nil {
				return err
			}
		}
		return nil
	})
}
