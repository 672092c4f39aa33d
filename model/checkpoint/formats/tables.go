package formats

import (
	"fmt"
	"math"
	"slices"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/model"
)

// numbering says where a table keeps relation r and its inverse.
type numbering uint8

const (
	// noInverses: a table has R rows, one for each relation.
	noInverses numbering = iota
	// offset: relation r is row r, and its inverse is row r + R (kbc, DURA and LibKGE).
	offset
	// interleaved: relation r is row 2r, and its inverse is row 2r + 1 (PyKEEN).
	interleaved
)

// vectorModel returns a model of package model with a table for entities and a table for relations.
// perEntity and perRelation are the widths of the rows, as multiples of d.
func (f *Folder) vectorModel(
	name string, perEntity, perRelation int, entity, relation Tensor, inverses numbering, hyper map[string]float64,
) (*Converted, error) {
	c := &Converted{Config: model.Config{Model: name, Dim: entity.width() / perEntity, Hyper: hyper}}
	if d := c.Config.Dim; d == 0 || entity.width() != d*perEntity || relation.width() != d*perRelation {
		return nil, fmt.Errorf("%s: tables of shape %v (%.60q) and %v (%.60q) do not fit model %s",
			entity.Path, entity.Shape, entity.Name, relation.Shape, relation.Name, name)
	}
	return f.tableModel(c.Config, inverses, entity, relation)
}

// tableModel returns a model of package model with the given tables, in the order of its parameters.
// With inverses, the tables of relations must have 2R rows, and the model is reciprocal. The tool's
// options decide this, not the number of rows: a vocabulary with half of the relations is an error.
func (f *Folder) tableModel(config model.Config, inverses numbering, tables ...Tensor) (*Converted, error) {
	spec, err := model.Lookup(config.Model)
	if err != nil {
		return nil, err
	}
	config = spec.WithoutDefaults(config)
	c, full := &Converted{Config: config}, config
	c.Config.Reciprocal = inverses != noInverses // not in full: its parameters have the shapes without inverses
	full.Entities, full.Relations = f.Entities.Len(), f.Relations.Len()
	parameters, err := spec.Parameters(full)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	if len(parameters) != len(tables) {
		return nil, fmt.Errorf("%s: %s has %d tensors, not %d", f.Path, config.Model, len(parameters), len(tables))
	}
	for i, p := range parameters {
		t := tables[i]
		if p.Axis == model.Global {
			if t.rows()*t.width() != p.Len() {
				return nil, fmt.Errorf("%s: %.60q has the shape %v, but %s needs %v",
					t.Path, t.Name, t.Shape, config.Model, p.Dims())
			}
			t.Name, t.Shape = p.Name, p.Dims()
			c.Parameters = append(c.Parameters, t)
			continue
		}
		rows, of, note := p.Rows, "entity", ""
		if p.Axis == model.PerRelation {
			of = "relation"
		}
		inverse := p.Axis == model.PerRelation && inverses != noInverses
		if inverse {
			rows, note = 2*p.Rows, ", each with an inverse"
		}
		switch {
		case t.rows() != rows:
			return nil, f.wrongRows(t, p.Rows, of, note)
		case t.width() != p.Width():
			return nil, fmt.Errorf("%s: %.60q has rows of %d numbers, but %s with d = %d needs %d",
				t.Path, t.Name, t.width(), config.Model, config.Dim, p.Width())
		}
		t.Name, t.Shape = p.Name, p.Dims()
		if inverse {
			t.Shape = append([]int{p.Rows, 2}, p.Row...)
			if inverses == offset {
				values := t.Values
				t.Values = func() []float32 { return alternate(values(), p.Rows) }
			}
		}
		c.Parameters = append(c.Parameters, t)
	}
	return c, nil
}

// rescalModel returns a RESCAL model, whose relations are d × d matrices, row by row.
func (f *Folder) rescalModel(entityName, relationName string, inverses numbering) (*Converted, error) {
	entity, relation, err := f.tables(entityName, relationName)
	if err != nil {
		return nil, err
	}
	return f.vectorModel("rescal", 1, entity.width(), entity, relation, inverses, nil)
}

// cpModel returns a CP model from separate tables of heads and tails.
func (f *Folder) cpModel(headName, tailName, relationName string, inverses numbering) (*Converted, error) {
	entity, err := f.joined(headName, tailName)
	if err != nil {
		return nil, err
	}
	relation, err := f.tensor(relationName)
	if err != nil {
		return nil, err
	}
	return f.vectorModel("cp", 2, 1, entity, relation, inverses, nil)
}

// wrongRows returns the error about a table whose rows do not match a vocabulary. of is "entity" or
// "relation", and note continues the number of labels.
func (f *Folder) wrongRows(t Tensor, labels int, of, note string) error {
	return fmt.Errorf("%s: tensor %.80q has %s, but the vocabulary in %s has %s%s: "+
		"use the vocabulary that the model was trained with",
		t.Path, t.Name, text.Plural(t.rows(), "row"), f.VocabularyDir, text.Plural(labels, of), note)
}

