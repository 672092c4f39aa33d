package main

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/zpattern"
	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/rank"
)

// zStats counts the triples of a split by Z-value. It holds the flags of z stats.
type zStats struct {
	data       string
	split      kg.Split
	sides      rank.Sides
	convention zpattern.Convention
	relations  bool
	printed
	tsvFile  string
	plotFile string
}

func newZStatsCommand() *cobra.Command {
	z := zStats{split: kg.Test, sides: rank.BothSides, printed: printed{diverted: true}}
	cmd := &cobra.Command{
		Use:   "stats --data NAME",
		Short: "Count the easy, neutral and hard triples of a split",
		Long: `Compute the Z-value of every triple of a split, exactly, and classify the
triples as easy, neutral or hard. "mquine z --help" explains the terms.

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
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			return checkTableFlags(cmd, z.format, "relations")
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return z.run(cmd) },
	}
	flags := cmd.Flags()
	addData(cmd, &z.data)
	addChoice(cmd, &z.split, "split", "count the triples of this split: train, valid or test",
		kg.Train, kg.Valid, kg.Test)
	addSide(cmd, &z.sides, "side of the candidates: tail, head or both")
	addConvention(cmd, &z.convention)
	flags.BoolVar(&z.relations, "relations", false, "also show a line for every relation")
	inGroup(cmd, inputFlags, "split")
	z.printed.add(cmd)
	addOutput(cmd, &z.tsvFile, "tsv", linesFormat,
		"write the values of all triples, tab-separated, to `FILE` (- is standard output)")
	addOutput(cmd, &z.plotFile, "plot", svgFormat, "draw the histograms as SVG to `FILE`")
	return cmd
}

func (z *zStats) run(cmd *cobra.Command) error {
	out := cmd.OutOrStdout()
	if z.jsonFile == "-" || z.tsvFile == "-" || z.plotFile == "-" {
		out = cmd.ErrOrStderr()
	}
	g, err := openData(cmd.Context(), z.data, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	writeNotes(cmd.ErrOrStderr(), g.Notes)
	labels, err := kg.ReadLabels(cmd.Context(), g.Dir)
	if err != nil {
		return err
	}
	meter := newMeter(cmd.ErrOrStderr())
	sides := z.sides.List()
	values, err := zpattern.NewSplitValues(cmd.Context(), g, z.split, sides, z.convention, 0,
		meter.counting(len(sides)))
	meter.clear()
	if err != nil {
		return err
	}
	report := &zReport{
		Schema: zpattern.Schema, Provenance: provenance(cmd.Context()), Report: values.Report(),
		convention: z.convention, training: len(g.Splits[kg.Train]), byRelation: z.relations,
		labels: labels, bars: z.format != text.FormatLaTeX,
	}
	if report.Provenance.Data, err = z.dataOf(cmd.Context(), g); err != nil {
		return err
	}
	// The computation takes a long time, so print the tables even if a file cannot be written.
	if z.tsvFile != "" {
		err = writeTo(cmd.Context(), cmd.OutOrStdout(), z.tsvFile, values.Write)
	}
	if z.plotFile != "" {
		err = errors.Join(err, writeFile(cmd, z.plotFile, plotZ(report.Report)))
	}
	if z.jsonFile != "" {
		err = errors.Join(err, writeJSON(cmd, z.jsonFile, report))
	}
	return errors.Join(err, z.printTo(out, report))
}

// zReport is the JSON result of z stats.
type zReport struct {
	Schema     string             `json:"schema"`
	Provenance metrics.Provenance `json:"provenance"`
	*zpattern.Report

	convention zpattern.Convention
	training   int  // number of training triples
	byRelation bool // whether to list every relation
	labels     map[string]string
	bars       bool // whether histograms have bars; LaTeX lacks the character
}

// tables returns the cases, the histograms and, with --relations, the cases of every relation.
func (r *zReport) tables() []*text.Table {
	cases := text.NewTable(2, 3, 4, 5)
	cases.Title = fmt.Sprintf("%s %v: Z-patterns of %s in %s, convention %v", r.Data, r.Split,
		text.Plural(r.Triples, "triple"), text.Plural(r.training, "training triple"), r.convention)
	cases.AppendHeader([]any{"side", "triples", "easy", "neutral", "hard"})
	for _, c := range r.Cases {
		cases.AppendRow([]any{c.Side, text.Comma(c.N), share(c.Easy, c.N), share(c.Neutral, c.N), share(c.Hard, c.N)})
	}
	all := []*text.Table{cases, r.histogramTable("n_Z", r.Z), r.histogramTable("rank_Z", r.RankZ...)}
	if r.byRelation {
		all = append(all, r.relationTable())
	}
	return all
}

func (r *zReport) remarks() []string {
	lines := strings.Split(casesMeaning(r.convention), "\n")
	return append(lines, fmt.Sprintf("The largest n_Z is %s.", text.Comma(r.Z.Largest)))
}

// records returns a line for each side, for all triples and for each relation.
func (r *zReport) records() (header []string, rows iter.Seq[[]string]) {
	var lines [][]string
	line := func(relation string, c zpattern.CaseCounts, largest uint64) {
		lines = append(lines, text.Fields(r.Data, r.Split, c.Convention, relation, r.labels[relation], c.Side, c.N,
			c.Easy, c.Neutral, c.Hard, largest))
	}
	for _, c := range r.Cases {
		line("", c, r.Z.Largest)
	}
	for _, c := range r.Relations {
		line(c.Relation, c.CaseCounts, c.LargestZ)
	}
	return []string{
		"data", "split", "convention", "relation", "label", "side", "n", "easy", "neutral", "hard", "largest_z",
	}, slices.Values(lines)
}

// share returns part as text, with its percentage of whole.
func share(part, whole int) string {
	if whole == 0 {
		return text.Comma(part)
	}
	return fmt.Sprintf("%s (%.0f%%)", text.Comma(part), 100*float64(part)/float64(whole))
}

// histogramTable draws histograms of the same quantity side by side.
func (r *zReport) histogramTable(number string, histograms ...zpattern.Histogram) *text.Table {
	const widest = 24
	longest, most := longestBins(histograms), 1
	header, columns := []any{number}, []int{1}
	for _, h := range histograms {
		for _, b := range h.Bins {
			most = max(most, b.N)
		}
		header = append(header, cmp.Or(h.Side, "triples"))
		columns = append(columns, len(header))
		if r.bars {
			header = append(header, "")
		}
	}
	t := text.NewTable(columns...)
	t.AppendHeader(header)
	for at, bin := range longest {
		row := []any{bin}
		for _, h := range histograms {
			n := 0
			if at < len(h.Bins) {
				n = h.Bins[at].N
			}
			length := (n*widest + most - 1) / most // rounded up, so that a small count remains visible
			row = append(row, text.Comma(n))
			if r.bars {
				row = append(row, strings.Repeat("█", length))
			}
		}
		t.AppendRow(row)
	}
	return t
}

// longestBins returns the bins of the longest histogram.
func longestBins(histograms []zpattern.Histogram) []zpattern.Bin {
	byLength := func(a, b zpattern.Histogram) int { return len(a.Bins) - len(b.Bins) }
	return slices.MaxFunc(histograms, byLength).Bins
}

// relationTable returns a table of the relations that have triples, the largest first. Relations of the
// same size are in alphabetical order, so that the sides of a relation stay together.
func (r *zReport) relationTable() *text.Table {
	relations := slices.DeleteFunc(slices.Clone(r.Relations), func(c zpattern.RelationCounts) bool { return c.N == 0 })
	slices.SortStableFunc(relations, func(a, b zpattern.RelationCounts) int {
		return cmp.Or(b.N-a.N, strings.Compare(a.Relation, b.Relation))
	})
	t := text.NewTable(3, 4, 5, 6, 7)
	t.AppendHeader([]any{"relation", "side", "triples", "easy", "neutral", "hard", "largest"})
	for _, c := range relations {
		t.AppendRow([]any{withLabel(c.Relation, r.labels), c.Side,
			text.Comma(c.N), share(c.Easy, c.N), share(c.Neutral, c.N), share(c.Hard, c.N), text.Comma(c.LargestZ)})
	}
	t.Title = "By relation; the last column is the largest n_Z"
	return t
}
