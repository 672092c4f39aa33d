package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/catalogue"
	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/rank"
)

// dataInfo is the JSON result of `mquine data info`.
type dataInfo struct {
	Schema     string             `json:"schema"`
	Provenance metrics.Provenance `json:"provenance"`
	Name       string             `json:"name"`
	// Dir is the folder of the data set. It is empty if the data set is not installed.
	Dir string `json:"dir,omitempty"`
	// Public is the entry in the catalogue, or nil if there is none.
	Public *publicInfo `json:"public,omitempty"`
	// Statistics and Notes describe the installed files.
	Statistics *kg.Statistics `json:"statistics,omitempty"`
	Notes      []string       `json:"notes,omitempty"`
	// Limits are the limits of the metrics on the test split. They are empty without
	// --protocol-limits.
	Limits []metrics.Limit `json:"limits,omitempty"`
	// Problem says why an installed public data set cannot be used, or is empty.
	Problem string `json:"problem,omitempty"`
}

type publicInfo struct {
	Title     string     `json:"title"`
	Source    string     `json:"source"`
	Licence   string     `json:"licence"`
	Origins   []string   `json:"origins"`
	Entities  int        `json:"entities"`
	Relations int        `json:"relations"`
	Files     []fileInfo `json:"files"`
}

type fileInfo struct {
	Name  string          `json:"name"`
	Lines int             `json:"lines"`
	Sums  []catalogue.Sum `json:"sums"`
	// State is "matches", "differs", "absent" or, if the catalogue has no checksum, "unchecked".
	State string `json:"state"`
	// Difference describes how the file differs from the catalogue.
	Difference string `json:"difference,omitempty"`
}

func newDataInfoCommand() *cobra.Command {
	var (
		p      printed
		limits bool
	)
	cmd := &cobra.Command{
		Use:   "info NAME",
		Short: "Describe a data set and check it",
		Long: `Describe a data set, by name or path: sizes, queries, relation categories,
degrees and anomalies. The command also checks the readable labels (labels.tsv)
and the false triples (valid_negatives.txt, test_negatives.txt). It compares the
files of a public data set with the checksums in the catalogue. If a file
differs, the exit status is 1.

The columns of the table of splits:
  repeats    triples that repeat an earlier one
  loops      triples whose head and tail are equal
  (h, r, ?)  distinct tail queries
  (?, r, t)  distinct head queries
  unseen     triples with an entity that is in no training triple

A second table counts the triples by the category of their relation: 1-1, 1-N,
N-1 or N-N, heads first. N means more than 1.5 heads per tail, or tails per
head, on average in the train split. --format csv prints a line for each split.

--protocol-limits adds the highest MRR and Hits@k that a ranking of the test
split can have. Under the filters none and train, other true answers compete
with the true answer of a query, so even a perfect model does not reach 1:
  oracle        knows the test split and ranks its answers before all others
  exchangeable  cannot distinguish the true answer of a query from the other
                true answers that the filter leaves. These limits are expected
                values
--format csv then prints a line for each limit.`,
		Example: `  mquine data info fb15k-237
  mquine data info wn18 --protocol-limits
  mquine data info ./my-graph --json -`,
		Args:              oneArg("give the name or the path of a data set, as in: mquine data info umls"),
		ValidArgsFunction: completeDatasets,
		Annotations:       map[string]string{dataArgs: ""},
		RunE: func(cmd *cobra.Command, args []string) error {
			info, err := describeData(cmd.Context(), args[0], cmd.ErrOrStderr(), &p, limits)
			if err != nil {
				return err
			}
			if err := p.print(cmd, info); err != nil {
				return err
			}
			return info.verdict()
		},
	}
	cmd.Flags().BoolVar(&limits, "protocol-limits", false,
		"also show the highest MRR and Hits@k that a ranking of the test split can have")
	p.add(cmd)
	return cmd
}

// completeDatasets completes the names of installed and public data sets, and paths of folders.
func completeDatasets(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	present, _ := kg.Installed() // on an error, offer the catalogue alone
	names := append(present, catalogueNames()...)
	slices.Sort(names)
	return slices.Compact(names), cobra.ShellCompDirectiveFilterDirs
}

