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
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
)

// The tests of this file compare bands with the errors that they bound, in math/big, on inputs for which
// one term of a band is nearly all of it and nearly reached, so that they fail if it is halved or left
// out. docs/numerics.md, section 12, lists them. What is the same on all tiers is tested on one.

// bandSweeper is a sweeper for the bands of one query with one truth, and of one block.
func bandSweeper(b *kernel.Backend, tower model.Tower, compare kernel.Comparison) *sweeper {
	return &sweeper{
		run: &run{backend: b},
		f: &features{
			tower: tower, compare: compare, nr: b.NR,
			blockNorms: make([]float64, 1), blockSizes: make([]float64, 1), codeBlocks: make([]codeBlock, 1), coordinates: &coordinates{},
		},
		queries: make([]query, 1), norms: make([]float64, 1), slacks: make([]model.Slack, 1),
		rows: []int32{0, 1}, low: make([]float64, 1), high: make([]float64, 1), ends: make([]float32, 2), drop: make([]float32, 1),
		coded: make([]codedQuery, 1), fineBands: make([]float64, 1),
	}
}

// someBackend is any backend.
func someBackend(t *testing.T) *kernel.Backend {
	backends, err := kernel.Available()
	require.NoError(t, err)
	return backends[0]
}

var floatComparisons = []kernel.Comparison{kernel.Dot, kernel.L1, kernel.GroupNorm, kernel.Phase}

// sums is x + y + …
func sums(x ...*big.Float) *big.Float {
	sum := exactly.Of(0)
	for _, v := range x {
		sum.Add(sum, v)
	}
	return sum
}

// product multiplies numbers.
func product(x ...float64) *big.Float { return exactly.Mul(exactly.All(x)...) }

// contain sees what an end needs as its distance from a score, and what it has.
func contain(ratio *exactly.Ratio, needed, room *big.Float) {
	if room.Sign() > 0 {
		ratio.See(exactly.Quo(needed, room), 1)
	} else {
		ratio.See(needed, 0)
	}
}

// exactBand is the half-width of section 3 around a score, without the slack.
func exactBand(s *sweeper, score, relative, absolute, norm float64) *big.Float {
	tower := s.f.tower
	switch {
	case tower.Compare.Distance():
		measured := sums(exactly.Of(math.Abs(score)), exactly.Of(absolute))
		return sums(exactly.Quo(exactly.Mul(exactly.Of(relative), measured), sums(exactly.Of(1), exactly.Of(-relative))), exactly.Of(absolute))
	case tower.Compare == kernel.Dot:
		u, psi := kernel.U32, s.norms[0]
		root := exactly.Of(float64(tower.Width))
		root.Sqrt(root)
		return sums(product(relative, psi, norm), product(2*u, psi, norm), product(u*u, psi, norm), exactly.Of(absolute),
			exactly.Mul(exactly.Of(0x1p-149), root, sums(exactly.Of(psi), exactly.Of(norm), exactly.Of(1))))
	}
	return sums(product(relative, s.norms[0], norm), exactly.Of(absolute))
}

// exactSlack is the slack of candidates of a size.
func exactSlack(slack model.Slack, n float64) *big.Float {
	return sums(exactly.Of(slack[0]), product(slack[1], n), product(slack[2], n, n))
}

// drawBands sets the norms, the sizes and the slack of a sweeper so that, in turn, one part of the bands or
// another is most of them, and returns a score.
func drawBands(rng *rand.Rand, s *sweeper) (score float64) {
	size := func() float64 { return (1 + rng.Float64()) * math.Ldexp(1, rng.IntN(20)-10) }
	s.norms[0], s.f.blockNorms[0], s.f.blockSizes[0] = size(), size(), size()
	score, s.slacks[0] = rng.NormFloat64()*s.norms[0]*s.f.blockNorms[0], model.Slack{}
	switch rng.IntN(4) {
	case 0:
		score = 0
	case 1: // a large score beside small norms, such as a truth's among small candidates
		score *= math.Ldexp(1, rng.IntN(80))
		s.norms[0] *= 0x1p-20
		s.f.blockNorms[0] *= 0x1p-20
	case 2: // below the normal range of float32
		s.norms[0], s.f.blockNorms[0] = 0x1p-140*s.norms[0], 0x1p-140*s.f.blockNorms[0]
		score = 0
	}
	if at := rng.IntN(6); at < 3 {
		s.slacks[0][at] = math.Ldexp(size(), rng.IntN(60)-50)
	}
	return score
}

