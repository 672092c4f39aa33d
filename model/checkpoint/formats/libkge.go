package formats

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/checkpoint/pickle"
)

// libkge is the format of LibKGE (uma-pi1/kge):
//
//	model_best.pt or checkpoint_best.pt, or another file *.pt
//	entity_ids.del, relation_ids.del     lines id<TAB>label; a packaged model_*.pt contains them
//
// The torch file is a dictionary: "model" holds the state dictionary and "config" the options, an
// object whose attributes are read without running its code. Complex numbers are stored with the
// real parts first. With reciprocal relations, the inverse of r is r + R.
var libkge = &Format{
	Name: "libkge", Tool: "LibKGE (uma-pi1/kge)", Protocol: "libkge",
	Files:        "model_best.pt or checkpoint_best.pt, {entity,relation}_ids.del",
	Is:           func(dir string) bool { return exists(dir, libkgePackaged) || exists(dir, libkgeBest) },
	Ending:       ".pt",
	vocabularies: []vocabularyFiles{delFiles},
	open:         openLibKGE,
	labels:       libkgeLabels,
	convert:      convertLibKGE,
}

const (
	libkgePackaged = "model_best.pt"
	libkgeBest     = "checkpoint_best.pt"
)

func openLibKGE(f *Folder) error {
	file, err := f.chosen(libkgePackaged, libkgeBest)
	if err != nil {
		return err
	}
	err = f.openTorch(file, func(g pickle.Global) bool { return strings.HasPrefix(g.Module, "kge.") })
	if err != nil {
		return err
	}
	checkpoint, _ := f.value.(*pickle.Dict)
	saved, _ := checkpoint.Get("model")
	pair, _ := saved.(pickle.Tuple)
	if len(pair) == 0 {
		return fmt.Errorf("%s/%s is not a checkpoint of LibKGE: it has no model", f.Path, file)
	}
	state, _ := pair[0].(*pickle.Dict)
	if err := f.addState(file, state); err != nil {
		return err
	}
	f.Metadata["model"] = f.libkgeOption("model")
	return nil
}

// libkgeOption returns an option as text, or "" if it is missing.
func (f *Folder) libkgeOption(path ...string) string {
	checkpoint, _ := f.value.(*pickle.Dict)
	config, _ := checkpoint.Get("config")
	object, _ := config.(*pickle.Object)
	value, _ := object.Attribute("options")
	for _, key := range path {
		options, _ := value.(*pickle.Dict)
		value, _ = options.Get(key)
	}
	text, _ := pickle.Text(value)
	return text
}

// libkgeReciprocal is the model whose option base_model names another model, which it gives inverse
// relations.
const libkgeReciprocal = "reciprocal_relations_model"

// libkgeInverses says where the table of relations keeps inverse relations.
func (f *Folder) libkgeInverses() numbering {
	if f.libkgeOption("model") == libkgeReciprocal {
		return offset
	}
	return noInverses
}

// libkgeLabels returns the labels in a packaged model.
func libkgeLabels(f *Folder) (entities, relations []string) {
	checkpoint, _ := f.value.(*pickle.Dict)
	dataset, _ := checkpoint.Get("dataset")
	d, _ := dataset.(*pickle.Dict)
	value, _ := d.Get("meta")
	meta, _ := value.(*pickle.Dict)
	list := func(key string) (labels []string) {
		value, _ := meta.Get(key)
		items, _ := value.(*pickle.List)
		if items == nil {
			return nil
		}
		for _, item := range items.Items {
			label, ok := item.(string)
			if !ok {
				return nil
			}
			labels = append(labels, label)
		}
		return labels
	}
	return list("entity_ids"), list("relation_ids")
}

