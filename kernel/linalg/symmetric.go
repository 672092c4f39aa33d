package linalg

import "fmt"

// Symmetric computes the features of symmetric matrices and takes their gradients back. It is
// scratch memory of one goroutine.
//
// A stored row a is the packed lower triangle of A, row by row, d(d+1)/2 entries, and stands for
// E = A + Aᵀ: E_ii = 2a_ii and E_ij = a_ij for i > j. Its features are φ = [pack(E), pack(E²)], where
// pack takes the lower triangle, row by row, without any factor.
type Symmetric struct {
	backend *Backend
	d       int
	e, g, y Matrix
}

// NewSymmetric returns scratch memory for d × d matrices.
func (b *Backend) NewSymmetric(d int) *Symmetric {
	return &Symmetric{backend: b, d: d, e: NewSmall(d, d), g: NewSmall(d, d), y: NewSmall(d, d)}
}

// Features writes the d(d+1) features of the stored row a to phi.
func (s *Symmetric) Features(phi, a []float32) {
	b, p := s.backend, s.triangle("Features", phi, a)
	b.UnpackSymmetric32(s.e, a, 2)
	b.MatMulLower32(s.y, s.e, s.e, Matrix{})
	copy(phi[:p], a)
	at := -1
	for i := range s.d {
		at += i + 1
		phi[at] *= 2
	}
	b.PackLower32(phi[p:2*p], s.y, 1, 1)
}

// Gradient writes ∂L/∂a to ga, given the stored row a and gphi = ∂L/∂φ (the derivatives by the
// entries of φ as they are stored, one for both E_ij and E_ji). ga and gphi do not overlap.
//
// With γ₁, γ₂ the halves of gphi and G the symmetric matrix with G_ij = γ₂_ij off and 2γ₂_ii on the
// diagonal, ∂L/∂a_ij is γ₁_ij + (G E + E G)_ij for i > j and 2γ₁_ii + (G E + E G)_ii on the diagonal.
// (L's derivative by the full matrix E is G₁ + G₂E + E G₂ with γ/2 off the diagonal, and dE = dA + dAᵀ.)
func (s *Symmetric) Gradient(ga, gphi, a []float32) {
	b, p := s.backend, s.triangle("Gradient", gphi, a)
	if len(ga) < p {
		panic(fmt.Sprintf("linalg: Symmetric.Gradient: d = %d, room for %d entries", s.d, len(ga)))
	}
	b.UnpackSymmetric32(s.e, a, 2)
	b.UnpackSymmetric32(s.g, gphi[p:2*p], 2)
	b.MatMul32(s.y, s.g, s.e, Matrix{})
	b.AddTranspose32(s.y) // E G is the transpose of G E
	b.PackLower32(ga[:p], s.y, 1, 1)
	b.Axpy(ga[:p], 1, gphi[:p])
	at := -1
	for i := range s.d {
		at += i + 1
		ga[at] = s.y.Row(i)[i] + 2*gphi[at]
	}
}

func (s *Symmetric) triangle(name string, phi, a []float32) int {
	p := s.d * (s.d + 1) / 2
	if len(phi) < 2*p || len(a) < p {
		panic(fmt.Sprintf("linalg: Symmetric.%s: d = %d, %d features, a row of %d", name, s.d, len(phi), len(a)))
	}
	return p
}
