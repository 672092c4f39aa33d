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

// onePhaseQuery is like oneQuery but adds the screen of phases, with a group of one candidate.
func onePhaseQuery(b *kernel.Backend, width int) (testBlock, *int8PhaseScreen) {
	s := oneQuery(b, model.Tower{Compare: kernel.Phase, Psi: width, Phi: width})
	x := &int8PhaseScreen{
		residualCodes: residualCodes{
			f: s.f, kernels: b.Int8PhasePanels(), layout: int8PhaseLayout(s.f.Tower), groups: make([]float64, 1),
		},
		pairs: width / 2,
	}
	s.f.use(x)
	s.queries.phases = make([]phaseCode, 1)
	return s, x
}

// exactPhaseDistance returns the exact sum of the absolute values of the products of the pairs of two
// vectors.
func exactPhaseDistance(x, y []float32) *big.Float {
	sum := exactly.Of(0)
	for t := 0; t < len(x); t += 2 {
		p := exactly.Add(product(float64(x[t]), float64(y[t])), product(float64(x[t+1]), float64(y[t+1])))
		sum.Add(sum, p.Abs(p))
	}
	return sum
}

// seePhase compares the error of the codes of two vectors with the band.
func seePhase(x *int8PhaseScreen, psi, phi []float32, r *exactly.Ratio) {
	query, candidate := make([]uint32, x.layout.terms), make([]uint32, x.layout.terms)
	q := x.encode(query, psi, quarterTurn)
	band := x.band(&q, x.encode(candidate, phi, 0).residual)
	sum := int32(0)
	for t, code := range kernel.Codes(query) {
		sum += kernel.PhaseSine(code - kernel.Codes(candidate)[t])
	}
	r.See(exactly.Sub(exactPhaseDistance(psi, phi), product(sineStep, float64(sum))), band)
}

// TestPhaseCodeBands checks the bands of phases. The sines of the table err by nearly as much as they can,
// and the errors of the codes have the same sign.
func TestPhaseCodeBands(t *testing.T) {
	const (
		n    = 480
		step = math.Pi / kernel.TurnCodes
	)
	excess := func(d int) float64 { return float64(kernel.PhaseSine(uint8(d)))*sineStep - math.Sin(step*float64(d)) }
	large, small := 1, 1 // the differences below 40, where the cosine is large, with the largest and smallest excess
	for d := range 40 {
		if excess(d) > excess(large) {
			large = d
		}
		if excess(d) < excess(small) {
			small = d
		}
	}
	const half = 0.499
	_, x := onePhaseQuery(kerneltest.Best(t), n)
	for _, c := range []struct {
		name             string
		difference       int     // between the codes of ψ and φ
		query, candidate float64 // distances of the angles from the codes, in codes
		lengths          [2]float64
		least            float64
	}{
		{"sines", large, 0, 0, [2]float64{1, 1}, 0.999},
		{"angles of queries", large, -half, 0, [2]float64{1, 1}, 0.95},
		{"angles of candidates", large, 0, half, [2]float64{1, 1}, 0.95},
		{"angles of both", large, -half, half, [2]float64{1, 1}, 0.95},
		{"angles of both, towards more", small, half, -half, [2]float64{1, 1}, 0.9},
		{"lengths of queries", quarterTurn, 0, 0, [2]float64{1.5, 1}, 0.99},
		{"lengths of candidates", quarterTurn, 0, 0, [2]float64{1, 1.5}, 0.99},
		{"lengths of both", quarterTurn, 0, 0, [2]float64{2, 1.5}, 0.99},
	} {
		t.Run(c.name, func(t *testing.T) {
			psi, phi := make([]float32, n), make([]float32, n)
			for i := 0; i < n; i += 2 {
				turn := float64(i * 7)
				a, b := step*(turn+float64(c.difference)+c.query-quarterTurn), step*(turn+c.candidate)
				psi[i], psi[i+1] = float32(c.lengths[0]*math.Cos(a)), float32(c.lengths[0]*math.Sin(a))
				phi[i], phi[i+1] = float32(c.lengths[1]*math.Cos(b)), float32(c.lengths[1]*math.Sin(b))
			}
			var r exactly.Ratio
			seePhase(x, psi, phi, &r)
			r.Check(t, c.least)
		})
	}
}

