package model

import "github.com/mquine/mquine/model/initial"

// Axis says whether the rows of a parameter belong to entities, to relations or to neither.
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
	// Row holds the extents of a row.
	Row []int
	// Initial draws the values of a new model. Nil means zeros.
	Initial initial.Distribution
	// Scatter places the entities of a cluster around the cluster's centre (package
	// train/clustered); nil means initial.Nearby. Only PerEntity parameters use it.
	Scatter initial.Scatter
	// Frozen marks a parameter without gradients, such as the running means of batch normalisation.
	Frozen bool
	// NonNegative marks a parameter, such as a variance, whose entries must not be negative.
	NonNegative bool
	// Rows is the number of rows: N, R or 1. Spec.Parameters sets it from Axis.
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

// Dims returns the shape of the tensor: Rows followed by the extents of a row or, for a Global
// parameter, the extents alone.
func (p Parameter) Dims() []int {
	if p.Axis == Global {
		return p.Row
	}
	return append([]int{p.Rows}, p.Row...)
}
