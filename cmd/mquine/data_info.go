package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/catalogue"
)

// dataInfo is the JSON result of `mquine data info`.
type dataInfo struct {
	Schema string `json:"schema"`
	Name   string `json:"name"`
	// Dir is empty if the data set is not installed.
	Dir string `json:"dir,omitempty"`
	// Public is the entry in the catalogue, or nil if there is none.
	Public *publicInfo `json:"public,omitempty"`
	// Statistics and Notes describe the installed files.
	Statistics *kg.Statistics `json:"statistics,omitempty"`
	Notes      []string       `json:"notes,omitempty"`
	// Problem says why an installed public data set cannot be used. It is empty if it can.
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
	// State is "matches", "differs", "absent", or "unchecked" if the catalogue has no checksum.
	State string `json:"state"`
	// Difference describes how the file differs from the catalogue.
	Difference string `json:"difference,omitempty"`
}

func newDataInfoCommand() *cobra.Command {
	var jsonFile string
	cmd := &cobra.Command{
		Use:   "info NAME",
		Short: "Describe a data set and check it",
		Long: `Describe a data set, by name or path: sizes, queries, relation categories,
degrees and anomalies. The command compares the files of a public data set with
the checksums in the catalogue. If one differs, the exit status is 1.

The columns of the table of splits:
  repeats    triples that repeat an earlier one
  loops      triples whose head and tail are equal
  (h, r, ?)  distinct tail queries
  (?, r, t)  distinct head queries
  unseen     triples with an entity that is in no training triple
  1-1, 1-N, N-1, N-N
             triples by the category of their relation, heads first. N means
             more than 1.5 heads for a tail, or tails for a head, on average in
             the train split`,
		Example: `  mquine data info fb15k-237
  mquine data info ./my-graph --json -`,
		Args:              oneArg("give the name or the path of a data set, as in: mquine data info umls"),
		ValidArgsFunction: completeDatasets,
		Annotations:       map[string]string{dataArgs: ""},
		RunE: func(cmd *cobra.Command, args []string) error {
			info, err := describeData(cmd.Context(), args[0], cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if err := writeResult(cmd, jsonFile, info); err != nil {
				return err
			}
			return info.verdict()
		},
	}
	jsonFlag(cmd, &jsonFile)
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

// describeData describes a data set. If an installed public data set cannot be read, it sets Problem
// instead of returning an error.
func describeData(ctx context.Context, name string, log io.Writer) (dataInfo, error) {
	info := dataInfo{Schema: "mquine.data-info/1", Name: name}
	if set, public := catalogue.Find(name); public {
		parent, err := kg.DataDir()
		if err != nil {
			return info, err
		}
		if info.Public, err = describePublic(ctx, set, filepath.Join(parent, name)); err != nil {
			return info, err
		}
		present, err := kg.Installed()
		if err != nil || !slices.Contains(present, name) {
			return info, err
		}
	}
	g, err := openData(ctx, name, log)
	if err != nil && info.Public != nil && ctx.Err() == nil {
		info.Problem = oneLine(err)
		return info, nil
	}
	if err != nil {
		return info, err
	}
	statistics := kg.Describe(g)
	info.Name, info.Dir, info.Statistics, info.Notes = g.Name, g.Dir, &statistics, g.Notes
	return info, nil
}

// verdict returns an error for a public data set that does not match the catalogue.
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
	return fmt.Errorf("%s; to download a file again, remove it and run \"mquine data get %s\"",
		strings.Join(differ, "; "), d.Name)
}

// describePublic compares the files in dir with the catalogue entry of set.
func describePublic(ctx context.Context, set catalogue.Dataset, dir string) (*publicInfo, error) {
	info := &publicInfo{
		Title: set.Title, Source: set.Source, Licence: set.Licence, Origins: set.Origins,
		Entities: set.Entities, Relations: set.Relations,
	}
	for _, f := range set.Files {
		state := fileInfo{Name: f.Name, Lines: f.Lines, Sums: f.Sums, State: "matches"}
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

func (d dataInfo) print(w *bytes.Buffer) {
	d.printFacts(w)
	if d.Statistics != nil {
		d.printSplits(w)
		d.printTraining(w)
	}
	if d.Public != nil {
		d.Public.print(w)
	}
	writeNotes(w, d.Notes)
	if d.Public != nil && slices.ContainsFunc(d.Public.Files, func(f fileInfo) bool { return f.State == "absent" }) {
		fmt.Fprintf(w, "Run \"mquine data get %s\" to download the missing files.\n", d.Name)
	}
}

func (d dataInfo) printFacts(w *bytes.Buffer) {
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
	fmt.Fprintf(w, "%s\n\n", t.Render())
}

func (d dataInfo) printSplits(w *bytes.Buffer) {
	type column struct {
		name string
		of   func(kg.SplitStatistics) int
	}
	columns := []column{
		{"triples", func(s kg.SplitStatistics) int { return s.Triples }},
		{"repeats", func(s kg.SplitStatistics) int { return s.Repeats }},
		{"loops", func(s kg.SplitStatistics) int { return s.Loops }},
		{"(h, r, ?)", func(s kg.SplitStatistics) int { return s.TailQueries }},
		{"(?, r, t)", func(s kg.SplitStatistics) int { return s.HeadQueries }},
	}
	if d.Statistics.Training != nil {
		columns = append(columns, column{"unseen", func(s kg.SplitStatistics) int { return *s.Unseen }})
		for c := range kg.NumCategories {
			columns = append(columns, column{c.String(), func(s kg.SplitStatistics) int { return s.Categories[c] }})
		}
	}
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
	fmt.Fprintf(w, "%s\n\n", t.Render())
}

func (d dataInfo) printTraining(w *bytes.Buffer) {
	training := d.Statistics.Training
	if training == nil {
		return
	}
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
	fmt.Fprintf(w, "%s\n\n", t.Render())
}

func (p *publicInfo) print(w *bytes.Buffer) {
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
	fmt.Fprintf(w, "%s\n\n", t.Render())
}
