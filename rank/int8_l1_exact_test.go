package rank

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/exactly"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/kerneltest"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/ranktest"
)

// oneL1Query is like oneQuery but adds the screen of codes for L1 distances, with a group of one
// candidate.
func oneL1Query(b *kernel.Backend, center []float64, coarse, fine grid) (testBlock, *int8L1Screen) {
	width := len(center)
	s := oneQuery(b, model.Tower{Compare: kernel.L1, Psi: width, Phi: width})
	x := &int8L1Screen{
		centering: centering{ascending(width), center}, f: s.f, backend: b, kernels: b.Int8L1Panels(),
		layout: int8L1Layout(s.f.Tower), coarse: coarse, fine: fine, groups: make([]l1Residuals, 1),
	}
	s.f.use(x)
	s.queries.l1 = make([]codedL1, 1)
	return s, x
}

// exactL1 returns the exact distance of two vectors.
func exactL1(x, y []float32) *big.Float {
	sum := exactly.Of(0)
	for t := range x {
		d := exactly.Sum(float64(x[t]), -float64(y[t]))
		sum.Add(sum, d.Abs(d))
	}
	return sum
}

// distanceOf returns the exact distance of two rows of codes.
func distanceOf[C uint8 | uint16](x, y []C) (sum float64) {
	for t := range x {
		sum += math.Abs(float64(x[t]) - float64(y[t]))
	}
	return sum
}

// seeL1 compares the errors of the distances of coarse and of fine codes with their bands.
func seeL1(x *int8L1Screen, psi, phi []float32, coarse, fine *exactly.Ratio) {
	v, width := x.buffer(), len(psi)
	query, candidate := make([]uint32, x.layout.terms), make([]uint32, x.layout.terms)
	fineQuery, fineCandidate := make([]uint32, x.layout.stride), make([]uint32, x.layout.stride)
	norm := x.centered(v, psi)
	q := codedL1{
		queryCode(x.encodeCoarse(query, v), norm, width), queryCode(x.encodeFine(fineQuery, v), norm, width),
	}
	norm = x.centered(v, phi)
	c := l1Residuals{
		candidateResidual(x.encodeCoarse(candidate, v), norm), candidateResidual(x.encodeFine(fineCandidate, v), norm),
	}
	want := exactL1(psi, phi)
	see := func(r *exactly.Ratio, g grid, q *l1Code, residual, sum float64) {
		got := exactly.Add(exactly.Of(q.excess), product(g.step, sum))
		r.See(exactly.Sub(want, got), q.band(residual))
	}
	see(coarse, x.coarse, &q.coarse, c.coarse, distanceOf(kernel.Codes(query), kernel.Codes(candidate)))
	see(fine, x.fine, &q.fine, c.fine, distanceOf(kernel.Int16Codes(fineQuery), kernel.Int16Codes(fineCandidate)))
}

// TestL1CodeBands checks the bands of codes for L1 distances. In each case, one term of a band
// dominates.
func TestL1CodeBands(t *testing.T) {
	const n = 512
	b := kerneltest.Best(t)
	constant := func(v float64) func(int) float64 { return func(int) float64 { return v } }
	for _, c := range []struct {
		name             string
		psi, phi, center func(t int) float64
		coarse, fine     grid
		least, leastFine float64
	}{
		{"residuals of queries", constant(100.25), constant(3), constant(0), coarseGrid(1), fineGrid(1), 0.999, 0.999},
		{
			"residuals of candidates", constant(3), constant(100.25), constant(0), coarseGrid(1), fineGrid(1),
			0.999, 0.999,
		},
		{
			"candidates beyond the grid", constant(3), constant(200), constant(0), coarseGrid(1), fineGrid(1.0 / 256),
			0.999, 0.999,
		},
		{
			"queries beyond the grid", constant(200), constant(3.25), constant(0), coarseGrid(1), fineGrid(1.0 / 256),
			0.999, 0,
		},
		{
			// A candidate loses half a unit in the last place in the difference from the center.
			"differences from the center", constant(0x1p-54), constant(1), constant(0x1p-54), coarseGrid(1),
			fineGrid(1), 0.124, 0.124,
		},
		{
			// The first entry of the query is 1 beyond the grid. The others add 2⁻⁵³, which the sum
			// loses.
			"excess of queries", func(t int) float64 {
				if t == 0 {
					return 1
				}
				return 255 * 0x1p-60
			}, constant(0), constant(0), coarseGrid(0x1p-60), fineGrid(127 * 0x1p-60 / 16383), 0.98, 0,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			psi, phi, center := make([]float32, n), make([]float32, n), make([]float64, n)
			for i := range psi {
				psi[i], phi[i], center[i] = float32(c.psi(i)), float32(c.phi(i)), c.center(i)
			}
			_, x := oneL1Query(b, center, c.coarse, c.fine)
			var coarse, fine exactly.Ratio
			seeL1(x, psi, phi, &coarse, &fine)
			coarse.Check(t, c.least)
			fine.Check(t, c.leastFine)
		})
	}
}

