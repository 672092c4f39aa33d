package rank

import (
	"fmt"
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
	"github.com/mquine/mquine/kg/kgtest"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/ranktest"
)

// oneNormQuery is like oneQuery but adds the screen of codes for group norms, with a group of one
// candidate.
func oneNormQuery(b *kernel.Backend, group int, center []float64, step float64) (testBlock, *int16NormScreen) {
	width := len(center)
	s := oneQuery(b, model.Tower{Compare: kernel.GroupNormOf(group), Psi: width, Phi: width})
	x := &int16NormScreen{
		centering: centering{ascending(width), center}, grid: newNormGrid(group, step),
		residualCodes: residualCodes{
			f: s.f, kernels: b.Int16NormPanels(group), layout: int16NormLayout(s.f.Tower), groups: make([]float64, 1),
		},
	}
	s.f.use(x)
	s.queries.residuals = make([]float64, 1)
	return s, x
}

// exactNorms returns the exact sum of the norms of the groups of n differences, to the precision of
// math/big.
func exactNorms(n, group int, difference func(t int) *big.Float) *big.Float {
	sum := exactly.Of(0)
	for at := 0; at < n; at += group {
		squares := exactly.Of(0)
		for t := at; t < at+group; t++ {
			d := difference(t)
			squares.Add(squares, exactly.Mul(d, d))
		}
		if squares.Sign() > 0 {
			sum.Add(sum, squares.Sqrt(squares))
		}
	}
	return sum
}

// exactNormDistance returns the exact distance of two vectors.
func exactNormDistance(x, y []float32, group int) *big.Float {
	return exactNorms(len(x), group, func(t int) *big.Float { return exactly.Sum(float64(x[t]), -float64(y[t])) })
}

// distanceOfNormCodes returns the exact distance of the codes of two vectors of n coordinates.
func distanceOfNormCodes(x, y []uint32, n, group int) *big.Float {
	perGroup := kernel.WordCodes * kernel.Int16NormWords(group)
	a, b := kernel.Int16Codes(x), kernel.Int16Codes(y)
	return exactNorms(n, group, func(t int) *big.Float {
		i := t/group*perGroup + t%group
		return exactly.Of(float64(int16(a[i])) - float64(int16(b[i])))
	})
}

// seeNorm compares the error of the distance of codes with the residuals, and checks that the kernels
// may compare the codes.
func seeNorm(t *testing.T, x *int16NormScreen, psi, phi []float32, r *exactly.Ratio) {
	v, group := x.buffer(), x.grid.group
	query, candidate := make([]uint32, x.layout.terms), make([]uint32, x.layout.terms)
	band := x.band(x.encode(query, v, psi) + x.encode(candidate, v, phi))
	got := exactly.Mul(exactly.Of(x.grid.step), distanceOfNormCodes(query, candidate, len(psi), group))
	r.See(exactly.Sub(exactNormDistance(psi, phi, group), got), band)
	for _, words := range [][]uint32{query, candidate} {
		codes := kernel.Int16Codes(words)
		for perGroup := kernel.WordCodes * kernel.Int16NormWords(group); len(codes) > 0; codes = codes[perGroup:] {
			squares := 0.0
			for _, c := range codes[:perGroup] {
				require.LessOrEqual(t, math.Abs(float64(int16(c))), float64(kernel.MostInt16Norm))
				squares += float64(int16(c)) * float64(int16(c))
			}
			require.LessOrEqual(t, math.Sqrt(squares), float64(kernel.MaxInt16Norm))
		}
	}
}

// TestNormCodeBands checks the bands of codes for group norms. In each case, one term of a band
// dominates.
func TestNormCodeBands(t *testing.T) {
	const n = 480
	b := kerneltest.Best(t)
	first := func(group int, v float64) func(int) float64 { // the first entry of each group
		return func(t int) float64 {
			if t%group == 0 {
				return v
			}
			return 0
		}
	}
	all := func(v float64) func(int) float64 { return func(int) float64 { return v } }
	for _, c := range []struct {
		name             string
		group            int
		psi, phi, center func(t int) float64
		least            float64
	}{
		{"residuals of queries", 2, first(2, 100.25), all(0), all(0), 0.999},
		{"residuals of candidates", 2, all(0), first(2, 100.25), all(0), 0.999},
		{"residuals of several entries", 4, all(100.25), all(0), all(0), 0.999},
		{"residuals of odd groups", 3, all(100.25), all(0), all(0), 0.999},
		{"candidates outside the box", 2, all(0), first(2, 20000), all(0), 0.999},
		{"queries outside the box", 2, first(2, -20000), all(0), all(0), 0.999},
		{"candidates outside the ball", 4, all(0), all(15000), all(0), 0.999},
		{"queries outside the ball", 5, all(-16000), all(0), all(0), 0.999},
		{
			// A candidate loses half a unit in the last place in the difference from the center.
			"differences from the center", 2, first(2, 0x1p-54), first(2, 1), first(2, 0x1p-54), 0.124,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			psi, phi, center := make([]float32, n), make([]float32, n), make([]float64, n)
			for i := range psi {
				psi[i], phi[i], center[i] = float32(c.psi(i)), float32(c.phi(i)), c.center(i)
			}
			_, x := oneNormQuery(b, c.group, center, 1)
			var r exactly.Ratio
			seeNorm(t, x, psi, phi, &r)
			r.Check(t, c.least)
		})
	}
}