// TestPhaseCodesOfRandomVectors checks the bands for pairs of all lengths.
func TestPhaseCodesOfRandomVectors(t *testing.T) {
	b, rng := kerneltest.Best(t), rand.New(rand.NewPCG(7, 30))
	var r exactly.Ratio
	for range 1000 {
		n := 2 * (1 + rng.IntN(40))
		psi, phi := make([]float32, n), make([]float32, n)
		ranktest.Normal(rng, psi, math.Exp(2*rng.NormFloat64()))
		ranktest.Normal(rng, phi, math.Exp(2*rng.NormFloat64()))
		if rng.IntN(2) == 0 {
			for _, v := range [][]float32{psi, phi} {
				for i := 0; i < n; i += 2 {
					sin, cos := math.Sincos(2 * math.Pi * rng.Float64())
					v[i], v[i+1] = float32(cos), float32(sin)
				}
			}
		}
		_, x := onePhaseQuery(b, n)
		seePhase(x, psi, phi, &r)
	}
	r.Check(t, 0.5)
}

// TestPhaseOf checks that codes are at most a little more than half a code from the angle, modulo a
// half-turn.
func TestPhaseOf(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 30))
	for _, length := range []float64{0x1p-140, 1, 0x1p60} {
		for range 10000 {
			angle := 4 * math.Pi * (rng.Float64() - 0.5)
			code := phaseOf(length*math.Cos(angle), length*math.Sin(angle))
			off := math.Remainder(angle*kernel.TurnCodes/math.Pi-float64(code), kernel.TurnCodes)
			require.InDelta(t, 0, off, 0.502)
		}
	}
	for _, c := range []struct {
		a, b float64
		want uint8
	}{
		{0, 0, 0}, {1, 0, 0}, {-1, 0, 0}, {0, 1, 128}, {0, -1, 128},
		{1, 1, 64}, {-1, -1, 64}, {1, -1, 192}, {-1, 1, 192},
	} {
		assert.Equal(t, c.want, phaseOf(c.a, c.b), "(%v, %v)", c.a, c.b)
	}
}

// TestPhaseCodeEnds checks that the thresholds of a target, in units of sines, cover all terms of the
// bands and the roundings of the change of units, and that the interval of a score covers them, too.
func TestPhaseCodeEnds(t *testing.T) {
	const width = 128
	b, rng := kerneltest.Best(t), rand.New(rand.NewPCG(9, 30))
	size := func() float64 { return math.Ldexp(1+rng.Float64(), -rng.IntN(30)) }
	var ends, intervals exactly.Ratio
	for range 3000 {
		s, x := onePhaseQuery(b, width)
		score := -math.Abs(drawBands(rng, s))
		q := &s.queries.phases[0]
		q.residual, q.longest, x.groups[0] = size(), size(), size()
		s.Low[0], s.High[0] = score, score
		s.thresholds.setRow(s.f, s.Block, &s.queries, 0, 0)
		if math.IsInf(float64(s.thresholds.ends[1]), 0) {
			continue
		}
		slack := exactSlack(s.Slacks[0], s.f.groupSizes[0])
		band := exactly.Add(exactly.Of(q.residual), product(q.longest, x.groups[0]))
		band = exactly.Add(band, product(width/2, sineError))
		all := exactly.Add(band, slack)
		for i, sign := range []float64{-1, 1} {
			// The end must be at least the band away from the score.
			room := exactly.Sub(product(sineStep, float64(s.thresholds.ends[i])), exactly.Of(score))
			room.Mul(room, exactly.Of(sign))
			require.Positive(t, room.Sign())
			least, _ := room.Float64()
			ends.See(all, least)
		}
		panel := float32(math.Round(score / sineStep))
		from, to := s.f.panelInterval(s.Block, &s.queries, 0, 0, panel)
		middle, _ := product(sineStep, float64(panel)).Float64()
		contain(&intervals, middle, all, all, from, to)
	}
	ends.Check(t, 0.9999)
	intervals.Check(t, 0.9999)
}

