package formats

import (
	"fmt"
	"math"

	"github.com/mquine/mquine/model"
)

// numbering says where a table with 2R rows keeps the inverse of relation r.
type numbering uint8

const (
	// offset: the inverse of r is r + R (kbc and its forks, LibKGE).
	offset numbering = iota
	// interleaved: relation r is row 2r, and its inverse row 2r + 1 (PyKEEN).
	interleaved
)

// vectorModel returns a model of package model with a table for entities and a table for relations.
// perEntity and perRelation are the widths of the rows, as multiples of d. A table of relations
// with 2R rows makes the model reciprocal.
func (f *Folder) vectorModel(
	name string, perEntity, perRelation int, entity, relation Tensor, inverses numbering, hyper map[string]float64,
) (*Converted, error) {
	d := entity.width() / perEntity
	if d == 0 || entity.width() != d*perEntity || relation.width() != d*perRelation {
		return nil, fmt.Errorf("%s: %s does not fit tables of shape %v (%.60q) and %v (%.60q)",
			entity.Path, name, entity.Shape, entity.Name, relation.Shape, relation.Name)
	}
	return f.tableModel(name, d, entity, relation, inverses, hyper)
}

// tableModel is vectorModel for tables whose widths have been checked.
func (f *Folder) tableModel(
	name string, d int, entity, relation Tensor, inverses numbering, hyper map[string]float64,
) (*Converted, error) {
	c := &Converted{Config: model.Config{Model: name, Dim: d, Hyper: hyper}}
	n, r := f.Entities.Len(), f.Relations.Len()
	if entity.rows() != n {
		return nil, f.wrongRows(entity, n, "entities")
	}
	switch relation.rows() {
	case r:
	case 2 * r:
		c.Config.Reciprocal = true
	default:
		return nil, f.wrongRows(relation, r, "relations")
	}
	for _, t := range []Tensor{entity, relation} {
		if t.Type != "float32" {
			c.Notes = append(c.Notes, fmt.Sprintf("tensor %s was converted from %s to float32", t.Name, t.Type))
		}
	}
	relation.Shape = []int{r, relation.width()}
	if c.Config.Reciprocal {
		relation.Shape = []int{r, 2, relation.Shape[1]}
		if inverses == offset {
			values := relation.Values
			relation.Values = func() []float32 { return alternate(values(), r) }
		}
	}
	entity.Name, relation.Name = "entity", "relation"
	entity.Shape = []int{n, entity.width()}
	c.Parameters = []Tensor{entity, relation}
	return c, nil
}

func (f *Folder) wrongRows(t Tensor, labels int, of string) error {
	return fmt.Errorf("%s: tensor %.80q has %d rows, but the vocabulary in %s has %d %s: "+
		"use the vocabulary that the model was trained with", t.Path, t.Name, t.rows(), f.VocabularyDir, labels, of)
}

// alternate returns the rows of a table with 2n rows in the order 0, n, 1, n + 1 and so on.
func alternate(values []float32, n int) []float32 {
	width := len(values) / (2 * n)
	result := make([]float32, 0, len(values))
	for r := range n {
		result = append(result, values[r*width:][:width]...)
		result = append(result, values[(n+r)*width:][:width]...)
	}
	return result
}

// mapRows returns the tensor with change applied to a copy of each row.
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

// separate turns a row of complex numbers re₁, im₁, re₂, im₂, … into re₁, re₂, …, im₁, im₂, ….
func separate(to, from []float32) {
	k := len(from) / 2
	for i := range k {
		to[i], to[k+i] = from[2*i], from[2*i+1]
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

// joinRows returns the tensor whose rows are the rows of all tensors, one after another.
func joinRows(parts []Tensor) (Tensor, error) {
	joined, width := parts[0], 0
	for _, t := range parts {
		if t.rows() != joined.rows() {
			return joined, fmt.Errorf("%s: tensors %.60q and %.60q have different numbers of rows, %d and %d",
				t.Path, joined.Name, t.Name, joined.rows(), t.rows())
		}
		if t.Type != joined.Type {
			joined.Type = joined.Type + " and " + t.Type
		}
		width += t.width()
	}
	joined.Shape = []int{joined.rows(), width}
	joined.Values = func() []float32 {
		result := make([]float32, joined.rows()*width)
		from := 0
		for _, t := range parts {
			values, n := t.Values(), t.width()
			for i := range t.rows() {
				copy(result[i*width+from:][:n], values[i*n:][:n])
			}
			from += n
		}
		return result
	}
	return joined, nil
}

// join returns the tensor whose rows are the rows of a followed by the rows of b.
func join(a, b Tensor) (Tensor, error) {
	if a.rows() != b.rows() || a.width() != b.width() {
		return a, fmt.Errorf("%s: tensors %.60q and %.60q have different shapes, %v and %v",
			a.Path, a.Name, b.Name, a.Shape, b.Shape)
	}
	width, x, y := a.width(), a.Values, b.Values
	a.Shape = []int{a.rows(), 2 * width}
	a.Values = func() []float32 {
		first, second := x(), y()
		result := make([]float32, 0, len(first)+len(second))
		for i := 0; i < len(first); i += width {
			result = append(result, first[i:][:width]...)
			result = append(result, second[i:][:width]...)
		}
		return result
	}
	return a, nil
}
