package model

import "github.com/mquine/mquine/model/initial"

// Axis tells what the rows of a parameter belong to.
type Axis uint8

const (
	// PerEntity parameters have a row for each entity.
	PerEntity Axis = iota
	// PerRelation parameters have a row for each relation.
	PerRelation
	// Global parameters, such as a core tensor or a filter, have one row.
	Global
)

// Parameter describes one float32 tensor of a model.
type Parameter struct {
	Name string
	Axis Axis
	// Row has the extents of a row.
	Row []int
	// Initial is the distribution with which training begins; nil for zeros.
	Initial initial.Distribution
	// Scatter makes the entities of a cluster from its centre (package train/clustered); nil for
	// initial.Nearby. Parameters of other axes have none.
	Scatter initial.Scatter
	// Frozen marks what training does not move by gradients: statistics such as the running means of
	// batch normalisation.
	Frozen bool
	// Rows is the number of rows: N, R or 1. Parameters sets it, from the axis.
	Rows int
}

// Width returns the number of elements of a row.
func (p Parameter) Width() int {
	n := 1
	for _, d := range p.Row {
		n *= d
	}
	return n
}

// Len returns the number of elements.
func (p Parameter) Len() int { return p.Rows * p.Width() }

// Dims returns the extents of the tensor: the number of rows, unless the parameter is global, and the
// extents of a row.
func (p Parameter) Dims() []int {
	if p.Axis == Global {
		return p.Row
	}
	return append([]int{p.Rows}, p.Row...)
}
