package rank

import (
	"context"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/exactly"
	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/kerneltest"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/engine"
	"github.com/mquine/mquine/rank/internal/ranktest"
)

// codedSlice returns a block of queries with the given ψ and a slice of candidates with the given
// φ, for a DistMult model and a screen of codes. If set is not nil, the coordinates have no
// weights, and they have a center only if set adds one.
func codedSlice(t *testing.T, b *kernel.Backend, screen Screen, psi, phi [][]float32,
	set func(*coordinates)) testBlock {
	n, d := len(phi), len(psi[0])
	g := ranktest.Graph(rand.New(rand.NewPCG(1, 1)), n+len(psi), 1, 0, 0, 0)
	ranks := make([]Rank, len(psi))
	for i := range ranks {
		ranks[i] = Rank{Triple: kg.Triple{Head: int32(n + i)}, Side: kg.Tail}
	}
	m := ranktest.Model(t, "distmult", d, g, 1, ranktest.Kind{Fill: func(_ *rand.Rand, _ model.Config, ts [][]float32) {
		for e, x := range append(slices.Clone(phi), psi...) {
			copy(ts[0][e*d:], x)
		}
		for i := range ts[1] {
			ts[1][i] = 1
		}
	}})
	e := loadAll(t, m, b, screen, ranks, n)
	f := e.features
	if f.screen.name() != Float32Screen && set != nil {
		c := codesOf(f.screen).coordinates
		for t := range d {
			c.at[t], c.center[t], c.forward[t], c.inverse[t] = int32(t), 0, 1.0/4, 1.0/4
		}
		set(c)
		c.norm, _ = exactly.Norm(exactly.All(c.center)).Float64()
		c.norm = math.Nextafter(c.norm, math.Inf(1))
		require.NoError(t, repack(t.Context(), e))
	}
	s := begin(t, e, 0, len(e.job.Queries))
	f.screen.packQueries(&s.queries, &s.Vectors, len(s.Queries))
	return s
}

// loadAll returns the engine for the queries of ranks, with the first n entities as its candidates.
func loadAll(t *testing.T, m model.Model, b *kernel.Backend, screen Screen, ranks []Rank, n int) *cpuEngine {
	o := Options{Backend: b, Threads: 1, Shard: Range{Last: n}}
	j := o.job(m, newPlan(m, o.sets(m), ranks, len(ranks), nil))
	e := newCPUEngine(j, screen)
	_, err := e.Load(t.Context(), 0, j.Passes[0], j.Passes[0].Candidates)
	require.NoError(t, err)
	return e
}

// repack packs the candidates again after a change to the coordinates.
func repack(ctx context.Context, e *cpuEngine) error {
	f := e.features
	key, err := f.screen.sortKey(ctx, e.job)
	if err != nil {
		return err
	}
	f.SortBy(key)
	return f.screen.pack(ctx, e.job)
}

// begin returns a block of queries, with their vectors and intervals.
func begin(t *testing.T, e *cpuEngine, first, last int) testBlock {
	s := testBlock{e.sweeper(0), engine.NewBlock(e.job, e)}
	s.Begin(engine.Span{First: first, Last: last})
	require.NoError(t, s.Compute(t.Context(), s.Worker, e.features.Tower, s.Queries))
	require.NoError(t, s.BoundTargets(t.Context(), &e.features.Features))
	return s
}

// exactCoordinates returns the coordinates of x without rounding: b if x is a candidate's φ, or a
// if x is a query's ψ.
func exactCoordinates(c *coordinates, x []float32, candidate bool) []*big.Float {
	out := exactly.All(make([]float64, int8Width(len(x))))
	for t, v := range x {
		out[c.at[t]] = product(float64(v), c.inverse[t])
		if candidate {
			out[c.at[t]] = exactly.Mul(exactly.Sum(float64(v), -c.center[t]), exactly.Of(c.forward[t]))
		}
	}
	for at := 0; at < len(out); at += spread {
		for half := 1; half < spread; half *= 2 {
			for i := range spread {
				if i&half == 0 {
					x, y := out[at+i], out[at+i+half]
					out[at+i], out[at+i+half] = exactly.Add(x, y), exactly.Sub(x, y)
				}
			}
		}
	}
	return out
}