// TestL1CodesOfRandomVectors checks the bands for vectors of all sizes and centers, inside the grids
// and beyond them.
func TestL1CodesOfRandomVectors(t *testing.T) {
	b, rng := kerneltest.Best(t), rand.New(rand.NewPCG(7, 19))
	var coarse, fine exactly.Ratio
	for range 300 {
		n := 1 + rng.IntN(40)
		psi, phi, center := make([]float32, n), make([]float32, n), make([]float64, n)
		ranktest.Normal(rng, psi, math.Exp(2*rng.NormFloat64()))
		ranktest.Normal(rng, phi, math.Exp(2*rng.NormFloat64()))
		for i := range center {
			center[i] = rng.NormFloat64() * float64(rng.IntN(2))
		}
		step := math.Exp(2*rng.NormFloat64()) / 100
		_, x := oneL1Query(b, center, coarseGrid(step), fineGrid(step*rng.Float64()/20))
		seeL1(x, psi, phi, &coarse, &fine)
	}
	coarse.Check(t, 0.5)
	fine.Check(t, 0.5)
}

// TestL1CodeEnds checks that the thresholds of a target, in units of codes, cover all terms of the
// bands and the roundings of the change of units. It also checks the band and the interval of fine
// codes.
func TestL1CodeEnds(t *testing.T) {
	const width = 128
	b, rng := kerneltest.Best(t), rand.New(rand.NewPCG(8, 19))
	size := func() float64 { return math.Ldexp(1+rng.Float64(), -rng.IntN(30)) }
	var ends, fine, intervals exactly.Ratio
	for range 3000 {
		s, x := oneL1Query(b, make([]float64, width), coarseGrid(size()), fineGrid(size()))
		score := -math.Abs(drawBands(rng, s))
		q, g := &s.queries.l1[0], &x.groups[0]
		*q = codedL1{l1Code{size(), -score * float64(rng.IntN(3)) / 2, size()}, l1Code{size(), size(), size()}}
		*g = l1Residuals{size(), size()}

		s.Low[0], s.High[0] = score, score
		s.thresholds.setRow(s.f, s.Block, &s.queries, 0, 0)
		slack := exactSlack(s.Slacks[0], s.f.groupSizes[0])
		band := exactly.Add(exactly.Sum(q.coarse.residual, g.coarse, q.coarse.error), slack)
		fineBand := exactly.Add(exactly.Sum(q.fine.residual, g.fine, q.fine.error), slack)
		fine.See(fineBand, s.thresholds.fineBands[0])
		step := exactly.Of(x.coarse.step)
		at, half := exactly.Quo(exactly.Sum(score, q.coarse.excess), step), exactly.Quo(band, step)
		if !math.IsInf(float64(s.thresholds.ends[1]), 0) {
			for _, room := range []*big.Float{
				exactly.Sub(at, exactly.Of(float64(s.thresholds.ends[0]))),
				exactly.Sub(exactly.Of(float64(s.thresholds.ends[1])), at),
			} {
				require.Positive(t, room.Sign())
				ends.See(exactly.Quo(half, room), 1)
			}
		}

		// Candidate and query are equal except for the first code.
		s.queries.l1Rows, x.rows = make([]uint32, x.layout.stride), make([]uint32, x.layout.stride)
		s.f.RowAt = []int32{0}
		s.queries.fineSums = make([]int32, 1)
		distance := rng.IntN(1 << 15)
		kernel.Int16Codes(x.rows)[0] = uint16(distance)
		open := []duplicates{{lanes: 1}}
		x.refine(&s.queries, 0, 0, nil, 0, open)
		exact := exactly.Sub(exactly.Of(-q.fine.excess), product(x.fine.step, float64(distance)))
		for _, room := range []*big.Float{
			exactly.Sub(exact, exactly.Of(open[0].low)), exactly.Sub(exactly.Of(open[0].high), exact),
		} {
			require.Positive(t, room.Sign())
		}
		middle := exactly.Sub(exact, exactly.Mul(exactly.Sum(open[0].low, open[0].high), exactly.Of(0.5)))
		intervals.See(middle, (open[0].high-open[0].low)/2)
	}
	ends.Check(t, 1-1e-5)
	fine.Check(t, 1-2.1e-9)
	intervals.Check(t, 0.1)
}