func convertLibKGE(f *Folder) (*Converted, error) {
	name, prefix, norm := f.libkgeOption("model"), "", ""
	if name == libkgeReciprocal {
		name, prefix = f.libkgeOption(name, "base_model", "type"), "_base_model."
		norm = f.libkgeOption(libkgeReciprocal, "base_model", "l_norm") // precedes the base model's options
	}
	if name == "" {
		return nil, fmt.Errorf("%s has no options of LibKGE, which would name the model", f.Tensors[0].Path)
	}
	table := func(kind string) string {
		former := prefix + "_" + kind + "_embedder.embeddings.weight"
		if f.has(former) {
			return former
		}
		return prefix + "_" + kind + "_embedder._embeddings.weight"
	}
	entity, relation, err := f.tables(table("entity"), table("relation"))
	if err != nil {
		return nil, err
	}
	norm = cmp.Or(norm, f.libkgeOption(name, "l_norm"))
	suffix, hasNorm := normSuffix(norm)
	var c *Converted
	switch {
	case name == "complex":
		c, err = f.vectorModel("complex", 2, 2, entity, relation, f.libkgeInverses(), nil)
	case name == "distmult":
		c, err = f.vectorModel("distmult", 1, 1, entity, relation, f.libkgeInverses(), nil)
	case name == "rescal":
		c, err = f.rescalModel(table("entity"), table("relation"), f.libkgeInverses())
	case name == "cp":
		c, err = f.vectorModel("cp", 2, 1, entity, relation, f.libkgeInverses(), nil)
	case name == "simple":
		c, err = f.vectorModel("simple", 2, 2, entity, relation, f.libkgeInverses(), nil)
	case name == "transe" && hasNorm:
		c, err = f.vectorModel("transe"+suffix, 1, 1, entity, relation, f.libkgeInverses(), nil)
	case name == "transh" && hasNorm:
		c, err = f.libkgeTransH("transh"+suffix, entity, relation)
	case name == "rotate" && isNumber(norm, 1):
		radians := map[string]float64{model.EmbeddingRange: math.Pi}
		c, err = f.vectorModel("rotate", 2, 1, entity, relation, f.libkgeInverses(), radians)
	case name == "conve":
		c, err = f.libkgeConvE(prefix, entity, relation)
	case name == "transe" || name == "transh" || name == "rotate":
		return nil, f.unsupported(name, fmt.Sprintf("its l_norm is %q", norm))
	default:
		return nil, f.unsupported(name, "")
	}
	if err == nil {
		c.Dataset = f.libkgeOption("dataset", "name")
	}
	return c, err
}

// libkgeTransH converts TransH. A row of its relations is the translation, then the normal, which
// LibKGE normalises when it scores.
func (f *Folder) libkgeTransH(name string, entity, relation Tensor) (*Converted, error) {
	d := entity.width()
	if relation.width() != 2*d {
		return nil, fmt.Errorf("%s: tensor %.60q has rows of %d numbers, but TransH with d = %d needs %d",
			relation.Path, relation.Name, relation.width(), d, 2*d)
	}
	return f.tableModel(model.Config{Model: name, Dim: d}, f.libkgeInverses(),
		entity, relation.columns(0, d), relation.columns(d, 2*d).mapRows(normalise))
}

// normSuffix returns the end of a model's name for the L1 or the L2 norm.
func normSuffix(norm string) (suffix string, ok bool) {
	switch {
	case isNumber(norm, 1):
		return "-l1", true
	case isNumber(norm, 2):
		return "-l2", true
	}
	return "", false
}

// libkgeConvE converts ConvE. Column 0 of the entities is the bias, and column 0 of the relations is
// unused. The image is not normalised, and the other normalisations have neither scale nor shift.
func (f *Folder) libkgeConvE(prefix string, entity, relation Tensor) (*Converted, error) {
	option := func(key string) string {
		if prefix == "" {
			return f.libkgeOption("conve", key)
		}
		return cmp.Or(f.libkgeOption(libkgeReciprocal, "base_model", key), f.libkgeOption("conve", key))
	}
	for _, fixed := range []struct {
		key   string
		value int
	}{{"filter_size", 3}, {"stride", 1}, {"padding", 0}} {
		if v := option(fixed.key); !isNumber(v, fixed.value) {
			return nil, f.unsupported("conve", fmt.Sprintf("its %s is %q, not %d", fixed.key, v, fixed.value))
		}
	}
	ratio, err := strconv.ParseFloat(option("2D_aspect_ratio"), 64)
	d := entity.width() - 1
	height := int(math.Round(math.Sqrt(float64(d) / ratio))) // LibKGE's images are wider than high
	if err != nil || height < 1 || d%height != 0 {
		return nil, f.unsupported("conve", fmt.Sprintf("its 2D_aspect_ratio is %q, and its dimension %d",
			option("2D_aspect_ratio"), d))
	}
	scorer := prefix + "_scorer."
	return f.convE(height, entity, relation.columns(1, relation.width()), f.libkgeInverses(), convELayers{
		filters: scorer + "convolution", norm1: scorer + "bn1", dense: scorer + "projection", norm2: scorer + "bn2",
	})
}

// isNumber reports whether text is the number n, with or without ".0" at the end.
func isNumber(text string, n int) bool {
	return text == fmt.Sprint(n) || text == fmt.Sprintf("%d.0", n)
}