// describeData describes a data set, with the limits of the metrics if limits is true. If it cannot
// read an installed public data set, it sets Problem instead of returning an error.
func describeData(ctx context.Context, name string, log io.Writer, p *printed, limits bool) (dataInfo, error) {
	info := dataInfo{Schema: "mquine.data-info/1", Provenance: provenance(ctx), Name: name}
	if set, public := catalogue.Find(name); public {
		parent, err := kg.DataDir()
		if err != nil {
			return info, err
		}
		if info.Public, err = describePublic(ctx, set, filepath.Join(parent, name)); err != nil {
			return info, err
		}
		present, err := kg.Installed()
		if err != nil {
			return info, err
		}
		if !slices.Contains(present, name) {
			if limits {
				err = fmt.Errorf("--protocol-limits needs the triples of %s: run \"mquine data get %[1]s\"", name)
			}
			return info, err
		}
	}
	g, err := openData(ctx, name, log)
	if err == nil {
		err = checkExtras(ctx, g)
	}
	if err != nil && info.Public != nil && ctx.Err() == nil {
		info.Problem = oneLine(err)
		return info, nil
	}
	if err != nil {
		return info, err
	}
	index, err := kg.NewIndex(ctx, g)
	if err != nil {
		return info, err
	}
	statistics, err := kg.Describe(ctx, g, index)
	if err != nil {
		return info, err
	}
	info.Name, info.Dir, info.Statistics, info.Notes = g.Name, g.Dir, &statistics, g.Notes
	if limits {
		test, err := g.Triples(kg.Test)
		if err != nil {
			return info, err
		}
		var filters []rank.Filter
		for f := range rank.NumFilters {
			if f.Check(g) == nil {
				filters = append(filters, f)
			}
		}
		info.Limits, err = metrics.Limits(ctx, index, test, nil, rank.BothSides, filters, []int{1, 3, 10})
		if err != nil {
			return info, err
		}
	}
	info.Provenance.Data, err = p.dataOf(ctx, g)
	return info, err
}

// checkExtras returns the error of commands that read the readable labels or the false triples of g.
func checkExtras(ctx context.Context, g *kg.Graph) error {
	_, err := kg.ReadLabels(ctx, g.Dir)
	for _, s := range []kg.Split{kg.Valid, kg.Test} {
		if err == nil {
			_, err = kg.ReadNegatives(ctx, g, s)
		}
	}
	return err
}

// verdict returns an error for a public data set that cannot be used or does not match the catalogue.
func (d dataInfo) verdict() error {
	if d.Problem != "" {
		return errors.New(d.Problem)
	}
	if d.Public == nil {
		return nil
	}
	var differ []string
	for _, f := range d.Public.Files {
		if f.State == "differs" {
			differ = append(differ, f.Difference)
		}
	}
	if len(differ) == 0 {
		return nil
	}
	return fmt.Errorf("%s; to download a file again, remove it and run \"mquine data get %s\", "+
		"or rename the folder if it is another data set",
		strings.Join(differ, "; "), d.Name)
}

// describePublic compares the files in dir with the catalogue entry of set.
func describePublic(ctx context.Context, set catalogue.Dataset, dir string) (*publicInfo, error) {
	info := &publicInfo{
		Title: set.Title, Source: set.Source, Licence: set.Licence, Origins: set.Origins,
		Entities: set.Entities, Relations: set.Relations,
	}
	for _, f := range set.Files {
		state := fileInfo{Name: f.Name, Lines: f.Lines, Sums: append([]catalogue.Sum{}, f.Sums...), State: "matches"}
		path, err := f.Find(dir)
		switch {
		case err != nil:
			return nil, err
		case path == "":
			state.State = "absent"
		default:
			err := f.Verify(ctx, path)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if err != nil {
				state.State, state.Difference = "differs", err.Error()
			} else if len(f.Sums) == 0 {
				state.State = "unchecked"
			}
		}
		info.Files = append(info.Files, state)
	}
	return info, nil
}