// TestNormCodesOfRandomVectors checks the bands for vectors of all sizes and centers, inside the grid
// and outside it.
func TestNormCodesOfRandomVectors(t *testing.T) {
	b, rng := kerneltest.Best(t), rand.New(rand.NewPCG(7, 20))
	var r exactly.Ratio
	for range 400 {
		group := 2 + rng.IntN(6)
		n := group * (1 + rng.IntN(20))
		psi, phi, center := make([]float32, n), make([]float32, n), make([]float64, n)
		ranktest.Normal(rng, psi, math.Exp(2*rng.NormFloat64()))
		ranktest.Normal(rng, phi, math.Exp(2*rng.NormFloat64()))
		for i := range center {
			center[i] = rng.NormFloat64() * float64(rng.IntN(2))
		}
		_, x := oneNormQuery(b, group, center, math.Exp(4*rng.NormFloat64())/4000)
		seeNorm(t, x, psi, phi, &r)
	}
	r.Check(t, 0.5)
	assert.Equal(t, 1.0, newNormGrid(2, 0).step)
	assert.Equal(t, 1.0, newNormGrid(2, math.NaN()).step)
}

// TestNormCodeEnds checks that the thresholds of a target, in units of codes, cover all terms of the
// bands and the roundings of the change of units, and that the interval of a score covers them, too.
func TestNormCodeEnds(t *testing.T) {
	const width = 128
	b, rng := kerneltest.Best(t), rand.New(rand.NewPCG(8, 20))
	size := func() float64 { return math.Ldexp(1+rng.Float64(), -rng.IntN(30)) }
	var ends, intervals exactly.Ratio
	for range 3000 {
		s, x := oneNormQuery(b, 2, make([]float64, width), size())
		x.relative, x.absolute = size()/4, size()
		score := -math.Abs(drawBands(rng, s))
		s.queries.residuals[0], x.groups[0] = size(), size()
		s.Low[0], s.High[0] = score, score
		s.thresholds.setRow(s.f, s.Block, &s.queries, 0, 0)
		if math.IsInf(float64(s.thresholds.ends[1]), 0) {
			continue
		}
		step, relative := exactly.Of(x.grid.step), exactly.Of(x.relative)
		slack := exactSlack(s.Slacks[0], s.f.groupSizes[0])
		// |D − D̂| is at most relative·D + absolute.
		absolute := exactly.Add(
			exactly.Mul(exactly.Sum(1, x.relative), exactly.Sum(s.queries.residuals[0], x.groups[0])),
			product(x.grid.step, x.absolute),
		)
		low, high := exactly.Sub(exactly.Of(score), slack), exactly.Add(exactly.Of(score), slack)
		lo := exactly.Sub(exactly.Add(low, exactly.Mul(low, relative)), absolute)
		hi := exactly.Add(exactly.Sub(high, exactly.Mul(high, relative)), absolute)
		at := exactly.Quo(exactly.Of(score), step)
		for _, e := range []struct{ needed, room *big.Float }{
			{exactly.Sub(at, exactly.Quo(lo, step)), exactly.Sub(at, exactly.Of(float64(s.thresholds.ends[0])))},
			{exactly.Sub(exactly.Quo(hi, step), at), exactly.Sub(exactly.Of(float64(s.thresholds.ends[1])), at)},
		} {
			if e.room.Sign() > 0 {
				ends.See(exactly.Quo(e.needed, e.room), 1)
			} else {
				require.LessOrEqual(t, e.needed.Cmp(e.room), 0)
			}
		}

		panel := float32(score / x.grid.step)
		from, to := s.f.panelInterval(s.Block, &s.queries, 0, 0, panel)
		got := product(x.grid.step, float64(panel))
		band := exactly.Mul(relative, exactly.Sub(exactly.Of(0), got))
		band = exactly.Add(exactly.Quo(exactly.Add(band, absolute), exactly.Sum(1, -x.relative)), slack)
		middle, _ := got.Float64()
		contain(&intervals, middle, band, band, from, to)
	}
	ends.Check(t, 1-1e-5)
	intervals.Check(t, 1-1e-5)
}

