package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/mquine/mquine/internal/input"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
)

// unknown marks the open side of a query.
const unknown = "?"

// checkpointOwner is the owner that errors about unknown labels name in commands that read a
// checkpoint.
const checkpointOwner = "the checkpoint"

// maxQueryLine is the maximum length of a line of queries or triples in bytes.
const maxQueryLine = 1 << 18

// readQueries reads queries, one per line, as head<TAB>relation<TAB>? or ?<TAB>relation<TAB>tail.
// The result uses the identifiers of g. name is the name of the file in error messages.
func readQueries(name string, r io.Reader, g *kg.Graph) ([]kg.Query, error) {
	var queries []kg.Query
	err := readLines(name, "queries", "head, relation and ?, or ?, relation and tail", r,
		func(fields [3]string) error {
			q, err := parseQuery(g, fields)
			queries = append(queries, q)
			return err
		})
	if err == nil && len(queries) == 0 {
		err = fmt.Errorf("%s is empty: it must hold at least one query", name)
	}
	return queries, err
}

// readLines calls add with the three tab-separated fields of each line. A line with another number of
// fields is an error. Errors about a line, including errors of add, name the file and the line. what
// says what the file holds, and wanted says what a line must hold.
func readLines(name, what, wanted string, r io.Reader, add func(fields [3]string) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxQueryLine)
	n := 0
	for lines.Scan() {
		n++
		line := lines.Bytes()
		if n == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		fields := strings.Split(string(line), "\t")
		if len(fields) != 3 {
			return fmt.Errorf("%s:%d: %s instead of 3: write %s, separated by tabs",
				name, n, text.Plural(len(fields), "field"), wanted)
		}
		if err := add([3]string(fields)); err != nil {
			return fmt.Errorf("%s:%d: %w", name, n, err)
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("%s:%d: the line is longer than %d bytes", name, n+1, maxQueryLine)
	case err != nil:
		return fmt.Errorf("cannot read %s from %s: %w", what, name, text.Cause(err))
	}
	return nil
}

// openLines opens the file of --in, or standard input if path is "-", for readLines. It returns the
// name of the file for messages. what says what the file holds.
func openLines(ctx context.Context, path, what string, stdin io.Reader, log io.Writer,
) (file *input.Reader, name string, err error) {
	if path == "-" {
		name = "standard input"
		fmt.Fprintf(log, "reading %s from %s\n", what, name)
		return input.NewReader(ctx, stdin), name, nil
	}
	if file, err = input.Open(ctx, path); err != nil {
		return nil, path, fmt.Errorf("cannot read %s from %s: %w; name a file, or - for standard input", what, path,
			text.Cause(err))
	}
	return file, path, nil
}

// parseTriple returns the triple with the given head, relation and tail.
func parseTriple(entities, relations *kg.Vocabulary, fields [3]string) (t kg.Triple, err error) {
	if t.Head, err = entities.Find(checkpointOwner, "entity", fields[0]); err != nil {
		return t, err
	}
	if t.Relation, err = relations.Find(checkpointOwner, "relation", fields[1]); err != nil {
		return t, err
	}
	t.Tail, err = entities.Find(checkpointOwner, "entity", fields[2])
	return t, err
}

// parseQuery returns the query with the given head, relation and tail. Exactly one of head and tail
// must be unknown.
func parseQuery(g *kg.Graph, fields [3]string) (kg.Query, error) {
	head, relation, tail := fields[0], fields[1], fields[2]
	q, anchor := kg.Query{Side: kg.Tail}, head
	switch {
	case head == unknown && tail == unknown:
		return q, errors.New("put ? in only one of the head and tail columns: it marks what to predict")
	case head == unknown:
		q.Side, anchor = kg.Head, tail
	case tail != unknown:
		return q, errors.New("put ? in the head or the tail column: it marks what to predict")
	}
	var err error
	if q.Anchor, err = g.Entities.Find(checkpointOwner, "entity", anchor); err != nil {
		return q, err
	}
	q.Relation, err = g.Relations.Find(checkpointOwner, "relation", relation)
	return q, err
}

// queryFields is the inverse of parseQuery.
func queryFields(g *kg.Graph, q kg.Query) [3]string {
	anchor, relation := g.Entities.Label(q.Anchor), g.Relations.Label(q.Relation)
	if q.Side == kg.Head {
		return [3]string{unknown, relation, anchor}
	}
	return [3]string{anchor, relation, unknown}
}
