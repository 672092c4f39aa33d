package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
)

// unknown marks the open side of a query.
const unknown = "?"

// checkpointOwner owns the labels of a command that reads a checkpoint, in errors about unknown ones.
const checkpointOwner = "the checkpoint"

// maxQueryLine is the maximum length of a line of queries in bytes.
const maxQueryLine = 1 << 18

// readQueries reads queries, one per line, as head<TAB>relation<TAB>? or ?<TAB>relation<TAB>tail.
// The result uses the identifiers of g. name is the name of the file in error messages.
func readQueries(name string, r io.Reader, g *kg.Graph) ([]kg.Query, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxQueryLine)
	var queries []kg.Query
	n := 0
	for lines.Scan() {
		n++
		line := lines.Bytes()
		if n == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		fields := strings.Split(string(line), "\t")
		if len(fields) != 3 {
			return nil, fmt.Errorf("%s:%d: %s instead of 3: write head, relation and ?, or ?, relation and tail, "+
				"separated by tabs", name, n, text.Plural(len(fields), "field"))
		}
		q, err := parseQuery(g, [3]string(fields))
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		queries = append(queries, q)
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("%s:%d: the line is longer than %d bytes", name, n+1, maxQueryLine)
	case err != nil:
		return nil, fmt.Errorf("cannot read queries from %s: %w", name, text.Cause(err))
	case n == 0:
		return nil, fmt.Errorf("%s is empty: it must hold at least one query", name)
	}
	return queries, nil
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