// TestPhaseRanks compares ranks with a brute-force ranking by reference scores, for all kinds of
// parameters, tiers, and numbers of threads.
func TestPhaseRanks(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(10, 30))
	g := ranktest.Graph(rng, 150, 4, 600, 60, 60)
	index, test, sides := kgtest.Index(t, g), g.Splits[kg.Test][:30], []kg.Side{kg.Tail, kg.Head}
	for _, kind := range ranktest.VectorKinds {
		for _, d := range []int{1, 6, 140} {
			m := ranktest.Model(t, "protate", d, g, uint64(d), kind)
			want := bruteForce(m, g, test, sides, m.NewWorker(backends[len(backends)-1]).Reference)
			for _, b := range backends {
				for _, o := range []Options{
					{Threads: 1}, {Threads: 3}, {Threads: 2, FeatureMemory: 40 * featureBytes(2*d)},
				} {
					o.Backend, o.Screen = b, Int8Screen
					got, err := Run(t.Context(), m, index, test, o)
					require.NoError(t, err)
					require.Equal(t, want, got.Ranks, "%s, d = %d, %s, %d threads", kind.Name, d, b.Tier, o.Threads)
					require.Equal(t, Int8Screen, got.Stats.Screen)
				}
			}
		}
	}
}

// TestPhaseGroups checks that the residuals of a panel group bound the residuals of its candidates, and
// that the intervals of panel scores contain the exact distances.
func TestPhaseGroups(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(11, 30))
	g := ranktest.Graph(rng, 1600, 1, 0, 0, 20)
	m := ranktest.Model(t, "protate", 20, g, 1, ranktest.VectorKinds[0])
	ranks, err := newRanks(m, g.Splits[kg.Test], []kg.Side{kg.Tail, kg.Head}, 1)
	require.NoError(t, err)
	for _, b := range backends {
		e := loadAll(t, m, b, Int8Screen, ranks, 1600)
		f := e.features
		x, width := f.screen.(*int8PhaseScreen), f.Tower.Phi
		codes := make([]uint32, x.layout.terms)
		for at, i := range f.RowAt[:f.N] {
			require.LessOrEqual(t, x.encode(codes, f.Row(i), 0).residual, x.groups[at/f.nr/groupPanels])
		}
		s := begin(t, e, 0, len(e.job.Queries))
		x.packQueries(&s.queries, &s.Vectors, len(s.Queries))
		s.thresholds.set(f, s.Block, &s.queries, 0)
		call := s.call(s.Block)
		for p := range f.panelCount() {
			s.score(s.Block, &call, p)
			for row := range s.Queries {
				for lane := (row + p) % 11; lane < min(f.nr, f.N-p*f.nr); lane += 11 { // math/big is slow
					phi := f.Row(f.RowAt[p*f.nr+lane])[:width]
					want := exactPhaseDistance(s.Row(row)[:width], phi)
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
		at := 2 * s.TargetStart[1]
		assert.Equal(t, []float32{float32(math.Inf(-1)), float32(math.Inf(1))}, s.thresholds.ends[at:at+2])
	}
}

// TestPhaseFormats checks that AutoScreen considers bytes for phases exactly where their kernels are in
// assembly.
func TestPhaseFormats(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	tower := model.Tower{Compare: kernel.Phase, Psi: 200, Phi: 200}
	for _, b := range backends {
		want := 0
		if b.HasInt8Phase() {
			want = 1
		}
		require.Len(t, AutoScreen.formatsFor(tower, b), want, fmt.Sprint(b.Features))
		require.Len(t, Int8Screen.formatsFor(tower, b), 1)
		require.True(t, Int8Screen.Fits(kernel.Phase))
		require.False(t, Int16Screen.Fits(kernel.Phase))
	}
}
