package linalg

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel/kerneltest"
)

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
				a, gphi, phi, ga := kerneltest.Guarded[float32](t, p), kerneltest.Guarded[float32](t, 2*p), kerneltest.Guarded[float32](t, 2*p), kerneltest.Guarded[float32](t, p)
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
				require.Zero(t, testing.AllocsPerRun(2, func() { s.Features(phi, a); s.Gradient(ga, gphi, a) }))
			}
		}
	})
}
