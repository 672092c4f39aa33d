package kg

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/mquine/mquine/internal/text"
)

// Graph is a data set: its vocabularies and its splits.
type Graph struct {
	// Name is the data set's name, for messages and reports.
	Name string
	// Dir is the folder that the graph was read from. It is empty for a graph made in memory.
	Dir                 string
	Entities, Relations *Vocabulary
	// Splits holds the triples in the order of their files, including duplicates. A split that
	// the data set lacks is nil; an empty split is not nil.
	Splits [NumSplits][]Triple
	// Notes lists what a user should know about the data, in one sentence each, such as duplicate
	// triples or entities without a training triple.
	Notes []string
	// leftOut are the labels of entities and of relations that Restrict left out.
	leftOut [2]map[string]bool
	// whole is the graph of which Restrict left out a part. It is nil if nothing is left out.
	whole *Graph
	// emptied says for every split of which Restrict left out all triples why it did.
	emptied [NumSplits]string
	// added counts the entities that Relabel took from another vocabulary.
	added int
	// addedRelations counts the relations that Relabel took from another vocabulary and that Restrict had
	// not left out.
	addedRelations int
}

// DataEntities returns the number of entities of the data set. Entities has more if Relabel took them
// from a checkpoint.
func (g *Graph) DataEntities() int { return g.Entities.Len() - g.added }

// AddedRelations returns the number of relations that Relabel took from a checkpoint and that the data set
// lacks.
func (g *Graph) AddedRelations() int { return g.addedRelations }

// LeftOut returns the number of triples of a split that Restrict left out.
func (g *Graph) LeftOut(s Split) int {
	if g.whole == nil {
		return 0
	}
	return len(g.whole.Splits[s]) - len(g.Splits[s])
}

// Has reports whether the data set has the split.
func (g *Graph) Has(s Split) bool { return g.Splits[s] != nil }

// Bytes returns approximately how many bytes of memory the triples and labels use.
func (g *Graph) Bytes() (n int64) {
	for _, triples := range g.Splits {
		n += int64(len(triples)) * int64(unsafe.Sizeof(Triple{}))
	}
	// A slice and a map hold every label. The map is three quarters full on average.
	const perLabel = 16 + (16+4+4)*4/3
	for _, v := range []*Vocabulary{g.Entities, g.Relations} {
		for _, label := range v.Labels() {
			n += int64(len(label)) + perLabel
		}
	}
	return n
}

// Triples returns the triples of a split in the order of its file. If the data set lacks the split,
// the error tells the user how to add it. It is also an error if Restrict left out all of them.
func (g *Graph) Triples(s Split) ([]Triple, error) {
	if why := g.emptied[s]; why != "" {
		return nil, fmt.Errorf("%s: %s: use the data set of the checkpoint", text.DataSet(g.Name), why)
	}
	if g.Has(s) {
		return g.Splits[s], nil
	}
	if g.Dir == "" {
		return nil, fmt.Errorf("%s has no %v split", text.DataSet(g.Name), s)
	}
	return nil, fmt.Errorf("%s has no %v split: put %v.txt (or .txt.gz, .txt.zst) into %s",
		text.DataSet(g.Name), s, s, g.Dir)
}

// CheckIdentifiers returns an error if g is nil or lacks a vocabulary, or if a triple of one of the splits has
// an identifier that a vocabulary lacks.
func (g *Graph) CheckIdentifiers(splits ...Split) error {
	if g == nil {
		return errors.New("the graph is nil: read one with kg.Open")
	}
	if g.Entities == nil || g.Relations == nil {
		return fmt.Errorf("%s needs a vocabulary of entities and one of relations", text.DataSet(g.Name))
	}
	entities, relations := uint32(g.Entities.Len()), uint32(g.Relations.Len())
	for _, s := range splits {
		for i, t := range g.Splits[s] {
			if uint32(t.Head) >= entities || uint32(t.Tail) >= entities || uint32(t.Relation) >= relations {
				return fmt.Errorf("%s has %s and %s, but triple %d of its %v split is (%d, %d, %d): "+
					"add the labels of all identifiers to the vocabularies", text.DataSet(g.Name),
					text.Count(g.Entities.Len(), "entity", "entities"),
					text.Count(g.Relations.Len(), "relation", "relations"), i, s, t.Head, t.Relation, t.Tail)
			}
		}
	}
	return nil
}

// describeDefects returns the sentences of Notes.
func (g *Graph) describeDefects() []string {
	var notes []string
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }

	for s := range NumSplits {
		if header := g.header(s); header != "" {
			note("%v: %s", s, header)
		}
	}
	distinct := newAdjacency(g, Tail).tally()
	for s := range NumSplits {
		if !g.Has(s) {
			note("there is no split %q", s.String())
			continue
		}
		if repeats := len(g.Splits[s]) - distinct.in(s); repeats > 0 {
			note("%v: %s an earlier one; repeats remain queries, but count only once as known answers and in training",
				s, text.Count(repeats, "triple repeats", "triples repeat"))
		}
	}
	for s := range NumSplits {
		for t := s + 1; t < NumSplits; t++ {
			if shared := distinct.in(s, t); shared > 0 {
				note("%v and %v share %s", s, t, text.Count(shared, "triple", "triples"))
			}
		}
	}
	if g.Has(Train) {
		entities, relations := g.seen(Train)
		if n := countFalse(entities); n > 0 {
			note("%s in no training triple", text.Count(n, "entity occurs", "entities occur"))
		}
		if n := countFalse(relations); n > 0 {
			note("%s in no training triple", text.Count(n, "relation occurs", "relations occur"))
		}
	}
	return append(notes, g.doubtfulLabels()...)
}

