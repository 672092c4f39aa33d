package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/mquine/mquine/internal/compressed"
	"github.com/mquine/mquine/internal/input"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
)

// unknown marks the open side of a query.
const unknown = "?"

// question is a query: a triple with one side left open. The side may be kg.Relation. The value on
// the open side is ignored.
type question struct {
	side   kg.Side
	triple kg.Triple
}

func (q question) asksRelation() bool { return q.side == kg.Relation }

// checkpointOwner is the subject of errors such as "the checkpoint has no entity …".
const checkpointOwner = "the checkpoint"

// readQueries reads queries, one per line: a head, a relation and a tail, separated by tabs, one of
// which is ?. The result uses the identifiers of g. name is the name of the file in error messages.
func readQueries(ctx context.Context, name string, r io.Reader, g *kg.Graph) ([]question, error) {
	var queries []question
	err := readLines(ctx, name, "head, relation and tail, one of them ?", r, g.Relations, func(fields [3]string) error {
		q, err := parseQuery(g, fields)
		queries = append(queries, q)
		return err
	})
	if err == nil && len(queries) == 0 {
		err = fmt.Errorf("%s is empty: it must hold at least one query", name)
	}
	return queries, err
}

// readLines calls add with the three tab-separated fields of each line. A line with a different
// number of fields is an error, and so is a blank line, unless it is the last line. Errors about a line,
// including errors of add, name the file and the line. For the messages, wanted lists the fields of a line.
// An error about the first line mentions headers if its second field is a usual name for a column and not
// one of the known relations.
func readLines(
	ctx context.Context, name, wanted string, r io.Reader, relations *kg.Vocabulary, add func(fields [3]string) error,
) error {
	return kg.ParseRecords(ctx, name, r, func(n int, line string) error {
		fields := strings.Split(line, "\t")
		if len(fields) != 3 {
			return fmt.Errorf("%s instead of 3: write %s, separated by tabs", text.Plural(len(fields), "field"), wanted)
		}
		err := add([3]string(fields))
		if _, known := relations.ID(fields[1]); err != nil && n == 1 && !known && kg.NamesColumn(fields[1]) {
			err = fmt.Errorf("%w; if the first line is a header, remove it", err)
		}
		return err
	})
}

// openLines opens the file of --in, or standard input if path is "-", for readLines. It returns the
// name of the file for messages. what names the contents of the file, such as "queries".
func openLines(ctx context.Context, path, what string, stdin io.Reader, log io.Writer,
) (file io.ReadCloser, name string, err error) {
	if path == "-" {
		name = "standard input"
		fmt.Fprintf(log, "reading %s from %s\n", what, name)
		return input.NewReader(ctx, stdin), name, nil
	}
	if file, err = compressed.Open(ctx, path); err != nil {
		return nil, path, fmt.Errorf("cannot read %s from %s: %w; name a file, or - for standard input", what, path,
			text.Cause(err))
	}
	return file, path, nil
}

// adviseMissing adds advice to the error about a file that does not exist. It returns other errors
// unchanged.
func adviseMissing(err error, advice string) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w; %s", err, advice)
	}
	return err
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

// parseQuery returns the query with the given head, relation and tail. Exactly one of them must be
// unknown.
func parseQuery(g *kg.Graph, fields [3]string) (q question, err error) {
	var open [3]bool
	marks := 0
	for i, field := range fields {
		if open[i] = field == unknown; open[i] {
			marks++
		}
	}
	if marks != 1 { // before the labels, because names of columns and empty columns are not labels
		return q, errors.New("put ? in exactly one of the three columns: it marks what to predict")
	}
	return findQuery(g, fields, open)
}

// findQuery returns the query with the given head, relation and tail. It ignores fields that are
// open. Exactly one should be.
func findQuery(g *kg.Graph, fields [3]string, open [3]bool) (q question, err error) {
	for i, member := range []struct {
		side   kg.Side
		kind   string
		labels *kg.Vocabulary
		id     *int32
	}{
		{kg.Head, "entity", g.Entities, &q.triple.Head},
		{kg.Relation, "relation", g.Relations, &q.triple.Relation},
		{kg.Tail, "entity", g.Entities, &q.triple.Tail},
	} {
		if open[i] {
			q.side = member.side
		} else if *member.id, err = member.labels.Find(checkpointOwner, member.kind, fields[i]); err != nil {
			return q, err
		}
	}
	return q, nil
}

// fields is the inverse of parseQuery.
func (q question) fields(g *kg.Graph) [3]string {
	fields := [3]string{
		g.Entities.Label(q.triple.Head), g.Relations.Label(q.triple.Relation), g.Entities.Label(q.triple.Tail),
	}
	fields[map[kg.Side]int{kg.Head: 0, kg.Relation: 1, kg.Tail: 2}[q.side]] = unknown
	return fields
}
