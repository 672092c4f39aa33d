package linalg

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel/kerneltest"
	"github.com/stretchr/testify/require"
)

// eachRegion runs f for every kind of region on every tier.
func eachRegion(t *testing.T, f func(t *testing.T, b *Backend, kind RegionKind)) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		for kind := range numRegions {
			t.Run(kind.String(), func(t *testing.T) { f(t, b, kind) })
		}
	})
}

// twinPoint is a coordinate of a pair, computed as on every tier.
type twinPoint struct {
	b, factor, inverse, v float32
	y, r                  float32 // the signed distance from the middle; r of a box
	near, far             float32 // the distances inside and outside
	slopeNear, slopeFar   float32 // their derivatives with respect to the width
	excess                float32 // x − ½W
}

// twinPoints returns the coordinates of part k of a pair.
func twinPoints(region Region, k int, psi, phi []float32) (points []twinPoint) {
	n := len(phi) / region.Kind.parts()
	psi, phi = psi[3*k*n:][:3*n], phi[k*n:][:n]
	for u := range region.Coordinates {
		p, q, w, b := psi[u], psi[n+u], psi[2*n+u], phi[u]
		t := twinPoint{b: b, factor: p, v: w + 1}
		t.inverse = 1 / t.v
		if region.Kind == RegionBoxes {
			t.r = 1 / (float32(p*b) + 0.5)
			t.y = (1 - q) - t.r
		} else {
			t.factor = q
			t.y = p - float32(q*b)
		}
		x, half, square := fmath.Abs32(t.y), float32(w*0.5), float32(t.inverse*t.inverse)
		t.near, t.far = float32(x*t.inverse), float32(x*t.v)-float32(half*(t.v-t.inverse))
		t.slopeNear = float32(x * -square)
		t.slopeFar = x - (float32(0.5*(t.v-t.inverse)) + float32(half*(1+square)))
		t.excess = x - half
		points = append(points, t)
	}
	return points
}

// twinNorm returns √Σd² of points, with 16 lanes.
func twinNorm(points []twinPoint, distance func(twinPoint) float32) float32 {
	var lanes [16]float32
	for u, p := range points {
		d := distance(p)
		lanes[u%16] += float32(d * d)
	}
	var fours [4]float32
	for l := range fours {
		fours[l] = (lanes[l] + lanes[l+8]) + (lanes[l+4] + lanes[l+12])
	}
	return kerneltest.Sqrt32((fours[0] + fours[2]) + (fours[1] + fours[3]))
}

// inside reports whether coordinate p of a pair is inside, given all coordinates.
func (p twinPoint) inside(kind RegionKind, all []twinPoint) bool {
	if kind == RegionBoxes {
		return p.near > p.far
	}
	for _, q := range all {
		if !(q.excess <= 0) && q.excess == q.excess {
			return false
		}
	}
	return true
}

// twinRegionPart returns the score of a part of a pair and, given the derivative of a loss with
// respect to it, the terms of the gradients of p, q, W and b.
func twinRegionPart(region Region, k int, psi, phi []float32, g float32) (score float32, terms [][4]float32) {
	points := twinPoints(region, k, psi, phi)
	within := make([]bool, len(points))
	for u, p := range points {
		within[u] = p.inside(region.Kind, points)
	}
	u := 0
	distance := func(p twinPoint) float32 {
		defer func() { u++ }()
		if within[u] {
			return p.near
		}
		return p.far
	}
	score = -twinNorm(points, distance)
	weight := float32(0)
	if score != 0 {
		weight = g / score
	}
	for u, p := range points {
		d, slope, dWidth := p.far, p.v, p.slopeFar
		if within[u] {
			d, slope, dWidth = p.near, p.inverse, p.slopeNear
		}
		gd := float32(weight * d)
		e := float32(gd * slope)
		if math.Signbit(float64(p.y)) {
			e = -e
		}
		term := [4]float32{e, -float32(e * p.b), float32(gd * dWidth), -float32(e * p.factor)}
		if region.Kind == RegionBoxes {
			c := float32(e * float32(p.r*(2-p.r)))
			term = [4]float32{c, -e, float32(gd * dWidth), c}
		}
		terms = append(terms, term)
	}
	return score, terms
}

// regionBlock holds queries, features and their scores and gradients between guard pages.
type regionBlock struct {
	region                     Region
	psi, phi, s, g, dPsi, dPhi Matrix
}

