package recipe

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/model"
)

// presetFiles contains a file presets/KIND/DATASET.yaml for each preset, with changes to the
// defaults. The kind "paper" contains the hyper-parameters in the paper's table. The kind "best"
// contains the best recipes in docs/results.md. A file presets/KIND/MODEL/DATASET.yaml replaces the
// preset for one model.
//
//go:embed presets
var presetFiles embed.FS

// presetKinds are the kinds of presets, in the order of Presets.
var presetKinds = []string{"paper", "best"}

// presetDataSets returns the data sets that have a preset in a folder below presets, sorted.
func presetDataSets(folder string) []string {
	files, err := fs.Glob(presetFiles, path.Join("presets", folder, "*.yaml"))
	if err != nil {
		panic(err) // the pattern is valid
	}
	for i, f := range files {
		files[i] = strings.TrimSuffix(path.Base(f), ".yaml")
	}
	return files
}

// Presets returns all names that Preset accepts: the kinds first, then each kind with each of its
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

// ModelPresets returns the data sets for which each model has its own version of a kind of preset,
// sorted. Other models are absent.
func ModelPresets(kind string) map[string][]string {
	entries, err := presetFiles.ReadDir(path.Join("presets", kind))
	if err != nil {
		panic(err) // every kind is an embedded folder
	}
	own := map[string][]string{}
	for _, e := range entries {
		if e.IsDir() {
			own[e.Name()] = presetDataSets(path.Join(kind, e.Name()))
		}
	}
	return own
}

// Base returns the options that a run of a model starts from. If preset is "", they are the
// defaults of the model. Otherwise they are the model's version of the preset. If the model has none,
// they are the preset, as in Preset, without the options for initial parameters that the model does not
// have, and with reciprocal relations if the model needs them.
func Base(preset, dataset, name string) (Recipe, error) {
	if preset == "" {
		return DefaultFor(name)
	}
	return presetOf(preset, dataset, name)
}

// Preset returns a preset for a data set: "paper", the paper's hyper-parameters, or "best", the
// recipe tuned for the data set. A data set after a colon, as in "paper:yago3-10", overrides the
// argument dataset.
func Preset(preset, dataset string) (Recipe, error) { return presetOf(preset, dataset, "") }

func presetOf(preset, dataset, modelName string) (Recipe, error) {
	kind, name, named := strings.Cut(preset, ":")
	if !named {
		name = dataset
	}
	r := Default()
	if !slices.Contains(presetKinds, kind) {
		return r, fmt.Errorf("preset %q: the presets are paper and best; "+
			"name a data set as in paper:yago3-10", preset)
	}
	names := presetDataSets(kind)
	if name == "" {
		return r, fmt.Errorf("preset %s needs a data set: add --data NAME, or name it, as in %[1]s:%s; its data sets "+
			"are %s", kind, names[0], strings.Join(names, ", "))
	}
	if !slices.Contains(names, name) {
		if similar := text.Similar(name, names, 1); named && len(similar) > 0 {
			return r, fmt.Errorf("preset %s has no recipe for the data set %q: did you mean %[1]s:%[3]s?", kind, name,
				similar[0])
		}
		example := names[0]
		if base := filepath.Base(name); slices.Contains(names, base) {
			example = base // a path to the data set
		}
		return r, fmt.Errorf("preset %s has no recipe for the data set %q: add the name of a data set, "+
			"as in %s:%s; its data sets are %s", kind, name, kind, example, strings.Join(names, ", "))
	}
	file := path.Join("presets", kind, modelName, name+".yaml")
	if _, err := fs.Stat(presetFiles, file); err != nil {
		file = path.Join("presets", kind, name+".yaml")
	}
	f, err := presetFiles.Open(file)
	if err != nil {
		return r, err
	}
	defer f.Close()
	if _, err = r.Read(f, file); err != nil || modelName == "" {
		return r, err
	}
	return r, r.suit(modelName)
}

// suit adapts a preset to a model that has no version of it: it resets the options for initial
// parameters that the model lacks or draws from a fixed distribution, and sets reciprocal if the model
// cannot be trained without.
func (r *Recipe) suit(name string) error {
	spec, err := model.Lookup(name)
	if err != nil {
		return err
	}
	if spec.Start.Cross == "" {
		r.InitCross = ZeroCross
	}
	if !spec.Start.Deviates() {
		r.InitStd = model.EntityDeviation
	}
	r.Reciprocal = r.Reciprocal || spec.TrainReciprocal
	return nil
}
