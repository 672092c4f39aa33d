//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/kerneltest"
)

// rig is a device with all kernels and one stream.
type rig struct {
	t       testing.TB
	d       *Device
	s       *Stream
	e       *Event
	screens *Screens
	stages  *Stages
}

func newRig(t testing.TB, d *Device) *rig {
	r := &rig{t: t, d: d}
	var err error
	r.s, err = d.NewStream()
	require.NoError(t, err)
	r.e, err = d.NewEvent()
	require.NoError(t, err)
	r.screens, err = NewScreens(d)
	require.NoError(t, err)
	r.stages, err = NewStages(d)
	require.NoError(t, err)
	return r
}

// up copies values to new device memory, and down copies them back.
func up[T any](r *rig, v []T) *Memory {
	n := int64(unsafe.Sizeof(v[0])) * int64(len(v))
	m, err := r.d.Alloc(n)
	require.NoError(r.t, err)
	p, err := r.d.Pin(n)
	require.NoError(r.t, err)
	copy(View[T](p, 0, len(v)), v)
	require.NoError(r.t, r.s.CopyTo(m, 0, p, 0, n))
	r.wait()
	require.NoError(r.t, p.Free())
	r.t.Cleanup(func() { _ = m.Free() })
	return m
}

func down[T any](r *rig, m *Memory, n int) []T {
	v := make([]T, n)
	bytes := int64(unsafe.Sizeof(v[0])) * int64(n)
	p, err := r.d.Pin(bytes)
	require.NoError(r.t, err)
	require.NoError(r.t, r.s.CopyFrom(p, 0, m, 0, bytes))
	r.wait()
	copy(v, View[T](p, 0, n))
	require.NoError(r.t, p.Free())
	return v
}

func (r *rig) wait() {
	r.s.Record(r.e)
	require.NoError(r.t, r.e.Wait(context.Background()))
}

func up32(x float64) float32 { return kernel.RoundUp32(x) }

// problem is a set of queries, candidates and targets.
type problem struct {
	queries, candidates, width, k int
	psi, phi                      []float32 // rows of k entries
	first                         []int32
	ends                          []float64 // lo, hi of each target
}

func newProblem(rng *rand.Rand, queries, candidates, width int, entry func(row, t int) float32,
	targets func(q int) int) *problem {
	p := &problem{queries: queries, candidates: candidates, width: width, k: max(64, (width+31)/32*32)}
	fill := func(n int) []float32 {
		x := make([]float32, n*p.k)
		for i := range n {
			for t := range width {
				x[i*p.k+t] = entry(i, t)
			}
		}
		return x
	}
	p.psi, p.phi = fill(queries), fill(candidates)
	for q := range queries {
		p.first = append(p.first, int32(len(p.ends)/2))
		for range targets(q) {
			// The target's interval is narrow and contains the score of some candidate.
			s := p.score(kernel.Dot, q, rng.IntN(candidates))
			w := math.Abs(s) * 1e-7
			p.ends = append(p.ends, s-w, s+w)
		}
	}
	p.first = append(p.first, int32(len(p.ends)/2))
	return p
}

// score returns the score of query q and candidate e in float64. Zeros beyond the width add
// nothing.
func (p *problem) score(c kernel.Comparison, q, e int) float64 {
	return kerneltest.PlainScore(c, p.psi[q*p.k:][:p.k], p.phi[e*p.k:][:p.k])
}

func norms(x []float32, k int) []float64 {
	out := make([]float64, len(x)/k)
	for i := range out {
		out[i] = kerneltest.PlainNorm(x[i*k:][:k])
	}
	return out
}

// padded returns x as n rows of k entries, padded with zeros.
func padded[T any](x []T, k, n int) []T {
	out := make([]T, n*k)
	copy(out, x)
	return out
}

func roundUpTo(n, m int) int { return (n + m - 1) / m * m }

// prepared is a problem in the form of the operands of a screen.
type prepared struct {
	screen  Screen
	better  *Memory
	list    *Memory
	listed  *Memory
	targets int
}

