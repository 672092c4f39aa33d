package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
)

// Queries and their gradients agree with the formulas of docs/models/mquine.md, which gonum
// computes in float64. The test covers relations of two and of three matrices, both sides, and
// repeated use of the towers.
func TestTowers(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	for _, b := range backends {
		for _, matrices := range []int{2, 3} {
			for _, d := range []int{1, 7, 8, 9, 15, 16, 17, 24, 31, 38, 40} {
				t.Run(fmt.Sprint(b.Tier, " ", matrices, " ", d),
					func(t *testing.T) { conformTowers(t, b, matrices, d) })
			}
		}
	}
}

func conformTowers(t *testing.T, b *kernel.Backend, matrices, d int) {
	const relations = 3
	rng := rand.New(rand.NewPCG(uint64(d), uint64(matrices)))
	normals := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		return x
	}
	var tensors [][]float32
	for range matrices {
		tensors = append(tensors, normals(relations*d*d))
	}
	p := d * (d + 1) / 2
	query, back := newQueryTower(linalg.New(b), d), newGradientTower(linalg.New(b), d, Dura3)
	out := make([]float32, matrices*d*d)
	for round, side := range []kg.Side{kg.Head, kg.Tail, kg.Tail, kg.Head, kg.Head} {
		r := int32(round % relations)
		relation := relationOf(tensors, d, int(r), side)
		var rows [3][]float32
		for i, t := range tensors {
			rows[i] = t[int(r)*d*d:][:d*d]
		}
		query.begin(side, rows)
		back.begin(side, rows)
		if round == 3 { // begin must clear NaN from the sums
			back.gradient(make([]float32, p), normals(p), normals(2*p), math.NaN(), 0)
			back.begin(side, rows)
		}
		var sums [3]*mat.Dense
		for i := range sums {
			sums[i] = mat.NewDense(d, d, nil)
		}
		for range 1 + round%3 {
			anchor, dpsi, dc := normals(p), normals(2*p), rng.NormFloat64()
			H := symmetricOf(anchor, 2, d)
			A, B := product(H, relation[rh]), sum(1, product(H, relation[rc]), -1, relation[rt])

			psi := make([]float32, 2*p)
			require.InEpsilon(t, -math.Pow(mat.Norm(A, 2), 2), query.query(psi, anchor), 1e-5, "c")
			BA := product(B.T(), A)
			nearTriangle(t, sum(-1, BA, -1, BA.T()), 2, psi[:p], "ψ, first half")
			nearTriangle(t, sum(-1, product(B.T(), B), 0, B), 2, psi[p:], "ψ, second half")

			P1, P2 := symmetricOf(dpsi[:p], 1, d), symmetricOf(dpsi[p:], 1, d)
			// The penalty ‖A‖³ has the gradient 3‖A‖A.
			dPenalty := rng.NormFloat64()
			ofPenalty := 3 * dPenalty * mat.Norm(A, 2)
			dA, dB := sum(-2, product(B, P1), ofPenalty-2*dc, A), sum(-2, product(A, P1), -2, product(B, P2))
			sums[rh] = sum(1, sums[rh], 1, product(H, dA))
			sums[rt] = sum(1, sums[rt], -1, dB)
			sums[rc] = sum(1, sums[rc], 1, product(H, dB))
			X := sum(1, product(dA, relation[rh].T()), 1, product(dB, relation[rc].T()))
			gradient := make([]float32, p)
			back.gradient(gradient, anchor, dpsi, dc, dPenalty)
			nearTriangle(t, sum(1, X, 1, X.T()), 1, gradient, "gradient of the anchor")
		}
		back.end(out)
		for i := range matrices {
			want := mat.Matrix(sums[i])
			if side == kg.Head {
				want = sum(inverseSign[inverted[i]], sums[inverted[i]].T(), 0, sums[i])
			}
			near(t, want, func(row, col int) float32 { return out[(i*d+row)*d+col] }, false,
				fmt.Sprint("gradient of matrix ", i))
		}
	}
}

// relationOf returns the matrices of a relation or, for head queries, of its inverse. A missing
// matrix is zero.
func relationOf(tensors [][]float32, d, r int, side kg.Side) (relation [3]mat.Matrix) {
	for i := range relation {
		k, sign := i, 1.0
		if side == kg.Head {
			k = inverted[i]
			sign = inverseSign[k]
		}
		m := mat.NewDense(d, d, nil)
		if k < len(tensors) {
			m.Apply(func(row, col int, _ float64) float64 { return sign * float64(tensors[k][(r*d+row)*d+col]) }, m)
		}
		relation[i] = m
		if side == kg.Head {
			relation[i] = m.T()
		}
	}
	return relation
}

