package model

import (
	"context"
	"math"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/model/initial"
)

// Batch normalisation (Ioffe and Szegedy, 2015) replaces every entry x of a channel with scale · (x
// − mean)/√(variance + ε) + shift. Training uses the mean and the variance of the channel over the
// queries of a step. Scores use the running averages of these statistics, which are Frozen
// parameters. ε and the rate at which the averages move are PyTorch's defaults.
const (
	normEpsilon = 1e-5
	normRate    = 0.1
)

// normParameters returns the parameters of the batch normalisation with the given name.
func normParameters(name string, channels int) []Parameter {
	row, one := []int{channels}, initial.Constant(1)
	return []Parameter{
		{Name: name + ".scale", Axis: Global, Row: row, Initial: one},
		{Name: name + ".shift", Axis: Global, Row: row},
		{Name: name + ".mean", Axis: Global, Row: row, Frozen: true},
		{Name: name + ".variance", Axis: Global, Row: row, Initial: one, Frozen: true, NonNegative: true},
	}
}

// normTensors is the number of parameters of a batch normalisation. Only the first two have
// gradients.
const normTensors = 4

// affine is a batch normalisation with the running statistics, x ↦ factor·x + shift.
type affine struct{ factor, shift []float64 }

// newAffine computes, for every channel, factor = scale/√(variance + ε) and shift' = shift −
// factor·mean from the tensors of normParameters.
func newAffine(tensors [][]float32) affine {
	n := len(tensors[0])
	a := affine{make([]float64, n), make([]float64, n)}
	for i := range n {
		a.factor[i] = float64(tensors[0][i]) / math.Sqrt(float64(tensors[3][i])+normEpsilon)
		a.shift[i] = float64(tensors[1][i]) - float64(a.factor[i]*float64(tensors[2][i]))
	}
	return a
}

// noNorm returns the affine map that leaves every entry unchanged.
func noNorm(channels int) affine {
	a := affine{make([]float64, channels), make([]float64, channels)}
	for i := range a.factor {
		a.factor[i] = 1
	}
	return a
}

// of returns factor·x + shift for an entry x of a channel.
func (a affine) of(channel int, x float64) float64 {
	return float64(a.factor[channel]*x) + a.shift[channel]
}

// batchNorm trains a batch normalisation. The row of a query holds the entries of each channel in
// turn. Sums are added query by query, so the results do not depend on the number of threads.
type batchNorm struct {
	scale, shift, mean, variance []float32
	area, threads                int // number of entries of a channel in a row; number of threads

	// rows is the number of rows in the last call of forward. batchMean and squares are the mean
	// and the variance of each channel in these rows.
	rows               int
	batchMean, squares []float64

	sums   []float64    // two sums for each row and channel
	linear [3][]float32 // three coefficients for each channel
}

func newBatchNorm(tensors [][]float32, area, threads int) *batchNorm {
	n := len(tensors[0])
	b := &batchNorm{
		scale: tensors[0], shift: tensors[1], mean: tensors[2], variance: tensors[3],
		area: area, threads: threads, batchMean: make([]float64, n), squares: make([]float64, n),
	}
	for i := range b.linear {
		b.linear[i] = make([]float32, n)
	}
	return b
}

func (b *batchNorm) channels() int { return len(b.scale) }

// entries returns the number of entries of a channel in all rows together.
func (b *batchNorm) entries() float64 { return float64(b.rows * b.area) }

// channel returns the entries of channel c in a row.
func (b *batchNorm) channel(row []float32, c int) []float32 { return row[c*b.area:][:b.area] }

// batchNormSums returns the size of batchNorm.sums for a row, in float32 entries.
func batchNormSums(channels int) int { return 4 * channels }

// total calls the function add for every row and channel, sums its two results over the rows, and
// passes the totals of each channel to the function use. add returns two sums over the entries of a
// channel in one row.
func (b *batchNorm) total(
	ctx context.Context, add func(row, channel int) (x, y float64), use func(channel int, x, y float64),
) error {
	n := b.channels()
	if len(b.sums) < 2*b.rows*n {
		b.sums = make([]float64, 2*b.rows*n)
	}
	err := kernel.Parallel(ctx, b.threads, b.rows, func(_, i int) {
		for c := range n {
			at := 2 * (i*n + c)
			b.sums[at], b.sums[at+1] = add(i, c)
		}
	})
	for c := range n {
		var x, y float64
		for i := range b.rows {
			at := 2 * (i*n + c)
			x += b.sums[at]
			y += b.sums[at+1]
		}
		use(c, x, y)
	}
	return err
}