func (r *rig) prepare(p *problem, rows []Row, blocks []CandidateBlock, psi, phi, scales *Memory, capacity int,
	limit float32) *prepared {
	queries := roundUpTo(p.queries, QueryTile)
	first := append([]int32{}, p.first...)
	for len(first) < queries+1 {
		first = append(first, p.first[p.queries])
	}
	targets := len(p.ends) / 2
	ends := make([]float32, 2*targets+2)
	for t := range targets {
		ends[2*t], ends[2*t+1] = kernel.RoundDown32(p.ends[2*t]), up32(p.ends[2*t+1])
	}
	for q := range p.queries {
		rows[q].Low = float32(math.Inf(1))
		for t := p.first[q]; t < p.first[q+1]; t++ {
			rows[q].Low = min(rows[q].Low, ends[2*t])
		}
	}
	out := &prepared{targets: targets, better: up(r, make([]int32, targets+1)), list: up(r, make([]Pair, capacity+1)),
		listed: up(r, make([]uint32, 1))}
	out.screen = Screen{
		Psi: psi.At(0), Phi: phi.At(0), Rows: up(r, padded(rows, 1, queries)).At(0),
		Blocks: up(r, padded(blocks, 1, len(blocks)+2)).At(0),
		Scales: scales.At(0), TargetStart: up(r, first).At(0), Ends: up(r, ends).At(0), Better: out.better.At(0),
		List:   out.list.At(0),
		Listed: out.listed.At(0), Capacity: uint32(capacity), K: int32(p.k), Candidates: int32(p.candidates),
		Limit: limit,
	}
	return out
}

// half prepares a problem for the tensor cores.
func (r *rig) half(p *problem, variant int, centre bool, capacity int) *prepared {
	queries, candidates := roundUpTo(p.queries, QueryTile), roundUpTo(p.candidates, CandidateTile)
	factor, inverse, mean := make([]float32, p.k), make([]float32, p.k), make([]float32, p.k)
	for t := range factor {
		factor[t], inverse[t] = float32(math.Ldexp(1, t%3-1)), float32(math.Ldexp(1, 1-t%3))
	}
	quantise := func(x []float32, n, padding int, centre, factor *Memory) (out, scales *Memory, sizes []float64) {
		out, scales = up(r, make([]uint16, padding*p.k)), up(r, make([]float32, padding))
		s := up(r, make([]float64, 3*n))
		r.stages.Quantise(r.s, Quantise{Rows: up(r, x).At(0), Centre: centre.At(0),
			Factor: factor.At(0), Out: out.At(0), Scales: scales.At(0),
			Sizes: s.At(0), N: int32(n), Width: int32(p.width), Stride: int32(p.k), K: int32(p.k)})
		return out, scales, down[float64](r, s, 3*n)
	}
	var centred *Memory
	if centre {
		for t := range mean {
			mean[t] = p.phi[t] // any vector works
		}
		centred = up(r, mean)
	}
	psi, psiScales, psiSizes := quantise(p.psi, p.queries, queries, nil, up(r, inverse))
	phi, phiScales, phiSizes := quantise(p.phi, p.candidates, candidates, centred, up(r, factor))
	scales := down[float32](r, psiScales, queries)
	relative, absolute := HalfError(p.k)
	rows := make([]Row, p.queries)
	shifted := *p
	shifted.ends = append([]float64{}, p.ends...)
	for q := range rows {
		shift, size := 0.0, 0.0
		for t := range p.k {
			shift += float64(p.psi[q*p.k+t]) * float64(mean[t])
			size += math.Abs(float64(p.psi[q*p.k+t]) * float64(mean[t]))
		}
		for t := 2 * p.first[q]; t < 2*p.first[q+1]; t++ {
			shifted.ends[t] -= shift
		}
		s := psiSizes[3*q:]
		// |ψ·φ − ψ̃·φ̃| ≤ ‖ψ − ψ̃‖‖φ‖ + ‖ψ̃‖‖φ − φ̃‖
		rows[q] = Row{A: [4]float32{up32(s[1]), up32(s[2]), up32(relative * s[2])}, Norm: up32(s[0]), Scale: scales[q]}
		rows[q].S[0] = up32(absolute + size*1e-12)
	}
	blocks := make([]CandidateBlock, candidates/BlockCandidates)
	for e := range p.candidates {
		b, s := &blocks[e/BlockCandidates], phiSizes[3*e:]
		for i, v := range [3]float64{s[0], s[1], s[2]} {
			b.B[i] = max(b.B[i], up32(v))
		}
		b.Norm = b.B[0]
	}
	return r.prepare(&shifted, rows, blocks, psi, phi, phiScales, capacity, 0x1p124)
}

