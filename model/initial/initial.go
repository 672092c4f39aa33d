// Package initial draws the initial parameters of models. The same seed gives the same bits on
// every platform.
package initial

import (
	"context"
	"slices"
)

// Distribution fills values, a tensor of zeros whose rows have the extents row, with draws from s.
// Its only possible error is the error of ctx. Where a Distribution is optional, nil means zeros.
type Distribution func(ctx context.Context, s *Source, row []int, values []float32) error

// Normal returns the distribution of independent normal entries with mean 0 and the given standard
// deviation.
func Normal(deviation float64) Distribution {
	return func(ctx context.Context, s *Source, _ []int, values []float32) error {
		return fill(ctx, values, func() float32 { return float32(deviation * s.Normal()) })
	}
}

// Uniform returns the distribution of independent entries, uniform in [−bound, bound).
func Uniform(bound float64) Distribution {
	return func(ctx context.Context, s *Source, _ []int, values []float32) error {
		return fill(ctx, values, func() float32 { return float32(bound * s.Uniform()) })
	}
}

// Constant returns the distribution that sets every entry to v.
func Constant(v float32) Distribution {
	return func(ctx context.Context, _ *Source, _ []int, values []float32) error {
		return fill(ctx, values, func() float32 { return v })
	}
}

// Identity is the Distribution that sets every row to the identity matrix. Rows must be square
// matrices.
func Identity(ctx context.Context, _ *Source, row []int, values []float32) error {
	d := row[len(row)-1]
	for matrix := range slices.Chunk(values, d*d) {
		for i := range d {
			matrix[i*d+i] = 1
		}
	}
	return ctx.Err()
}

// fill sets values to results of next. It checks ctx about every millisecond.
func fill(ctx context.Context, values []float32, next func() float32) error {
	for chunk := range slices.Chunk(values, 1<<16) {
		if err := ctx.Err(); err != nil {
			return err
		}
		for i := range chunk {
			chunk[i] = next()
		}
	}
	return nil
}