// TestCodeNorms checks that the norms and residuals for the codes of queries and panel groups are
// upper bounds, including the rounding errors of the coordinates.
func TestCodeNorms(t *testing.T) {
	b, rng := kerneltest.Best(t), rand.New(rand.NewPCG(3, 9))
	const d = 32
	random := func(n int) (rows [][]float32) {
		for i := range n {
			x := make([]float32, d)
			if ranktest.Normal(rng, x, math.Exp(rng.NormFloat64())); i%2 == 0 { // spikes in the coordinates
				for t := range x {
					x[t] = x[0]
				}
			}
			rows = append(rows, x)
		}
		return rows
	}
	// Every sum of a rotation loses half a unit in the last place. All results are equal, so they
	// are integer codes.
	lossy := func(n int) (rows [][]float32) {
		for range n {
			x := make([]float32, d)
			for t := 0; t < d; t += spread {
				x[t] = 1 + 0x1p-22
				for half := 1; half < spread; half *= 2 {
					x[t+half] = kernel.U64
				}
			}
			rows = append(rows, x)
		}
		return rows
	}
	for _, c := range []struct {
		name  string
		rows  func(n int) [][]float32
		set   func(*coordinates)
		least float64 // least ratio for the residuals
	}{
		{"random", random, nil, 1 - 2e-9},
		{"whole codes", lossy, func(c *coordinates) {
			for t := range c.center {
				c.center[t] = 0x1p-60 // lost in every difference
			}
		}, 0.2},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := codedSlice(t, b, Int8Screen, c.rows(8), c.rows(900), c.set)
			f, x := s.f, s.f.screen.(*int8Screen)
			layout := x.layout
			var sizes, norms, residuals, fineNorms, fineResiduals, lengths exactly.Ratio
			check := func(x []*big.Float, words []uint32, coarse, fine int, offset uint8, q codedQuery) {
				code := func(at, i int) *big.Float {
					return exactly.Of(float64(int8(kernel.Codes(words[at:])[i] - offset)))
				}
				sizes.See(exactly.Norm(x), q.size)
				back, fineBack, rest, fineRest := slices.Clone(x), slices.Clone(x), slices.Clone(x), slices.Clone(x)
				for i, v := range x {
					back[i] = exactly.Mul(code(coarse, i), exactly.Of(q.step))
					fineBack[i] = exactly.Quo(exactly.Mul(code(fine, i), exactly.Of(q.step)), exactly.Of(kernel.Fine))
					rest[i] = exactly.Sub(v, back[i])
					fineRest[i] = exactly.Sub(rest[i], fineBack[i])
				}
				norms.See(exactly.Norm(back), q.norm)
				residuals.See(exactly.Norm(rest), q.residual)
				fineNorms.See(exactly.Norm(fineBack), q.fineNorm)
				fineResiduals.See(exactly.Norm(fineRest), q.fineResidual)
			}
			for row := range s.Queries {
				psi := s.Row(row)[:d]
				lengths.See(exactly.Norm(exactly.All(psi)), s.Norms[row])
				words := s.queries.rows[row*layout.stride:]
				check(exactCoordinates(x.coordinates, psi, false), words, layout.len, 0, 0, s.queries.coded[row])
			}
			for position, i := range f.RowAt[:f.N] {
				block, phi := position/f.nr/groupPanels, f.Row(i)[:d]
				if c.set == nil { // otherwise the norms belong to other coordinates
					lengths.See(exactly.Norm(exactly.All(phi)), f.groupNorms[block])
				}
				words, b := x.rows()[position*layout.stride:], x.groups[block]
				check(exactCoordinates(x.coordinates, phi, true), words, 0, layout.fine, layout.offset, codedQuery{
					step: b.step, size: b.norm, norm: math.Inf(1),
					residual: b.residual, fineNorm: b.fineNorm, fineResidual: b.fineResidual,
				})
			}
			lengths.Check(t, 1-2e-9)
			sizes.Check(t, 1-2e-9)
			norms.Check(t, 1-2e-9)
			residuals.Check(t, c.least)
			fineResiduals.Check(t, c.least)
			fineNorms.Check(t, 0)
		})
	}
}