// The intervals of the float64 stage and of the tiles' scores contain all that their bounds allow.
func TestIntervals(t *testing.T) {
	b, rng := someBackend(t), rand.New(rand.NewPCG(1, 9))
	for _, c := range floatComparisons {
		t.Run(c.String(), func(t *testing.T) {
			s := bandSweeper(b, model.Tower{Compare: c, Width: 96}, c)
			var ratio exactly.Ratio
			see := func(score, low, high float64, half *big.Float) {
				if !math.IsInf(high, 1) {
					contain(&ratio, half, exactly.Sub(exactly.Of(score), exactly.Of(low)))
					contain(&ratio, half, exactly.Sub(exactly.Of(high), exactly.Of(score)))
				}
			}
			for range 5000 {
				score := drawBands(rng, s)
				norm, size := s.f.blockNorms[0], s.f.blockSizes[0]
				slack := exactSlack(s.slacks[0], size)
				low, high := s.interval(0, score, norm, size)
				see(score, low, high, sums(exactBand(s, score, kernel.PairError(c, 96), 0, norm), slack))
				score = float64(float32(score))
				relative, absolute := b.PanelError(c, 96)
				low, high = s.tileInterval(0, 0, float32(score))
				see(score, low, high, sums(exactBand(s, score, relative, absolute, norm), slack))
			}
			ratio.Check(t, 1-2e-9)
		})
	}
}

// The ends of a truth leave room for all that the bounds of section 2 and 3 allow.
func TestEnds(t *testing.T) {
	b, rng := someBackend(t), rand.New(rand.NewPCG(2, 9))
	for _, c := range floatComparisons {
		t.Run(c.String(), func(t *testing.T) {
			s := bandSweeper(b, model.Tower{Compare: c, Width: 96}, c)
			relative, absolute := b.PanelError(c, 96)
			var ratio exactly.Ratio
			for i := range 5000 {
				score := drawBands(rng, s)
				if i%2 == 0 {
					score = float64(float32(score)) // the rounding to float32 gives no room
				}
				if c.Distance() {
					score = -math.Abs(score)
				}
				s.low[0], s.high[0] = score, score
				s.setRowEnds(0, 0)
				if math.IsInf(float64(s.ends[1]), 0) {
					continue
				}
				slack := exactSlack(s.slacks[0], s.f.blockSizes[0])
				lo, hi := exactly.Sub(exactly.Of(score), slack), sums(exactly.Of(score), slack)
				if c.Distance() {
					one := func(sign float64) *big.Float { return sums(exactly.Of(1), exactly.Of(sign*relative)) }
					lo = exactly.Sub(exactly.Mul(lo, one(1)), exactly.Of(absolute))
					hi = sums(exactly.Mul(hi, one(-1)), exactly.Of(absolute))
				} else {
					band := exactBand(s, score, relative, absolute, s.f.blockNorms[0])
					lo, hi = exactly.Sub(lo, band), sums(hi, band)
				}
				contain(&ratio, exactly.Sub(exactly.Of(score), lo), exactly.Sub(exactly.Of(score), exactly.Of(float64(s.ends[0]))))
				contain(&ratio, exactly.Sub(hi, exactly.Of(score)), exactly.Sub(exactly.Of(float64(s.ends[1])), exactly.Of(score)))
			}
			ratio.Check(t, 1-1e-6)
		})
	}
}