func (d dataInfo) tables() []*text.Table {
	all := []*text.Table{d.factTable()}
	if d.Statistics != nil {
		all = append(all, d.splitTable())
		if d.Statistics.Training != nil {
			all = append(all, d.categoryTable(), d.trainingTable())
		}
		if d.Limits != nil {
			all = append(all, d.limitTable())
		}
	}
	if d.Public != nil {
		all = append(all, d.Public.table())
	}
	return all
}

func (d dataInfo) remarks() []string {
	var lines []string
	for _, note := range d.Notes {
		lines = append(lines, "note: "+note)
	}
	if d.Public != nil && slices.ContainsFunc(d.Public.Files, func(f fileInfo) bool { return f.State == "absent" }) {
		lines = append(lines, fmt.Sprintf("Run \"mquine data get %s\" to download the missing files.", d.Name))
	}
	return lines
}

// records returns a line for each split, or for each file of a data set that is not installed. If
// there are limits, it returns a line for each limit instead.
func (d dataInfo) records() (header []string, rows iter.Seq[[]string]) {
	var lines [][]string
	if d.Limits != nil {
		header = []string{"data", "split", "filter", "side", "ranking", "n", "mrr"}
		for _, h := range d.Limits[0].Hits {
			header = append(header, "hits@"+strconv.Itoa(h.K))
		}
		for _, l := range d.Limits {
			line := text.Fields(d.Name, kg.Test, l.Filter, l.Side, l.Kind, l.N, float64(l.MRR))
			for _, h := range l.Hits {
				line = append(line, text.Fields(float64(h.Share))...)
			}
			lines = append(lines, line)
		}
		return header, slices.Values(lines)
	}
	if d.Statistics == nil {
		if d.Public != nil {
			for _, f := range d.Public.Files {
				lines = append(lines, text.Fields(d.Name, f.Name, f.Lines))
			}
		}
		return []string{"data", "split", "triples"}, slices.Values(lines)
	}
	header = []string{
		"data", "entities", "relations",
		"split", "triples", "repeats", "loops", "tail_queries", "head_queries", "unseen",
	}
	for c := range kg.NumCategories {
		header = append(header, c.String())
	}
	for _, s := range d.Statistics.Splits {
		line := text.Fields(d.Name, d.Statistics.Entities, d.Statistics.Relations, s.Split, s.Triples, s.Repeats,
			s.Loops, s.TailQueries, s.HeadQueries)
		if d.Statistics.Training == nil { // the other columns need the train split
			line = append(line, make([]string, 1+kg.NumCategories)...)
		} else {
			line = append(line, strconv.Itoa(*s.Unseen))
			for c := range kg.NumCategories {
				line = append(line, strconv.Itoa(s.Categories[c]))
			}
		}
		lines = append(lines, line)
	}
	return header, slices.Values(lines)
}

func (d dataInfo) factTable() *text.Table {
	t := text.NewTable()
	if d.Dir != "" {
		t.AppendRow(table.Row{"folder", d.Dir})
	}
	if p := d.Public; p != nil {
		t.AppendRow(table.Row{"title", p.Title})
		t.AppendRow(table.Row{"source", p.Source})
		t.AppendRow(table.Row{"licence", p.Licence})
	}
	switch s := d.Statistics; {
	case s != nil:
		entities, relations := text.Comma(s.Entities), text.Comma(s.Relations)
		if p := d.Public; p != nil && (p.Entities != s.Entities || p.Relations != s.Relations) {
			entities += " of " + text.Comma(p.Entities)
			relations += " of " + text.Comma(p.Relations)
		}
		t.AppendRow(table.Row{"entities", entities})
		t.AppendRow(table.Row{"relations", relations})
		t.AppendRow(table.Row{"distinct triples", text.Comma(s.Distinct)})
	case d.Public != nil:
		t.AppendRow(table.Row{"entities", text.Comma(d.Public.Entities)})
		t.AppendRow(table.Row{"relations", text.Comma(d.Public.Relations)})
	}
	return t
}

// splitColumn is a column of a table of splits.
type splitColumn struct {
	name string
	of   func(kg.SplitStatistics) int
}