// newRegionBlock draws numbers that a trainer could meet. If some is not 0, about one number in some
// is special.
func newRegionBlock(t testing.TB, rng *rand.Rand, region Region, queries, features, some int) regionBlock {
	normal := func() float32 { return float32(rng.NormFloat64()) }
	matrix := func(rows, cols int) Matrix { return guardedMatrix(t, rows, cols, cols+16*rng.IntN(2), normal) }
	x := regionBlock{
		region: region, psi: matrix(queries, 3*region.Width()), phi: matrix(features, region.Width()),
		s: matrix(queries, features), g: matrix(queries, features),
		dPsi: matrix(queries, 3*region.Width()), dPhi: matrix(features, region.Width()),
	}
	n := region.terms()
	draw := func(v float32) float32 {
		if some > 0 && rng.IntN(some) == 0 {
			return kerneltest.Special[rng.IntN(len(kerneltest.Special))]
		}
		return v
	}
	wide := region.Kind == RegionParallelogram && rng.IntN(2) == 0 // so that pairs are inside
	for i := range queries {
		for k := range region.Kind.parts() {
			p, q, w := part(x.psi.Row(i), 3*k, n), part(x.psi.Row(i), 3*k+1, n), part(x.psi.Row(i), 3*k+2, n)
			for u := range n {
				p[u], q[u], w[u] = draw(normal()), draw(normal()), draw(2*rng.Float32())
				switch {
				case region.Kind == RegionBoxes:
					p[u], q[u] = draw(rng.Float32()), draw(2*rng.Float32()-1)
				case wide:
					w[u] = draw(8)
				}
				if rng.IntN(20) == 0 {
					w[u] = 0
				}
			}
		}
	}
	for j := range features {
		row := x.phi.Row(j)
		for u := range row {
			row[u] = draw(normal())
			if region.Kind == RegionBoxes {
				row[u] = draw(2 * rng.Float32())
			}
			if u%n >= region.Coordinates {
				row[u] = 0
			}
		}
	}
	return x
}

// check compares the results for blocks and for pairs with their twins, bit for bit.
func (x *regionBlock) check(t *testing.T, b *Backend, threads int) {
	t.Helper()
	region, n, parts := x.region, x.region.terms(), x.region.Kind.parts()
	r := b.NewRegions(region, threads)
	require.NoError(t, r.Scores(t.Context(), x.s, x.psi, x.phi))
	require.NoError(t, r.Gradients(t.Context(), x.dPsi, x.dPhi, x.g, x.psi, x.phi))
	dPsi, dPhi := NewMatrix(x.psi.Rows, x.psi.Cols), NewMatrix(x.phi.Rows, x.phi.Cols)
	chunkPsi, chunkPhi := NewMatrix(x.psi.Rows, x.psi.Cols), NewMatrix(x.phi.Rows, x.phi.Cols)
	flush := func(to, from []float32) {
		for u := range to {
			to[u] += from[u]
		}
		clear(from)
	}
	for k := range parts {
		for i := range x.psi.Rows {
			for j := range x.phi.Rows {
				score, terms := twinRegionPart(region, k, x.psi.Row(i), x.phi.Row(j), x.g.Row(i)[j])
				if k == 0 && parts == 2 {
					other, _ := twinRegionPart(region, 1, x.psi.Row(i), x.phi.Row(j), 0)
					score += other
				}
				if k == 0 {
					requireSame(t, score, x.s.Row(i)[j], "%d coordinates: score %d,%d", region.Coordinates, i, j)
				}
				for u, term := range terms {
					for v := range 3 {
						chunkPsi.Row(i)[(3*k+v)*n+u] += term[v]
					}
					chunkPhi.Row(j)[k*n+u] += term[3]
				}
				if (j+1)%ProductChunk == 0 {
					flush(part(dPsi.Row(i), k, 3*n), part(chunkPsi.Row(i), k, 3*n))
				}
			}
			if (i+1)%ProductChunk == 0 {
				for j := range x.phi.Rows {
					flush(part(dPhi.Row(j), k, n), part(chunkPhi.Row(j), k, n))
				}
			}
		}
	}
	for i := range x.psi.Rows {
		flush(dPsi.Row(i), chunkPsi.Row(i))
		x.requireGradient(t, dPsi.Row(i), x.dPsi.Row(i), "query %d", i)
	}
	for j := range x.phi.Rows {
		flush(dPhi.Row(j), chunkPhi.Row(j))
		x.requireGradient(t, dPhi.Row(j), x.dPhi.Row(j), "feature %d", j)
	}

	rows := func(n int) (list []int32) {
		for i := range n {
			list = append(list, int32(i))
		}
		return list
	}
	scores := make([]float32, x.phi.Rows)
	for i := range x.psi.Rows {
		b.RegionScores(region, scores, x.psi.Row(i), x.phi, rows(x.phi.Rows))
		x.requireRow(t, x.s.Row(i), scores, "scores of the pairs of query %d", i)
		clear(dPsi.Row(i))
		b.AddRegionPsi(region, dPsi.Row(i), x.g.Row(i), x.psi.Row(i), x.phi, rows(x.phi.Rows))
		x.requireGradient(t, x.dPsi.Row(i), dPsi.Row(i), "pairs of query %d", i)
	}
	for j := range x.phi.Rows {
		column := make([]float32, x.psi.Rows)
		for i := range column {
			column[i] = x.g.Row(i)[j]
		}
		clear(dPhi.Row(j))
		b.AddRegionPhi(region, dPhi.Row(j), column, x.phi.Row(j), x.psi, rows(x.psi.Rows))
		x.requireGradient(t, x.dPhi.Row(j), dPhi.Row(j), "pairs of feature %d", j)
	}
}

