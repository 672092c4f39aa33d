package kernel

import "fmt"

// LD32 is the leading dimension of float32 d × d matrices: d rounded up to 16, so that rows begin
// at cache lines.
func LD32(d int) int { return (d + 15) &^ 15 }

// Len32 is the number of entries of such a matrix: LD32(d) in each of d rows rounded up to 8.
// Entries beyond d are zero.
func Len32(d int) int { return (d + 7) &^ 7 * LD32(d) }

// smallKernels are the kernels of small matrices. multiply computes rows of a product:
//
//	c[i*ld+j] (+)= Σ_t a[i*aRow+t*aTerm]·b[t*ld+j],   i < rows, j < 8·eights, t < k
type smallKernels struct {
	rows         int // of a call of multiply
	multiply     func(c, a *float32, aRow, aTerm int, b *float32, k, ld, eights, add int)
	transpose    func(dst, src *float32, dstStride, stride, k int) // 8 rows
	unpack       func(dst, packed *float32, d, ld int, diagonal float32)
	pack         func(packed, src *float32, d, ld int, factor, diagonal float32)
	addTranspose func(m *float32, d, ld int)
}

// MatMul32 computes the product c = a·b of d × d float32 matrices, or c += a·b if add is set.
// Every entry of a·b is one chain of fused multiply-adds from 0 over ascending terms (in the
// generic tier product and sum are rounded separately), to which c is added. The matrices have
// Len32(d) entries; c overlaps neither a nor b.
func (b *Backend) MatMul32(c, a, bm []float32, d int, add bool) {
	b.product32(c, a, bm, LD32(d), 1, d, add, false)
}

// MatMulT32 computes c = aᵀ·b, or c += aᵀ·b, as MatMul32 does.
func (b *Backend) MatMulT32(c, a, bm []float32, d int, add bool) {
	b.product32(c, a, bm, 1, LD32(d), d, add, false)
}

// MatMulLower32 is MatMul32 for the entries on and below the diagonal; those above it may or may
// not be computed.
func (b *Backend) MatMulLower32(c, a, bm []float32, d int, add bool) {
	b.product32(c, a, bm, LD32(d), 1, d, add, true)
}

// MatMulTLower32 is MatMulT32 for the entries on and below the diagonal.
func (b *Backend) MatMulTLower32(c, a, bm []float32, d int, add bool) {
	b.product32(c, a, bm, 1, LD32(d), d, add, true)
}

func (b *Backend) product32(c, a, bm []float32, aRow, aTerm, d int, add, lower bool) {
	checkSmall("MatMul32", d, c, a, bm)
	s, ld := &b.small, LD32(d)
	eights := (d + 7) / 8
	for i := 0; i < d; i += s.rows {
		n := eights
		if lower {
			n = min(n, (i+s.rows-1)/8+1)
		}
		s.multiply(&c[i*ld], &a[i*aRow], aRow, aTerm, &bm[0], d, ld, n, btoi(add))
	}
}

func checkSmall(name string, d int, matrices ...[]float32) {
	for _, m := range matrices {
		if d < 1 || len(m) < Len32(d) {
			panic(fmt.Sprintf("kernel: %s: d = %d, a matrix of %d entries instead of %d", name, d, len(m), Len32(d)))
		}
	}
}

// Transpose32 writes the transpose of the d × d matrix src to dst. They must not overlap.
func (b *Backend) Transpose32(dst, src []float32, d int) {
	checkSmall("Transpose32", d, dst, src)
	ld := LD32(d)
	for i := 0; i < d; i += 8 {
		b.small.transpose(&dst[i], &src[i*ld], ld, ld, d)
	}
}

// AddTranspose32 adds its transpose to the d × d matrix m, on and below the diagonal; entries above
// it may or may not change.
func (b *Backend) AddTranspose32(m []float32, d int) {
	checkSmall("AddTranspose32", d, m)
	b.small.addTranspose(&m[0], d, LD32(d))
}

// UnpackSymmetric32 writes the symmetric d × d matrix with the packed lower triangle packed, row
// by row, to dst, its diagonal multiplied by diagonal (2 for E = A + Aᵀ from a packed A).
func (b *Backend) UnpackSymmetric32(dst, packed []float32, d int, diagonal float32) {
	checkSmall("UnpackSymmetric32", d, dst)
	checkTriangle("UnpackSymmetric32", d, packed)
	b.small.unpack(&dst[0], &packed[0], d, LD32(d), diagonal)
}