// single prepares a problem for the float32 screens.
func (r *rig) single(p *problem, c kernel.Comparison, capacity int) *prepared {
	relative, absolute := SingleError(c, p.k)
	shaped := *p
	shaped.ends = append([]float64{}, p.ends...)
	psiNorms, phiNorms := norms(p.psi, p.k), norms(p.phi, p.k)
	rows := make([]Row, p.queries)
	for q := range rows {
		rows[q] = Row{Norm: up32(psiNorms[q])}
		if c.Distance() {
			for t := p.first[q]; t < p.first[q+1]; t++ {
				shaped.ends[2*t] = p.ends[2*t]*(1+relative) - absolute
				shaped.ends[2*t+1] = p.ends[2*t+1]*(1-relative) + absolute
			}
			continue
		}
		rows[q].A[0], rows[q].S[0] = up32(relative*psiNorms[q]), up32(absolute)
	}
	blocks := make([]CandidateBlock, (p.candidates+BlockCandidates-1)/BlockCandidates)
	for e, n := range phiNorms {
		b := &blocks[e/BlockCandidates]
		b.B[0], b.Norm = max(b.B[0], up32(n)), max(b.Norm, up32(n))
	}
	limit := float32(0x1p124)
	if c == kernel.GroupNorm {
		limit = 0x1p60
	}
	psi := up(r, padded(p.psi, p.k, roundUpTo(p.queries, QueryTile)))
	phi := up(r, padded(p.phi, p.k, roundUpTo(p.candidates, BlockCandidates)))
	return r.prepare(&shaped, rows, blocks, psi, phi, nil, capacity, limit)
}

// verify compares the counts and the list with scores in float64. Every pair that is not listed
// must be certain and counted correctly.
func (r *rig) verify(p *problem, c kernel.Comparison, run *prepared, mostOpen float64, what string) {
	listed := down[uint32](r, run.listed, 1)[0]
	if !assert.LessOrEqual(r.t, listed, run.screen.Capacity, "%s: the list is too short for the test", what) {
		return
	}
	better := down[int32](r, run.better, run.targets+1)
	open := map[Pair]bool{}
	if listed > 0 {
		for _, pair := range down[Pair](r, run.list, int(listed)) {
			assert.False(r.t, open[pair], "%s: %v is listed twice", what, pair)
			assert.Less(r.t, int(pair.Other), p.candidates, what)
			open[pair] = true
		}
	}
	pairs := 0
	for q := range p.queries {
		scores := make([]float64, p.candidates)
		for e := range scores {
			scores[e] = p.score(c, q, e)
		}
		for t := p.first[q]; t < p.first[q+1]; t++ {
			want := int32(0)
			for e := range p.candidates {
				pairs++
				if open[Pair{uint32(t), uint32(e)}] {
					continue
				}
				s := scores[e]
				if s > p.ends[2*t+1] {
					want++
				} else if !(s < p.ends[2*t]) {
					assert.Fail(r.t, "a pair that is not certain was not listed",
						"%s: query %d, candidate %d, target %d", what, q, e, t)
					return
				}
			}
			if !assert.Equal(r.t, want, better[t], "%s: target %d of query %d", what, t, q) {
				return
			}
		}
	}
	assert.Zero(r.t, better[run.targets], "%s: counted beyond the last target", what)
	assert.LessOrEqual(r.t, float64(listed), mostOpen*float64(pairs), "%s: undecided of %d", what, pairs)
}

func normals(rng *rand.Rand) func(int, int) float32 {
	return func(int, int) float32 { return float32(rng.NormFloat64()) }
}

// someTargets returns how many targets query q has: one, several, none, or more than fit in shared
// memory.
func someTargets(q int) int {
	switch {
	case q == 3:
		return 0
	case q == 5:
		return 600
	case q > 64:
		return 1
	case q%7 == 0:
		return 4
	}
	return 1
}

// shapes lists the sizes of the tests' problems. With the last sizes, each thread block processes
// several tiles on the stand-in's only multiprocessor.
var shapes = []struct{ queries, candidates, width int }{{1, 1, 1}, {9, 130, 70}, {20, 300, 300}, {500, 800, 64}}

func TestScreens(t *testing.T) {
	_, d := openStandin(t)
	conformScreens(newRig(t, d))
}

