// Package initial draws the parameters with which the training of a model begins. The same seed gives
// the same bits on every platform.
package initial

import (
	"context"
	"slices"
)

// Distribution fills a tensor of zeros whose rows have the extents row, drawing from s. It returns the
// error of ctx, and no other. A nil Distribution stands for zeros.
type Distribution func(ctx context.Context, s *Source, row []int, values []float32) error

// Normal makes independent normal entries of mean 0.
func Normal(deviation float64) Distribution {
	return func(ctx context.Context, s *Source, _ []int, values []float32) error {
		return fill(ctx, values, func() float32 { return float32(deviation * s.Normal()) })
	}
}

// Uniform makes independent entries that are uniform in [−bound, bound).
func Uniform(bound float64) Distribution {
	return func(ctx context.Context, s *Source, _ []int, values []float32) error {
		return fill(ctx, values, func() float32 { return float32(bound * s.Uniform()) })
	}
}

// Constant makes every entry v.
func Constant(v float32) Distribution {
	return func(ctx context.Context, _ *Source, _ []int, values []float32) error {
		return fill(ctx, values, func() float32 { return v })
	}
}

// Identity makes every row an identity matrix. Rows must be square.
func Identity(ctx context.Context, _ *Source, row []int, values []float32) error {
	d := row[0]
	for matrix := range slices.Chunk(values, d*d) {
		for i := range d {
			matrix[i*d+i] = 1
		}
	}
	return ctx.Err()
}

// fill sets values to what next returns, and looks at ctx about every millisecond.
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
