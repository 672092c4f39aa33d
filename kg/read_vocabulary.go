package kg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/mquine/mquine/internal/text"
)

// ReadVocabulary reads a vocabulary file with lines of the form id<TAB>label in any order. The file
// may be compressed (.gz, .zst). The identifiers must be 0 to n−1, each once, and the labels
// distinct. Errors name the file and the line.
func ReadVocabulary(ctx context.Context, path string) (v *Vocabulary, err error) {
	return ReadVocabularyLayout(ctx, path, VocabularyLayout{})
}

// VocabularyLayout describes how the vocabulary files of other tools differ from lines of the form
// id<TAB>label.
type VocabularyLayout struct {
	// LabelFirst means that the label precedes the identifier: label<TAB>id.
	LabelFirst bool
	// Count means that the first line contains the number of labels.
	Count bool
	// Header means that the first line contains the names of the columns.
	Header bool
	// Quoted means that a label with a double quote is itself between double quotes, and that its
	// quotes are doubled, as in CSV files.
	Quoted bool
	// Skip is the number of identifiers at the beginning that do not belong to the vocabulary, such
	// as an encoder's tokens. Identifier Skip in the file is identifier 0 of the vocabulary.
	Skip int
}

// ReadVocabularyLayout is like ReadVocabulary, but reads a file with the given layout.
func ReadVocabularyLayout(ctx context.Context, path string, layout VocabularyLayout) (v *Vocabulary, err error) {
	err = newOpening().readFile(ctx, path, func(l *lines) error {
		v, err = readLayout(l, layout)
		return err
	})
	return v, err
}

// ParseVocabulary is like ReadVocabulary, but reads uncompressed text. Errors call the text by the
// given name.
func ParseVocabulary(ctx context.Context, name string, text io.Reader) (*Vocabulary, error) {
	return readNumbered(newLines(ctx, name, text))
}

// readNumbered reads lines of the form id<TAB>label.
func readNumbered(l *lines) (*Vocabulary, error) { return readLayout(l, VocabularyLayout{}) }

// readLayout reads lines in the given layout.
func readLayout(l *lines, layout VocabularyLayout) (*Vocabulary, error) {
	count, err := l.skipFirst(layout)
	if err != nil {
		return nil, err
	}
	entries, err := layout.readEntries(l)
	if err != nil {
		return nil, err
	}
	if layout.Count && count != len(entries) {
		l.n = 1
		return nil, l.errorf("the file should have %s, but has %d", text.Count(count, "label", "labels"), len(entries))
	}
	return layout.vocabulary(l, entries)
}

// entry is a line of a vocabulary file. Its identifier is the one in the vocabulary, from 0.
type entry struct {
	id    int32
	line  int32
	label string
}

// readEntries reads the entries that belong to the vocabulary. A repeated identifier ends the reading at
// once, because a compressed file may repeat a line very often.
func (layout VocabularyLayout) readEntries(l *lines) (entries []entry, err error) {
	var fields [2][]byte
	// Most files number their entries 0, 1, 2, …, and need no map.
	ordered := 0              // the number of leading entries with these identifiers
	rest := map[int32]int32{} // the lines of the other identifiers
	err = l.records(func(line []byte) error {
		written, label, err := layout.parse(line, &fields)
		if err != nil {
			return err
		}
		id := written - int32(layout.Skip)
		if id < 0 {
			return nil
		}
		if err := checkLabel(label); err != nil {
			return err
		}
		first, known := rest[id]
		switch {
		case int(id) < ordered:
			first, known = entries[id].line, true
		case ordered == len(entries) && int(id) == ordered:
			ordered++
		default:
			rest[id] = int32(l.n)
		}
		if known {
			return fmt.Errorf("duplicate identifier %d, first on line %d: an identifier has one label",
				written, first)
		}
		entries = append(entries, entry{id, int32(l.n), string(label)})
		return nil
	})
	return entries, err
}

