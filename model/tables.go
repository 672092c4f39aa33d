package model

import (
	"math"
	"slices"

	"github.com/mquine/mquine/kg"
)

// Tables holds the parameters of a model. Models embed it.
type Tables struct {
	config     Config
	parameters []Parameter
	tensors    [][]float32
	widths     []int
}

func newTables(c Config, parameters []Parameter, tensors [][]float32) Tables {
	widths := make([]int, len(parameters))
	for i, p := range parameters {
		widths[i] = p.Width()
	}
	return Tables{c, parameters, tensors, widths}
}

// Config returns the configuration.
func (t *Tables) Config() Config { return t.config }

// Tensors returns the parameters.
func (t *Tables) Tensors() [][]float32 { return t.tensors }

// Row returns row i of a parameter, which is given by its place in the spec's list.
func (t *Tables) Row(parameter int, i int32) []float32 {
	w := t.widths[parameter]
	return t.tensors[parameter][int(i)*w:][:w]
}

// Score is the reference score. Models that print another one override it.
func (t *Tables) Score(reference float64) float64 { return reference }

// SameEntity compares the rows of two entities in all tensors with rows for entities.
func (t *Tables) SameEntity(a, b int32) bool {
	for i, p := range t.parameters {
		if p.Axis == PerEntity && !slices.Equal(t.Row(i, a), t.Row(i, b)) {
			return false
		}
	}
	return true
}

// HashEntity mixes the bits of the rows of an entity. Rows that compare equal but for the sign of a zero
// may differ.
func (t *Tables) HashEntity(e int32) uint64 {
	var h uint64
	for i, p := range t.parameters {
		if p.Axis != PerEntity {
			continue
		}
		for _, v := range t.Row(i, e) {
			h = (h ^ uint64(math.Float32bits(v))) * 0x9e3779b97f4a7c15
			h ^= h >> 29
		}
	}
	return h
}

// The places of the parameters of a model with one table for entities and one for relations.
const (
	entityTable = iota
	relationTable
)

// rows returns the rows of the triple that e makes of q, in a model of such tables.
func (t *Tables) rows(q kg.Query, e int32) (h, r, tail []float32) {
	h, tail = t.Row(entityTable, q.Anchor), t.Row(entityTable, e)
	if q.Side == kg.Head {
		h, tail = tail, h
	}
	return h, t.Row(relationTable, q.Relation), tail
}
