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

// Config implements Model.
func (t *Tables) Config() Config { return t.config }

// Tensors implements Model.
func (t *Tables) Tensors() [][]float32 { return t.tensors }

// Row returns row i of the parameter with the given index in Spec.Tensors.
func (t *Tables) Row(parameter int, i int32) []float32 {
	w := t.widths[parameter]
	return t.tensors[parameter][int(i)*w:][:w]
}

// Score returns the reference score unchanged. Models that print a different score override it.
func (t *Tables) Score(reference float64) float64 { return reference }

// SameEntity compares the rows of two entities in all PerEntity tensors.
func (t *Tables) SameEntity(a, b int32) bool {
	for i, p := range t.parameters {
		if p.Axis == PerEntity && !slices.Equal(t.Row(i, a), t.Row(i, b)) {
			return false
		}
	}
	return true
}

// HashEntity mixes the bits of an entity's rows. Zeros of different signs compare equal in
// SameEntity but hash differently.
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

// The indices of the parameters in a model with one tensor for entities and one for relations.
const (
	entityTable = iota
	relationTable
)

// rows returns the head, relation and tail rows of the triple that completes q with e, in a model
// with one tensor for entities and one for relations.
func (t *Tables) rows(q kg.Query, e int32) (h, r, tail []float32) {
	h, tail = t.Row(entityTable, q.Anchor), t.Row(entityTable, e)
	if q.Side == kg.Head {
		h, tail = tail, h
	}
	return h, t.Row(relationTable, q.Relation), tail
}

// signOf returns 1 for tail queries and −1 for head queries, which use the inverse of the relation.
func signOf(side kg.Side) float64 {
	if side == kg.Head {
		return -1
	}
	return 1
}