// TestNormRanks compares ranks with a brute-force ranking by reference scores, for all models with group
// norms, kinds of parameters, tiers, and numbers of threads.
func TestNormRanks(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(10, 20))
	g := ranktest.Graph(rng, 150, 4, 600, 60, 60)
	index, test, sides := kgtest.Index(t, g), g.Splits[kg.Test][:30], []kg.Side{kg.Tail, kg.Head}
	models, screens := map[string]bool{}, map[Screen]int{}
	for _, kind := range ranktest.VectorKinds {
		for _, d := range []int{1, 6, 140} {
			for _, c := range ranktest.VectorConfigs(d, g) {
				m := ranktest.ModelOf(t, c, uint64(d), kind)
				if !isGroupNorm(m.Tower(kg.Tail).Compare) {
					continue
				}
				models[c.Model] = true
				want := bruteForce(m, g, test, sides, m.NewWorker(backends[len(backends)-1]).Reference)
				for _, b := range backends {
					for _, o := range []Options{
						{Threads: 1}, {Threads: 3}, {Threads: 2, FeatureMemory: 40 * featureBytes(2*d)},
					} {
						o.Backend, o.Screen = b, Int16Screen
						got, err := Run(t.Context(), m, index, test, o)
						require.NoError(t, err)
						name := fmt.Sprintf("%s, %s d = %d, %s, %d threads", kind.Name, c.Model, d, b.Tier, o.Threads)
						require.Equal(t, want, got.Ranks, name)
						screens[got.Stats.Screen]++
					}
				}
			}
		}
	}
	require.Len(t, models, 3)
	require.Greater(t, screens[Int16Screen], 2*screens[Float32Screen], "only huge norms are compared in float32")
}

// TestNormGroups checks that the residuals of a panel group bound the residuals of its candidates, and
// that the intervals of panel scores contain the exact distances.
func TestNormGroups(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	for _, c := range []struct {
		model string
		d     int
	}{{"rotate", 10}, {"ote", 20}} {
		rng := rand.New(rand.NewPCG(9, 20))
		g := ranktest.Graph(rng, 1600, 1, 0, 0, 20)
		m := ranktest.Model(t, c.model, c.d, g, 1, ranktest.VectorKinds[0])
		ranks, err := newRanks(m, g.Splits[kg.Test], []kg.Side{kg.Tail, kg.Head}, 1)
		require.NoError(t, err)
		for _, b := range backends {
			e := loadAll(t, m, b, Int16Screen, ranks, 1600)
			f := e.features
			x, width := f.screen.(*int16NormScreen), f.Tower.Phi
			v, codes := x.buffer(), make([]uint32, x.layout.terms)
			for at, i := range f.RowAt[:f.N] {
				require.LessOrEqual(t, x.encode(codes, v, f.Row(i)), x.groups[at/f.nr/groupPanels])
			}
			s := begin(t, e, 0, len(e.job.Queries))
			x.packQueries(&s.queries, &s.Vectors, len(s.Queries))
			s.thresholds.set(f, s.Block, &s.queries, 0)
			call := s.call(s.Block)
			call.ExitBelow = nil
			for p := range f.panelCount() {
				s.score(s.Block, &call, p)
				for row := range s.Queries {
					for lane := (row + p) % 11; lane < min(f.nr, f.N-p*f.nr); lane += 11 { // math/big is slow
						phi := f.Row(f.RowAt[p*f.nr+lane])[:width]
						want := exactNormDistance(s.Row(row)[:width], phi, x.grid.group)
						want.Neg(want)
						low, high := s.f.panelInterval(
							s.Block, &s.queries, row, p/groupPanels, s.panel.Scores[row*f.nr+lane])
						require.LessOrEqual(t, exactly.Of(low).Cmp(want), 0, b.Tier)
						require.LessOrEqual(t, want.Cmp(exactly.Of(high)), 0, b.Tier)
					}
				}
			}
			s.Norms[1] = 0x1p60
			x.packQueries(&s.queries, &s.Vectors, len(s.Queries))
			s.thresholds.set(f, s.Block, &s.queries, 0)
			assert.True(t, s.thresholds.ends[1] < math.MaxFloat32)
			at := 2 * s.TargetStart[1]
			assert.Equal(t, []float32{float32(math.Inf(-1)), float32(math.Inf(1))}, s.thresholds.ends[at:at+2])
		}
	}
}