// symmetricOf unpacks a lower triangle and multiplies the entries on its diagonal by a factor.
func symmetricOf(packed []float32, diagonal float64, d int) mat.Matrix {
	m := mat.NewSymDense(d, nil)
	at := 0
	for i := range d {
		for j := range i + 1 {
			m.SetSym(i, j, float64(packed[at]))
			at++
		}
		m.SetSym(i, i, diagonal*m.At(i, i))
	}
	return m
}

func product(x, y mat.Matrix) *mat.Dense {
	var m mat.Dense
	m.Mul(x, y)
	return &m
}

// sum returns a·x + b·y.
func sum(a float64, x mat.Matrix, b float64, y mat.Matrix) *mat.Dense {
	var u, v mat.Dense
	u.Scale(a, x)
	v.Scale(b, y)
	u.Add(&u, &v)
	return &u
}

// nearTriangle compares a packed lower triangle with want, whose entries off the diagonal it
// multiplies by factor.
func nearTriangle(t *testing.T, want *mat.Dense, factor float64, got []float32, what string) {
	t.Helper()
	want.Apply(func(i, j int, v float64) float64 {
		if i != j {
			v *= factor
		}
		return v
	}, want)
	near(t, want, func(i, j int) float32 { return got[i*(i+1)/2+j] }, true, what)
}

// near compares matrices with a tolerance relative to the largest entry.
func near(t *testing.T, want mat.Matrix, got func(i, j int) float32, lower bool, what string) {
	t.Helper()
	most := max(mat.Max(want), -mat.Min(want))
	rows, cols := want.Dims()
	for i := range rows {
		for j := range cols {
			if !lower || j <= i {
				require.InDelta(t, want.At(i, j), got(i, j), 2e-5*(most+1e-3), "%s: %d,%d", what, i, j)
			}
		}
	}
}

// symmetricFeatures computes the features of the stored row a in float64, with plain loops.
func symmetricFeatures(a []float64, d int) []float64 {
	e := make([]float64, d*d)
	at := 0
	for i := range d {
		for j := range i + 1 {
			e[i*d+j] += a[at]
			e[j*d+i] += a[at]
			at++
		}
	}
	phi := make([]float64, 2*at)
	at = 0
	for i := range d {
		for j := range i + 1 {
			phi[at] = e[i*d+j]
			for k := range d {
				phi[len(phi)/2+at] += e[i*d+k] * e[k*d+j]
			}
			at++
		}
	}
	return phi
}

// Features and their gradients agree with their definitions, computed in float64.
func TestFeatureTower(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	for _, b := range backends {
		rng := rand.New(rand.NewPCG(2, 7))
		for _, d := range []int{1, 2, 3, 7, 8, 9, 16, 18, 20, 35, 38, 40, 65} {
			s := newFeatureTower(linalg.New(b), d)
			p := d * (d + 1) / 2
			for range 2 { // the second time, scratch memory holds results of the first
				a, gphi, phi, ga := make([]float32, p), make([]float32, 2*p), make([]float32, 2*p), make([]float32, p)
				wide := make([]float64, p)
				for i := range a {
					a[i] = float32(rng.NormFloat64())
					wide[i] = float64(a[i])
				}
				for i := range gphi {
					gphi[i] = float32(rng.NormFloat64())
				}
				s.features(phi, a)
				want := symmetricFeatures(wide, d)
				for i, w := range want {
					require.InDelta(t, w, phi[i], 3e-6*float64(d+1), "d = %d: feature %d", d, i)
				}

				// L = gphi·φ is quadratic in a, so central differences are exact up to rounding.
				loss := func() (sum float64) {
					for i, f := range symmetricFeatures(wide, d) {
						sum += float64(gphi[i]) * f
					}
					return sum
				}
				s.gradient(ga, gphi, a)
				for range 12 {
					i := rng.IntN(p)
					at := wide[i]
					wide[i] = at + 0.5
					up := loss()
					wide[i] = at - 0.5
					down := loss()
					wide[i] = at
					require.InDelta(t, up-down, float64(ga[i]), 2e-5*float64(d+1), "d = %d: derivative %d", d, i)
				}
				require.Zero(t, testing.AllocsPerRun(2, func() { s.features(phi, a); s.gradient(ga, gphi, a) }))
			}
		}
	}
}
