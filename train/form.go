package train

import (
	"math"

	"github.com/mquine/mquine/kg"
)

// form is the score of a model of tables, on vectors of real numbers or of complex ones (all real,
// then all imaginary parts): from the anchor and the relation a query vector, and a score of that
// and a candidate.
type form struct {
	// query writes the query vector to q, and queryGradient the gradients of the anchor's and the
	// relation's vectors, given dq = ∂L/∂q.
	query         func(q []float64, side kg.Side, anchor, relation []float64)
	queryGradient func(dAnchor, dRelation []float64, side kg.Side, anchor, relation, dq []float64)
	// score is symmetric, and gradient adds w times its gradient by x to sum.
	score    func(x, y []float64) float64
	gradient func(sum []float64, w float64, x, y []float64)
	// entityPhases and relationPhases say that the rows are phases of complex numbers of modulus 1.
	entityPhases, relationPhases bool
	// complexEntities and complexRelations say that the rows are complex numbers.
	complexEntities, complexRelations bool
	// power is that of the factor by which the scores grow if the entities and, unless they are
	// phases, the relations do.
	power int
}

var forms = map[string]form{
	"transe-l1": {query: add, queryGradient: addGradient, score: l1, gradient: l1Gradient, power: 1},
	"transe-l2": {query: add, queryGradient: addGradient, score: l2, gradient: l2Gradient, power: 2},
	"distmult":  {query: multiply, queryGradient: multiplyGradient, score: dot, gradient: dotGradient, power: 3},
	"complex": {query: rotate, queryGradient: rotateGradient, score: dot, gradient: dotGradient, power: 3,
		complexEntities: true, complexRelations: true},
	"rotate": {query: rotate, queryGradient: rotateGradient, score: moduli, gradient: moduliGradient, power: 1,
		complexEntities: true, relationPhases: true},
	"protate": {query: rotate, queryGradient: rotateGradient, score: sines, gradient: sinesGradient,
		entityPhases: true, relationPhases: true},
}

// halves splits a vector of complex numbers.
func halves[T float32 | float64](x []T) (re, im []T) { return x[:len(x)/2], x[len(x)/2:] }

// add is q = h + r for tails, q = t − r for heads.
func add(q []float64, side kg.Side, anchor, relation []float64) {
	for i, a := range anchor {
		if side == kg.Tail {
			q[i] = a + relation[i]
		} else {
			q[i] = a - relation[i]
		}
	}
}

func addGradient(dAnchor, dRelation []float64, side kg.Side, _, _, dq []float64) {
	for i, v := range dq {
		dAnchor[i], dRelation[i] = v, v
		if side == kg.Head {
			dRelation[i] = -v
		}
	}
}

// multiply is q = h∘r for tails, q = t∘r for heads.
func multiply(q []float64, _ kg.Side, anchor, relation []float64) {
	for i, a := range anchor {
		q[i] = float64(a * relation[i])
	}
}

func multiplyGradient(dAnchor, dRelation []float64, _ kg.Side, anchor, relation, dq []float64) {
	for i, v := range dq {
		dAnchor[i], dRelation[i] = float64(v*relation[i]), float64(v*anchor[i])
	}
}

// rotate is q = h∘r for tails, q = t∘conj(r) for heads, of complex numbers.
func rotate(q []float64, side kg.Side, anchor, relation []float64) {
	qRe, qIm := halves(q)
	aRe, aIm := halves(anchor)
	rRe, rIm := halves(relation)
	for i, a := range aRe {
		b, c, s := aIm[i], rRe[i], rIm[i]
		if side == kg.Head {
			s = -s
		}
		qRe[i] = float64(a*c) - float64(b*s)
		qIm[i] = float64(a*s) + float64(b*c)
	}
}

func rotateGradient(dAnchor, dRelation []float64, side kg.Side, anchor, relation, dq []float64) {
	aRe, aIm := halves(anchor)
	rRe, rIm := halves(relation)
	dRe, dIm := halves(dq)
	daRe, daIm := halves(dAnchor)
	drRe, drIm := halves(dRelation)
	for i, x := range dRe {
		y, a, b, c, s := dIm[i], aRe[i], aIm[i], rRe[i], rIm[i]
		if side == kg.Head {
			s = -s
		}
		// With p the factor of the anchor a, ∂a = dq conj(p) and ∂p = dq conj(a).
		daRe[i], daIm[i] = float64(x*c)+float64(y*s), float64(y*c)-float64(x*s)
		drRe[i], drIm[i] = float64(x*a)+float64(y*b), float64(y*a)-float64(x*b)
		if side == kg.Head {
			drIm[i] = -drIm[i]
		}
	}
}

// dot is Σ x_i y_i.
func dot(x, y []float64) (sum float64) {
	for i, v := range x {
		sum += float64(v * y[i])
	}
	return sum
}

func dotGradient(sum []float64, w float64, _, y []float64) {
	for i, v := range y {
		sum[i] += float64(w * v)
	}
}

// l1 is −Σ|x_i − y_i|.
func l1(x, y []float64) (sum float64) {
	for i, v := range x {
		sum -= math.Abs(v - y[i])
	}
	return sum
}

func l1Gradient(sum []float64, w float64, x, y []float64) {
	for i, v := range x {
		if v != y[i] {
			sum[i] -= float64(w * sign(v-y[i]))
		}
	}
}

// sign returns 1 with the sign of x.
func sign(x float64) float64 { return math.Copysign(1, x) }

// l2 is −Σ(x_i − y_i)².
func l2(x, y []float64) (sum float64) {
	for i, v := range x {
		z := v - y[i]
		sum -= float64(z * z)
	}
	return sum
}

func l2Gradient(sum []float64, w float64, x, y []float64) {
	for i, v := range x {
		sum[i] -= float64(2 * w * (v - y[i]))
	}
}

// moduli is −Σ|x_i − y_i|, of complex numbers.
func moduli(x, y []float64) (sum float64) {
	xRe, xIm := halves(x)
	yRe, yIm := halves(y)
	for i, v := range xRe {
		re, im := v-yRe[i], xIm[i]-yIm[i]
		sum -= math.Sqrt(float64(re*re) + float64(im*im))
	}
	return sum
}

func moduliGradient(sum []float64, w float64, x, y []float64) {
	xRe, xIm := halves(x)
	yRe, yIm := halves(y)
	sumRe, sumIm := halves(sum)
	for i, v := range xRe {
		re, im := v-yRe[i], xIm[i]-yIm[i]
		if modulus := math.Sqrt(float64(re*re) + float64(im*im)); modulus > 0 {
			f := w / modulus
			sumRe[i] -= float64(f * re)
			sumIm[i] -= float64(f * im)
		}
	}
}

// sines is −Σ|Im(x_i conj(y_i))|: of numbers of modulus 1, the sine of the angle between them.
func sines(x, y []float64) (sum float64) {
	xRe, xIm := halves(x)
	yRe, yIm := halves(y)
	for i, v := range xRe {
		sum -= math.Abs(float64(xIm[i]*yRe[i]) - float64(v*yIm[i]))
	}
	return sum
}

func sinesGradient(sum []float64, w float64, x, y []float64) {
	xRe, xIm := halves(x)
	yRe, yIm := halves(y)
	sumRe, sumIm := halves(sum)
	for i, v := range xRe {
		s := w * sign(float64(xIm[i]*yRe[i])-float64(v*yIm[i]))
		sumRe[i] += float64(s * yIm[i])
		sumIm[i] -= float64(s * yRe[i])
	}
}
