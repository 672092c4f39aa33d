package kg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/mquine/mquine/internal/compressed"
	"github.com/mquine/mquine/internal/text"
)

// tripleTable holds the triples of a file.
type tripleTable struct {
	triples             []Triple
	entities, relations *Vocabulary
	// givenEntities and givenRelations report whether the vocabulary comes from a vocabulary file.
	// The vocabulary must then contain every label.
	givenEntities, givenRelations bool
	// limit is the maximum number of triples.
	limit int
}

// newTripleTable returns an empty table. If a vocabulary is nil, the table numbers the labels in
// the order of their appearance, head before tail.
func newTripleTable(entities, relations *Vocabulary, limit int) tripleTable {
	t := tripleTable{[]Triple{}, entities, relations, entities != nil, relations != nil, limit}
	if !t.givenEntities {
		t.entities = NewVocabulary()
	}
	if !t.givenRelations {
		t.relations = NewVocabulary()
	}
	return t
}

// add appends the triple with the given labels, which may be in a read buffer.
func (t *tripleTable) add(head, relation, tail []byte) error {
	h, err := number(t.entities, head, t.givenEntities)
	if err != nil {
		return fmt.Errorf("head: %w", err)
	}
	r, err := number(t.relations, relation, t.givenRelations)
	if err != nil {
		return fmt.Errorf("relation: %w", err)
	}
	o, err := number(t.entities, tail, t.givenEntities)
	if err != nil {
		return fmt.Errorf("tail: %w", err)
	}
	return t.append(Triple{h, r, o})
}

func (t *tripleTable) append(triple Triple) error {
	if len(t.triples) == t.limit {
		return fmt.Errorf("more than %s triples, which is the limit of a split", text.Comma(t.limit))
	}
	t.triples = append(t.triples, triple)
	return nil
}

// number returns the identifier of a label. It adds a new label to the vocabulary unless the
// vocabulary is given. It checks only new labels, so the common case is fast.
func number(v *Vocabulary, label []byte, given bool) (int32, error) {
	if id, ok := v.lookup(label); ok {
		return id, nil
	}
	if err := checkLabel(label); err != nil {
		return 0, err
	}
	if given {
		return 0, fmt.Errorf("%.200q is missing from the vocabulary file of the folder: "+
			"add it there, or remove that file to number labels by appearance", label)
	}
	return v.Add(string(label)), nil
}

// readTripleFile reads a file of triples in the layout of the data set or in the format that its name
// implies.
func (o opening) readTripleFile(
	ctx context.Context, path string, entities, relations *Vocabulary,
) (tripleTable, error) {
	table := newTripleTable(entities, relations, o.triples)
	err := o.readFile(ctx, path, func(l *lines) error {
		switch {
		case o.layout != nil:
			return o.layout.readTriples(l, &table)
		case isNTriples(path):
			return readNTriples(l, table.add)
		}
		return readTriples(l, table.add)
	})
	return table, err
}

// readTriples calls the function add with the labels of each line head<TAB>relation<TAB>tail.
func readTriples(l *lines, add func(head, relation, tail []byte) error) error {
	var fields [3][]byte
	return l.records(func(line []byte) error {
		if err := splitFields(line, fields[:], "head, relation and tail"); err != nil {
			return explainFields(l.path, line, err)
		}
		return add(fields[0], fields[1], fields[2])
	})
}

// explainFields returns err, the error of a line without three fields, or a clearer one if the line is in
// another format. The line is in the file at path.
func explainFields(path string, line []byte, err error) error {
	if empty, wrong := new(statementParser).parse(line); !empty && wrong == nil {
		return fmt.Errorf("the line is N-Triples: rename the file so that its name ends with .nt%s", compression(path))
	}
	if !bytes.Contains(line, []byte{'\t'}) && bytes.Count(line, []byte{','}) >= 2 {
		return errors.New("the fields are separated by commas: replace them with tabs")
	}
	return err
}

// compression returns the extension that says how a file is compressed, or "".
func compression(path string) string { return strings.TrimPrefix(path, compressed.Trim(path)) }
