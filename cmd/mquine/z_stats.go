package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/zpattern"
	"github.com/mquine/mquine/rank"
)

// zStats counts the triples of a split by Z-value. It holds the flags of z stats.
type zStats struct {
	data       string
	split      kg.Split
	sides      rank.Sides
	convention zpattern.Convention
	relations  bool
	jsonFile   string
	tsvFile    string
	plotFile   string
}

func newZStatsCommand() *cobra.Command {
	z := zStats{split: kg.Test, sides: rank.BothSides}
	cmd := &cobra.Command{
		Use:   "stats --data NAME",
		Short: "Count the easy, neutral and hard triples of a split",
		Long: `Count the Z-values of all triples of a split, exactly, and classify the triples
as easy, neutral or hard. "mquine z --help" explains the terms.

--convention: how to count and classify.
  paper       reproduces the table of the MQuinE paper, which is for side tail:
              easy means that rank_Z is at most 8, and patterns with e2 = e3
              count
  definition  follows the definitions in the text of the paper: easy means that
              rank_Z is below 10, and patterns with e2 = e3 do not count

--json writes the cases, the histograms and the cases of every relation. --tsv
writes a line for each triple and side: side, head, relation, tail, z, rank_z
and case. --plot draws the histograms as SVG. If a file is "-", it goes to
standard output, and the tables go to standard error.`,
		Example: `  mquine z stats --data fb15k-237
  mquine z stats --data wn18rr --side tail --convention definition --relations
  mquine z stats --data ./my-graph --json z.json --tsv z.tsv --plot z.svg`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return z.run(cmd) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	addData(cmd, &z.data)
	addChoice(cmd, &z.split, "split", "count the triples of this split: train, valid or test",
		kg.Train, kg.Valid, kg.Test)
	addSide(cmd, &z.sides, "side of the candidates: tail, head or both")
	addConvention(cmd, &z.convention)
	flags.BoolVar(&z.relations, "relations", false, "also show a line for every relation")
	inGroup(cmd, inputFlags, "split")
	inGroup(cmd, protocolFlags, "convention")
	inGroup(cmd, outputFlags, "relations")
	jsonFlag(cmd, &z.jsonFile)
	addOutput(cmd, &z.tsvFile, "tsv",
		"write the values of all triples, tab-separated, to `FILE` (- is standard output)")
	addOutput(cmd, &z.plotFile, "plot", "draw the histograms as SVG to `FILE`")
	return cmd
}

func (z *zStats) run(cmd *cobra.Command) error {
	out := cmd.OutOrStdout()
	if z.jsonFile == "-" || z.tsvFile == "-" {
		out = cmd.ErrOrStderr()
	}
	g, err := openData(cmd.Context(), z.data, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	writeNotes(cmd.ErrOrStderr(), g.Notes)
	meter := newMeter(cmd.ErrOrStderr())
	sides := z.sides.List()
	values, err := zpattern.NewSplitValues(cmd.Context(), g, z.split, sides, z.convention, 0,
		meter.counting(len(sides)))
	meter.clear()
	if err != nil {
		return err
	}
	report := values.Report()
	// Do not lose results that took long to compute: write the files even if the tables cannot be
	// printed, and vice versa.
	if z.tsvFile != "" {
		err = writeTo(cmd.OutOrStdout(), z.tsvFile, values.Write)
	}
	if z.plotFile != "" {
		svg, plotErr := plotZ(report)
		if plotErr == nil {
			plotErr = writeFile(cmd, z.plotFile, svg)
		}
		err = errors.Join(err, plotErr)
	}
	if z.jsonFile != "" {
		err = errors.Join(err, writeJSON(cmd, z.jsonFile, report))
	}
	if unprinted := z.print(out, g, report); unprinted != nil {
		err = errors.Join(err, fmt.Errorf("cannot print the tables: %w", text.Cause(unprinted)))
	}
	return err
}

// print prints the cases, the histograms and, with --relations, the cases of every relation.
func (z *zStats) print(w io.Writer, g *kg.Graph, r *zpattern.Report) error {
	t := text.NewTable(2, 3, 4, 5)
	t.AppendHeader(table.Row{"side", "triples", "easy", "neutral", "hard"})
	for _, c := range r.Cases {
		t.AppendRow(table.Row{c.Side, text.Comma(c.N), share(c.Easy, c.N), share(c.Neutral, c.N), share(c.Hard, c.N)})
	}
	title := fmt.Sprintf("%s %v: Z-patterns of %s in %s, convention %v", text.Escape(g.Name), z.split,
		text.Plural(r.Triples, "triple"), text.Plural(len(g.Splits[kg.Train]), "training triple"), z.convention)
	_, err := fmt.Fprintf(w, "%s\n\n%s\n\n%s\n\n%s\n\n%s\n\nThe largest n_Z is %s.\n",
		title, t.Render(), casesMeaning(z.convention),
		histogramTable("n_Z", r.Z), histogramTable("rank_Z", r.RankZ...), text.Comma(r.Z.Largest))
	if err == nil && z.relations {
		_, err = fmt.Fprintf(w, "\n%s\n", relationTable(r))
	}
	return err
}

// share returns part as text, with its percentage of whole.
func share(part, whole int) string {
	if whole == 0 {
		return text.Comma(part)
	}
	return fmt.Sprintf("%s (%.0f%%)", text.Comma(part), 100*float64(part)/float64(whole))
}

// histogramTable draws histograms of the same quantity side by side.
func histogramTable(number string, histograms ...zpattern.Histogram) string {
	const widest = 30
	longest, most := longestBins(histograms), 1
	header, columns := table.Row{number}, []int{1}
	for i, h := range histograms {
		for _, b := range h.Bins {
			most = max(most, b.N)
		}
		header, columns = append(header, cmp.Or(h.Side, "triples"), ""), append(columns, 2*i+2)
	}
	t := text.NewTable(columns...)
	t.AppendHeader(header)
	for at, bin := range longest {
		row := table.Row{bin}
		for _, h := range histograms {
			n := 0
			if at < len(h.Bins) {
				n = h.Bins[at].N
			}
			length := (n*widest + most - 1) / most // rounded up, so that a small count remains visible
			row = append(row, text.Comma(n), strings.Repeat("█", length))
		}
		t.AppendRow(row)
	}
	return t.Render()
}

// longestBins returns the bins of the histogram with the most bins.
func longestBins(histograms []zpattern.Histogram) []zpattern.Bin {
	byLength := func(a, b zpattern.Histogram) int { return len(a.Bins) - len(b.Bins) }
	return slices.MaxFunc(histograms, byLength).Bins
}

// relationTable returns a table of relations. Relations with the most triples come first.
func relationTable(r *zpattern.Report) string {
	relations := slices.Clone(r.Relations)
	slices.SortStableFunc(relations, func(a, b zpattern.RelationCounts) int { return b.N - a.N })
	t := text.NewTable(3, 4, 5, 6, 7)
	t.AppendHeader(table.Row{"relation", "side", "triples", "easy", "neutral", "hard", "largest n_Z"})
	for _, c := range relations {
		t.AppendRow(table.Row{c.Relation, c.Side,
			text.Comma(c.N), share(c.Easy, c.N), share(c.Neutral, c.N), share(c.Hard, c.N), text.Comma(c.LargestZ)})
	}
	return t.Render()
}