// PackLower32 packs the lower triangle of the d × d matrix src, row by row, multiplied by factor off
// the diagonal and by diagonal on it.
func (b *Backend) PackLower32(packed, src []float32, d int, factor, diagonal float32) {
	checkSmall("PackLower32", d, src)
	checkTriangle("PackLower32", d, packed)
	b.small.pack(&packed[0], &src[0], d, LD32(d), factor, diagonal)
}

func checkTriangle(name string, d int, packed []float32) {
	if len(packed) < d*(d+1)/2 {
		panic(fmt.Sprintf("kernel: %s: d = %d, a triangle of %d entries instead of %d", name, d, len(packed), d*(d+1)/2))
	}
}

// Symmetric computes the features of symmetric matrices and takes their gradients back. It is
// scratch memory of one goroutine.
//
// A stored row a is the packed lower triangle of A, row by row, d(d+1)/2 entries, and stands for
// E = A + Aᵀ: E_ii = 2a_ii and E_ij = a_ij for i > j. Its features are φ = [pack(E), pack(E²)], where
// pack takes the lower triangle, row by row, without any factor.
type Symmetric struct {
	backend *Backend
	d       int
	e, g, y []float32
	packed  []float32 // G E + E G
}

// NewSymmetric returns scratch memory for d × d matrices.
func (b *Backend) NewSymmetric(d int) *Symmetric {
	matrix := func() []float32 { return AlignedFloat32(Len32(d)) }
	return &Symmetric{backend: b, d: d, e: matrix(), g: matrix(), y: matrix(), packed: AlignedFloat32(d * (d + 1) / 2)}
}

// Features writes the d(d+1) features of the stored row a to phi.
func (s *Symmetric) Features(phi, a []float32) {
	b, p := s.backend, s.triangle("Features", phi, a)
	b.UnpackSymmetric32(s.e, a, s.d, 2)
	b.MatMulLower32(s.y, s.e, s.e, s.d, false)
	b.PackLower32(phi[:p], s.e, s.d, 1, 1)
	b.PackLower32(phi[p:2*p], s.y, s.d, 1, 1)
}

// Gradient writes ∂L/∂a to ga, given the stored row a and gphi = ∂L/∂φ (the derivatives by the
// entries of φ as they are stored, one for both E_ij and E_ji). ga may be gphi[:d(d+1)/2].
//
// With γ₁, γ₂ the halves of gphi and G the symmetric matrix with G_ij = γ₂_ij off and 2γ₂_ii on the
// diagonal, ∂L/∂a_ij is γ₁_ij + (G E + E G)_ij for i > j and 2γ₁_ii + (G E + E G)_ii on the diagonal.
// (L's derivative by the full matrix E is G₁ + G₂E + E G₂ with γ/2 off the diagonal, and dE = dA + dAᵀ.)
func (s *Symmetric) Gradient(ga, gphi, a []float32) {
	b, p := s.backend, s.triangle("Gradient", gphi, a)
	if len(ga) < p {
		panic(fmt.Sprintf("kernel: Symmetric.Gradient: d = %d, room for %d entries", s.d, len(ga)))
	}
	b.UnpackSymmetric32(s.e, a, s.d, 2)
	b.UnpackSymmetric32(s.g, gphi[p:2*p], s.d, 2)
	b.MatMul32(s.y, s.g, s.e, s.d, false)
	b.AddTranspose32(s.y, s.d) // E G is the transpose of G E
	b.PackLower32(s.packed, s.y, s.d, 1, 1)
	copy(ga[:p], gphi)
	at := -1
	for i := range s.d {
		at += i + 1
		ga[at] *= 2
	}
	b.Axpy(ga[:p], 1, s.packed)
}

func (s *Symmetric) triangle(name string, phi, a []float32) int {
	p := s.d * (s.d + 1) / 2
	if len(phi) < 2*p || len(a) < p {
		panic(fmt.Sprintf("kernel: Symmetric.%s: d = %d, %d features, a row of %d", name, s.d, len(phi), len(a)))
	}
	return p
}
