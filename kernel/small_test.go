package kernel

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

var smallDims = []int{1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 18, 20, 24, 25, 31, 32, 33, 38, 40, 47, 48, 49, 65}

// small returns a d × d matrix between guard pages.
func small(d int, value func() float32) []float32 {
	m := guarded[float32](Len32(d))
	for i := range d {
		for j := range d {
			m[i*LD32(d)+j] = value()
		}
	}
	return m
}

// Products of small matrices equal their twin bit for bit and keep zeros beyond d.
func TestMatMul32(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(1, 7))
		normal := func() float32 { return float32(rng.NormFloat64()) }
		for _, d := range smallDims {
			for round := range 4 {
				value := normal
				if round == 3 {
					value = func() float32 {
						if rng.IntN(30) == 0 {
							return special[rng.IntN(len(special))]
						}
						return normal()
					}
				}
				ld, add := LD32(d), round%2 == 1
				x, y, before := small(d, value), small(d, value), small(d, value)
				for _, form := range []struct {
					multiply          func(c, a, b []float32, d int, add bool)
					transposed, lower bool
				}{{b.MatMul32, false, false}, {b.MatMulT32, true, false}, {b.MatMulLower32, false, true}, {b.MatMulTLower32, true, true}} {
					c := guarded[float32](Len32(d))
					copy(c, before)
					form.multiply(c, x, y, d, add)
					for i := range len(c) / ld {
						for j := range ld {
							if i >= d || j >= d {
								if round < 3 { // 0·∞ is no number
									require.Zero(t, c[i*ld+j], "d = %d: %d,%d", d, i, j)
								}
								continue
							}
							if form.lower && j > i {
								continue
							}
							want, plus := twinProduct(b.Tier, d, func(k int) float32 {
								if form.transposed {
									return x[k*ld+i]
								}
								return x[i*ld+k]
							}, func(k int) float32 { return y[k*ld+j] })
							if add {
								want = plus(before[i*ld+j])
							}
							requireBits(t, []float32{want}, c[i*ld+j:i*ld+j+1], "d = %d: %d,%d of %+v", d, i, j, form)
						}
					}
				}
			}
		}
	})
}

func TestTranspose32(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		for _, d := range smallDims {
			n := float32(0)
			x, y := small(d, func() float32 { n++; return n }), guarded[float32](Len32(d))
			b.Transpose32(y, x, d)
			for i := range len(x) / LD32(d) {
				for j := range LD32(d) {
					want := float32(0)
					if i < d && j < d {
						want = x[j*LD32(d)+i]
					}
					require.Equal(t, want, y[i*LD32(d)+j])
				}
			}
		}
	})
}

// Moves between triangles and matrices equal plain loops bit for bit.
func TestTriangles(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(3, 7))
		for _, d := range smallDims {
			ld := LD32(d)
			for round := range 3 {
				value := func() float32 {
					if round == 2 && rng.IntN(10) == 0 {
						return []float32{0, float32(math.Copysign(0, -1)), float32(math.Inf(1)), math.SmallestNonzeroFloat32}[rng.IntN(4)]
					}
					return float32(rng.NormFloat64())
				}
				packed, m := guarded[float32](d*(d+1)/2), guarded[float32](Len32(d))
				for i := range packed {
					packed[i] = value()
				}
				for range 2 { // over what is there
					b.UnpackSymmetric32(m, packed, d, 3)
				}
				for i := range len(m) / ld {
					for j := range ld {
						want := float32(0)
						if i < d && j < d {
							want = packed[max(i, j)*(max(i, j)+1)/2+min(i, j)]
							if i == j {
								want *= 3
							}
						}
						requireBits(t, []float32{want}, m[i*ld+j:i*ld+j+1], "d = %d: unpacked %d,%d", d, i, j)
					}
				}

				x, again, sum := small(d, value), guarded[float32](len(packed)), guarded[float32](Len32(d))
				b.PackLower32(again, x, d, -2, 0.5)
				copy(sum, x)
				b.AddTranspose32(sum, d)
				at := 0
				for i := range d {
					for j := range i + 1 {
						factor := float32(-2)
						if i == j {
							factor = 0.5
						}
						requireBits(t, []float32{x[i*ld+j] * factor}, again[at:at+1], "d = %d: packed %d,%d", d, i, j)
						requireBits(t, []float32{x[i*ld+j] + x[j*ld+i]}, sum[i*ld+j:i*ld+j+1], "d = %d: added %d,%d", d, i, j)
						at++
					}
				}
			}
		}
	})
}

// symmetricFeatures returns the features of the stored row a in float64, by plain loops.
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

func TestSymmetric(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		rng := rand.New(rand.NewPCG(2, 7))
		for _, d := range []int{1, 2, 3, 7, 8, 9, 16, 18, 20, 35, 38, 40, 65} {
			s := b.NewSymmetric(d)
			p := d * (d + 1) / 2
			for range 2 { // a second time: what the first left behind does not matter
				a, gphi, phi, ga := guarded[float32](p), guarded[float32](2*p), guarded[float32](2*p), guarded[float32](p)
				wide := make([]float64, p)
				for i := range a {
					a[i] = float32(rng.NormFloat64())
					wide[i] = float64(a[i])
				}
				for i := range gphi {
					gphi[i] = float32(rng.NormFloat64())
				}
				s.Features(phi, a)
				want := symmetricFeatures(wide, d)
				for i, w := range want {
					require.InDelta(t, w, phi[i], 3e-6*float64(d+1), "d = %d: feature %d", d, i)
				}

				// L = gphi·φ is quadratic in a, so that central differences are exact but for rounding.
				loss := func() (sum float64) {
					for i, f := range symmetricFeatures(wide, d) {
						sum += float64(gphi[i]) * f
					}
					return sum
				}
				s.Gradient(ga, gphi, a)
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
				copied := append([]float32{}, ga...)
				s.Gradient(gphi[:p], gphi, a)
				requireBits(t, copied, gphi[:p], "d = %d: in place", d)
				require.Zero(t, testing.AllocsPerRun(2, func() { s.Features(phi, a); s.Gradient(ga, gphi, a) }))
			}
		}
	})
}
