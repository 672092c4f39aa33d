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

// unknown stands for what a query asks for.
const unknown = "?"

// maxQueryLine is the length of the longest line of queries, in bytes.
const maxQueryLine = 1 << 18

// readQueries reads queries of g, one a line: head<TAB>relation<TAB>? or ?<TAB>relation<TAB>tail.
// name is the file's, for messages.
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
			return nil, fmt.Errorf("%s:%d: %s instead of 3: a line is head, relation and ?, or ?, relation and tail, separated by tabs",
				name, n, text.Plural(len(fields), "field"))
		}
		q, err := parseQuery(g, [3]string(fields))
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		queries = append(queries, q)
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("%s:%d: line is longer than %d bytes", name, n+1, maxQueryLine)
	case err != nil:
		return nil, fmt.Errorf("cannot read the queries of %s: %w", name, text.Cause(err))
	case n == 0:
		return nil, fmt.Errorf("%s is empty: there are no queries to answer", name)
	}
	return queries, nil
}

// parseQuery returns the query of the fields head, relation and tail, one of which is unknown.
func parseQuery(g *kg.Graph, fields [3]string) (kg.Query, error) {
	head, relation, tail := fields[0], fields[1], fields[2]
	q, anchor := kg.Query{Side: kg.Tail}, head
	switch {
	case head == unknown && tail == unknown:
		return q, errors.New("only one of head and tail can be ?")
	case head == unknown:
		q.Side, anchor = kg.Head, tail
	case tail != unknown:
		return q, errors.New("one of head and tail must be ?, which is what is asked for")
	}
	var err error
	if q.Anchor, err = find(g.Entities, "entity", anchor); err != nil {
		return q, err
	}
	q.Relation, err = find(g.Relations, "relation", relation)
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

// similarLabels is the number of labels that the error for an unknown one names.
const similarLabels = 3

// find returns the identifier of a label; the error for one that is not there names a few that
// look like it.
func find(v *kg.Vocabulary, what, label string) (int32, error) {
	if id, ok := v.ID(label); ok {
		return id, nil
	}
	err := fmt.Errorf("the checkpoint knows no %s %q", what, label)
	if near := text.Similar(label, v.Labels(), similarLabels); len(near) > 0 {
		err = fmt.Errorf("%w; it knows %s", err, strings.Join(near, ", "))
	}
	return 0, err
}
