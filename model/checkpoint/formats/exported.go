package formats

import (
	"fmt"
	"path/filepath"

	"github.com/mquine/mquine/model"
)

// exported is the format of mquine export --to npy, for any model:
//
//	config.json                   the model, its dimension and its hyper-parameters
//	NAME.npy                      each tensor of the model, under the name in package model
//	entities.tsv, relations.tsv   lines id<TAB>label
//
// With --to libkge-ids, the labels are in entity_ids.del and relation_ids.del.
var exported = &Format{
	Name: "npy", Tool: "mquine export",
	Files: "config.json, *.npy, {entities,relations}.tsv",
	Is: func(dir string) bool {
		if !exists(dir, ExportConfig) {
			return false
		}
		f := Folder{Path: dir, Metadata: map[string]string{}}
		values, err := f.readOptions(ExportConfig)
		if err != nil { // open returns the error
			return exists(dir, "entity.npy")
		}
		return values["format"] == ExportFormat
	},
	vocabularies: []vocabularyFiles{tsvFiles, delFiles},
	open: func(f *Folder) error {
		config, err := f.exportedConfig()
		if err != nil {
			return err
		}
		parameters, err := model.Parameters(config)
		if err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(f.Path, ExportConfig), err)
		}
		for _, p := range parameters {
			if err := f.openNpy(p.Name+".npy", p.Name); err != nil {
				return err
			}
		}
		return nil
	},
	convert: func(f *Folder) (*Converted, error) {
		config, err := f.exportedConfig()
		return &Converted{Config: config, Parameters: f.Tensors, Dataset: f.Metadata["dataset"]}, err
	},
}

// ExportConfig is the file with the configuration of an exported model, a JSON object whose entry
// "format" is ExportFormat. The entries "model", "dim", "reciprocal" and "inverse_weight", and the keys of
// the model's hyper-parameters, have the meanings of the fields of model.Config.
const (
	ExportConfig = "config.json"
	ExportFormat = "mquine-npy/1"
)

// exportedConfig reads the configuration, without the numbers of entities and relations.
func (f *Folder) exportedConfig() (config model.Config, err error) {
	o, err := f.neededOptions(ExportConfig)
	if err != nil {
		return config, err
	}
	config = model.Config{Model: o.string("model"), Dim: o.integer("dim"), Reciprocal: o.boolean("reciprocal")}
	if _, given := o.values["inverse_weight"]; given {
		config.InverseWeight = o.number("inverse_weight")
	}
	if o.err != nil {
		return config, o.err
	}
	spec, err := model.Lookup(config.Model)
	if err != nil {
		return config, fmt.Errorf("%s: %w", o.path, err)
	}
	for _, h := range spec.Hyper {
		if _, given := o.values[h.Key]; !given {
			continue
		}
		if config.Hyper == nil {
			config.Hyper = map[string]float64{}
		}
		config.Hyper[h.Key] = o.number(h.Key)
	}
	return config, o.err
}