// TestCenterBands checks that the bands cover the errors of ψ·μ, a chain of sums, and of the last
// sum of a fine score. The candidate is so close to the center that no other term of the bands
// matters.
func TestCenterBands(t *testing.T) {
	b := kerneltest.Best(t)
	var coarse, fine, int16, oneProduct, last exactly.Ratio
	see := func(psi, phi []float32, center func(c []float64), coarse, fine, int16 *exactly.Ratio) {
		s := codedSlice(t, b, Int8Screen, [][]float32{psi}, [][]float32{phi}, func(c *coordinates) { center(c.center) })
		q, want, x := &s.queries.coded[0], exactly.Dot(psi, phi), s.f.screen.(*int8Screen)
		layout := x.layout
		sum, fineSum := codeSums(b, layout, s.queries.rows[:layout.stride], x.rows()[:layout.stride])
		score := exactly.Add(exactly.Of(q.center), product(q.step, x.groups[0].step, float64(sum)-q.offset))
		g := &x.groups[0]
		coarse.See(exactly.Sub(want, score), x.band(q, g))
		fine.See(exactly.Sub(want, exactly.Of(x.fineScore(q, g, float32(sum), fineSum))), x.fineBand(q, g))
		int16.See(exactly.Sub(want, score), (&int16Screen{x.codes}).band(q, g))
		oneProduct.See(exactly.Sub(want, score), (&int16DotScreen{codes: x.codes}).band(q, g))
	}

	const d = 512
	psi, phi := make([]float32, d), make([]float32, d)
	for t := range psi {
		psi[t], phi[t] = 0x1p-26, 0x1p-27
	}
	psi[0], phi[0] = 1, 1
	see(psi, phi, func(c []float64) {
		for t, v := range phi {
			c[t] = float64(v)
		}
		c[0] += 0x1p-40 // not exactly φ: if all entries were 0, the step would be 1
	}, &coarse, &fine, &int16)
	coarse.Check(t, 0.99)
	fine.Check(t, 0.99)
	int16.Check(t, 0.99)

	// In one dimension, ψφ is slightly more than 1 and μ = φ − 2⁷u, so the product ψμ and the
	// last sum of a fine score, which adds ψμ, are rounding ties.
	rng := rand.New(rand.NewPCG(4, 9))
	for range 100 {
		psi := float32(129+2*rng.IntN(60)) / 128
		phi := kernel.RoundUp32(1 / float64(psi) * (1 + rng.Float64()*0x1p-8))
		center := func(c []float64) { c[0] = float64(phi) - 0x1p7*kernel.U64 }
		see([]float32{psi}, []float32{phi}, center, &coarse, &last, &int16)
	}
	last.Check(t, 0.95)
	oneProduct.Check(t, 0.99)
	coarse.Check(t, 0.99)
	int16.Check(t, 0.99)
}

// codeSums returns the int8 screen's sum of coarse codes, before rounding, and its sum for fine
// codes.
func codeSums(b *kernel.Backend, layout codeLayout, query, candidate []uint32) (coarse, fine int32) {
	signed, unsigned := make([]uint32, layout.stride), make([]uint32, layout.stride)
	copy(signed, query[layout.len:2*layout.len])
	copy(unsigned, candidate[:layout.len])
	out := make([]int32, 1)
	b.PairInt8(out, signed, unsigned, layout.stride, []int32{0})
	coarse = out[0]
	b.PairInt8(out, query, candidate, layout.stride, []int32{0})
	return coarse, out[0]
}

// codeRatios holds a ratio for each kind of score of codes.
type codeRatios struct{ coarse, fine, int16 exactly.Ratio }

// see records in r the errors of scores and their bands, for coordinates a and b and the steps of
// their codes.
func (r *codeRatios) see(backend *kernel.Backend, a, b []float64, stepA, stepB float64) {
	want := exactly.Dot(a, b)
	for _, format := range []*codeFormat{&int16Format, &int8Format} {
		s, codes := oneCodedQuery(backend, len(a), format)
		layout := codes.layout
		query, candidate := make([]uint32, layout.stride), make([]uint32, layout.stride)
		first, second := query[:layout.len], query[layout.fine:][:layout.len]
		if format == &int8Format {
			first, second = second, first
		}
		x := kernel.CodeInt8(kernel.Codes(first), kernel.Codes(second), a, stepA, 0)
		y := kernel.CodeInt8(kernel.Codes(candidate[:layout.len]),
			kernel.Codes(candidate[layout.fine:][:layout.len]), b, stepB, layout.offset)
		offset := float64(layout.offset)
		s.queries.coded[0] = codedQuery{
			step: stepA, size: norm64(a), norm: x.Norm, residual: x.Residual, fineNorm: x.FineNorm,
			fineResidual: x.FineResidual,
			offset:       offset * float64(x.Sum), fineOffset: offset * float64(x.Sum+x.FineSum),
		}
		codes.groups[0] = codeGroup{
			step: stepB, norm: norm64(b), residual: y.Residual, fineNorm: y.FineNorm, fineResidual: y.FineResidual,
		}
		q, g := &s.queries.coded[0], &codes.groups[0]
		switch x := s.f.screen.(type) {
		case *int8Screen:
			sum, fineSum := codeSums(backend, layout, query, candidate)
			score := product(stepA, stepB, float64(sum)-s.queries.coded[0].offset)
			r.coarse.See(exactly.Sub(want, score), x.band(q, g))
			r.fine.See(exactly.Sub(want, exactly.Of(x.fineScore(q, g, float32(sum), fineSum))), x.fineBand(q, g))
		case *int16Screen:
			score := product(stepA, stepB, float64(panelScore(backend, codes.kernels, query, candidate)))
			r.int16.See(exactly.Sub(want, score), x.band(q, g))
		}
	}
}