// TestL1Groups checks that the residuals of a panel group bound the residuals of its candidates, and
// that the panels and rows hold the codes of the candidates in their places.
func TestL1Groups(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(9, 19))
	g := ranktest.Graph(rng, 1600, 1, 0, 0, 20)
	m := ranktest.Model(t, "transe-l1", 20, g, 1, ranktest.VectorKinds[0])
	ranks, err := newRanks(m, g.Splits[kg.Test], []kg.Side{kg.Tail, kg.Head}, 1)
	require.NoError(t, err)
	for _, b := range backends {
		e := loadAll(t, m, b, Int8Screen, ranks, 1600)
		f := e.features
		x := f.screen.(*int8L1Screen)
		v, coarse, fine := x.buffer(), make([]uint32, x.layout.terms), make([]uint32, x.layout.stride)
		for at, i := range f.RowAt[:f.N] {
			norm, group := x.centered(v, f.Row(i)), &x.groups[at/f.nr/groupPanels]
			require.LessOrEqual(t, candidateResidual(x.encodeCoarse(coarse, v), norm), group.coarse)
			require.LessOrEqual(t, candidateResidual(x.encodeFine(fine, v), norm), group.fine)
		}
		s := begin(t, e, 0, len(e.job.Queries))
		x.packQueries(&s.queries, &s.Vectors, len(s.Queries))
		s.thresholds.set(f, s.Block, &s.queries, 0)
		call := s.call(s.Block)
		for p := range f.panelCount() {
			s.score(s.Block, &call, p)
			for row := range s.Queries {
				for lane := (row + p) % 11; lane < min(f.nr, f.N-p*f.nr); lane += 11 { // math/big is slow
					phi := f.Row(f.RowAt[p*f.nr+lane])[:20]
					want := exactly.Mul(exactL1(s.Row(row)[:20], phi), exactly.Of(-1))
					c, group := &s.queries.l1[row], &x.groups[p/groupPanels]
					scaled := product(x.coarse.step, float64(s.panel.Scores[row*f.nr+lane]))
					diff := exactly.Sub(want, exactly.Sub(scaled, exactly.Of(c.coarse.excess)))
					require.LessOrEqual(t, diff.Abs(diff).Cmp(exactly.Of(c.coarse.band(group.coarse))), 0, b.Tier)
					open := []duplicates{{lanes: 1 << lane}}
					x.refine(&s.queries, row, p, nil, c.fine.band(group.fine), open)
					low, high := exactly.Of(open[0].low), exactly.Of(open[0].high)
					require.True(t, low.Cmp(want) <= 0 && want.Cmp(high) <= 0, b.Tier)
				}
			}
		}
	}
}

// TestL1Grids checks codes at the ends of a grid, of equal candidates, and of vectors that codes do
// not compare.
func TestL1Grids(t *testing.T) {
	g := coarseGrid(0.5)
	codes := make([]uint8, 6)
	r := encode(&g, codes, []float64{63.5, -63.5, 64, -65, 0.125, 0})
	assert.Equal(t, []uint8{255, 1, 255, 1, 128, 128}, codes)
	assert.Equal(t, gridCode{residual: 0.125, beyond: 2}, r)
	assert.Equal(t, 1.0, coarseGrid(0).step)
	assert.Equal(t, 1.0, coarseGrid(math.NaN()).step)

	b := kerneltest.Best(t)
	g1 := ranktest.Graph(rand.New(rand.NewPCG(10, 19)), 30, 1, 0, 0, 4)
	equal := ranktest.Kind{Fill: func(_ *rand.Rand, _ model.Config, ts [][]float32) {
		for i := range ts[0] {
			ts[0][i] = 0.25
		}
	}}
	m := ranktest.Model(t, "transe-l1", 3, g1, 1, equal)
	ranks, err := newRanks(m, g1.Splits[kg.Test], []kg.Side{kg.Tail, kg.Head}, 1)
	require.NoError(t, err)
	e := loadAll(t, m, b, Int8Screen, ranks, 30)
	x := e.features.screen.(*int8L1Screen)
	s := begin(t, e, 0, len(e.job.Queries))
	s.Norms[1] = 0x1p60
	x.packQueries(&s.queries, &s.Vectors, len(s.Queries))
	s.thresholds.set(e.features, s.Block, &s.queries, 0)
	assert.True(t, s.thresholds.ends[1] < math.MaxFloat32)
	at := 2 * s.TargetStart[1]
	assert.Equal(t, []float32{float32(math.Inf(-1)), float32(math.Inf(1))}, s.thresholds.ends[at:at+2])
}
