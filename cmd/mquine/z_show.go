package main

import (
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/zpattern"
	"github.com/mquine/mquine/metrics"
)

// zShow lists the Z-patterns of a triple. It holds the flags of z show.
type zShow struct {
	data                 string
	head, relation, tail string
	convention           zpattern.Convention
	limit                int
	printed
}

func newZShowCommand() *cobra.Command {
	z := zShow{limit: 20}
	cmd := &cobra.Command{
		Use:   "show --data NAME --head H --relation R --tail T",
		Short: "List the Z-patterns of a triple",
		Long: `List the Z-patterns of a triple (H, R, T): the names of all e2 and e3 such that
(H, R, e2), (e3, R, e2) and (e3, R, T) are training triples. The triple itself
need not be in the data set. Every format lists at most --limit patterns. If the
triple has more, a line below the tables says how many; with CSV and JSON, the
line goes to standard error.`,
		Example: `  mquine z show --data umls --head steroid --relation affects --tail fungus
  mquine z show --data ./my-graph --head a --relation r --tail b --json z.json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			report, err := z.describe(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if err := z.print(cmd, report); err != nil {
				return err
			}
			if z.format == text.FormatCSV || z.format == text.FormatJSON || z.jsonFile == "-" { // no remarks
				report.noteUnlisted(cmd.ErrOrStderr())
			}
			return nil
		},
	}
	flags := cmd.Flags()
	addData(cmd, &z.data)
	flags.StringVar(&z.head, "head", "", "head `ENTITY` of the triple")
	flags.StringVar(&z.relation, "relation", "", "`RELATION` of the triple")
	flags.StringVar(&z.tail, "tail", "", "tail `ENTITY` of the triple")
	for _, name := range []string{"head", "relation", "tail"} {
		markRequired(cmd, name)
	}
	inGroup(cmd, queryFlags, "head", "relation", "tail")
	addConvention(cmd, &z.convention)
	flags.Var(positive{n: &z.limit}, "limit", "list at most N patterns")
	z.printed.add(cmd)
	return cmd
}

func (z *zShow) describe(ctx context.Context, log io.Writer) (*shownTriple, error) {
	g, err := openData(ctx, z.data, log)
	if err != nil {
		return nil, err
	}
	var triple kg.Triple
	for _, part := range []struct {
		id    *int32
		v     *kg.Vocabulary
		kind  string
		label string
	}{
		{&triple.Head, g.Entities, "entity", z.head},
		{&triple.Relation, g.Relations, "relation", z.relation},
		{&triple.Tail, g.Entities, "entity", z.tail},
	} {
		if *part.id, err = part.v.Find("data set "+g.Name, part.kind, part.label); err != nil {
			return nil, explainLabel(ctx, err, g.Dir)
		}
	}
	report, err := zpattern.NewTripleReport(ctx, g, triple, z.convention, z.limit)
	if err != nil {
		return nil, err
	}
	shown := &shownTriple{Schema: report.Schema, Provenance: provenance(ctx), TripleReport: report}
	if shown.Provenance.Data, err = z.dataOf(ctx, g); err != nil {
		return nil, err
	}
	shown.labels, err = kg.ReadLabels(ctx, g.Dir)
	return shown, err
}

// shownTriple is the JSON result of z show.
type shownTriple struct {
	Schema     string             `json:"schema"`
	Provenance metrics.Provenance `json:"provenance"`
	*zpattern.TripleReport

	labels map[string]string
}

// name returns an identifier with its label, if it has one.
func (r *shownTriple) name(identifier string) string { return withLabel(identifier, r.labels) }

// tables returns the Z-value, rank and case on each side, and the patterns.
func (r *shownTriple) tables() []*text.Table {
	where := "is in no split"
	if len(r.Splits) > 0 {
		where = "is in " + strings.Join(names(r.Splits), " and ")
	}
	cases := text.NewTable(2, 3)
	cases.Title = fmt.Sprintf("(%s, %s, %s) %s of %s, convention %v",
		r.name(r.Head), r.name(r.Relation), r.name(r.Tail), where, r.Data, r.Convention)
	cases.AppendHeader([]any{"side", "n_Z", "rank_Z", "case"})
	for _, s := range r.Sides {
		cases.AppendRow([]any{s.Side, text.Comma(r.Z), text.Comma(s.RankZ), s.Case.String()})
	}
	if len(r.Patterns) == 0 {
		return []*text.Table{cases}
	}
	patterns := text.NewTable()
	patterns.AppendHeader([]any{"head", "", "e2", "", "e3", "", "tail"})
	for _, p := range r.Patterns {
		patterns.AppendRow([]any{r.name(r.Head), "→", r.name(p.E2), "←", r.name(p.E3), "→", r.name(r.Tail)})
	}
	return []*text.Table{cases, patterns}
}

// unlisted returns the number of patterns beyond --limit.
func (r *shownTriple) unlisted() uint64 { return r.Z - uint64(len(r.Patterns)) }

// noteUnlisted prints a note about the patterns that CSV and JSON leave out.
func (r *shownTriple) noteUnlisted(log io.Writer) {
	if more := r.unlisted(); more > 0 {
		printNote(log, "%s of %s Z-patterns are not listed: raise --limit to list them", text.Comma(more),
			text.Comma(r.Z))
	}
}

func (r *shownTriple) remarks() []string {
	if more := r.unlisted(); more > 0 {
		return []string{fmt.Sprintf("… and %s more: raise --limit to list them.", text.Comma(more))}
	}
	return nil
}

// records returns a line for each pattern.
func (r *shownTriple) records() (header []string, rows iter.Seq[[]string]) {
	var lines [][]string
	for _, p := range r.Patterns {
		lines = append(lines, []string{
			r.Data, r.Head, r.Relation, r.Tail, r.Convention.String(), p.E2, p.E3, r.labels[p.E2], r.labels[p.E3],
		})
	}
	return []string{
		"data", "head", "relation", "tail", "convention", "e2", "e3", "e2_label", "e3_label",
	}, slices.Values(lines)
}
