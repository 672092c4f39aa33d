package rank

import (
	"math"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/engine"
)

// This file contains the screen of one-byte phases (docs/numerics.md, "The int8 screen of phases"). The
// comparison Phase depends on the lengths of pairs of coordinates and on the angle between them. The
// lengths are nearly 1, so a byte for the angle, modulo a half-turn, replaces a pair.

// int8PhaseFormat puts one-byte phases into the panels. float64 scores decide what they leave.
var int8PhaseFormat = codeFormat{
	screen:   Int8Screen,
	compares: func(c kernel.Comparison) bool { return c == kernel.Phase },
	fast:     func(b *kernel.Backend) bool { return b.HasInt8Phase() },
	fits:     func(width int) bool { return int8PhaseWords(width) <= kernel.MaxInt8Phase },
	panels:   func(b *kernel.Backend, _ kernel.Comparison) kernel.Panels { return b.Int8PhasePanels() },
	layout:   int8PhaseLayout,
	strips:   oneStripOfRows,
	distance: func(s *screenSample) screen { return newInt8PhaseScreen(s) },
}

// int8PhaseWords returns the number of words for the phases of a width.
func int8PhaseWords(width int) int { return (width/2 + kernel.WordBytes - 1) / kernel.WordBytes }

func int8PhaseLayout(t model.Tower) codeLayout {
	words := int8PhaseWords(t.Phi)
	return codeLayout{stride: words, terms: words}
}

// int8PhaseScreen compares phases in the panels.
type int8PhaseScreen struct {
	residualCodes
	pairs int // pairs of coordinates in a vector
}

func (*int8PhaseScreen) name() Screen { return Int8Screen }

func newInt8PhaseScreen(s *screenSample) *int8PhaseScreen {
	x := &int8PhaseScreen{
		residualCodes: residualCodes{
			f: s.f, kernels: s.Job.Backend.Int8PhasePanels(), layout: int8PhaseLayout(s.f.Tower),
		},
		pairs: s.f.Tower.Phi / 2,
	}
	x.newEncoder = func() rowEncoder {
		return func(words []uint32, row []float32) float64 { return x.encode(words, row, 0).residual }
	}
	return x
}

// phaseCode describes the codes of a vector: an upper bound on the sum of the distances of its pairs from
// the pairs that the codes stand for, and an upper bound on the lengths of its pairs.
type phaseCode struct{ residual, longest float64 }

// quarterTurn is the difference between the codes of queries and of candidates with the same pair: the
// kernels look up sines, but a product of pairs has the cosine of the angle between them.
const quarterTurn = kernel.TurnCodes / 2

// encode writes the codes of a row to words, each code increased by offset.
func (x *int8PhaseScreen) encode(words []uint32, row []float32, offset uint8) phaseCode {
	codes := kernel.Codes(words)
	clear(codes[x.pairs:])
	var distances, squares, longest float64
	for i := range x.pairs {
		a, b := float64(row[2*i]), float64(row[2*i+1])
		code := phaseOf(a, b)
		u := &phasePairs[code]
		sign := math.Copysign(1, a*u[0]+b*u[1]) // a pair and its opposite have the same code
		da, db := a-sign*u[0], b-sign*u[1]
		distances += math.Sqrt(da*da + db*db)
		square := a*a + b*b
		squares += square
		longest = max(longest, square)
		codes[i] = code + offset
	}
	return phaseCode{
		residual: (distances + phaseRounding*(float64(x.pairs)+squares)) * engine.Outward,
		longest:  math.Sqrt(longest) * engine.Outward,
	}
}

// phasePairs holds, for each code c, the pair cos(πc/256), sin(πc/256).
var phasePairs = func() (pairs [kernel.TurnCodes][2]float64) {
	for c := range pairs {
		pairs[c][1], pairs[c][0] = math.Sincos(math.Pi / kernel.TurnCodes * float64(c))
	}
	return pairs
}()

// phaseRounding bounds the roundings of the distance of a pair from the pair of its code, relative to 1
// plus the square of its length.
const phaseRounding = 8 * kernel.U64

// phaseOf returns a code near the angle of (a, b). An error of a thousandth of a code in the polynomial
// hardly matters, because residuals are computed from the code.
func phaseOf(a, b float64) uint8 {
	low, high := math.Abs(a), math.Abs(b)
	swap := low < high
	if !swap {
		low, high = high, low
	}
	// Now low ≤ high, and the angle is between 0 and π/4 (Abramowitz and Stegun, 4.4.49).
	var t float64
	if high > 0 {
		t = low / high
	}
	s := t * t
	angle := t * (0.9998660 + s*(-0.3302995+s*(0.1801410+s*(-0.0851330+s*0.0208351))))
	const half = math.Pi / 2
	if swap { // |b| is larger
		angle = half - angle
	}
	if (a < 0) != (b < 0) {
		angle = -angle
	}
	return uint8(math.Float64bits(angle*(kernel.TurnCodes/math.Pi) + roundingShift))
}

// sineStep is the unit of the sums of sines, and sineError bounds the distance of a sine of the kernels
// from the sine that it stands for.
const sineStep = 1.0 / kernel.SineUnit

var sineError = func() (largest float64) {
	for d := range kernel.TurnCodes {
		sine := math.Sin(math.Pi / kernel.TurnCodes * float64(d))
		largest = max(largest, math.Abs(float64(kernel.PhaseSine(uint8(d)))*sineStep-sine))
	}
	return largest * engine.Outward
}()

func (x *int8PhaseScreen) packQueries(q *packedQueries, v *engine.Vectors, n int) {
	l, mr := x.layout, x.kernels.MR
	if len(q.phases) == 0 {
		q.phases = make([]phaseCode, q.most)
	}
	table, terms := q.strips[q.most*l.terms:][:mr*l.terms], ascending(l.terms)
	for first := 0; first < n; first += mr {
		some := min(mr, n-first)
		for i := range some {
			row, codes := first+i, table[i*l.terms:(i+1)*l.terms]
			if !(v.Norms[row] < maxCodedNorm) { // its thresholds will be infinite
				clear(codes)
				q.phases[row] = phaseCode{math.Inf(1), math.Inf(1)}
				continue
			}
			q.phases[row] = x.encode(codes, v.Row(row), quarterTurn)
		}
		q.packStrip(x.kernels, first, n, table, l.terms, terms)
	}
}

// band bounds |D − S/255| for a query and a candidate with at most the given residual, where −D is their
// score and −S is the score of their codes.
func (x *int8PhaseScreen) band(c *phaseCode, residual float64) float64 {
	return (c.residual + c.longest*residual + float64(x.pairs)*sineError) * engine.Outward
}

func (x *int8PhaseScreen) margins(q *packedQueries, _ *engine.Vectors, row, group int) margins {
	band := x.band(&q.phases[row], x.groups[group])
	return margins{absolute: band, rounding: band, units: units{0, sineStep, 0}}
}

// sampledBands implements sampledScreen.
func (x *int8PhaseScreen) sampledBands(s *screenSample) func(row, i int) (panel, fine float64) {
	words := make([]uint32, x.layout.terms)
	queries, candidates := make([]phaseCode, len(s.Queries)), make([]float64, len(s.rows))
	for row := range queries {
		queries[row] = x.encode(words, s.Row(row), quarterTurn)
	}
	for i, at := range s.rows {
		candidates[i] = x.encode(words, s.f.Row(at), 0).residual
	}
	largest := s.largestByGroup(candidates)
	return func(row, i int) (panel, fine float64) {
		band := x.band(&queries[row], largest[i])
		return band, band
	}
}
