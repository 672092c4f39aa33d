package main

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/mquine/mquine/internal/input"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/catalogue"
)

// dataList is the result of `mquine data list` for machines.
type dataList struct {
	Schema   string       `json:"schema"`
	Dir      string       `json:"dir"`
	Datasets []listedData `json:"datasets"`
}

// listedData is one line of it. The sizes are those of the catalogue; a data set that the
// catalogue does not know has none.
type listedData struct {
	Name      string `json:"name"`
	Public    bool   `json:"public"`
	Entities  int    `json:"entities,omitempty"`
	Relations int    `json:"relations,omitempty"`
	Train     int    `json:"train,omitempty"`
	Valid     int    `json:"valid,omitempty"`
	Test      int    `json:"test,omitempty"`
	Present   bool   `json:"present"`
	// Missing names the files of a public data set that are not there.
	Missing []string `json:"missing,omitempty"`
	// Differing names those with another number of lines than the catalogue has.
	Differing []string `json:"differing,omitempty"`
}

func newDataListCommand() *cobra.Command {
	var jsonFile string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the data sets, public and present",
		Long: `List the public data sets that "mquine data get" fetches, and those that are present.

The sizes are those of the catalogue: numbers of entities, relations and triples. The lines of the
files of public data sets are counted; "mquine data info NAME" also compares their checksums.`,
		Args:        noArgs,
		Annotations: map[string]string{allData: ""},
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := input.Await(cmd.Context(), func() (dataList, error) { return listData(cmd.Context()) })
			if err != nil {
				return err
			}
			return writeResult(cmd, jsonFile, list)
		},
	}
	jsonFlag(cmd, &jsonFile)
	return cmd
}

func listData(ctx context.Context) (dataList, error) {
	list := dataList{Schema: "mquine.data-list/1"}
	var err error
	if list.Dir, err = kg.DataDir(); err != nil {
		return list, err
	}
	present, err := kg.Installed()
	if err != nil {
		return list, err
	}
	for _, d := range catalogue.All() {
		missing, err := d.Missing(filepath.Join(list.Dir, d.Name))
		if err != nil {
			return list, err
		}
		line := listedData{
			Name: d.Name, Public: true, Entities: d.Entities, Relations: d.Relations,
			Train: d.Triples(kg.Train), Valid: d.Triples(kg.Valid), Test: d.Triples(kg.Test),
			Present: slices.Contains(present, d.Name),
		}
		for _, f := range missing {
			line.Missing = append(line.Missing, f.Name)
		}
		if line.Differing, err = differing(ctx, d, list.Dir); err != nil {
			return list, err
		}
		list.Datasets = append(list.Datasets, line)
	}
	for _, name := range present {
		if _, public := catalogue.Find(name); !public {
			list.Datasets = append(list.Datasets, listedData{Name: name, Present: true})
		}
	}
	return list, nil
}

// differing names the files of d in the folder of the data sets that cannot be read or have another number
// of lines than the catalogue says.
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

func (l dataList) print(w *bytes.Buffer) {
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
	fmt.Fprintln(w, t.Render())
	fmt.Fprintln(w)
	printLine(w, "in %s; \"mquine data info NAME\" describes a data set, \"mquine data get NAME\" fetches a public one", l.Dir)
}

// state says in words what is there.
func (d listedData) state() string {
	switch {
	case !d.Present:
		return "absent"
	case !d.Public:
		return "present, your own"
	case len(d.Differing) > 0:
		return "differs in " + strings.Join(d.Differing, ", ") + ": see \"mquine data info " + d.Name + "\""
	case len(d.Missing) > 0:
		return "without " + strings.Join(d.Missing, ", ")
	}
	return "present"
}
