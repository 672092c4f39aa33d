package kg

import (
	"context"
	"fmt"

	"github.com/mquine/mquine/internal/input"
	"github.com/mquine/mquine/internal/text"
)

// negativesFiles lists the possible names of a file with false triples, without compression.
func negativesFiles(s Split) []string {
	return []string{s.String() + "_negatives.txt", s.String() + "_negatives.nt"}
}

// ReadNegatives reads the false triples that belong to a split of g, for triple classification:
// valid_negatives.txt or test_negatives.txt in the folder of g. The file may contain N-Triples
// (.nt), and may be compressed (.gz, .zst). The triples have the identifiers of g. Without the
// file, the result is nil. If g lacks a label, the error names the file and the line, unless Restrict
// left out the label: then ReadNegatives leaves out the triple.
func ReadNegatives(ctx context.Context, g *Graph, s Split) ([]Triple, error) {
	if g.Dir == "" {
		return nil, nil
	}
	path, err := input.Await(ctx, func() (string, error) {
		files, err := listFolder(g.Dir)
		if err != nil {
			return "", fmt.Errorf("reading the folder %s: %w", g.Dir, text.Cause(err))
		}
		return files.find(negativesFiles(s))
	})
	if err != nil || path == "" {
		return nil, err
	}
	id := func(v *Vocabulary, leftOut map[string]bool, kind string, label []byte) (int32, error) {
		if id, ok := v.lookup(label); ok {
			return id, nil
		}
		if leftOut[string(label)] {
			return -1, nil
		}
		return 0, fmt.Errorf("unknown %s %.200q: a false triple may contain only labels of the data set", kind, label)
	}
	negatives := []Triple{}
	add := func(head, relation, tail []byte) error {
		h, err := id(g.Entities, g.leftOut[0], "entity", head)
		if err != nil {
			return err
		}
		r, err := id(g.Relations, g.leftOut[1], "relation", relation)
		if err != nil {
			return err
		}
		t, err := id(g.Entities, g.leftOut[0], "entity", tail)
		if err != nil {
			return err
		}
		if h >= 0 && r >= 0 && t >= 0 {
			negatives = append(negatives, Triple{h, r, t})
		}
		return nil
	}
	read := readTriples
	if isNTriples(path) {
		read = readNTriples
	}
	if err := newOpening().readFile(ctx, path, func(l *lines) error { return read(l, add) }); err != nil {
		return nil, err
	}
	if len(negatives) == 0 {
		return nil, fmt.Errorf("%s has no triples: remove the file, or fetch or copy it again", path)
	}
	return negatives, nil
}
