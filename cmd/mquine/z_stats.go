package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/zpattern"
	"github.com/mquine/mquine/rank"
)

// zStats asks for the Z-values of a split.
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
		Long: `Count the Z-values of all triples of a split, exactly, and divide the triples into easy, neutral
and hard ones.

  --convention  paper       reproduces the table of the MQuinE paper, which is side tail: easy is a
                            rank_Z of at most 8, and patterns with e2 = e3 count
                definition  follows the definitions in the paper's text: easy is a rank_Z below 10,
                            and patterns with e2 = e3 do not count

--json writes the cases, the histograms and the cases of every relation. --tsv writes a line for
each triple and side: side, head, relation, tail, z, rank_z and case. --plot draws the histograms
as SVG. With "-" as the file of --json or --tsv it goes to standard output, and the tables to
standard error.`,
		Example: `  mquine z stats --data fb15k-237
  mquine z stats --data wn18rr --sides tail --convention definition --relations
  mquine z stats --data ./my-graph --split valid --json z.json --tsv z.tsv --plot z.svg`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return z.run(cmd) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	addData(cmd, &z.data)
	addChoice(cmd, &z.split, "split", "`split` whose triples are counted", kg.Train, kg.Valid, kg.Test)
	addChoice(cmd, &z.sides, "sides", "`side` of the candidates: tail, head or both", rank.TailSide, rank.HeadSide, rank.BothSides)
	addConvention(cmd, &z.convention)
	flags.BoolVar(&z.relations, "relations", false, "also a line for every relation")
	jsonFlag(cmd, &z.jsonFile)
	addOutput(cmd, &z.tsvFile, "tsv", "`file` for the values of all triples, tab-separated")
	addOutput(cmd, &z.plotFile, "plot", "`file` for the histograms as SVG")
	return cmd
}

// zReport is the result of `mquine z stats` for machines.
type zReport struct {
	Schema  string   `json:"schema"`
	Data    string   `json:"data"`
	Split   kg.Split `json:"split"`
	Triples int      `json:"triples"`
	// Z counts the triples by n_Z, which is the same on both sides, and RankZ by rank_Z.
	Z     zHistogram   `json:"z"`
	RankZ []zHistogram `json:"rank_z"`
	// Cases and Relations have an item for each side; Relations also for each relation, those
	// without triples included.
	Cases     []zCases    `json:"cases"`
	Relations []zRelation `json:"relations"`
}

// zCases counts the triples of each case on one side.
type zCases struct {
	Side       string              `json:"side"`
	Convention zpattern.Convention `json:"convention"`
	N          int                 `json:"n"`
	Easy       int                 `json:"easy"`
	Neutral    int                 `json:"neutral"`
	Hard       int                 `json:"hard"`
}

func (c *zCases) add(v zpattern.Value) {
	c.N++
	switch v.Case {
	case zpattern.Easy:
		c.Easy++
	case zpattern.Neutral:
		c.Neutral++
	case zpattern.Hard:
		c.Hard++
	}
}

type zRelation struct {
	Relation string `json:"relation"`
	zCases
	LargestZ uint64 `json:"largest_z"`
}

// zHistogram counts triples by a number of theirs.
type zHistogram struct {
	// Side is the side of the candidates, if that matters.
	Side    string `json:"side,omitempty"`
	Largest uint64 `json:"largest"`
	Bins    []zBin `json:"bins"`
}

// zBin counts the triples whose number is From to To: 0, 1, 2–3, 4–7, … The last bin has the
// largest number.
type zBin struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
	N    int    `json:"n"`
}

// emptyBin returns the bin of the numbers that have so many binary digits.
func emptyBin(digits int) zBin {
	if digits == 0 {
		return zBin{}
	}
	return zBin{From: 1 << (digits - 1), To: 1<<digits - 1}
}

func (b zBin) String() string {
	if b.From == b.To {
		return strconv.FormatUint(b.From, 10)
	}
	return fmt.Sprintf("%d-%d", b.From, b.To)
}

func (h *zHistogram) add(number uint64) {
	h.Largest = max(h.Largest, number)
	at := bits.Len64(number)
	for len(h.Bins) <= at {
		h.Bins = append(h.Bins, emptyBin(len(h.Bins)))
	}
	h.Bins[at].N++
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
	triples, err := g.Triples(z.split)
	if err != nil {
		return err
	}
	values, err := z.values(cmd.Context(), cmd.ErrOrStderr(), g, triples)
	if err != nil {
		return err
	}
	report := z.report(g, triples, values)
	// What took long to compute is written even if the tables cannot be printed, and the other way round.
	if z.tsvFile != "" {
		err = writeFile(cmd, z.tsvFile, z.tsv(g, triples, values))
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
		err = errors.Join(err, fmt.Errorf("cannot print the tables: %w", reason(unprinted)))
	}
	return err
}