func (d dataInfo) splitTable() *text.Table {
	columns := []splitColumn{
		{"triples", func(s kg.SplitStatistics) int { return s.Triples }},
		{"repeats", func(s kg.SplitStatistics) int { return s.Repeats }},
		{"loops", func(s kg.SplitStatistics) int { return s.Loops }},
		{"(h, r, ?)", func(s kg.SplitStatistics) int { return s.TailQueries }},
		{"(?, r, t)", func(s kg.SplitStatistics) int { return s.HeadQueries }},
	}
	if d.Statistics.Training != nil {
		columns = append(columns, splitColumn{"unseen", func(s kg.SplitStatistics) int { return *s.Unseen }})
	}
	return d.columnTable(columns)
}

// categoryTable returns a table that counts the triples of each split by the category of their
// relation.
func (d dataInfo) categoryTable() *text.Table {
	var columns []splitColumn
	for c := range kg.NumCategories {
		columns = append(columns, splitColumn{c.String(), func(s kg.SplitStatistics) int { return s.Categories[c] }})
	}
	return d.columnTable(columns)
}

// columnTable returns a table with a line for each split.
func (d dataInfo) columnTable(columns []splitColumn) *text.Table {
	header, numbers := table.Row{"split"}, []int{}
	for i, c := range columns {
		header, numbers = append(header, c.name), append(numbers, i+2)
	}
	t := text.NewTable(numbers...)
	t.AppendHeader(header)
	for _, s := range d.Statistics.Splits {
		row := table.Row{s.Split.String()}
		for _, c := range columns {
			row = append(row, text.Comma(c.of(s)))
		}
		t.AppendRow(row)
	}
	return t
}

// limitTable returns a table of the limits of the metrics.
func (d dataInfo) limitTable() *text.Table {
	header, numbers := table.Row{"filter", "side", "limit of a ranking", "MRR"}, []int{4}
	for i, h := range d.Limits[0].Hits {
		header, numbers = append(header, fmt.Sprintf("Hits@%d", h.K)), append(numbers, i+5)
	}
	t := text.NewTable(numbers...)
	t.AppendHeader(header)
	for _, l := range d.Limits {
		row := table.Row{l.Filter.String(), l.Side.String(), l.Kind.String(), fmt.Sprintf("%.4f", l.MRR)}
		for _, h := range l.Hits {
			row = append(row, fmt.Sprintf("%.4f", h.Share))
		}
		t.AppendRow(row)
	}
	return t
}

func (d dataInfo) trainingTable() *text.Table {
	training := d.Statistics.Training
	var categories []string
	for c := range kg.NumCategories {
		categories = append(categories, fmt.Sprintf("%s %s", text.Comma(training.Categories[c]), c))
	}
	degrees := training.Degrees
	t := text.NewTable()
	t.AppendRow(table.Row{"relations", strings.Join(categories, ", ")})
	t.AppendRow(table.Row{"entity degrees", fmt.Sprintf("mean %.1f, median %s, maximum %s",
		degrees.Mean, strconv.FormatFloat(degrees.Median, 'f', -1, 64), text.Comma(degrees.Max))})
	t.AppendRow(table.Row{"", fmt.Sprintf("the top 5%% of entities account for %.0f%% of all heads and tails",
		100*degrees.TopShare)})
	return t
}

func (p *publicInfo) table() *text.Table {
	t := text.NewTable(2)
	t.AppendHeader(table.Row{"file", "triples", "state"})
	for _, f := range p.Files {
		state := f.State
		switch f.State {
		case "matches":
			var algorithms []string
			for _, sum := range f.Sums {
				algorithm, _, _ := strings.Cut(string(sum), ":")
				algorithms = append(algorithms, algorithm)
			}
			state = "matches the catalogue (" + strings.Join(algorithms, ", ") + ")"
		case "differs":
			state = "differs: " + f.Difference
		case "unchecked":
			state = "has the right number of lines (no checksum is known)"
		case "absent":
			state = "not installed"
		}
		t.AppendRow(table.Row{f.Name, text.Comma(f.Lines), state})
	}
	return t
}