// parse returns the identifier and the label in a line. The label is not checked. fields is scratch space.
func (layout VocabularyLayout) parse(line []byte, fields *[2][]byte) (id int32, label []byte, err error) {
	columns, idColumn := "identifier and label", 0
	if layout.LabelFirst {
		columns, idColumn = "label and identifier", 1
	}
	if err := splitFields(line, fields[:], columns); err != nil {
		return 0, nil, err
	}
	number, label := fields[idColumn], fields[1-idColumn]
	if layout.Quoted {
		if label, err = unquote(label); err != nil {
			return 0, nil, err
		}
	}
	n, err := strconv.ParseUint(string(number), 10, 31)
	if err != nil {
		return 0, nil, fmt.Errorf("identifier %.40q is not a number from 0 to 2147483647", number)
	}
	return int32(n), label, nil
}

// vocabulary returns the vocabulary with the given entries of l. Their identifiers differ.
func (layout VocabularyLayout) vocabulary(l *lines, entries []entry) (*Vocabulary, error) {
	labels, at := make([]string, len(entries)), make([]int, len(entries))
	for _, e := range entries {
		l.n = int(e.line)
		if int(e.id) >= len(entries) {
			return nil, l.errorf("identifier %d in a file of %s: the identifiers must be %d to %d, each once",
				int(e.id)+layout.Skip, text.Count(len(entries), "label", "labels"), layout.Skip,
				layout.Skip+len(entries)-1)
		}
		labels[e.id], at[e.id] = e.label, l.n
	}
	v := newVocabulary(len(labels))
	for id, label := range labels {
		if first, known := v.ID(label); known {
			l.n = max(at[id], at[first])
			return nil, l.errorf("duplicate label %.200q, first on line %d: a label has one identifier",
				label, min(at[id], at[first]))
		}
		v.Add(label)
	}
	return v, nil
}

// unquote returns a label without the quotes of a CSV file.
func unquote(label []byte) ([]byte, error) {
	if len(label) == 0 || label[0] != '"' {
		return label, nil
	}
	inner, ended := bytes.CutSuffix(label[1:], []byte(`"`))
	parts := bytes.Split(inner, []byte(`""`))
	if !ended || slices.ContainsFunc(parts, func(part []byte) bool { return bytes.ContainsRune(part, '"') }) {
		return nil, fmt.Errorf("label %.200q begins with a double quote, but the others do not match it: "+
			"double each quote inside the label, and end it with one", label)
	}
	return bytes.Join(parts, []byte(`"`)), nil
}

// skipFirst reads the line before the entries, if the layout has one. It returns the number of
// labels in this line, or 0 if the line is a header.
func (l *lines) skipFirst(layout VocabularyLayout) (count int, err error) {
	switch {
	case layout.Count:
		return l.count("labels")
	case layout.Header:
		_, err = l.first()
	}
	return 0, err
}

// first returns the first line, which must exist.
func (l *lines) first() ([]byte, error) {
	line, err := l.record()
	if err == io.EOF {
		err = l.errorf("the file is empty")
	}
	return line, err
}

// count reads a first line with the number of the other lines, which hold the things with the given
// name.
func (l *lines) count(things string) (n int, err error) {
	line, err := l.first()
	if err != nil {
		return 0, err
	}
	if n, err = strconv.Atoi(strings.TrimSpace(string(line))); err != nil || n < 0 {
		return 0, l.errorf("the first line is %.40q, not the number of %s", line, things)
	}
	return n, nil
}

// readListed reads one label per line and numbers them from 0.
func readListed(l *lines) (*Vocabulary, error) {
	v := NewVocabulary()
	return v, l.records(func(line []byte) error {
		if first, known := v.lookup(line); known {
			return fmt.Errorf("duplicate label %.200q, first on line %d: remove one of the lines", line, first+1)
		}
		if bytes.IndexByte(line, '\t') >= 0 {
			return errors.New("a tab in a vocabulary that has one label per line: give the file the ending .tsv " +
				"if its lines are an identifier, a tab and a label, or remove it if it is not a vocabulary")
		}
		if err := checkLabel(line); err != nil {
			return err
		}
		v.Add(string(line))
		return nil
	})
}
