package kg

import (
	"context"
	"io"
	"strconv"

	"github.com/mquine/mquine/internal/text"
)

// ReadVocabulary reads a vocabulary file with lines id<TAB>label in any order. The file may be
// compressed (.gz, .zst). The identifiers must be 0 to n−1, each once, and the labels distinct.
// Errors name the file and the line.
func ReadVocabulary(ctx context.Context, path string) (v *Vocabulary, err error) {
	err = newOpening().readFile(ctx, path, func(l *lines) error {
		v, err = readNumbered(l)
		return err
	})
	return v, err
}

// ParseVocabulary is like ReadVocabulary, but reads uncompressed text. Errors call the text name.
func ParseVocabulary(ctx context.Context, name string, text io.Reader) (*Vocabulary, error) {
	return readNumbered(newLines(ctx, name, text))
}

// readNumbered reads lines id<TAB>label.
func readNumbered(l *lines) (*Vocabulary, error) {
	type entry struct {
		id    uint64
		label string
	}
	var entries []entry
	var fields [2][]byte
	for {
		line, err := l.record()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if err := l.split(line, fields[:], "identifier and label"); err != nil {
			return nil, err
		}
		id, err := strconv.ParseUint(string(fields[0]), 10, 31)
		if err != nil {
			return nil, l.errorf("identifier %.40q is not a number from 0 to 2147483647", fields[0])
		}
		if err := checkLabel(fields[1]); err != nil {
			return nil, l.errorf("%w", err)
		}
		entries = append(entries, entry{id, string(fields[1])})
	}

	// No line is blank, so entry i is in line i+1. at holds the line of each identifier.
	labels, at := make([]string, len(entries)), make([]int, len(entries))
	for i, e := range entries {
		l.n = i + 1
		if e.id >= uint64(len(entries)) {
			return nil, l.errorf("identifier %d in a file of %s: the identifiers must be 0 to %d, each once",
				e.id, text.Count(len(entries), "label", "labels"), len(entries)-1)
		}
		if at[e.id] != 0 {
			return nil, l.errorf("duplicate identifier %d, first on line %d: an identifier has one label",
				e.id, at[e.id])
		}
		labels[e.id], at[e.id] = e.label, l.n
	}
	v := NewVocabulary()
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

// readListed reads one label per line and numbers them from 0.
func readListed(l *lines) (*Vocabulary, error) {
	v := NewVocabulary()
	for {
		line, err := l.record()
		if err == io.EOF {
			return v, nil
		}
		if err != nil {
			return nil, err
		}
		if first, known := v.lookup(line); known {
			return nil, l.errorf("duplicate label %.200q, first on line %d: remove one of the lines", line, first+1)
		}
		if err := checkLabel(line); err != nil {
			return nil, l.errorf("%w", err)
		}
		v.Add(string(line))
	}
}
