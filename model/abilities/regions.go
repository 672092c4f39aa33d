package abilities

import "math"

// This file contains the cells of BoxE and ExpressivE. A triple is true if it is in the region of
// its relation. Constructions have one dimension, where the distance of a triple decides whether it
// is in the region.

// box is a relation of BoxE: the centres of the head box and the tail box, and the size σ of both.
type box struct{ head, tail, size float64 }

// boxes returns a construction of BoxE. An entity is a position and a bump.
func boxes(entities [][]float64, relations ...box) construction {
	return func(*Pattern) parameters {
		x := parameters{dim: 1, rows: map[string][][]float64{"entity": entities}}
		for _, b := range relations {
			logSize := math.Log(b.size)
			x.rows["relation"] = append(x.rows["relation"], []float64{b.head, 1, b.tail, 1, logSize, logSize})
			// The distance from a box is (W/2)/(W + 1) at its edge, and the score adds two distances.
			edge := func(centre float64) float64 {
				width := math.Tanh(centre+b.size/2) - math.Tanh(centre-b.size/2)
				return width / 2 / (width + 1)
			}
			head, tail := edge(b.head), edge(b.tail)
			x.regions = append(x.regions, region{min(head, tail), head + tail})
		}
		return x
	}
}

var boxEModel = func() map[string]cell {
	narrow, wide := box{0, 0, 0.1}, box{0, 0, 1}
	const moved = "Moving x and z by some vector, and the bump of y by its negative, keeps the premises true and " +
		"moves (x, r3, z) out of its boxes."
	return map[string]cell{
		symmetry: yes("The boxes of r are equal.",
			boxes([][]float64{{0.3, -0.6}, {0.6, -0.3}, {0, 0.3}}, narrow, box{0.6, -0.6, 0.1})),
		antisymmetry: yes("The boxes of r are different.",
			boxes([][]float64{{0, 0}, {-0.3, 0.3}}, box{0.3, -0.3, 0.1})),
		inversion: yes("r2 has the boxes of r1, exchanged.",
			boxes([][]float64{{0, 0}, {-0.3, 0.3}}, box{0.3, -0.3, 0.1}, box{-0.3, 0.3, 0.1})),
		abelian:    no(moved, exception{[]shape{{dim: 1}, {dim: 3}}}),
		nonAbelian: no(moved, exception{[]shape{{dim: 1}, {dim: 3}}}),
		oneToMany: yes("The head box of r contains both bumped heads.",
			boxes([][]float64{{0, 0}, {0, 0}, {0, 0.3}, {0, 0}}, wide, narrow)),
		manyToOne: yes("The head box of r contains both heads.",
			boxes([][]float64{{0, 0}, {0, 0}, {0.3, 0}, {0, 0}}, wide, narrow)),
		manyToMany: yes("The head box of r contains both heads, with either bump.",
			boxes([][]float64{{0, 0}, {0.2, 0}, {0, 0}, {0, 0.2}, {0, 0}, {0, 0}}, wide, narrow)),
		injective: yes("Bumps move heads into a small box.",
			boxes([][]float64{{0, 0}, {0, 0}, {0.3, 0}, {0, -0.3}}, narrow)),
		nonInjective: yes("The head box of r contains both heads.",
			boxes([][]float64{{0, 0}, {0.2, 0}, {0, 0}, {1.2, 0}, {0, -1.2}, {0, 0}}, wide, narrow)),
		freeOfZParadox: yes("The head box from −0.15 to 0.15 contains 0.1, −0.1 and 0.1 − 0.2, but not −0.1 − 0.2.",
			boxes([][]float64{{-0.1, 0}, {0.1, 0}, {0, 0}, {0, -0.2}}, box{0, 0, 0.3})),
	}
}()

// line is a relation of ExpressivE: pairs with t = slope·h + centre, up to a width.
type line struct{ slope, centre, width float64 }

