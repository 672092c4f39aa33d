package recipe

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"
)

// The presets are the files presets/KIND/DATASET.yaml, which change the defaults for a data set.
// Kind paper is the paper's table of hyper-parameters. Kind best has the best recipes of
// docs/results.md.
//
//go:embed presets
var presetFiles embed.FS

// presetKinds are the kinds of presets, in the order of Presets.
var presetKinds = []string{"paper", "best"}

// presetDataSets returns the data sets for which a kind has a preset, sorted.
func presetDataSets(kind string) []string {
	files, err := presetFiles.ReadDir(path.Join("presets", kind))
	if err != nil {
		panic(err) // every kind is an embedded folder
	}
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimSuffix(f.Name(), ".yaml"))
	}
	return names
}

// Presets returns all names that Preset accepts: first the kinds, then each kind with each of its
// data sets.
func Presets() []string {
	names := slices.Clone(presetKinds)
	for _, kind := range presetKinds {
		for _, name := range presetDataSets(kind) {
			names = append(names, kind+":"+name)
		}
	}
	return names
}

// Preset returns a preset for a data set: "paper", the paper's hyper-parameters, or "best", the
// best measured recipe. A data set after a colon, as in "paper:yago3-10", replaces the given one.
func Preset(preset, dataset string) (Recipe, error) {
	kind, name, named := strings.Cut(preset, ":")
	if !named {
		name = dataset
	}
	r := Default()
	if !slices.Contains(presetKinds, kind) {
		return r, fmt.Errorf("preset %q: the presets are paper and best; "+
			"use another data set's preset as in paper:yago3-10", preset)
	}
	names := presetDataSets(kind)
	if !slices.Contains(names, name) {
		return r, fmt.Errorf("there is no preset %s for data set %q: use another one, as in %s:%s; "+
			"the data sets are %s", kind, name, kind, names[0], strings.Join(names, ", "))
	}
	file := path.Join("presets", kind, name+".yaml")
	f, err := presetFiles.Open(file)
	if err != nil {
		return r, err
	}
	defer f.Close()
	_, err = r.Read(f, file)
	return r, err
}