// alternate returns the rows of a table with 2n rows in the order 0, n, 1, n + 1, …, n − 1, 2n − 1.
func alternate(values []float32, n int) []float32 {
	width := len(values) / (2 * n)
	result := make([]float32, 0, len(values))
	for r := range n {
		result = append(result, values[r*width:][:width]...)
		result = append(result, values[(n+r)*width:][:width]...)
	}
	return result
}

// mapRows returns the tensor with the function change applied to a copy of each row.
func (t Tensor) mapRows(change func(to, from []float32)) Tensor {
	values, width := t.Values, t.width()
	t.Values = func() []float32 {
		from := values()
		to := make([]float32, len(from))
		for i := 0; i < len(from); i += width {
			change(to[i:][:width], from[i:][:width])
		}
		return to
	}
	return t
}

// columns returns columns first ≤ j < last of a table.
func (t Tensor) columns(first, last int) Tensor {
	values, width := t.Values, t.width()
	t.Shape = []int{t.rows(), last - first}
	t.Values = func() []float32 {
		var list []float32
		for row := range slices.Chunk(values(), width) {
			list = append(list, row[first:last]...)
		}
		return list
	}
	return t
}

// phases returns the phases of a table of complex numbers in pairs. It returns an error if a row has
// half a pair or a modulus is not 1.
func (t Tensor) phases() (Tensor, error) {
	const tolerance = 1e-3
	if t.width()%2 != 0 {
		return t, fmt.Errorf("%s: tensor %.60q has rows of %d numbers, but complex numbers need an even number",
			t.Path, t.Name, t.width())
	}
	var list []float32
	for i, values := 0, t.Values(); i+1 < len(values); i += 2 {
		re, im := float64(values[i]), float64(values[i+1])
		if math.Abs(math.Hypot(re, im)-1) > tolerance {
			return t, fmt.Errorf("%s: tensor %.60q has a number of modulus %.4g in row %d: rotations have modulus 1",
				t.Path, t.Name, math.Hypot(re, im), i/t.width())
		}
		list = append(list, float32(math.Atan2(im, re)))
	}
	t.Shape = []int{t.rows(), t.width() / 2}
	t.Values = func() []float32 { return list }
	return t, nil
}

// separate turns a row of complex numbers re₁, im₁, re₂, im₂, … into re₁, re₂, …, im₁, im₂, ….
func separate(to, from []float32) { separateParts(2, to, from) }

// separateQuaternions is like separate, for the four parts of quaternions.
func separateQuaternions(to, from []float32) { separateParts(4, to, from) }

func separateParts(parts int, to, from []float32) {
	k := len(from) / parts
	for i, v := range from {
		to[i%parts*k+i/parts] = v
	}
}

// times returns a function that multiplies a row by a factor.
func times(factor float32) func(to, from []float32) {
	return func(to, from []float32) {
		for i, v := range from {
			to[i] = factor * v
		}
	}
}

// normalise divides a row by its Euclidean norm, or by 1e-12 if the norm is less, as PyTorch's
// functional.normalize does.
func normalise(to, from []float32) {
	var squares float64
	for _, v := range from {
		squares += float64(v) * float64(v)
	}
	norm := max(math.Sqrt(squares), 1e-12)
	for i, v := range from {
		to[i] = float32(float64(v) / norm)
	}
}

// joined returns a table whose row i consists of row i of each named table, one after another.
func (f *Folder) joined(first string, others ...string) (Tensor, error) {
	table, err := f.tensor(first)
	for _, name := range others {
		if err != nil {
			return table, err
		}
		var next Tensor
		if next, err = f.tensor(name); err == nil {
			table, err = join(table, next)
		}
	}
	return table, err
}

// first returns the first n rows of a table.
func (t Tensor) first(n int) Tensor {
	if t.rows() > n {
		values, width := t.Values, t.width()
		t.Shape = []int{n, width}
		t.Values = func() []float32 { return values()[:n*width] }
	}
	return t
}

// join returns a tensor whose row i is row i of a followed by row i of b. Its type is the type of a or
// b that is not float32, if any, so that a conversion is reported.
func join(a, b Tensor) (Tensor, error) {
	if a.rows() != b.rows() {
		return a, fmt.Errorf("%s: tensors %.60q and %.60q have different shapes, %v and %v",
			a.Path, a.Name, b.Name, a.Shape, b.Shape)
	}
	n, m, x, y := a.width(), b.width(), a.Values, b.Values
	rows := a.rows()
	if a.Type == "float32" {
		a.Type = b.Type
	}
	a.Shape = []int{rows, n + m}
	a.Values = func() []float32 {
		first, second := x(), y()
		result := make([]float32, 0, len(first)+len(second))
		for i := range rows {
			result = append(result, first[i*n:][:n]...)
			result = append(result, second[i*m:][:m]...)
		}
		return result
	}
	return a, nil
}