// The float64 stage alone: its interval, without a slack, contains the exact comparison of vectors
// whose sums lose half a unit in the last place in every step of the first lane.
func TestPairInterval(t *testing.T) {
	b := someBackend(t)
	const lane = 100
	for _, c := range []kernel.Comparison{kernel.L1, kernel.GroupNorm, kernel.Phase} {
		t.Run(c.String(), func(t *testing.T) {
			const width = lane * kernel.PairWidth
			s := bandSweeper(b, model.Tower{Compare: c, Width: width}, c)
			x, y, out := make([]float32, width), make([]float32, width), make([]float64, 1)
			for t := 0; t < width; t += kernel.PairWidth {
				if x[t] = kernel.U64; c == kernel.Phase {
					x[t], y[t] = 0x1p-26, 0x1p-27
				}
			}
			if x[0] = 1; c == kernel.Phase {
				y[0] = 1
			}
			b.Pair(c, out, x, y, width, []int32{0})
			s.norms[0] = norm(x)
			low, high := s.interval(0, out[0], norm(y), 0)
			want := exactly.Sub(exactly.Of(-1), product(lane-1, kernel.U64))
			var ratio exactly.Ratio
			ratio.See(exactly.Sub(want, exactly.Of(out[0])), min(out[0]-low, high-out[0]))
			ratio.Check(t, 0.85)
		})
	}
}

// MQuinE and MQuadE of one dimension without Rʰ: the score is −(RᵗT)², whose factors both lose nearly
// half a unit in the last place when they become float32 entries of ψ and φ.
func TestIntervalOfSquares(t *testing.T) {
	// root finds a number whose square loses most.
	root := func(from float64) (x float32) {
		var worst float64
		for v, i := float32(from), 0; i < 1<<12; v, i = math.Nextafter32(v, math.MaxFloat32), i+1 {
			square := float64(v) * float64(v)
			if lost := square/float64(float32(square)) - 1; lost > worst {
				x, worst = v, lost
			}
		}
		return x
	}
	for _, name := range []string{"mquine", "mquade"} {
		g := randomGraph(rand.New(rand.NewPCG(1, 1)), 2, 1, 0, 0, 0)
		m := newModel(t, name, 1, g, 1, checkpointKind{fill: func(_ *rand.Rand, _ model.Config, ts [][]float32) {
			ts[0][1] = root(math.Sqrt2*0x1p20) / 2 // half of T; its square is most of φ
			ts[2][0] = root(math.Sqrt2)
		}})
		ranks := []Rank{{Triple: kg.Triple{Head: 0, Tail: 1}, Side: kg.Tail}}
		b := someBackend(t)
		r := newRun(m, kg.NewIndex(g), Options{Backend: b}, newPlan(m, ranks))
		f := newFeatures(r, 2, 2)
		f.tower = r.plan.passes[0].tower
		s := newSweeper(r, f, m.NewWorker(b))
		require.True(t, s.prepare(context.Background(), item{last: 1})) // not among the candidates, of which there are none
		score := s.worker.Reference(s.queries[0].Query, 1)
		middle := s.low[0]/2 + s.high[0]/2
		var ratio exactly.Ratio
		ratio.See(exactly.Sub(exactly.Of(score), exactly.Of(middle)), s.high[0]-middle)
		ratio.Check(t, 0.99)
	}
}

// codedSlice makes a sweeper for queries ψ and candidates φ, those of a DistMult model, with a screen in whole
// numbers. If set is not nil, it changes the coordinates, which are R without weights and a center before.
func codedSlice(t *testing.T, b *kernel.Backend, screen Screen, psi, phi [][]float32, set func(*coordinates)) *sweeper {
	n, d := len(phi), len(psi[0])
	g := randomGraph(rand.New(rand.NewPCG(1, 1)), n+len(psi), 1, 0, 0, 0)
	ranks := make([]Rank, len(psi))
	for i := range ranks {
		ranks[i] = Rank{Triple: kg.Triple{Head: int32(n + i)}, Side: kg.Tail}
	}
	m := newModel(t, "distmult", d, g, 1, checkpointKind{fill: func(_ *rand.Rand, _ model.Config, ts [][]float32) {
		for e, x := range append(slices.Clone(phi), psi...) {
			copy(ts[0][e*d:], x)
		}
		for i := range ts[1] {
			ts[1][i] = 1
		}
	}})
	r := newRun(m, kg.NewIndex(g), Options{Backend: b}, newPlan(m, ranks))
	r.screen = screen
	f, all := newFeatures(r, d, n), r.plan.passes[0]
	f.tower = all.tower
	one := &crew{run: r, features: f, sweepers: make([]*sweeper, 1), workers: make([]model.Worker, 1)}
	require.NoError(t, f.fill(context.Background(), one, all, 0, n))
	if f.coded() && set != nil {
		c := f.coordinates
		for t := range d {
			c.at[t], c.center[t], c.forward[t], c.inverse[t] = int32(t), 0, 1.0/4, 1.0/4
		}
		set(c)
		squares := exactly.Norm(exactly.All(c.center))
		c.norm, _ = squares.Float64()
		c.norm = math.Nextafter(c.norm, math.Inf(1))
		require.NoError(t, f.packCodes(context.Background(), one))
	}
	s := one.member(0)
	require.True(t, s.prepare(context.Background(), item{first: all.first, last: all.last}))
	s.packStrips()
	return s
}

