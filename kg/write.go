package kg

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/klauspost/compress/gzip"

	"github.com/mquine/mquine/internal/atomicfile"
	"github.com/mquine/mquine/internal/text"
)

// A WriteOption changes what Write writes.
type WriteOption func(*graphWriter)

// Gzip makes Write compress the splits, as .txt.gz.
func Gzip() WriteOption { return func(w *graphWriter) { w.gzip = true } }

// Write writes g to the folder dir, which must not exist, so that Open reads the same splits with
// the same identifiers: a .txt file for each split that g has, and entities.tsv or relations.tsv
// where the order of appearance does not give the numbering of g. The folder appears when it is
// whole; after an error or a cancelled context there is none.
func Write(ctx context.Context, dir string, g *Graph, options ...WriteOption) error {
	w := graphWriter{ctx: ctx, graph: g}
	for _, o := range options {
		o(&w)
	}
	if err := w.check(); err != nil {
		return fmt.Errorf("writing data set %s: %w", g.Name, err)
	}
	err := atomicfile.Folder(dir, func(temporary string) error {
		w.dir = temporary
		return w.write()
	})
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	return fmt.Errorf("writing data set %s to %s: %w", g.Name, dir, text.Cause(err))
}

// graphWriter writes a graph to a folder.
type graphWriter struct {
	ctx   context.Context
	graph *Graph
	gzip  bool
	dir   string
}

// check finds what the files could not hold.
func (w *graphWriter) check() error {
	if !slices.ContainsFunc(w.graph.Splits[:], func(t []Triple) bool { return t != nil }) {
		return errors.New("it has no split")
	}
	for s := range NumSplits {
		if w.graph.Has(s) && len(w.graph.Splits[s]) == 0 {
			return fmt.Errorf("its %v split is empty, which Open refuses", s)
		}
	}
	for _, v := range []*Vocabulary{w.graph.Entities, w.graph.Relations} {
		if err := checkLabels(v); err != nil {
			return err
		}
	}
	return nil
}

func checkLabels(v *Vocabulary) error {
	for id, label := range v.Labels() {
		if err := checkLabel(label); err != nil {
			return fmt.Errorf("label %d, %.200q: %w", id, label, err)
		}
	}
	return nil
}

func (w *graphWriter) write() error {
	for s := range NumSplits {
		if w.graph.Has(s) {
			if err := w.writeSplit(s); err != nil {
				return err
			}
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

func (w *graphWriter) writeSplit(s Split) (err error) {
	name := s.String() + ".txt"
	if w.gzip {
		name += ".gz"
	}
	f, err := os.Create(filepath.Join(w.dir, name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()

	var out io.Writer = f
	finish := func() error { return nil }
	if w.gzip {
		z := gzip.NewWriter(f)
		out, finish = z, z.Close
	}
	text := bufio.NewWriterSize(out, 1<<16)
	for i, t := range w.graph.Splits[s] {
		const triplesPerCheck = 1 << 12
		if i%triplesPerCheck == 0 {
			if err := w.ctx.Err(); err != nil {
				return err
			}
		}
		// A bufio.Writer keeps its first error, which Flush returns.
		text.WriteString(w.graph.Entities.Label(t.Head))
		text.WriteByte('\t')
		text.WriteString(w.graph.Relations.Label(t.Relation))
		text.WriteByte('\t')
		text.WriteString(w.graph.Entities.Label(t.Tail))
		text.WriteByte('\n')
	}
	if err := text.Flush(); err != nil {
		return err
	}
	if err := finish(); err != nil {
		return err
	}
	return f.Sync()
}

// numberedByAppearance tells whether a reader of the splits alone would number the entities and
// the relations as g does.
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

// WriteVocabulary writes a vocabulary as lines id<TAB>label in the order of the identifiers. The
// file appears, or replaces an older one, when it is whole.
func WriteVocabulary(path string, v *Vocabulary) error {
	if err := checkLabels(v); err != nil {
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