// doubtfulLabels returns sentences about the labels of entities and relations.
func (g *Graph) doubtfulLabels() (notes []string) {
	if swapped := g.swapped(); swapped != "" {
		notes = append(notes, swapped)
	}
	return append(notes, g.lookalikes()...)
}

// swapped returns a sentence about the order of the columns if most relations have labels of entities, otherwise "".
// Numbers do not count, because entities and relations are often numbered alike, and neither do IRIs,
// because the graph of an ontology has its relations as entities.
func (g *Graph) swapped() string {
	shared := 0
	for _, label := range g.Relations.Labels() {
		if _, err := strconv.Atoi(label); err == nil || strings.Contains(label, "://") {
			continue
		}
		if _, ok := g.Entities.ID(label); ok {
			shared++
		}
	}
	if shared <= g.Relations.Len()/2 {
		return ""
	}
	return fmt.Sprintf("%s of %s: if the columns are in another order, write each line as head, relation, tail",
		text.Comma(shared), text.Count(g.Relations.Len(), "relation is also an entity", "relations are also entities"))
}

// relationColumns, headColumns and tailColumns are names of columns in headers of files, as columnName returns
// them. A relation of a graph seldom has a name for which relationColumns is true.
var (
	relationColumns = map[string]bool{
		"relation": true, "predicate": true, "relationship": true, "rel": true, "property": true,
		"p": false, "edge": false, "r": false, "type": false, "label": false,
	}
	headColumns = []string{
		"head", "subject", "source", "from", "start", "h", "subj", "s", "src", "node1", "entity1", "e1", "lhs",
	}
	tailColumns = []string{
		"tail", "object", "target", "to", "end", "t", "obj", "o", "dst", "node2", "entity2", "e2", "rhs",
	}
)

// columnName returns a field of a header without quotes, punctuation and words that add nothing, in lower
// case: "start" for :START_ID, and "relation" for relation_type.
func columnName(field string) string {
	name := strings.Map(func(r rune) rune {
		if strings.ContainsRune(" _-:\"'", r) {
			return -1
		}
		return r
	}, strings.ToLower(field))
	for _, word := range []string{"id", "type", "name", "label", "entity", "node"} {
		if column, ok := strings.CutSuffix(name, word); ok && (isRelationColumn(column) || isEntityColumn(column)) {
			return column
		}
	}
	return name
}

func isRelationColumn(name string) bool { _, ok := relationColumns[name]; return ok }

func isEntityColumn(name string) bool {
	return slices.Contains(headColumns, name) || slices.Contains(tailColumns, name)
}

// NamesColumn reports whether the relation of a triple is a usual name for the column of relations,
// so the triple may be the header of a file.
func NamesColumn(relation string) bool { return isRelationColumn(columnName(relation)) }

// header returns a sentence about the first triple of a split if it may be a header: its labels are
// names for columns, and no other triple of the split has its relation. Otherwise it returns "".
func (g *Graph) header(s Split) string {
	triples := g.Splits[s]
	if len(triples) < 2 {
		return ""
	}
	first := triples[0]
	head, tail := g.Entities.Label(first.Head), g.Entities.Label(first.Tail)
	relation := g.Relations.Label(first.Relation)
	h, r, t := columnName(head), columnName(relation), columnName(tail)
	ordered := relationColumns[r] || isRelationColumn(r) && (isEntityColumn(h) || isEntityColumn(t))
	reordered := isEntityColumn(r) &&
		(isRelationColumn(h) && isEntityColumn(t) || isEntityColumn(h) && isRelationColumn(t)) ||
		isRelationColumn(r) && slices.Contains(tailColumns, h) && slices.Contains(headColumns, t)
	if !ordered && !reordered ||
		slices.ContainsFunc(triples[1:], func(t Triple) bool { return t.Relation == first.Relation }) {
		return ""
	}
	if reordered {
		return fmt.Sprintf("the first line may be a header, and its columns %q, %q, %q are in another order: "+
			"if so, remove it, and write each line as head, relation, tail", head, relation, tail)
	}
	return fmt.Sprintf("the first line may be a header, because its relation is %q, and no other line of "+
		"the file has it: if it is one, remove it", relation)
}

// lookalikes returns sentences about labels that look like others: they differ only in spaces at their ends,
// or in the Unicode characters for the same text.
func (g *Graph) lookalikes() (notes []string) {
	for _, kind := range []struct {
		labels    *Vocabulary
		one, more string
	}{{g.Entities, "entity differs", "entities differ"}, {g.Relations, "relation differs", "relations differ"}} {
		note := func(n int, format, first string) {
			if n > 0 {
				notes = append(notes, fmt.Sprintf(format, text.Count(n, kind.one, kind.more), first))
			}
		}
		n, first := kind.labels.padded()
		note(n, "%s from another one only in spaces at the ends, such as %.100q: "+
			"if they are the same, remove the spaces", first)
		n, first = kind.labels.decomposed()
		note(n, "%s from another one only in Unicode normalization, such as %+.100q: "+
			"if they are the same, write all labels in the form NFC", first)
	}
	return notes
}

// seen reports, for every entity and every relation, whether a triple of the split contains it.
func (g *Graph) seen(s Split) (entities, relations []bool) {
	entities = make([]bool, g.Entities.Len())
	relations = make([]bool, g.Relations.Len())
	for _, t := range g.Splits[s] {
		entities[t.Head], entities[t.Tail], relations[t.Relation] = true, true, true
	}
	return entities, relations
}

func countFalse(flags []bool) int {
	n := 0
	for _, f := range flags {
		if !f {
			n++
		}
	}
	return n
}
