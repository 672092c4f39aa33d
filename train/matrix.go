package train

import (
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
)

// matrixGradient takes gradients of the towers of MQuinE and MQuadE back to their parameters. With
// A = H Rʰ and B = H Rᶜ − Rᵗ a tail query has the scores −‖A + B T‖², which is ψ·φ + constant with
// φ = [T, T²] in packed lower triangles. A head query is the tail query of the inverse relation
// (Rᵗᵀ, Rʰᵀ, −Rᶜᵀ). Entities are parameterised by packed A in E = A + Aᵀ.
//
// All matrices are kernel.LD(d) × kernel.LD(d), zero beyond d. MQuadE is MQuinE with Rᶜ = 0.
type matrixGradient struct {
	backend *kernel.Backend
	d, ld   int

	// The relation, or its inverse for head queries, with transposes, and the gradients of its
	// queries added up.
	side                      kg.Side
	relation, transposed, sum [3][]float64

	entity, a, b, p1, p2, da, db, x, y []float64
}

// The matrices of a relation, in the order of the model's tensors.
const (
	rh = iota
	rt
	rc
)

// inverted[i] is the matrix that becomes matrix i of the inverse relation, transposed and with the
// sign inverseSign[i].
var (
	inverted    = [3]int{rh: rt, rt: rh, rc: rc}
	inverseSign = [3]float64{rh: 1, rt: 1, rc: -1}
)

func newMatrixGradient(b *kernel.Backend, d int) *matrixGradient {
	g := &matrixGradient{backend: b, d: d, ld: kernel.LD(d)}
	matrix := func() []float64 { return kernel.AlignedFloat64(g.ld * g.ld) }
	for i := range 3 {
		g.relation[i], g.transposed[i], g.sum[i] = matrix(), matrix(), matrix()
	}
	g.entity, g.a, g.b, g.p1, g.p2, g.da, g.db, g.x, g.y =
		matrix(), matrix(), matrix(), matrix(), matrix(), matrix(), matrix(), matrix(), matrix()
	return g
}

// multiply computes c = a·b.
func (g *matrixGradient) multiply(c, a, b []float64) { g.backend.MatMulFMA(c, a, b, g.d) }

// unpack writes the symmetric matrix with the given packed lower triangle to dst, its diagonal
// multiplied by diagonal.
func unpack[T float32 | float64](g *matrixGradient, dst []float64, packed []T, diagonal float64) {
	at := 0
	for i := range g.d {
		for j := range i {
			v := float64(packed[at])
			dst[i*g.ld+j], dst[j*g.ld+i] = v, v
			at++
		}
		dst[i*g.ld+i] = diagonal * float64(packed[at])
		at++
	}
}

// candidate writes the gradient of a candidate to out, packed like its parameters, given phi =
// ∂L/∂φ.
func (g *matrixGradient) candidate(out []float64, parameters []float32, phi []float64) {
	// Let G1 and G2 be the gradients of E and E² as functions of all d² entries: those of the
	// packed entries, half of it off the diagonal. Then ∂L/∂E = G1 + G2 E + E G2, and twice its
	// lower triangle is the gradient of A. The twos cancel: unpack 2 G2.
	p := len(parameters)
	unpack(g, g.entity, parameters, 2)
	unpack(g, g.p2, phi[p:2*p], 2)
	g.multiply(g.x, g.p2, g.entity)
	at := 0
	for i := range g.d {
		for j := range i {
			out[at] = phi[at] + (g.x[i*g.ld+j] + g.x[j*g.ld+i])
			at++
		}
		out[at] = 2 * (phi[at] + g.x[i*g.ld+i])
		at++
	}
}

// begin prepares for the queries of one side of relation r, whose matrices are rows of the tensors.
func (g *matrixGradient) begin(side kg.Side, tensors []*adam, r int) {
	g.side = side
	for i, t := range tensors {
		plain, transposed, sign := g.relation[i], g.transposed[i], 1.0
		if side == kg.Head {
			k := inverted[i]
			plain, transposed, sign = g.transposed[k], g.relation[k], inverseSign[k]
		}
		for row := range g.d {
			for col, v := range t.values[(r*g.d+row)*g.d:][:g.d] {
				plain[row*g.ld+col], transposed[col*g.ld+row] = sign*float64(v), sign*float64(v)
			}
		}
	}
	for _, m := range g.sum {
		clear(m)
	}
}

// query writes the gradient of a query's anchor to out, packed like its parameters, and adds that
// of the relation to the sum. It is given psi = ∂L/∂ψ, the sum of w_e φ(e) over the candidates with
// w_e = ∂L/∂score(e), where the w_e must add up to 0.
func (g *matrixGradient) query(out []float64, parameters []float32, psi []float64) {
	p := len(parameters)
	unpack(g, g.entity, parameters, 2)
	g.multiply(g.a, g.entity, g.relation[rh])
	g.multiply(g.b, g.entity, g.relation[rc])
	for i, v := range g.relation[rt] {
		g.b[i] -= v
	}
	// With P1 = Σ w_e E and P2 = Σ w_e E²: ∂A = −2 B P1, ∂B = −2 (A P1 + B P2).
	unpack(g, g.p1, psi[:p], 1)
	unpack(g, g.p2, psi[p:2*p], 1)
	g.multiply(g.da, g.b, g.p1)
	g.multiply(g.db, g.a, g.p1)
	g.multiply(g.x, g.b, g.p2)
	for i, v := range g.x {
		g.da[i] *= -2
		g.db[i] = -2 * (g.db[i] + v)
	}

	// ∂Rʰ = H ∂A, ∂Rᵗ = −∂B, ∂Rᶜ = H ∂B.
	g.multiply(g.x, g.entity, g.da)
	g.multiply(g.y, g.entity, g.db)
	for i := range g.x {
		g.sum[rh][i] += g.x[i]
		g.sum[rt][i] -= g.db[i]
		g.sum[rc][i] += g.y[i]
	}

	// ∂H = sym(∂A Rʰᵀ + ∂B Rᶜᵀ), and twice its lower triangle is the gradient of A.
	g.multiply(g.x, g.da, g.transposed[rh])
	g.multiply(g.y, g.db, g.transposed[rc])
	at := 0
	for i := range g.d {
		for j := range i + 1 {
			ij, ji := i*g.ld+j, j*g.ld+i
			out[at] = (g.x[ij] + g.y[ij]) + (g.x[ji] + g.y[ji])
			at++
		}
	}
}

// end adds the gradients since begin to those of relation r.
func (g *matrixGradient) end(tensors []*adam, r int) {
	for i, t := range tensors {
		out := t.row(r)
		for row := range g.d {
			for col := range g.d {
				if g.side == kg.Tail {
					out[row*g.d+col] += g.sum[i][row*g.ld+col]
				} else {
					k := inverted[i]
					out[row*g.d+col] += float64(inverseSign[k] * g.sum[k][col*g.ld+row])
				}
			}
		}
	}
}