// forward writes the normalised rows of the matrix in to the matrix out.
func (b *batchNorm) forward(ctx context.Context, out, in linalg.Matrix) error {
	b.rows = in.Rows
	err := b.total(ctx, func(row, c int) (sum, _ float64) {
		for _, x := range b.channel(in.Row(row), c) {
			sum += float64(x)
		}
		return sum, 0
	}, func(c int, sum, _ float64) { b.batchMean[c] = sum / b.entries() })
	if err != nil {
		return err
	}
	err = b.total(ctx, func(row, c int) (squares, _ float64) {
		mean := b.batchMean[c]
		for _, x := range b.channel(in.Row(row), c) {
			d := float64(x) - mean
			squares += float64(d * d)
		}
		return squares, 0
	}, func(c int, squares, _ float64) {
		b.squares[c] = squares / b.entries()
		b.linear[0][c] = float32(float64(b.scale[c]) * b.inverse(c))
		b.linear[1][c] = float32(b.batchMean[c])
	})
	if err != nil {
		return err
	}
	return kernel.Parallel(ctx, b.threads, b.rows, func(_, i int) {
		for c, factor := range b.linear[0] {
			mean, shift, to := b.linear[1][c], b.shift[c], b.channel(out.Row(i), c)
			for k, x := range b.channel(in.Row(i), c) {
				to[k] = float32(factor*(x-mean)) + shift
			}
		}
	})
}

// inverse returns 1/√(variance + ε) for a channel, with the variance in the last call of forward.
func (b *batchNorm) inverse(c int) float64 { return 1 / math.Sqrt(b.squares[c]+normEpsilon) }

// backward writes the gradients of the rows of the matrix in to dIn, which may be dOut, and the
// gradients of scale and shift to dScale and dShift. in holds the rows of the last call of forward.
//
// With s = 1/√(variance + ε), x̂ = s(x − mean) and means over all entries of the channel,
// ∂x = scale · s (∂y − mean(∂y) − x̂ mean(∂y x̂)).
func (b *batchNorm) backward(ctx context.Context, dScale, dShift []float32, dIn, dOut, in linalg.Matrix) error {
	err := b.total(ctx, func(row, c int) (sum, product float64) {
		mean, x := b.batchMean[c], b.channel(in.Row(row), c)
		for k, d := range b.channel(dOut.Row(row), c) {
			sum += float64(d)
			product += float64(float64(d) * (float64(x[k]) - mean))
		}
		return sum, product
	}, func(c int, sum, product float64) {
		s := b.inverse(c)
		dShift[c], dScale[c] = float32(sum), float32(s*product)
		b.linear[0][c] = float32(float64(b.scale[c]) * s)
		b.linear[1][c] = float32(sum / b.entries())
		b.linear[2][c] = float32(s * s * product / b.entries())
	})
	if err != nil {
		return err
	}
	return kernel.Parallel(ctx, b.threads, b.rows, func(_, i int) {
		for c, factor := range b.linear[0] {
			mean, slope, from, x := b.linear[1][c], b.linear[2][c], b.channel(dOut.Row(i), c), b.channel(in.Row(i), c)
			batchMean := float32(b.batchMean[c])
			for k, d := range from {
				b.channel(dIn.Row(i), c)[k] = factor * (d - mean - float32(slope*(x[k]-batchMean)))
			}
		}
	})
}

// settle moves the running statistics towards the statistics of the last call of forward. Like
// PyTorch, it divides the sum of squares by the number of entries minus one.
func (b *batchNorm) settle() {
	unbiased := 1.0
	if n := b.entries(); n > 1 {
		unbiased = n / (n - 1)
	}
	move := func(to *float32, x float64) { *to = float32(float64((1-normRate)*float64(*to)) + float64(normRate*x)) }
	for c := range b.mean {
		move(&b.mean[c], b.batchMean[c])
		move(&b.variance[c], b.squares[c]*unbiased)
	}
}
