package model

import (
	"math"

	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel"
)

// This file contains the common parts of OTE and HousE. Their vectors consist of groups of s
// coordinates. A relation transforms each group separately, in float64. The score is γ minus the
// sum of the Euclidean norms of the differences between the transformed groups.

// Group is the key of the number of coordinates in a group.
const Group = "group"

var groupSize = &HyperParameter{
	Key: Group, Help: "coordinates in a group; it divides the dimension",
	Initial: func(c Config) float64 {
		const usual = 4
		for s := usual; s < c.Dim; s++ {
			if c.Dim%s == 0 {
				return float64(s)
			}
		}
		return float64(c.Dim)
	},
	Least: 1, Most: maxVectorDim, Whole: true,
	Fits: divides,
}

// groupModel holds the parameters of a model with groups. The field size is the number of
// coordinates in a group.
type groupModel struct {
	Tables
	size int
}

func newGroupModel(t Tables) groupModel { return groupModel{t, int(groupSize.Of(t.config))} }

func (m *groupModel) tower(features Dependence) Tower {
	d := m.config.Dim
	return Tower{Compare: kernel.GroupNormOf(m.size), Psi: d, Phi: d, Features: features}
}

// Score returns γ minus the distance.
func (m *groupModel) Score(reference float64) float64 { return margin.Of(m.config) + reference }

// distance returns the reference score of two vectors: minus the chain over the groups of √(v·v),
// where v = x − y in the group and v·v is a chain of squares.
func (m *groupModel) distance(x, y []float64) float64 {
	var sum float64
	for ; len(x) > 0; x, y = x[m.size:], y[m.size:] {
		var squares float64
		for i, v := range x[:m.size] {
			d := v - y[i]
			squares += float64(d * d)
		}
		sum += math.Sqrt(squares)
	}
	return -sum
}

// round writes x, rounded to float32, to out. It returns upper bounds on two sums of norms: the
// norms of the groups' rounding errors, and the norms of the groups of x.
func (m *groupModel) round(out []float32, x []float64) (changes, norms float64) {
	norms = m.norms(x)
	for ; len(x) > 0; x, out = x[m.size:], out[m.size:] {
		var squares float64
		for i, v := range x[:m.size] {
			var change float64
			out[i], change = round(v)
			squares += change * change
		}
		changes += math.Sqrt(squares)
	}
	return changes * fmath.NormSlack, norms
}

// norms returns an upper bound on the sum of the norms of the groups of x.
func (m *groupModel) norms(x []float64) (sum float64) {
	for ; len(x) > 0; x = x[m.size:] {
		sum += fmath.Norm(x[:m.size])
	}
	return sum
}

// underflow bounds the error of a score that is due to numbers below the normal range of float64.
const underflow = 0x1p-500

// widen writes the entries of row to out.
func widen(out []float64, row []float32) {
	out = out[:len(row)]
	for i, v := range row {
		out[i] = float64(v)
	}
}

// narrow writes x, rounded to float32, to out.
func narrow(out []float32, x []float64) {
	out = out[:len(x)]
	for i, v := range x {
		out[i] = float32(v)
	}
}

// dot returns the chain of the products x_i y_i.
func dot(x, y []float64) (sum float64) {
	y = y[:len(x)]
	for i, v := range x {
		sum += float64(v * y[i])
	}
	return sum
}

// addScaled adds a·y to x.
func addScaled(x []float64, a float64, y []float64) {
	y = y[:len(x)]
	for i := range x {
		x[i] += float64(a * y[i])
	}
}
