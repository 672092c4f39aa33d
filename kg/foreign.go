package kg

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/mquine/mquine/internal/text"
)

// foreignLayout describes the data sets of another tool, whose triples are identifiers of entities and
// relations. All files may be compressed.
type foreignLayout struct {
	tool string
	// extension follows the name of a split in the name of its file.
	extension           string
	entities, relations string // names of the vocabulary files
	vocabulary          VocabularyLayout
	// count means that the first line of a split contains the number of triples.
	count bool
	// columns gives the places of head, relation and tail in a line, and order names them there.
	columns [3]int
	order   string
}

var foreignLayouts = []foreignLayout{
	{
		"OpenKE", "2id.txt", "entity2id.txt", "relation2id.txt", VocabularyLayout{LabelFirst: true, Count: true},
		true, [3]int{0, 2, 1}, "head, tail and relation",
	},
	{
		"LibKGE", ".del", "entity_ids.del", "relation_ids.del", VocabularyLayout{},
		false, [3]int{0, 1, 2}, "head, relation and tail",
	},
}

// ForeignFiles makes Open read the data sets of OpenKE and LibKGE, too, in which the triples are
// identifiers, as numbers separated by spaces or tabs:
//
//	OpenKE  entity2id.txt    the number of labels, then lines label<TAB>id
//	        train2id.txt     the number of triples, then lines head tail relation
//	LibKGE  entity_ids.del   lines id<TAB>label
//	        train.del        lines head relation tail
//
// The same holds for relations and for the other splits. Open keeps the identifiers. If the folder also
// has splits in a format of mquine, Open reads those.
func ForeignFiles() OpenOption { return func(o *opening) { o.foreign = true } }

// foreign returns the layout of the splits in the folder, or nil.
func (f folder) foreign() *foreignLayout {
	for i := range foreignLayouts {
		for s := range NumSplits {
			if path, err := f.find(foreignLayouts[i].split(s)); path != "" || err != nil {
				return &foreignLayouts[i]
			}
		}
	}
	return nil
}

// split returns the name of a split's file, as an argument of find.
func (l *foreignLayout) split(s Split) []string { return []string{s.String() + l.extension} }

// readTriples appends the triples of all lines to the table.
func (l *foreignLayout) readTriples(lines *lines, table *tripleTable) error {
	count := 0
	if l.count {
		var err error
		if count, err = lines.count("triples"); err != nil {
			return err
		}
	}
	err := lines.records(func(line []byte) error {
		t, err := l.parse(line, table)
		if err != nil {
			return err
		}
		return table.append(t)
	})
	if err != nil {
		return err
	}
	if l.count && count != len(table.triples) {
		lines.n = 1
		return lines.errorf("the file should have %s, but has %s", text.Plural(count, "triple"),
			text.Comma(len(table.triples)))
	}
	return nil
}

// parse returns the triple of a line.
func (l *foreignLayout) parse(line []byte, table *tripleTable) (Triple, error) {
	var fields [3][]byte
	n := 0
	for field := range bytes.FieldsSeq(line) {
		if n < len(fields) {
			fields[n] = field
		}
		n++
	}
	if n != len(fields) {
		return Triple{}, fmt.Errorf("%s instead of %d: a line is the identifiers of %s",
			text.Count(n, "field", "fields"), len(fields), l.order)
	}
	var ids [3]int32
	for i, name := range [3]string{"head", "relation", "tail"} {
		v, file := table.entities, l.entities
		if name == "relation" {
			v, file = table.relations, l.relations
		}
		field := fields[l.columns[i]]
		id, err := strconv.ParseUint(string(field), 10, 31)
		if err != nil || id >= uint64(v.Len()) {
			return Triple{}, fmt.Errorf("%s: %.40q is not an identifier in %s, which has %s", name, field, file,
				text.Count(v.Len(), "label", "labels"))
		}
		ids[i] = int32(id)
	}
	return Triple{Head: ids[0], Relation: ids[1], Tail: ids[2]}, nil
}