// exactCoordinates returns a or b without rounding.
func exactCoordinates(c *coordinates, x []float32, candidate bool) []*big.Float {
	out := exactly.All(make([]float64, int8Width(len(x))))
	for t, v := range x {
		if weight := c.inverse[t]; candidate {
			out[c.at[t]] = exactly.Mul(exactly.Sub(exactly.Of(float64(v)), exactly.Of(c.center[t])), exactly.Of(c.forward[t]))
		} else {
			out[c.at[t]] = product(float64(v), weight)
		}
	}
	for at := 0; at < len(out); at += spread {
		for half := 1; half < spread; half *= 2 {
			for i := range spread {
				if i&half == 0 {
					x, y := out[at+i], out[at+i+half]
					out[at+i], out[at+i+half] = sums(x, y), exactly.Sub(x, y)
				}
			}
		}
	}
	return out
}

// What the screens of codes take for upper bounds of norms, of residuals and of blocks are, with the
// roundings of the coordinates.
func TestCodeNorms(t *testing.T) {
	b, rng := someBackend(t), rand.New(rand.NewPCG(3, 9))
	const d = 32
	random := func(n int) (rows [][]float32) {
		for i := range n {
			x := make([]float32, d)
			if normal(rng, x, math.Exp(rng.NormFloat64())); i%2 == 0 { // spikes in the coordinates
				for t := range x {
					x[t] = x[0]
				}
			}
			rows = append(rows, x)
		}
		return rows
	}
	// Every sum of a rotation loses half a unit in the last place; all results are equal, so whole codes.
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
		least float64 // of the residuals
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
			f, layout := s.f, s.f.layout()
			var sizes, norms, residuals, fineNorms, fineResiduals, lengths exactly.Ratio
			check := func(x []*big.Float, words []float32, coarse, fine int, step float64, offset uint8, size, norm, residual, fineNorm, fineResidual float64) {
				code := func(at, i int) *big.Float {
					word := math.Float32bits(words[at+i/kernel.WordBytes])
					return exactly.Of(float64(int8(uint8(word>>(8*(i%kernel.WordBytes))) - offset)))
				}
				sizes.See(exactly.Norm(x), size)
				back, fineBack, rest, fineRest := slices.Clone(x), slices.Clone(x), slices.Clone(x), slices.Clone(x)
				for i, v := range x {
					back[i] = exactly.Mul(code(coarse, i), exactly.Of(step))
					fineBack[i] = exactly.Quo(exactly.Mul(code(fine, i), exactly.Of(step)), exactly.Of(kernel.Fine))
					rest[i] = exactly.Sub(v, back[i])
					fineRest[i] = exactly.Sub(rest[i], fineBack[i])
				}
				norms.See(exactly.Norm(back), norm)
				residuals.See(exactly.Norm(rest), residual)
				fineNorms.See(exactly.Norm(fineBack), fineNorm)
				fineResiduals.See(exactly.Norm(fineRest), fineResidual)
			}
			for row := range s.queries {
				q := &s.coded[row]
				lengths.See(exactly.Norm(exactly.All(s.row(row))), s.norms[row])
				check(exactCoordinates(f.coordinates, s.row(row)[:d], false), s.codes[row*layout.stride:], layout.len, 0, q.step, 0,
					q.size, q.norm, q.residual, q.fineNorm, q.fineResidual)
			}
			for position, i := range f.order[:f.n] {
				block := position / f.nr / blockPanels
				q := &f.codeBlocks[block]
				if c.set == nil { // else the blocks are those of other coordinates
					lengths.See(exactly.Norm(exactly.All(f.row(i))), f.blockNorms[block])
				}
				check(exactCoordinates(f.coordinates, f.row(i)[:d], true), f.codes()[position*layout.stride:], 0, layout.fine, q.step, layout.offset,
					q.norm, math.Inf(1), q.residual, q.fineNorm, q.fineResidual)
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

// The error of ψ·μ, a chain of sums, and the one of the last sum of a score of fine codes. The candidate is next to
// the center, so that all else is nothing.
func TestCenterBands(t *testing.T) {
	b := someBackend(t)
	var coarse, fine, int16, last exactly.Ratio
	see := func(psi, phi []float32, center func(c []float64), coarse, fine, int16 *exactly.Ratio) {
		s := codedSlice(t, b, Int8Screen, [][]float32{psi}, [][]float32{phi}, func(c *coordinates) { center(c.center) })
		q, want := &s.coded[0], exactly.Dot(psi, phi)
		sum, fineSum := codeSums(b, s.f.layout(), s.codes[:s.f.layout().stride], s.f.codes()[:s.f.layout().stride])
		score := sums(exactly.Of(q.center), product(q.step, s.f.codeBlocks[0].step, float64(sum)-q.offset))
		coarse.See(exactly.Sub(want, score), s.int8Band(0, 0))
		fine.See(exactly.Sub(want, exactly.Of(s.fineScore(0, 0, float32(sum), fineSum))), s.fineBand(0, 0))
		int16.See(exactly.Sub(want, score), s.int16Band(0, 0))
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
		c[0] += 0x1p-40 // not quite there, for a step of the codes
	}, &coarse, &fine, &int16)
	coarse.Check(t, 0.99)
	fine.Check(t, 0.99)
	int16.Check(t, 0.99)

	// One dimension, with ψφ little more than 1 and μ = φ − 2⁷u, which makes ψμ and what is added to it ties.
	rng := rand.New(rand.NewPCG(4, 9))
	for range 100 {
		psi := float32(129+2*rng.IntN(60)) / 128
		phi := kernel.RoundUp32(1 / float64(psi) * (1 + rng.Float64()*0x1p-8))
		see([]float32{psi}, []float32{phi}, func(c []float64) { c[0] = float64(phi) - 0x1p7*kernel.U64 }, &coarse, &last, &int16)
	}
	last.Check(t, 0.95)
	coarse.Check(t, 0.99)
	int16.Check(t, 0.99)
}

// codeSums returns the int8 screen's sum of coarse codes, before its rounding, and the one of fine codes.
func codeSums(b *kernel.Backend, layout codeLayout, query, candidate []float32) (coarse, fine int32) {
	signed, unsigned := make([]float32, layout.stride), make([]float32, layout.stride)
	copy(signed, query[layout.len:2*layout.len])
	copy(unsigned, candidate[:layout.len])
	out := make([]int32, 1)
	b.PairInt8(out, signed, unsigned, layout.stride, []int32{0})
	coarse = out[0]
	b.PairInt8(out, query, candidate, layout.stride, []int32{0})
	return coarse, out[0]
}

// panelScore is the score of a panel for one query and one candidate.
func panelScore(b *kernel.Backend, c kernel.Comparison, query, candidate []float32) float32 {
	k, mr, one := len(query), b.MR(c), []int32{0}
	strip, panel, terms := make([]float32, mr*k), make([]float32, b.NR*k), make([]int32, k)
	for t := range terms {
		terms[t] = int32(t)
	}
	if c == kernel.Int16 {
		kernel.PackTiles(strip, query, k, one, k)
	} else {
		kernel.PackRows(strip, query, k, one, terms, mr)
	}
	kernel.PackRows(panel, candidate, k, one, terms, b.NR)
	tile := b.NewTile(mr, 0)
	b.Panel(c, tile, strip, panel, k, make([]int32, mr+1), nil, nil, 0, nil)
	return tile.Scores[0]
}

// codeRatios are the largest shares of the bands for scores of codes.
type codeRatios struct{ coarse, fine, int16 exactly.Ratio }

// see sees the errors of the scores of codes with the given steps, for coordinates a and b.
func (r *codeRatios) see(backend *kernel.Backend, a, b []float64, stepA, stepB float64) {
	want := exactly.Dot(a, b)
	for _, compare := range []kernel.Comparison{kernel.Int8, kernel.Int16} {
		s := bandSweeper(backend, model.Tower{Compare: kernel.Dot, Width: len(a)}, compare)
		layout := s.f.layout()
		query, candidate := make([]float32, layout.stride), make([]float32, layout.stride)
		first, second := query[:layout.len], query[layout.fine:][:layout.len]
		if compare == kernel.Int8 {
			first, second = second, first
		}
		x := kernel.CodeInt8(first, second, a, stepA, 0)
		y := kernel.CodeInt8(candidate[:layout.len], candidate[layout.fine:][:layout.len], b, stepB, layout.offset)
		offset := float64(layout.offset)
		s.coded[0] = codedQuery{step: stepA, size: norm64(a), norm: x.Norm, residual: x.Residual, fineNorm: x.FineNorm, fineResidual: x.FineResidual,
			offset: offset * float64(x.Sum), fineOffset: offset * float64(x.Sum+x.FineSum)}
		s.f.codeBlocks[0] = codeBlock{step: stepB, norm: norm64(b), residual: y.Residual, fineNorm: y.FineNorm, fineResidual: y.FineResidual}
		if compare == kernel.Int8 {
			sum, fineSum := codeSums(backend, layout, query, candidate)
			r.coarse.See(exactly.Sub(want, product(stepA, stepB, float64(sum)-s.coded[0].offset)), s.int8Band(0, 0))
			r.fine.See(exactly.Sub(want, exactly.Of(s.fineScore(0, 0, float32(sum), fineSum))), s.fineBand(0, 0))
			continue
		}
		r.int16.See(exactly.Sub(want, product(stepA, stepB, float64(panelScore(backend, compare, query, candidate)))), s.int16Band(0, 0))
	}
}

// Each term of the bands of codes is reached where a and b are such that the others are next to nothing.
func TestCodeBands(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 9))
	constant := func(v float64) func() float64 { return func() float64 { return v } }
	rarely := func(v, less float64) func() float64 { // v, now and then less
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
		coarse, fine, int16 float64 // the least ratios
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
			a[0] = 254 // there is a coarse sum
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
				ratios.see(someBackend(t), a, b, c.stepA, c.stepB)
			}
			ratios.coarse.Check(t, c.coarse)
			ratios.fine.Check(t, c.fine)
			ratios.int16.Check(t, c.int16)
		})
	}
}

