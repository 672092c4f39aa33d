package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/zpattern"
)

// zShow lists the Z-patterns of a triple. It holds the flags of z show.
type zShow struct {
	data                 string
	head, relation, tail string
	convention           zpattern.Convention
	limit                int
	jsonFile             string
}

func newZShowCommand() *cobra.Command {
	z := zShow{limit: 20}
	cmd := &cobra.Command{
		Use:   "show --data NAME --head H --relation R --tail T",
		Short: "List the Z-patterns of a triple",
		Long: `List the Z-patterns of a triple (H, R, T) by name: the pairs (e2, e3) with the
training triples (H, R, e2), (e3, R, e2) and (e3, R, T). The triple itself need
not be in the data set.`,
		Example: `  mquine z show --data umls --head steroid --relation affects --tail fungus
  mquine z show --data ./my-graph --head a --relation r --tail b --json z.json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			report, err := z.describe(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if z.jsonFile != "" {
				if err := writeJSON(cmd, z.jsonFile, report); err != nil || z.jsonFile == "-" {
					return err
				}
			}
			return printTriple(cmd.OutOrStdout(), report)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	addData(cmd, &z.data)
	flags.StringVar(&z.head, "head", "", "head `ENTITY` of the triple")
	flags.StringVar(&z.relation, "relation", "", "`RELATION` of the triple")
	flags.StringVar(&z.tail, "tail", "", "tail `ENTITY` of the triple")
	for _, name := range []string{"head", "relation", "tail"} {
		markRequired(cmd, name)
	}
	addConvention(cmd, &z.convention)
	flags.Var(positive{n: &z.limit}, "limit", "list at most this number of patterns")
	jsonFlag(cmd, &z.jsonFile)
	return cmd
}

func (z *zShow) describe(ctx context.Context, log io.Writer) (*zpattern.TripleReport, error) {
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
		if *part.id, err = find("data set "+g.Name, part.v, part.kind, part.label); err != nil {
			return nil, err
		}
	}
	return zpattern.NewTripleReport(ctx, g, triple, z.convention, z.limit)
}

// printTriple prints the Z-value, rank and case of a triple, and a table of its patterns.
func printTriple(w io.Writer, r *zpattern.TripleReport) error {
	where := "is in no split"
	if len(r.Splits) > 0 {
		where = "is in " + strings.Join(names(r.Splits), " and ")
	}
	title := text.Escape(fmt.Sprintf("(%s, %s, %s) %s of %s", r.Head, r.Relation, r.Tail, where, r.Data))
	out := fmt.Sprintf("%s\n\nn_Z = %s, convention %v\n", title, text.Comma(r.Z), r.Convention)
	for _, s := range r.Sides {
		out += fmt.Sprintf("side %s: rank_Z = %s, %v\n", s.Side, text.Comma(s.RankZ), s.Case)
	}
	if len(r.Patterns) > 0 {
		t := text.NewTable()
		t.AppendHeader(table.Row{"head", "", "e2", "", "e3", "", "tail"})
		for _, p := range r.Patterns {
			t.AppendRow(table.Row{r.Head, "→", p.E2, "←", p.E3, "→", r.Tail})
		}
		out += "\n" + t.Render() + "\n"
	}
	if more := r.Z - uint64(len(r.Patterns)); more > 0 {
		out += fmt.Sprintf("… and %s more: raise --limit to list them.\n", text.Comma(more))
	}
	if _, err := io.WriteString(w, out); err != nil {
		return fmt.Errorf("cannot print the patterns: %w", text.Cause(err))
	}
	return nil
}
