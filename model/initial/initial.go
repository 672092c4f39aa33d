// Package initial draws the initial parameters of models. The same seed gives the same bits on
// every platform.
package initial

import (
	"context"
	"math"
	"slices"
)

// Distribution replaces the elements of a tensor, which are 0, with numbers drawn from s. values
// holds the elements, and row holds the extents of the tensor's rows. The only possible error is
// the error of ctx. Where a Distribution is optional, nil means zeros.
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

// XavierUniform is the Distribution of independent entries, uniform in [−b, b) with b = √(6/(n + d))
// for n rows of d entries (Glorot and Bengio, 2010). If a row has several axes, d is the last extent.
func XavierUniform(ctx context.Context, s *Source, row []int, values []float32) error {
	width := 1
	for _, extent := range row {
		width *= extent
	}
	n, d := len(values)/width, row[len(row)-1]
	return Uniform(math.Sqrt(6/float64(n+d)))(ctx, s, row, values)
}

// Identity is the Distribution that puts ones on the diagonal of every matrix. The last two extents
// of a row are the extents of a matrix, so a row may hold several.
func Identity(ctx context.Context, _ *Source, row []int, values []float32) error {
	lines, columns := row[len(row)-2], row[len(row)-1]
	for matrix := range slices.Chunk(values, lines*columns) {
		for i := range min(lines, columns) {
			matrix[i*columns+i] = 1
		}
	}
	return ctx.Err()
}

// fill sets values to the results of next. It checks ctx every 65,536 values.
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
