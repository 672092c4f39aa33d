package main

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	wrapping "github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/abilities"
)

func newAbilitiesCommand() *cobra.Command {
	var p printed
	cmd := &cobra.Command{
		Use:   "abilities [MODEL]",
		Short: "Show which relation patterns a model can express",
		Long: `Show which relation patterns the models can express and, for one model, why. The
command checks every verdict before it prints it. For a "yes", it has parameters
whose scores express the pattern. A "no" rests on an inequality; the command
tests the inequality on random parameters, and searches for parameters that
break it.

The columns of the table, and the patterns that they stand for:
` + patternHelp() + `
The parameters of the relations alone must make a symmetry, an inversion or a
composition hold for all entities. A * marks a verdict that differs from the
table in the MQuinE paper. docs/abilities.md has the definitions.`,
		Example: `  mquine abilities
  mquine abilities rotate
  mquine abilities --format markdown`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				args[0] = text.Fold(args[0], model.Names())
				_, err := model.Lookup(args[0])
				return err
			}
			return atMostOne("model", args)
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return model.Names(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			specs := model.Specs()
			if len(args) == 1 {
				specs = slices.DeleteFunc(specs, func(s *model.Spec) bool { return s.Name != args[0] })
			} else {
				specs = slices.DeleteFunc(specs, func(s *model.Spec) bool { return !abilities.Has(s.Name) })
			}
			list, err := decide(cmd.Context(), specs)
			if err != nil {
				return err
			}
			list.wrapped = p.format == text.FormatTable
			return p.print(cmd, list)
		},
	}
	p.add(cmd)
	return cmd
}

// patternHelp lists the patterns with the titles of their columns.
func patternHelp() string {
	var b strings.Builder
	for _, p := range abilities.Patterns() {
		lines := strings.Split(wrapping.WrapSoft(p.Name+": "+p.Means, helpWidth-8), "\n")
		fmt.Fprintf(&b, "  %-4s  %s\n", p.Short, strings.TrimSpace(lines[0]))
		for _, line := range lines[1:] {
			fmt.Fprintf(&b, "        %s\n", strings.TrimSpace(line))
		}
	}
	return b.String()
}

// abilityList is the result of `mquine abilities`.
type abilityList struct {
	Schema     string              `json:"schema"`
	Provenance metrics.Provenance  `json:"provenance"`
	Findings   []abilities.Finding `json:"findings"`

	wrapped bool // whether to wrap reasons, so that the table fits 80 columns
}

func decide(ctx context.Context, specs []*model.Spec) (*abilityList, error) {
	list := &abilityList{Schema: "mquine.abilities/1", Provenance: provenance(ctx)}
	for _, s := range specs {
		findings, err := abilities.Decide(ctx, s)
		if err != nil {
			return nil, err
		}
		list.Findings = append(list.Findings, findings...)
	}
	return list, nil
}

// mark returns the verdict, with a star if the paper has a different one.
func mark(f abilities.Finding) string {
	if f.Differs() {
		return string(f.Verdict) + "*"
	}
	return string(f.Verdict)
}

// tables returns a table with a row for each model or, if there is only one model, a row for each
// pattern.
func (l *abilityList) tables() []*text.Table {
	patterns := abilities.Patterns()
	t := text.NewTable()
	if len(l.Findings) == len(patterns) {
		t.AppendHeader(table.Row{"pattern", "verdict", "reason"})
		for _, f := range l.Findings {
			reason := []string{f.Reason}
			if l.wrapped {
				reason = strings.Split(wrapping.WrapSoft(f.Reason, 46), "\n")
			}
			t.AppendRow(table.Row{f.Pattern, mark(f), strings.TrimSpace(reason[0])})
			for _, line := range reason[1:] {
				t.AppendRow(table.Row{"", "", strings.TrimSpace(line)})
			}
		}
		return []*text.Table{t}
	}
	header := table.Row{"model"}
	for _, p := range patterns {
		header = append(header, p.Short)
	}
	t.AppendHeader(header)
	for findings := range slices.Chunk(l.Findings, len(patterns)) {
		row := table.Row{findings[0].Model}
		for _, f := range findings {
			row = append(row, mark(f))
		}
		t.AppendRow(row)
	}
	return []*text.Table{t}
}

func (l *abilityList) remarks() []string {
	var lines []string
	if slices.ContainsFunc(l.Findings, abilities.Finding.Differs) {
		lines = append(lines, "* The table in the MQuinE paper has the opposite verdict.")
	}
	if len(l.Findings) > len(abilities.Patterns()) {
		lines = append(lines, "For the patterns: mquine abilities --help. For reasons: mquine abilities MODEL.")
	}
	return lines
}

func (l *abilityList) records() (header []string, rows iter.Seq[[]string]) {
	return []string{"model", "pattern", "verdict", "paper", "reason"}, func(yield func([]string) bool) {
		for _, f := range l.Findings {
			if !yield(text.Fields(f.Model, f.Pattern, f.Verdict, f.Paper, f.Reason)) {
				return
			}
		}
	}
}