// requireGradient compares two gradients in the coordinates. In the padding, a gradient is 0, or NaN
// if its weights are not finite.
func (x *regionBlock) requireGradient(t *testing.T, want, got []float32, format string, args ...any) {
	t.Helper()
	n := x.region.terms()
	for u := 0; u < len(want); u += n {
		x.requireRow(t, want[u:u+x.region.Coordinates], got[u:u+x.region.Coordinates], format, args...)
		for _, v := range got[u+x.region.Coordinates : u+n] {
			require.False(t, v > 0 || v < 0, "padding")
		}
	}
}

func (x *regionBlock) requireRow(t *testing.T, want, got []float32, format string, args ...any) {
	t.Helper()
	for u := range want {
		requireSame(t, want[u], got[u], "%d coordinates: %s, entry %d",
			x.region.Coordinates, fmt.Sprintf(format, args...), u)
	}
}

// TestRegions requires that scores and gradients equal their twins' bit for bit on every tier, for
// any number of threads, for blocks and for pairs. It uses every remainder of the number of
// coordinates and places operands between guard pages.
func TestRegions(t *testing.T) {
	eachRegion(t, func(t *testing.T, b *Backend, kind RegionKind) {
		rng := rand.New(rand.NewPCG(8, uint64(kind)))
		check := func(coordinates, queries, features, some int) {
			x := newRegionBlock(t, rng, Region{kind, coordinates}, queries, features, some)
			x.check(t, b, 1+rng.IntN(3))
		}
		for coordinates := 1; coordinates <= 50; coordinates++ {
			check(coordinates, 1+rng.IntN(5), 1+rng.IntN(5), 0)
		}
		for _, n := range []int{regionGroup, regionGroup + 1, ProductChunk, ProductChunk + 1, 2*ProductChunk + 3} {
			check(1+rng.IntN(20), n, 2, 0)
			check(1+rng.IntN(20), 2, n, 0)
		}
		check(20, regionGroup+3, 2*regionGroup+5, 0)
		for range 30 {
			check(1+rng.IntN(40), 1+rng.IntN(4), 1+rng.IntN(4), 40)
		}
	})
}

// float64Region returns a score by its definition.
func float64Region(region Region, psi, phi []float64) (score float64) {
	n := region.terms()
	for k := range region.Kind.parts() {
		var inside, outside, larger float64
		within := true
		for u := range region.Coordinates {
			p, q, w, b := psi[3*k*n+u], psi[(3*k+1)*n+u], psi[(3*k+2)*n+u], phi[k*n+u]
			x := math.Abs(p - q*b)
			if region.Kind == RegionBoxes {
				x = math.Abs(1 - 1/(p*b+0.5) - q)
			}
			v := w + 1
			in, out := x/v, v*x-w/2*(v-1/v)
			inside, outside, larger = inside+in*in, outside+out*out, larger+max(in, out)*max(in, out)
			within = within && x <= w/2
		}
		switch {
		case region.Kind == RegionBoxes:
			score -= math.Sqrt(larger)
		case within:
			score -= math.Sqrt(inside)
		default:
			score -= math.Sqrt(outside)
		}
	}
	return score
}