// The ends of a truth as sums of codes leave room for the roundings of their own computation, and
// those of the int8 and int16 screens for their bands.
func TestCodeEnds(t *testing.T) {
	b, rng := someBackend(t), rand.New(rand.NewPCG(6, 9))
	var ends, fine exactly.Ratio
	outside := 0
	for i := range 4000 {
		s := bandSweeper(b, model.Tower{Compare: kernel.Dot, Width: 32}, []kernel.Comparison{kernel.Int8, kernel.Int16}[i%2])
		score := drawBands(rng, s)
		size := func() float64 { return math.Ldexp(1+rng.Float64(), -rng.IntN(30)) }
		q, block := &s.coded[0], &s.f.codeBlocks[0]
		*q = codedQuery{step: size(), size: size(), norm: size(), residual: size(), fineNorm: size(), fineResidual: size(),
			offset: float64(128 * (rng.IntN(8000) - 4000)), center: score * float64(rng.IntN(3))}
		*block = codeBlock{step: size(), norm: size(), residual: size(), fineNorm: size(), fineResidual: size()}
		s.f.coordinates.norm = size() * float64(rng.IntN(2))
		units := func(v *big.Float) *big.Float {
			return sums(exactly.Quo(exactly.Sub(v, exactly.Of(q.center)), product(q.step, block.step)), exactly.Of(q.offset))
		}

		lo, hi := s.codeEnds(0, 0, score, score)
		want := units(exactly.Of(score))
		if want.Cmp(exactly.Of(lo)) < 0 || want.Cmp(exactly.Of(hi)) > 0 {
			outside++
		}

		s.low[0], s.high[0] = score, score
		s.setRowEnds(0, 0)
		center := product(32, kernel.U64, s.norms[0], s.f.coordinates.norm)
		fines := sums(product(q.fineNorm, block.fineNorm), product(q.fineResidual, block.norm),
			exactly.Mul(sums(exactly.Of(q.size), exactly.Of(q.fineResidual)), exactly.Of(block.fineResidual)), center)
		rest := sums(exactBand(s, score, 0, 0, s.f.blockNorms[0]), exactSlack(s.slacks[0], s.f.blockSizes[0]))
		band := sums(product(q.residual, block.norm), product(q.norm, block.residual), center)
		if s.f.compare == kernel.Int8 {
			fine.See(sums(fines, product(q.step, block.step, kernel.U32, 127, 255, 32), product(kernel.U64, math.Abs(q.center)), rest), s.fineBands[0])
		} else {
			coarse := exactly.Mul(exactly.Of(q.norm), sums(exactly.Of(block.norm), exactly.Of(block.residual)))
			cross := sums(product(q.norm, block.fineNorm), exactly.Mul(exactly.Of(q.fineNorm), sums(exactly.Of(block.norm), exactly.Of(block.residual))))
			band = sums(fines, exactly.Mul(exactly.Of(2*kernel.U32), coarse), exactly.Mul(exactly.Of(3.1*kernel.U32), cross))
		}
		half := exactly.Quo(sums(band, rest), product(q.step, block.step))
		if !math.IsInf(float64(s.ends[1]), 0) {
			contain(&ends, half, exactly.Sub(want, exactly.Of(float64(s.ends[0]))))
			contain(&ends, half, exactly.Sub(exactly.Of(float64(s.ends[1])), want))
		}
	}
	assert.Zero(t, outside, "scores outside of their own ends")
	ends.Check(t, 1-1e-5)
	fine.Check(t, 1-2.1e-9)
}

