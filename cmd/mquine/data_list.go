package main

import (
	"context"
	"iter"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/mquine/mquine/internal/input"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/catalogue"
	"github.com/mquine/mquine/metrics"
)

// dataList is the JSON result of `mquine data list`.
type dataList struct {
	Schema     string             `json:"schema"`
	Provenance metrics.Provenance `json:"provenance"`
	Dir        string             `json:"dir"`
	Datasets   []listedData       `json:"datasets"`
}

// listedData is a data set in a dataList. The sizes come from the catalogue. They are 0 for a data
// set that is not in the catalogue.
type listedData struct {
	Name      string `json:"name"`
	Public    bool   `json:"public"`
	Entities  int    `json:"entities,omitempty"`
	Relations int    `json:"relations,omitempty"`
	Train     int    `json:"train,omitempty"`
	Valid     int    `json:"valid,omitempty"`
	Test      int    `json:"test,omitempty"`
	Present   bool   `json:"present"`
	// Missing lists the files of a public data set that are not installed.
	Missing []string `json:"missing,omitempty"`
	// Differing lists the installed files that cannot be read or do not have the number of lines in
	// the catalogue.
	Differing []string `json:"differing,omitempty"`
}

func newDataListCommand() *cobra.Command {
	var p printed
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List public and installed data sets",
		Long: `List the public data sets that "mquine data get" downloads, and the installed
data sets.

The table shows the numbers of entities, relations and triples in the catalogue.
The command compares the numbers of triples with the lines of the installed
files. "mquine data info" also compares checksums.`,
		Args:        noArgs,
		Annotations: map[string]string{allData: ""},
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := input.Await(cmd.Context(), func() (dataList, error) { return listData(cmd.Context()) })
			if err != nil {
				return err
			}
			return p.print(cmd, list)
		},
	}
	p.add(cmd)
	return cmd
}

func listData(ctx context.Context) (dataList, error) {
	list := dataList{Schema: "mquine.data-list/1", Provenance: provenance(ctx)}
	var err error
	if list.Dir, err = kg.DataDir(); err != nil {
		return list, err
	}
	present, err := kg.Installed()
	if err != nil {
		return list, err
	}
	for _, d := range catalogue.All() {
		line, err := listPublic(ctx, d, list.Dir)
		if err != nil {
			return list, err
		}
		line.Present = slices.Contains(present, d.Name)
		list.Datasets = append(list.Datasets, line)
	}
	for _, name := range present {
		if _, public := catalogue.Find(name); !public {
			list.Datasets = append(list.Datasets, listedData{Name: name, Present: true})
		}
	}
	return list, nil
}

// listPublic describes a data set of the catalogue, except whether it is present. parent is the
// folder of the installed data sets.
func listPublic(ctx context.Context, d catalogue.Dataset, parent string) (listedData, error) {
	line := listedData{
		Name: d.Name, Public: true, Entities: d.Entities, Relations: d.Relations,
		Train: d.Triples(kg.Train), Valid: d.Triples(kg.Valid), Test: d.Triples(kg.Test),
	}
	missing, err := d.Missing(filepath.Join(parent, d.Name))
	if err != nil {
		return line, err
	}
	for _, f := range missing {
		line.Missing = append(line.Missing, f.Name)
	}
	line.Differing, err = differing(ctx, d, parent)
	return line, err
}

// differing returns the installed files of d that cannot be read or do not have the number of lines
// in the catalogue. parent is the folder of the installed data sets.
func differing(ctx context.Context, d catalogue.Dataset, parent string) (names []string, err error) {
	for _, f := range d.Files {
		path, err := f.Find(filepath.Join(parent, d.Name))
		if err != nil {
			return nil, err
		}
		if path != "" && f.VerifyLines(ctx, path) != nil {
			names = append(names, f.Name)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return names, nil
}

func (l dataList) tables() []*text.Table {
	t := text.NewTable(2, 3, 4, 5, 6)
	t.AppendHeader(table.Row{"name", "entities", "relations", "train", "valid", "test", "state"})
	for _, d := range l.Datasets {
		row := table.Row{d.Name, "", "", "", "", "", d.state()}
		if d.Public {
			for i, n := range []int{d.Entities, d.Relations, d.Train, d.Valid, d.Test} {
				row[i+1] = text.Comma(n)
			}
		}
		t.AppendRow(row)
	}
	return []*text.Table{t}
}

func (l dataList) remarks() []string {
	return []string{
		"Data sets are installed in " + l.Dir + ".",
		"To describe one: mquine data info NAME. To download one: mquine data get NAME",
	}
}

// records returns a line for each data set. The sizes are empty if the catalogue lacks the data set.
func (l dataList) records() (header []string, rows iter.Seq[[]string]) {
	var lines [][]string
	for _, d := range l.Datasets {
		line := text.Fields(d.Name, d.Public)
		for _, n := range []int{d.Entities, d.Relations, d.Train, d.Valid, d.Test} {
			field := ""
			if d.Public {
				field = strconv.Itoa(n)
			}
			line = append(line, field)
		}
		lines = append(lines, append(line, text.Fields(d.Present, strings.Join(d.Missing, " "),
			strings.Join(d.Differing, " "))...))
	}
	return []string{
		"name", "public", "entities", "relations", "train", "valid", "test", "present", "missing", "differing",
	}, slices.Values(lines)
}

// state returns the text for the column "state".
func (d listedData) state() string {
	switch {
	case !d.Present:
		return "not installed"
	case !d.Public:
		return "installed (local)"
	case len(d.Differing) > 0:
		return "differs in " + strings.Join(d.Differing, ", ") + ": see \"mquine data info " + d.Name + "\""
	case len(d.Missing) > 0:
		return "missing " + strings.Join(d.Missing, ", ")
	}
	return "installed"
}