// TestRegionGradients compares gradients with central differences in float64.
func TestRegionGradients(t *testing.T) {
	eachRegion(t, func(t *testing.T, b *Backend, kind RegionKind) {
		rng := rand.New(rand.NewPCG(9, uint64(kind)))
		seen := map[bool]int{} // inside or not
		for range 20 {
			region := Region{kind, 1 + rng.IntN(20)}
			x := newRegionBlock(t, rng, region, 1, 1, 0)
			x.g.Row(0)[0] = 1
			r := b.NewRegions(region, 1)
			require.NoError(t, r.Scores(t.Context(), x.s, x.psi, x.phi))
			psi, phi := widen(x.psi.Row(0)), widen(x.phi.Row(0))
			score := float64Region(region, psi, phi)
			require.InEpsilon(t, score, x.s.Row(0)[0], 1e-5)
			require.NoError(t, r.Gradients(t.Context(), x.dPsi, x.dPhi, x.g, x.psi, x.phi))
			n := region.terms()
			points := twinPoints(region, 0, x.psi.Row(0), x.phi.Row(0))
			seen[points[0].inside(kind, points)]++
			difference := func(v *float64, factor func(step float64) float64) (slope float64) {
				const step = 1e-6
				old := *v
				*v = factor(step)
				above := float64Region(region, psi, phi)
				*v = factor(-step)
				below := float64Region(region, psi, phi)
				*v = old
				return (above - below) / (2 * step)
			}
			for i := range psi {
				if i%n >= region.Coordinates {
					require.Zero(t, x.dPsi.Row(0)[i], "padding")
					continue
				}
				v := psi[i]
				step := func(s float64) float64 { return v + s }
				if kind == RegionBoxes && i/n%3 == 0 { // a = e^{2α}/2
					step = func(s float64) float64 { return v * math.Exp(2*s) }
				}
				if i/n%3 == 2 && v == 0 {
					continue // a width of 0 has no difference on both sides
				}
				require.InDelta(t, difference(&psi[i], step), x.dPsi.Row(0)[i], 1e-4, "entry %d of ψ", i)
			}
			for i := range phi {
				if i%n >= region.Coordinates {
					require.Zero(t, x.dPhi.Row(0)[i], "padding")
					continue
				}
				v := phi[i]
				step := func(s float64) float64 { return v + s }
				if kind == RegionBoxes { // b = e^{2β}
					step = func(s float64) float64 { return v * math.Exp(2*s) }
				}
				require.InDelta(t, difference(&phi[i], step), x.dPhi.Row(0)[i], 1e-4, "entry %d of φ", i)
			}
		}
		require.NotZero(t, seen[true])
		require.NotZero(t, seen[false])
	})
}

func TestRegionsPanic(t *testing.T) {
	b, region := generic(t), Region{RegionBoxes, 3}
	psi, phi, one := NewMatrix(1, 3*region.Width()), NewMatrix(2, region.Width()), make([]float32, 1)
	rows := []int32{0}
	r := b.NewRegions(region, 1)
	require.Panics(t, func() { _ = r.Scores(t.Context(), NewMatrix(1, 2), phi, psi) }, "vectors that do not fit")
	require.Panics(t, func() { _ = r.Scores(t.Context(), NewMatrix(2, 2), psi, phi) }, "scores that do not fit")
	require.Panics(t, func() {
		_ = r.Gradients(t.Context(), psi, phi, NewMatrix(1, 2), psi, phi)
	}, "gradients before scores")
	require.Panics(t, func() { b.RegionScores(region, one, phi.Row(0), phi, rows) }, "a query that does not fit")
	require.Panics(t, func() { b.RegionScores(region, one, psi.Row(0), phi, []int32{0, 1}) }, "pairs that do not fit")
	require.Panics(t, func() { b.AddRegionPsi(region, one, one, psi.Row(0), phi, rows) }, "a gradient of ψ")
	require.Panics(t, func() { b.AddRegionPhi(region, one, one, phi.Row(0), psi, rows) }, "a gradient of φ")
	for _, row := range []int32{-1, 2} {
		require.Panics(t, func() { b.RegionScores(region, one, psi.Row(0), phi, []int32{row}) }, "row %d", row)
	}
}

func TestRegionsDoNotAllocate(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector empties pools")
	}
	eachRegion(t, func(t *testing.T, b *Backend, kind RegionKind) {
		x := newRegionBlock(t, rand.New(rand.NewPCG(1, 1)), Region{kind, 20}, 30, 300, 0)
		r, rows := b.NewRegions(x.region, 1), []int32{1, 0, 7}
		ctx := t.Context()
		require.Zero(t, testing.AllocsPerRun(20, func() {
			_ = r.Scores(ctx, x.s, x.psi, x.phi)
			_ = r.Gradients(ctx, x.dPsi, x.dPhi, x.g, x.psi, x.phi)
			b.RegionScores(x.region, x.s.Row(0)[:3], x.psi.Row(0), x.phi, rows)
			b.AddRegionPsi(x.region, x.dPsi.Row(0), x.g.Row(0)[:3], x.psi.Row(0), x.phi, rows)
			b.AddRegionPhi(x.region, x.dPhi.Row(0), x.g.Row(0)[:3], x.phi.Row(0), x.psi, rows)
		}))
	})
}