// Where a panel overflows on its way, the guard against it tells so.
func TestOverflowGuards(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	for _, b := range backends {
		for _, c := range floatComparisons {
			s := bandSweeper(b, model.Tower{Compare: c, Width: 2}, c)
			overflows := 0
			for at := range 260 { // to infinity
				x := float32(math.Ldexp(1, at/2))
				y := float32(math.Ldexp(1, at-at/2))
				query, candidate := []float32{x, -x}, []float32{y, y} // products cancel
				if c.Distance() {
					query, candidate = []float32{x, 0}, []float32{-x, 0}
				}
				s.norms[0], s.f.blockNorms[0] = norm(query), norm(candidate)
				score := panelScore(b, c, query, candidate)
				if c == kernel.L1 && math.IsInf(float64(score), -1) && !math.IsInf(float64(x), 0) {
					continue // farther than all that is finite, rightly
				}
				if math.IsInf(float64(score), 0) || math.IsNaN(float64(score)) {
					overflows++
					assert.True(t, s.mayOverflow(0, 0), "%s, %s: %v, %v", b.Tier, c, query, candidate)
				}
				if at < 110 {
					assert.False(t, s.mayOverflow(0, 0), "%s, %s: %v, %v", b.Tier, c, query, candidate)
				}
			}
			assert.Positive(t, overflows, "%s, %s", b.Tier, c)
		}
	}
}

// Vectors of norms from 2⁶⁰ on are not compared by their codes.
func TestNormLimits(t *testing.T) {
	b := someBackend(t)
	ordinary := [][]float32{{1, 2, 3}, {3, 2, 1}}
	for _, screen := range []Screen{Int8Screen, Int16Screen} {
		s := codedSlice(t, b, screen, ordinary, ordinary, nil)
		require.True(t, s.f.coded())
		copy(s.row(1), []float32{0x1p60, 0, 0})
		s.norms[1] = norm(s.row(1))
		s.packStrips()
		s.setEnds(0)
		assert.True(t, s.ends[1] < math.MaxFloat32)
		assert.Equal(t, []float32{float32(math.Inf(-1)), float32(math.Inf(1))}, s.ends[2:4], "%s", screen)

		huge := append(slices.Clone(ordinary), []float32{0x1p60, 0, 0})
		assert.Equal(t, Float32Screen, codedSlice(t, b, screen, ordinary, huge, nil).f.screen, "candidates")
		assert.Equal(t, Float32Screen, codedSlice(t, b, screen, huge, ordinary, nil).f.screen, "queries of the sample")
	}
}