func conformScreens(r *rig) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, s := range shapes {
		p := newProblem(rng, s.queries, s.candidates, s.width, normals(rng), someTargets)
		pairs := len(p.ends) / 2 * p.candidates
		for variant := range halfVariants {
			for _, centre := range []bool{false, true} {
				run := r.half(p, variant, centre, pairs)
				require.NoError(r.t, r.screens.Half(r.s, variant, run.screen, p.queries))
				r.verify(p, kernel.Dot, run, 0.05+1/float64(p.candidates),
					fmt.Sprintf("half variant %d, centred %v, %v", variant, centre, s))
			}
		}
		for _, c := range supported() {
			for q := range p.queries {
				for t := p.first[q]; t < p.first[q+1]; t++ {
					x := p.score(c, q, rng.IntN(p.candidates))
					p.ends[2*t], p.ends[2*t+1] = x-1e-7*math.Abs(x), x+1e-7*math.Abs(x)
				}
			}
			run := r.single(p, c, pairs)
			require.NoError(r.t, r.screens.Single(r.s, c, run.screen, p.queries))
			r.verify(p, c, run, 0.001+1/float64(p.candidates), fmt.Sprintf("float32 %s, %v", c, s))
		}
	}
}

// TestScreensOfHardOperands uses operands for which tensor cores lose the most bits: terms of one
// sign, a large accumulator and small products, sums that cancel, rows with a wide range, and rows
// beyond the range of fp16 and of float32.
func TestScreensOfHardOperands(t *testing.T) {
	_, d := openStandin(t)
	conformHard(newRig(t, d), 288)
}

// conformHard checks the screens with hard operands of the given width.
func conformHard(r *rig, width int) {
	rng := rand.New(rand.NewPCG(3, 4))
	one := func(int) int { return 1 }
	for _, kind := range []struct {
		name  string
		entry func(row, t int) float32
	}{
		{"one sign", func(int, int) float32 { return float32(1 + 1e-4*rng.Float64()) }},
		// These operands are exact in fp16 and their scores are a few units in the last place
		// apart, so the errors of the sum matter.
		{"exact in fp16", func(row, t int) float32 {
			v := 1 + float32(t*389%1024)/1024
			if t == row%width {
				v += 1.0 / 1024
			}
			return v
		}},
		{"large, then small", func(_, t int) float32 { return float32(math.Ldexp(1+rng.Float64(), -t/8)) }},
		{"small, then large", func(_, t int) float32 { return float32(math.Ldexp(1+rng.Float64(), (t-width-32)/16)) }},
		{"cancelling", func(_, t int) float32 { return float32((1 + 1e-3*rng.NormFloat64()) * float64(1-t%2*2)) }},
		{"subnormal in fp16", func(_, t int) float32 { return float32(math.Ldexp(rng.NormFloat64(), -t%32)) }},
		{"zeros", func(int, int) float32 { return 0 }},
		{"many sizes", func(row, _ int) float32 { return float32(math.Ldexp(rng.NormFloat64(), row%80-40)) }},
		{"huge and tiny rows", func(row, _ int) float32 {
			return float32(math.Ldexp(rng.NormFloat64(), []int{0, 60, 100, 126, -60, -126, -140}[row%7]))
		}},
	} {
		p := newProblem(rng, 20, 130, width, kind.entry, one)
		pairs := len(p.ends) / 2 * p.candidates
		for variant := range halfVariants {
			run := r.half(p, variant, false, pairs)
			require.NoError(r.t, r.screens.Half(r.s, variant, run.screen, p.queries))
			r.verify(p, kernel.Dot, run, 1, fmt.Sprintf("half variant %d, %s, width %d", variant, kind.name, width))
		}
		for _, c := range supported() {
			for q := range p.queries {
				x := p.score(c, q, rng.IntN(p.candidates))
				p.ends[2*q], p.ends[2*q+1] = x, x
			}
			run := r.single(p, c, pairs)
			require.NoError(r.t, r.screens.Single(r.s, c, run.screen, p.queries))
			r.verify(p, c, run, 1, fmt.Sprintf("float32 %s, %s, width %d", c, kind.name, width))
		}
	}
}

// TestListOverflow checks that Listed counts all pairs even if the list is too short, and that no
// pair is written beyond the end of the list.
func TestListOverflow(t *testing.T) {
	_, d := openStandin(t)
	r := newRig(t, d)
	rng := rand.New(rand.NewPCG(5, 6))
	p := newProblem(rng, 10, 200, 64, func(int, int) float32 { return 1 }, func(int) int { return 2 })
	run := r.half(p, Half128, false, 100)
	require.NoError(t, r.screens.Half(r.s, Half128, run.screen, p.queries))
	assert.EqualValues(t, 20*200, down[uint32](r, run.listed, 1)[0])
	assert.Zero(t, down[Pair](r, run.list, 101)[100])
}

// supported returns the comparisons that devices have kernels for.
func supported() (list []kernel.Comparison) {
	for _, c := range kernel.Comparisons() {
		if Supports(c) {
			list = append(list, c)
		}
	}
	return list
}
