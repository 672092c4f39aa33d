package main

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
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
		return nil, fmt.Errorf("cannot read the queries of %s: %w", name, reason(err))
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

// find returns the identifier of a label; the error for one that is not there names a few that
// look like it.
func find(v *kg.Vocabulary, what, label string) (int32, error) {
	if id, ok := v.ID(label); ok {
		return id, nil
	}
	err := fmt.Errorf("the checkpoint knows no %s %q", what, label)
	if near := similar(v.Labels(), label); len(near) > 0 {
		err = fmt.Errorf("%w; it knows %s", err, strings.Join(near, ", "))
	}
	return 0, err
}

// similar returns up to three labels that are like the given one, the likest first.
func similar(labels []string, label string) []string {
	const most = 3
	type candidate struct {
		label    string
		likeness float64
	}
	var all []candidate
	for _, l := range labels {
		if s := likeness(strings.ToLower(l), strings.ToLower(label)); s >= 0.6 {
			all = append(all, candidate{l, s})
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(b.likeness, a.likeness) })
	var near []string
	for _, c := range all[:min(len(all), most)] {
		near = append(near, c.label)
	}
	return near
}

// likeness is the share of the longer text that a common beginning and a common end make up: close
// to 1 for one typing error, and computed in one reading.
func likeness(a, b string) float64 {
	longer, shorter := max(len(a), len(b)), min(len(a), len(b))
	if longer == 0 {
		return 1
	}
	begin := 0
	for begin < shorter && a[begin] == b[begin] {
		begin++
	}
	end := 0
	for end < shorter-begin && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	return float64(begin+end) / float64(longer)
}