// TestCodeBands checks that the bands of codes cover the errors of scores, and that the errors come
// close to the bands. In each case, one term of a band dominates.
func TestCodeBands(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 9))
	constant := func(v float64) func() float64 { return func() float64 { return v } }
	rarely := func(v, less float64) func() float64 { // v, sometimes less
		return func() float64 {
			if rng.IntN(40) == 0 {
				return v - less
			}
			return v
		}
	}
	for _, c := range []struct {
		name                string
		n, draws            int
		a, b                func() float64
		stepA, stepB        float64
		change              func(a []float64)
		coarse, fine, int16 float64 // the smallest ratios
	}{
		{"residuals of queries", 512, 1, constant(100.5), constant(127), 1, 1, nil, 0.999, 0, 0},
		{"residuals of candidates", 512, 1, constant(127), constant(100.5), 1, 1, nil, 0.999, 0, 0},
		{"products of fine codes", 512, 1, constant(100.5), constant(100.5), 1, 1, nil, 0, 0.99, 0.99},
		{"fine residuals of queries", 512, 1, constant(100*508 + 1), constant(127), 508, 1, nil, 0, 0.99, 0.99},
		{"fine residuals of candidates", 512, 1, constant(127), constant(100*508 + 1), 1, 508, nil, 0, 0.99, 0.99},
		{"coarse sum of the int8 screen", 1040, 40, rarely(127, 1), rarely(127, 1), 1, 1, nil, 0, 0.99, 0},
		{"coarse sum of the int16 screen", 2096, 60, rarely(127*254, 254), rarely(127, 1), 254, 1, func(a []float64) {
			for i := range 4 { // a fine sum of nearly 2 · 254
				a[i]++
			}
		}, 0, 0, 0.97},
		{"fine sum of the int16 screen", 1056, 100, rarely(127, 1), rarely(127, 1), 254, 1, func(a []float64) {
			a[0] = 254 // for a coarse sum that is not 0
		}, 0, 0, 0.6},
	} {
		t.Run(c.name, func(t *testing.T) {
			var ratios codeRatios
			for range c.draws {
				a, b := make([]float64, c.n), make([]float64, c.n)
				for i := range a {
					a[i], b[i] = c.a(), c.b()
				}
				if c.change != nil {
					c.change(a)
				}
				ratios.see(kerneltest.Best(t), a, b, c.stepA, c.stepB)
			}
			ratios.coarse.Check(t, c.coarse)
			ratios.fine.Check(t, c.fine)
			ratios.int16.Check(t, c.int16)
		})
	}
}

