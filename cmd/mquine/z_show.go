package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/zpattern"
)

// zShow asks for the Z-patterns of a triple.
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
		Long: `List the Z-patterns of a triple, known or not, by name: the pairs (e2, e3) with the training
triples (H, R, e2), (e3, R, e2) and (e3, R, T).`,
		Example: `  mquine z show --data umls --head steroid --relation affects --tail fungus
  mquine z show --data ./my-graph --head a --relation r --tail b --limit 1000 --json z.json`,
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
			return report.print(cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	addData(cmd, &z.data)
	flags.StringVar(&z.head, "head", "", "`entity` that is the head")
	flags.StringVar(&z.relation, "relation", "", "`relation` of the triple")
	flags.StringVar(&z.tail, "tail", "", "`entity` that is the tail")
	for _, name := range []string{"head", "relation", "tail"} {
		markRequired(cmd, name)
	}
	addConvention(cmd, &z.convention)
	flags.Var(positive{n: &z.limit}, "limit", "most `patterns` to list")
	jsonFlag(cmd, &z.jsonFile)
	return cmd
}

// zTriple is the result of `mquine z show` for machines.
type zTriple struct {
	Schema     string              `json:"schema"`
	Data       string              `json:"data"`
	Convention zpattern.Convention `json:"convention"`
	Head       string              `json:"head"`
	Relation   string              `json:"relation"`
	Tail       string              `json:"tail"`
	// Splits are those that have the triple.
	Splits []kg.Split `json:"splits"`
	Z      uint64     `json:"z"`
	// Sides tells the rank of the Z-value among the candidates of each side.
	Sides []zSide `json:"sides"`
	// Patterns are the first ones, in the order of the data set's entities.
	Patterns []zEnds `json:"patterns"`
}

type zSide struct {
	Side  string        `json:"side"`
	RankZ int           `json:"rank_z"`
	Case  zpattern.Case `json:"case"`
}

type zEnds struct {
	E2 string `json:"e2"`
	E3 string `json:"e3"`
}

func (z *zShow) describe(ctx context.Context, log io.Writer) (zTriple, error) {
	r := zTriple{Schema: "mquine.z-show/1", Convention: z.convention, Head: z.head, Relation: z.relation, Tail: z.tail,
		Splits: []kg.Split{}, Patterns: []zEnds{}}
	g, err := openData(ctx, z.data, log)
	if err != nil {
		return r, err
	}
	r.Data = g.Name
	var triple kg.Triple
	for _, part := range []struct {
		id    *int32
		v     *kg.Vocabulary
		what  string
		label string
	}{
		{&triple.Head, g.Entities, "entity", z.head},
		{&triple.Relation, g.Relations, "relation", z.relation},
		{&triple.Tail, g.Entities, "entity", z.tail},
	} {
		id, known := part.v.ID(part.label)
		if !known {
			err := fmt.Errorf("data set %s has no %s %q", g.Name, part.what, part.label)
			if near := similar(part.v.Labels(), part.label); len(near) > 0 {
				err = fmt.Errorf("%w; it has %s", err, strings.Join(near, ", "))
			}
			return r, err
		}
		*part.id = id
	}
	x, err := zpattern.NewIndex(g)
	if err != nil {
		return r, err
	}
	for split := range kg.NumSplits {
		for _, t := range g.Splits[split] {
			if t == triple {
				r.Splits = append(r.Splits, split)
				break
			}
		}
	}
	for _, side := range []kg.Side{kg.Tail, kg.Head} {
		values, err := x.Values(ctx, []kg.Triple{triple}, side, z.convention, 1, nil)
		if err != nil {
			return r, err
		}
		r.Z = values[0].Z
		r.Sides = append(r.Sides, zSide{side.String(), values[0].Rank, values[0].Case})
	}
	for p := range x.Patterns(triple, z.convention) {
		if len(r.Patterns) == z.limit {
			break
		}
		r.Patterns = append(r.Patterns, zEnds{g.Entities.Label(p.E2), g.Entities.Label(p.E3)})
	}
	return r, nil
}

func (r zTriple) print(w io.Writer) error {
	where := "is in no split"
	if len(r.Splits) > 0 {
		where = "is in " + strings.Join(names(r.Splits), " and ")
	}
	title := text.Escape(fmt.Sprintf("(%s, %s, %s) %s of %s", r.Head, r.Relation, r.Tail, where, r.Data))
	out := fmt.Sprintf("%s\n\nn_Z = %s, convention %v\n", title, humanize.Comma(int64(r.Z)), r.Convention)
	for _, s := range r.Sides {
		out += fmt.Sprintf("side %s: rank_Z = %s, %v\n", s.Side, comma(s.RankZ), s.Case)
	}
	if len(r.Patterns) > 0 {
		t := newTable()
		t.AppendHeader(table.Row{"head", "", "e2", "", "e3", "", "tail"})
		for _, p := range r.Patterns {
			t.AppendRow(table.Row{r.Head, "→", p.E2, "←", p.E3, "→", r.Tail})
		}
		out += "\n" + t.Render() + "\n"
	}
	if more := r.Z - uint64(len(r.Patterns)); more > 0 {
		out += fmt.Sprintf("… and %s more; --limit lists them.\n", humanize.Comma(int64(more)))
	}
	if _, err := io.WriteString(w, out); err != nil {
		return fmt.Errorf("cannot print the patterns: %w", reason(err))
	}
	return nil
}