// values returns the values of triples on each side that was asked for.
func (z *zStats) values(ctx context.Context, log io.Writer, g *kg.Graph, triples []kg.Triple) ([][]zpattern.Value, error) {
	sides := z.sides.List()
	if err := zpattern.CheckMemory(g, len(triples), len(sides)); err != nil {
		return nil, err
	}
	x, err := zpattern.NewIndex(g)
	if err != nil {
		return nil, err
	}
	var values [][]zpattern.Value
	for i, side := range sides {
		meter := newMeter(log)
		v, err := x.Values(ctx, triples, side, z.convention, 0, meter.counting(i, len(sides)))
		meter.clear()
		if err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	return values, nil
}

func (z *zStats) report(g *kg.Graph, triples []kg.Triple, values [][]zpattern.Value) zReport {
	r := zReport{Schema: "mquine.z-stats/1", Data: g.Name, Split: z.split, Triples: len(triples)}
	for _, v := range values[0] {
		r.Z.add(v.Z)
	}
	for i, side := range z.sides.List() {
		all := zCases{Side: side.String(), Convention: z.convention}
		relations := make([]zRelation, g.Relations.Len())
		for j := range relations {
			relations[j] = zRelation{Relation: g.Relations.Label(int32(j)), zCases: all}
		}
		ranks := zHistogram{Side: side.String()}
		for j, v := range values[i] {
			all.add(v)
			ranks.add(uint64(v.Rank))
			relation := &relations[triples[j].Relation]
			relation.add(v)
			relation.LargestZ = max(relation.LargestZ, v.Z)
		}
		r.Cases = append(r.Cases, all)
		r.RankZ = append(r.RankZ, ranks)
		r.Relations = append(r.Relations, relations...)
	}
	return r
}

func (z *zStats) tsv(g *kg.Graph, triples []kg.Triple, values [][]zpattern.Value) []byte {
	var text bytes.Buffer
	lines := newLineWriter(&text)
	lines.write("side", "head", "relation", "tail", "z", "rank_z", "case")
	for i, side := range z.sides.List() {
		for j, t := range triples {
			v := values[i][j]
			lines.write(side.String(), g.Entities.Label(t.Head), g.Relations.Label(t.Relation), g.Entities.Label(t.Tail),
				strconv.FormatUint(v.Z, 10), strconv.Itoa(v.Rank), v.Case.String())
		}
	}
	_ = lines.flush() // a buffer takes everything
	return text.Bytes()
}

func (z *zStats) print(w io.Writer, g *kg.Graph, r zReport) error {
	t := newTable(2, 3, 4, 5)
	t.AppendHeader(table.Row{"side", "triples", "easy", "neutral", "hard"})
	for _, c := range r.Cases {
		t.AppendRow(table.Row{c.Side, comma(c.N), share(c.Easy, c.N), share(c.Neutral, c.N), share(c.Hard, c.N)})
	}
	_, err := fmt.Fprintf(w, "%s %v: Z-patterns of %s in %s, convention %v\n\n%s\n\n%s\n\n%s\n\n%s\n\nThe largest n_Z is %s.\n",
		text.Escape(g.Name), z.split, plural(r.Triples, "triple"), plural(len(g.Splits[kg.Train]), "training triple"), z.convention,
		t.Render(), casesMeaning(z.convention),
		histogramTable("n_Z", r.Z), histogramTable("rank_Z", r.RankZ...), humanize.Comma(int64(r.Z.Largest)))
	if err == nil && z.relations {
		_, err = fmt.Fprintf(w, "\n%s\n", relationTable(r))
	}
	return err
}

// share writes a part of a whole with its percentage.
func share(part, whole int) string {
	if whole == 0 {
		return comma(part)
	}
	return fmt.Sprintf("%s (%.0f%%)", comma(part), 100*float64(part)/float64(whole))
}

// histogramTable draws histograms of the same number side by side.
func histogramTable(number string, histograms ...zHistogram) string {
	const widest = 30
	bins, most := 0, 1
	header, columns := table.Row{number}, []int{1}
	for i, h := range histograms {
		bins = max(bins, len(h.Bins))
		for _, b := range h.Bins {
			most = max(most, b.N)
		}
		header, columns = append(header, cmp.Or(h.Side, "triples"), ""), append(columns, 2*i+2)
	}
	t := newTable(columns...)
	t.AppendHeader(header)
	for at := range bins {
		row := table.Row{emptyBin(at)}
		for _, h := range histograms {
			n := 0
			if at < len(h.Bins) {
				n = h.Bins[at].N
			}
			length := (n*widest + most - 1) / most // at least 1 for what is there
			row = append(row, comma(n), strings.Repeat("█", length))
		}
		t.AppendRow(row)
	}
	return t.Render()
}

// relationTable lists the relations from the most triples to the fewest, side by side.
func relationTable(r zReport) string {
	relations := slices.Clone(r.Relations)
	slices.SortStableFunc(relations, func(a, b zRelation) int { return b.N - a.N })
	t := newTable(3, 4, 5, 6, 7)
	t.AppendHeader(table.Row{"relation", "side", "triples", "easy", "neutral", "hard", "largest n_Z"})
	for _, c := range relations {
		t.AppendRow(table.Row{c.Relation, c.Side, comma(c.N), share(c.Easy, c.N), share(c.Neutral, c.N), share(c.Hard, c.N),
			humanize.Comma(int64(c.LargestZ))})
	}
	return t.Render()
}
