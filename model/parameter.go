package model

import (
	"math"
	"slices"

	"github.com/mquine/mquine/model/initial"
)

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
	// train/clustered). Nil means initial.Nearby. Only PerEntity parameters use it.
	Scatter initial.Scatter
	// Constrain, if not nil, changes a row so that it satisfies the model's constraint, such as a
	// unit norm. It runs on every row of the initial parameters and on each row that a training
	// step changes. If a row already satisfies the constraint, Constrain changes it by rounding
	// errors at most.
	Constrain func(row []float32)
	// Maps says that a row of a PerRelation parameter consists of square matrices that map entities.
	// The last two extents of Row are the extents of a matrix. Training can keep such matrices close to
	// orthogonal ones.
	Maps bool
	// Pairs says that a row consists of pairs of numbers, such as the real and the imaginary parts of
	// complex numbers: first the first number of every pair, then the second number of every pair.
	Pairs bool
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

// ConstrainRows applies Constrain, if any, to every row of values.
func (p Parameter) ConstrainRows(values []float32) {
	if p.Constrain == nil || len(values) == 0 {
		return
	}
	for row := range slices.Chunk(values, p.Width()) {
		p.Constrain(row)
	}
}

// toUnit is a constraint: it divides a row by its Euclidean norm, unless the row is zero.
func toUnit(row []float32) { toNorm(row, 1, 0) }

// atMost returns a constraint that shortens a row to the given Euclidean norm if it is longer. It
// returns nil if most is 0.
func atMost(most float64) func(row []float32) {
	if most == 0 {
		return nil
	}
	return func(row []float32) { toNorm(row, most, most) }
}

// toNorm scales a row to the given Euclidean norm if its own norm exceeds least.
func toNorm(row []float32, norm, least float64) {
	var squares float64
	for _, v := range row {
		squares += float64(float64(v) * float64(v))
	}
	if n := math.Sqrt(squares); n > least {
		for i, v := range row {
			row[i] = float32(float64(v) * norm / n)
		}
	}
}