// lines returns a construction of ExpressivE, or of the functional variant, which has no widths.
// Entities are given after tanh.
func lines(functional bool, entities []float64, relations ...line) construction {
	return func(*Pattern) parameters {
		x := parameters{dim: 1, rows: map[string][][]float64{}}
		if !functional {
			x.hyper = map[string]float64{"min_denom": 0}
		}
		for _, e := range entities {
			x.rows["entity"] = append(x.rows["entity"], []float64{math.Atanh(e)})
		}
		for _, l := range relations {
			inverse := 1 / l.slope
			row := []float64{math.Atanh(-l.centre * inverse), math.Atanh(l.centre), l.slope, inverse}
			if !functional {
				row[3] -= math.Copysign(1e-4, inverse) // the model adds it
				row = append([]float64{math.Atanh(l.width), math.Atanh(l.width)}, row...)
			}
			x.rows["relation"] = append(x.rows["relation"], row)
			// Outside, a distance is at least δ/ω; inside, it is at most √2 δ/ω. Lines have no width.
			edge := l.width / (2*l.width + 1)
			x.regions = append(x.regions, region{edge + optimal, math.Sqrt2*edge + apart})
		}
		return x
	}
}

// ofLines returns the cells of patterns that need only lines.
func ofLines(functional bool) map[string]cell {
	const unit = 1.0 / 16
	return map[string]cell{
		symmetry: yes("r is the line t = −h.",
			lines(functional, []float64{0.25, -0.25, 0.5}, line{slope: -1}, line{slope: 2})),
		antisymmetry: yes("r is the line t = 4h.", lines(functional, []float64{unit, 4 * unit}, line{slope: 4})),
		inversion: yes("r1 and r2 are the lines t = 2h and t = h/2.",
			lines(functional, []float64{0.25, 0.5}, line{slope: 2}, line{slope: 0.5})),
		abelian: yes("Slopes multiply.",
			lines(functional, []float64{unit, 2 * unit, 8 * unit, 4 * unit},
				line{slope: 2}, line{slope: 4}, line{slope: 8})),
		nonAbelian: yes("t = 2h and t = h + ¼ do not commute.",
			lines(functional, []float64{0.125, 0.25, 0.5, 0.375, 0.75},
				line{slope: 2}, line{slope: 1, centre: 0.25}, line{slope: 2, centre: 0.25})),
		injective: yes("r is the line t = h + ¼.",
			lines(functional, []float64{0, 0.25, 0.5, 0.75}, line{slope: 1, centre: 0.25})),
	}
}

// bijectiveLines holds the cells of the functional variant. A line that is neither vertical nor
// horizontal is a bijection; every other relation is a single pair in a coordinate.
var bijectiveLines = with(ofLines(true), map[string]cell{
	oneToMany:      no(determined, bound{shapes: plainShapes, factor: slopes}),
	manyToOne:      no(sameBijection, bound{shapes: plainShapes, factor: slopes}),
	manyToMany:     no(determined, bound{falsehood: 1, shapes: plainShapes, factor: slopes}),
	nonInjective:   no(sameBijection, bound{falsehood: 2, shapes: plainShapes, factor: slopes}),
	freeOfZParadox: zParadox(plainShapes),
})

// slopes returns a bound on the factor by which the functional variant stretches distances: √(1 +
// s²) for the largest slope s.
func slopes(w *world) float64 { return math.Hypot(1, largestRelation(w)) }

var expressiveModel = func() map[string]cell {
	band, exact := line{slope: 1, width: 0.5}, line{slope: 1}
	const inBand = "r is the band h − ½ ≤ t ≤ h + ½."
	return with(ofLines(false), map[string]cell{
		oneToMany:    yes(inBand, lines(false, []float64{0, 0.3, -0.3, 0.3}, band, exact)),
		manyToOne:    yes(inBand, lines(false, []float64{0, 0.3, -0.3, 0.3}, band, exact)),
		manyToMany:   yes(inBand, lines(false, []float64{-0.1, 0.1, -0.12, 0.12, -0.1, -0.12}, band, exact)),
		nonInjective: yes(inBand, lines(false, []float64{-0.1, 0.1, 0, 0.9, 0.8, -0.1}, band, exact)),
		freeOfZParadox: yes("The band h − ½ ≤ t ≤ h + ½ contains (0, 0.3), (0.6, 0.3), (0.6, 0.9), but not (0, 0.9).",
			lines(false, []float64{0, 0.6, 0.3, 0.9}, band)),
	})
}()
