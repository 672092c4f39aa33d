package model

import (
	"context"
	"math"

	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model/initial"
)

// This file contains the common parts of the networks TuckER and ConvE.

// networkTraining is the TrainingWorker of a network with one table of entities and one of
// relations. Its query methods panic, because the NetworkWorker computes the queries.
type networkTraining struct{ tableTraining }

const networkOnly = "model: a NetworkWorker computes the queries of a network"

func (networkTraining) Query(_, _ []float32) (c, penalty float64) { panic(networkOnly) }

func (networkTraining) QueryGradient(_, _, _ []float32, _, _ float64) { panic(networkOnly) }

// xavierNormal returns the normal distribution of Glorot and Bengio (2010) for a table with n rows:
// its deviation is √(2/(n + width)).
func xavierNormal(n, width int) initial.Distribution {
	return initial.Normal(math.Sqrt(2 / float64(n+width)))
}

// chain64 adds x_i times row i of m to y, with i ascending, in float64. It rounds every product and
// every sum. The rows of m have the length of y. Rows with x_i = 0 are skipped.
func chain64[T float32 | float64](y, x []float64, m []T) {
	// Adding four rows at a time needs a quarter of the loads and stores of y.
	const most = 4
	var rows [most][]T
	var factors [most]float64
	n, count := len(y), 0
	for i, a := range x {
		if a == 0 {
			continue
		}
		rows[count], factors[count] = m[i*n:][:n], a
		if count++; count < most {
			continue
		}
		a, b, c, d := factors[0], factors[1], factors[2], factors[3]
		s, t, u, v := rows[0][:n], rows[1][:n], rows[2][:n], rows[3][:n]
		for k, sum := range y {
			sum += float64(a * float64(s[k]))
			sum += float64(b * float64(t[k]))
			sum += float64(c * float64(u[k]))
			sum += float64(d * float64(v[k]))
			y[k] = sum
		}
		count = 0
	}
	for i, row := range rows[:count] {
		for k, v := range row {
			y[k] += float64(factors[i] * float64(v))
		}
	}
}

// relationSegment is a range of consecutive queries of one relation.
type relationSegment struct {
	first, last int
	relation    int32
}

// relationSegments appends the segments in queries to the slice segments.
func relationSegments(segments []relationSegment, queries []kg.Query) []relationSegment {
	for i, q := range queries {
		if n := len(segments); n > 0 && segments[n-1].relation == q.Relation {
			segments[n-1].last++
			continue
		}
		segments = append(segments, relationSegment{i, i + 1, q.Relation})
	}
	return segments
}

// normalise writes the normalised rows of the matrix in to the matrix out. If b is nil, it copies
// the rows unchanged.
func (b *batchNorm) normalise(ctx context.Context, out, in linalg.Matrix) error {
	if b != nil {
		return b.forward(ctx, out, in)
	}
	copyRows(out, in)
	return ctx.Err()
}

func copyRows(to, from linalg.Matrix) {
	for i := range from.Rows {
		copy(to.Row(i), from.Row(i))
	}
}
