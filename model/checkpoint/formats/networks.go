package formats

import (
	"fmt"
	"strings"

	"github.com/mquine/mquine/model"
)

// This file contains the common parts of the formats that can hold TuckER or ConvE.

// tuckER returns a TuckER model. core has the axes relation, head and tail. norms holds the
// prefixes of the batch normalisations of the head and of the product. It is empty if there is no
// batch normalisation.
func (f *Folder) tuckER(
	entity, relation Tensor, inverses numbering, core Tensor, norms ...string,
) (*Converted, error) {
	if d := entity.width(); len(core.Shape) != 3 || core.width() != d*d || core.Shape[1] != d ||
		core.rows() != relation.width() {
		return nil, fmt.Errorf("%s: the core of TuckER has the shape %v, which does not fit entities of dimension %d "+
			"and relations of dimension %d", core.Path, core.Shape, d, relation.width())
	}
	core.Name = "core"
	others := []Tensor{core}
	for i, prefix := range norms {
		norm, err := f.normalisation(fmt.Sprintf("norm%d", i), prefix)
		if err != nil {
			return nil, err
		}
		others = append(others, norm...)
	}
	hyper := map[string]float64{model.RelationDim: float64(relation.width())}
	if norms == nil {
		hyper[model.BatchNorm] = 0
	}
	config := model.Config{Model: "tucker", Dim: entity.width(), Hyper: hyper}
	return f.tableModel(config, inverses, append([]Tensor{entity, relation}, others...)...)
}

// convELayers holds the prefixes of the names of ConvE's layers. norm0 is empty if the image is not
// normalised.
type convELayers struct{ norm0, filters, norm1, dense, norm2 string }

// convE returns a ConvE model. The first column of entity is the bias.
func (f *Folder) convE(
	height int, entity, relation Tensor, inverses numbering, layers convELayers,
) (*Converted, error) {
	filters, err := f.tensor(layers.filters + ".weight")
	if err != nil {
		return nil, err
	}
	if len(filters.Shape) != 4 || filters.Shape[1] != 1 {
		return nil, fmt.Errorf("%s: tensor %.60q has shape %v, but the filters of ConvE have [channels, 1, 3, 3]",
			filters.Path, filters.Name, filters.Shape)
	}
	config := model.Config{Model: "conve", Dim: entity.width() - 1, Hyper: map[string]float64{
		model.ImageHeight: float64(height), model.Channels: float64(filters.rows()),
	}}
	var others []Tensor
	if layers.norm0 == "" {
		config.Hyper[model.InputNorm] = 0
	} else if others, err = f.normalisation("norm0", layers.norm0); err != nil {
		return nil, err
	}
	filters.Shape = []int{filters.Shape[0], filters.Shape[2], filters.Shape[3]}
	for _, layer := range []struct{ name, prefix, norm, normPrefix string }{
		{"filters", layers.filters, "norm1", layers.norm1}, {"dense", layers.dense, "norm2", layers.norm2},
	} {
		weights := filters
		if layer.name == "dense" {
			if weights, err = f.tensor(layer.prefix + ".weight"); err != nil {
				return nil, err
			}
		}
		weights.Name = layer.name
		bias, err := f.tensorOr(layer.name+".bias", layer.prefix+".bias", weights, 0)
		if err != nil {
			return nil, err
		}
		norm, err := f.normalisation(layer.norm, layer.normPrefix)
		if err != nil {
			return nil, err
		}
		others = append(append(others, weights, bias), norm...)
	}
	return f.tableModel(config, inverses, append([]Tensor{entity, relation}, others...)...)
}

// normalisation returns the parameters of the batch normalisation with the given prefix. name is
// the name of the normalisation in package model. Missing scales are 1, and missing shifts are 0.
func (f *Folder) normalisation(name, prefix string) ([]Tensor, error) {
	mean, err := f.tensor(prefix + ".running_mean")
	if err != nil {
		return nil, err
	}
	variance, err := f.tensor(prefix + ".running_var")
	if err != nil {
		return nil, err
	}
	scale, err := f.tensorOr(name+".scale", prefix+".weight", mean, 1)
	if err != nil {
		return nil, err
	}
	shift, err := f.tensorOr(name+".shift", prefix+".bias", mean, 0)
	mean.Name, variance.Name = name+".mean", name+".variance"
	return []Tensor{scale, shift, mean, variance}, err
}

// tensorOr returns the tensor with the name in source under a new name. If it is missing, tensorOr
// returns a vector that has the given value for each row of the tensor like.
func (f *Folder) tensorOr(name, source string, like Tensor, value float32) (Tensor, error) {
	if f.has(source) {
		t, err := f.tensor(source)
		t.Name = name
		return t, err
	}
	n := like.rows()
	return Tensor{Path: like.Path, Name: name, Type: "float32", Shape: []int{n}, Values: func() []float32 {
		values := make([]float32, n)
		for i := range values {
			values[i] = value
		}
		return values
	}}, nil
}

// swapAxes returns the tensor with its first two axes exchanged.
func (t Tensor) swapAxes() Tensor {
	if len(t.Shape) != 3 {
		return t
	}
	rows, cols, width, values := t.Shape[0], t.Shape[1], t.Shape[2], t.Values
	t.Shape = []int{cols, rows, width}
	t.Values = func() []float32 {
		from := values()
		to := make([]float32, 0, len(from))
		for j := range cols {
			for i := range rows {
				to = append(to, from[(i*cols+j)*width:][:width]...)
			}
		}
		return to
	}
	return t
}

// pick returns the table with the given rows of t.
func (t Tensor) pick(rows []int) Tensor {
	width, values := t.width(), t.Values
	t.Shape = []int{len(rows), width}
	t.Values = func() []float32 {
		from := values()
		to := make([]float32, 0, len(rows)*width)
		for _, row := range rows {
			to = append(to, from[row*width:][:width]...)
		}
		return to
	}
	return t
}

// reverseSuffix ends the labels of inverse relations in the authors' code of TuckER and ConvE.
const reverseSuffix = "_reverse"

// pairReversed makes f.Relations the vocabulary of the relations without their inverses, which have
// separate labels. rows lists, for each relation in turn, its number and the number of its inverse
// in the former vocabulary.
func (f *Folder) pairReversed() (rows []int, err error) {
	var labels []string
	for id, label := range f.Relations.Labels() {
		if strings.HasSuffix(label, reverseSuffix) {
			continue
		}
		inverse, ok := f.Relations.ID(label + reverseSuffix)
		if !ok {
			return nil, fmt.Errorf("%s: relation %.80q has no inverse %.80q in the vocabulary, but this tool gives "+
				"every relation an inverse", f.VocabularyDir, label, label+reverseSuffix)
		}
		labels = append(labels, label)
		rows = append(rows, id, int(inverse))
	}
	if len(rows) != f.Relations.Len() {
		return nil, fmt.Errorf("%s: the vocabulary has inverse relations, but lacks the relations themselves",
			f.VocabularyDir)
	}
	f.Relations, err = newVocabulary(labels)
	return rows, err
}