// TestCodeEnds checks that the thresholds of a target in units of codes cover the roundings of the
// change of units and all terms of the bands. It also checks that the band of fine scores covers
// all terms.
func TestCodeEnds(t *testing.T) {
	const width = 32
	b, rng := kerneltest.Best(t), rand.New(rand.NewPCG(6, 9))
	size := func() float64 { return math.Ldexp(1+rng.Float64(), -rng.IntN(30)) }
	var ends, fine exactly.Ratio
	outside := 0
	for i := range 6000 {
		format := []*codeFormat{&int16Format, &int8Format, &int16DotFormat}[i%3]
		s, x := oneCodedQuery(b, width, format)
		score := drawBands(rng, s)
		q, block := &s.queries.coded[0], &x.groups[0]
		*q = codedQuery{
			step: size(), size: size(), norm: size(), residual: size(), fineNorm: size(), fineResidual: size(),
			offset: float64(128 * (rng.IntN(8000) - 4000)), center: score * float64(rng.IntN(3)),
		}
		*block = codeGroup{step: size(), norm: size(), residual: size(), fineNorm: size(), fineResidual: size()}
		x.coordinates.norm = size() * float64(rng.IntN(2))
		q.centerError = x.centerError(s.Norms[0])

		unit := product(q.step, block.step)
		at := exactly.Add(exactly.Quo(exactly.Sum(score, -q.center), unit), exactly.Of(q.offset))
		if lo, hi := (units{q.center, q.step * block.step, q.offset}).sums(score,
			score); at.Cmp(exactly.Of(lo)) < 0 || at.Cmp(exactly.Of(hi)) > 0 {
			outside++
		}

		s.Low[0], s.High[0] = score, score
		s.thresholds.setRow(s.f, s.Block, &s.queries, 0, 0)
		center := product(width, kernel.U64, s.Norms[0], x.coordinates.norm)
		rest := exactly.Add(exactBand(s, score, 0, 0, s.f.groupNorms[0]), exactSlack(s.Slacks[0], s.f.groupSizes[0]))
		fineBand := exactly.Add(product(q.fineNorm, block.fineNorm), product(q.fineResidual, block.norm),
			exactly.Mul(exactly.Sum(q.size, q.fineResidual), exactly.Of(block.fineResidual)), center)
		band := exactly.Add(product(q.residual, block.norm), product(q.norm, block.residual), center)
		switch format {
		case &int8Format:
			sum := product(q.step, block.step, kernel.U32, 127, 255, width)
			last := product(kernel.U64, math.Abs(q.center))
			fine.See(exactly.Add(fineBand, sum, last, rest), s.thresholds.fineBands[0])
		case &int16DotFormat:
			rounding := exactly.Mul(exactly.Sum(block.norm, block.residual), product(kernel.U32, q.norm))
			band = exactly.Add(band, rounding)
		default:
			codes := exactly.Sum(block.norm, block.residual)
			coarse := exactly.Mul(exactly.Of(q.norm), codes)
			cross := exactly.Add(product(q.norm, block.fineNorm), exactly.Mul(exactly.Of(q.fineNorm), codes))
			coarse.Mul(coarse, exactly.Of(2*kernel.U32))
			band = exactly.Add(fineBand, coarse, cross.Mul(cross, exactly.Of(3.1*kernel.U32)))
		}
		if !math.IsInf(float64(s.thresholds.ends[1]), 0) {
			half := exactly.Quo(exactly.Add(band, rest), unit)
			below := exactly.Sub(at, exactly.Of(float64(s.thresholds.ends[0])))
			above := exactly.Sub(exactly.Of(float64(s.thresholds.ends[1])), at)
			for _, room := range []*big.Float{below, above} {
				assert.Positive(t, room.Sign())
				ends.See(exactly.Quo(half, room), 1)
			}
		}
	}
	assert.Zero(t, outside, "scores outside their thresholds")
	ends.Check(t, 1-1e-5)
	fine.Check(t, 1-2.1e-9)
}

// TestNormLimits checks that codes do not compare vectors with norms of 2⁶⁰ or more.
func TestNormLimits(t *testing.T) {
	b := kerneltest.Best(t)
	ordinary := [][]float32{{1, 2, 3}, {3, 2, 1}}
	for _, screen := range []Screen{Int8Screen, int16OneProduct, int16Tiles} {
		s := codedSlice(t, b, screen, ordinary, ordinary, nil)
		require.Equal(t, screen.String(), s.f.screen.name().String())
		copy(s.Row(1), []float32{0x1p60, 0, 0})
		s.Norms[1] = fmath.Norm(s.Row(1))
		s.f.screen.packQueries(&s.queries, &s.Vectors, len(s.Queries))
		s.thresholds.set(s.f, s.Block, &s.queries, 0)
		assert.True(t, s.thresholds.ends[1] < math.MaxFloat32)
		assert.Equal(t, []float32{float32(math.Inf(-1)), float32(math.Inf(1))}, s.thresholds.ends[2:4], "%s", screen)

		huge := append(slices.Clone(ordinary), []float32{0x1p60, 0, 0})
		assert.Equal(t, Float32Screen, codedSlice(t, b, screen, ordinary, huge, nil).f.screen.name(), "candidates")
		assert.Equal(t, Float32Screen, codedSlice(t, b, screen, huge, ordinary, nil).f.screen.name(),
			"queries of the sample")
	}
}
