package recipe

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"
)

// The presets are the files presets/KIND/ROW.yaml: changes of the defaults for a data set. The paper's rows are its
// table of hyper-parameters, and the best ones the recipes that docs/results.md has measured.
//
//go:embed presets
var presetFiles embed.FS

// presetKinds are the kinds, in the order of the list.
var presetKinds = []string{"paper", "best"}

// presetRows returns the data sets of a kind.
func presetRows(kind string) []string {
	files, err := presetFiles.ReadDir(path.Join("presets", kind))
	if err != nil {
		panic(err) // the kinds are folders
	}
	var rows []string
	for _, f := range files {
		rows = append(rows, strings.TrimSuffix(f.Name(), ".yaml"))
	}
	return rows
}

// Presets returns the names that Preset takes, the rows of both kinds after the kinds.
func Presets() []string {
	names := slices.Clone(presetKinds)
	for _, kind := range presetKinds {
		for _, row := range presetRows(kind) {
			names = append(names, kind+":"+row)
		}
	}
	return names
}

// Preset returns the recipe of a preset for a data set: "paper", its row of the paper's table, or "best", the best
// measured recipe. A colon and the name of a data set take another row.
func Preset(preset, dataset string) (Recipe, error) {
	kind, row, named := strings.Cut(preset, ":")
	if !named {
		row = dataset
	}
	r := Default()
	if !slices.Contains(presetKinds, kind) {
		return r, fmt.Errorf("preset %q: the presets are paper and best, with the data set's row, "+
			"or another one as in paper:yago3-10", preset)
	}
	rows := presetRows(kind)
	if !slices.Contains(rows, row) {
		return r, fmt.Errorf("preset %s has no row for data set %q: take one of its rows by name, as in %s:%s; "+
			"they are %s", kind, row, kind, rows[0], strings.Join(rows, ", "))
	}
	name := path.Join("presets", kind, row+".yaml")
	file, err := presetFiles.Open(name)
	if err != nil {
		return r, err
	}
	defer file.Close()
	_, err = r.Read(file, name)
	return r, err
}
