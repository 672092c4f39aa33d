package model

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/kerneltest"
	"github.com/mquine/mquine/kg"
)

// random returns a model with normal entries of the given scale, which is also its embedding range.
func random(t testing.TB, name string, d, n, r int, scale float64, seed uint64) Model {
	rng := rand.New(rand.NewPCG(seed, 9))
	c := Config{Model: name, Dim: d, Entities: n, Relations: r, Gamma: 12, EmbeddingRange: scale}
	shapes, err := Shapes(c)
	require.NoError(t, err)
	var tensors [][]float32
	for _, s := range shapes {
		x := make([]float32, s.Len())
		for i := range x {
			x[i] = float32(rng.NormFloat64() * scale)
		}
		tensors = append(tensors, x)
	}
	m, err := New(c, tensors)
	require.NoError(t, err)
	return m
}

// compare is a comparison by its definition, with 300 binary digits; abs is the sum of the
// magnitudes of a dot product.
func compare(c Comparison, psi, phi []float32) (result *big.Float, abs float64) {
	float := func(x float64) *big.Float { return new(big.Float).SetPrec(300).SetFloat64(x) }
	sum := float(0)
	switch c {
	case Dot:
		for i := range psi {
			p := float64(psi[i]) * float64(phi[i])
			sum.Add(sum, float(p))
			abs += math.Abs(p)
		}
	case L1:
		for i := range psi {
			d := float(float64(psi[i]))
			d.Sub(d, float(float64(phi[i])))
			sum.Sub(sum, d.Abs(d))
		}
	case GroupNorm:
		for i := 0; i < len(psi); i += 2 {
			squares := float(0)
			for j := i; j < i+2; j++ {
				d := float(float64(psi[j]))
				d.Sub(d, float(float64(phi[j])))
				squares.Add(squares, d.Mul(d, d))
			}
			sum.Sub(sum, squares.Sqrt(squares))
		}
	case Phase:
		for i := 0; i < len(psi); i += 2 {
			d := float(float64(psi[i]) * float64(phi[i]))
			d.Add(d, float(float64(psi[i+1])*float64(phi[i+1])))
			sum.Sub(sum, d.Abs(d))
		}
	}
	return sum, abs
}

// The towers reproduce the reference up to a constant of the query, within the promised bounds.
func TestTowersWithinSlack(t *testing.T) {
	kerneltest.Each(t, 0, func(t *testing.T, b *kernel.Backend) {
		for _, name := range Names() {
			for _, d := range []int{1, 3, 8, 18, 38} {
				for _, scale := range []float64{1, 1e-3, 1e5, 1e-22} {
					t.Run(fmt.Sprintf("%s/d=%d/scale=%g", name, d, scale), func(t *testing.T) {
						const n = 40
						m := random(t, name, d, n, 2, scale, uint64(d)+7)
						w := m.NewWorker(b)
						for _, side := range []kg.Side{kg.Tail, kg.Head} {
							q := kg.Query{Side: side, Relation: 1, Anchor: 3}
							tower := m.Tower(side)
							F := tower.Width
							psi, phi := make([]float32, F), make([]float32, F)
							slack := w.Query(q, psi)
							require.Less(t, slack.At(1), math.Inf(1))
							lowest, highest := math.Inf(1), math.Inf(-1)
							for e := range int32(n) {
								size := w.Features(side, 1, e, phi)
								compared, abs := compare(tower.Compare, psi, phi)
								band := slack.At(size)
								if tower.Compare == Dot {
									band += abs*2.01*kernel.U32 + 0x1p-148*float64(F)*(1+norm2(psi)+norm2(phi))
								}
								// The constant, give or take the band.
								diff := new(big.Float).SetPrec(300).SetFloat64(w.Reference(q, e))
								at, _ := diff.Sub(diff, compared).Float64()
								lowest = min(lowest, at+band)
								highest = max(highest, at-band)
							}
							assert.LessOrEqual(t, highest, lowest, "%v: no constant fits every candidate", side)
						}
					})
				}
			}
		}
	})
}

// Where float32 holds ψ and φ exactly, the slack alone must cover the roundings of the reference. Here
// every coordinate has numbers of 10 bits and a scale of its own.
func TestSlackOfReference(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	for _, name := range []string{"transe-l1", "distmult", "complex"} {
		const d, n = 64, 200
		m := random(t, name, d, n, 1, 0, 1)
		rng := rand.New(rand.NewPCG(1, 3))
		for _, tensor := range m.Tensors() {
			for i := range tensor {
				tensor[i] = float32(math.Ldexp(float64(rng.IntN(1<<10)-1<<9), i%d*7%61-30))
			}
		}
		w := m.NewWorker(backends[0])
		psi, phi := make([]float32, m.Tower(kg.Tail).Width), make([]float32, m.Tower(kg.Tail).Width)
		errors := 0
		for _, side := range []kg.Side{kg.Tail, kg.Head} {
			q := kg.Query{Side: side, Anchor: 3}
			slack := w.Query(q, psi)
			for e := range int32(n) {
				size := w.Features(side, 0, e, phi)
				compared, _ := compare(m.Tower(side).Compare, psi, phi)
				diff := new(big.Float).SetPrec(300).SetFloat64(w.Reference(q, e))
				at, _ := diff.Sub(diff, compared).Float64()
				require.LessOrEqual(t, math.Abs(at), slack.At(size), "%s, %v", name, side)
				if at != 0 {
					errors++
				}
			}
		}
		assert.NotZero(t, errors, "%s: there is nothing to cover", name)
	}
}

// A vector beyond float32 decides nothing: its slack is infinite, or its norm where that alone
// tells.
func TestSlackBeyondFloat32(t *testing.T) {
	kerneltest.Each(t, 0, func(t *testing.T, b *kernel.Backend) {
		for _, name := range []string{"transe-l1", "rotate"} {
			m := random(t, name, 3, 2, 1, 1, 1)
			for _, tensor := range m.Tensors() {
				for i := range tensor {
					tensor[i] = 0
				}
			}
			// Sums beyond the range of float32; for rotate, by an angle of π/4 (of 3π/4 for heads).
			for i := range m.EntityRow(0) {
				m.EntityRow(0)[i] = math.MaxFloat32
			}
			for _, side := range []kg.Side{kg.Tail, kg.Head} {
				value := float32(math.MaxFloat32)
				if name == "rotate" {
					value = 0.25
				} else if side == kg.Head {
					value = -value
				}
				for i := range m.Tensors()[1] {
					m.Tensors()[1][i] = value
				}
				psi := make([]float32, m.Tower(side).Width)
				slack := m.NewWorker(b).Query(kg.Query{Side: side}, psi)
				assert.True(t, math.IsInf(slack.At(1), 1), "%s, %v: %v", name, side, psi)
			}
		}
	})
}

// A triple has one score, whichever side asks, and consecutive calls do not disturb each other.
func TestReferenceOfBothSides(t *testing.T) {
	kerneltest.Each(t, 0, func(t *testing.T, b *kernel.Backend) {
		for _, name := range Names() {
			m := random(t, name, 9, 6, 3, 1, 5)
			w := m.NewWorker(b)
			for i := range 200 {
				triple := kg.Triple{Head: int32(i % 6), Relation: int32(i / 2 % 3), Tail: int32(i / 5 % 6)}
				tq, tail := triple.Query(kg.Tail)
				hq, head := triple.Query(kg.Head)
				want := m.NewWorker(b).Reference(tq, tail)
				require.Equal(t, want, w.Reference(hq, head), "%s %v", name, triple)
				require.Equal(t, want, w.Reference(tq, tail), "%s %v", name, triple)
				psi := make([]float32, m.Tower(kg.Tail).Width)
				w.Query(kg.Query{Side: kg.Side(i % 2), Relation: int32(i % 3), Anchor: int32(i % 5)}, psi)
				require.Equal(t, want, w.Reference(tq, tail), "%s %v, after another query's ψ", name, triple)
			}
		}
	})
}

func TestWorkersDoNotAllocate(t *testing.T) {
	kerneltest.Each(t, 0, func(t *testing.T, b *kernel.Backend) {
		for _, name := range Names() {
			m := random(t, name, 9, 6, 3, 1, 5)
			w := m.NewWorker(b)
			psi := make([]float32, m.Tower(kg.Tail).Width)
			e := int32(0)
			assert.Zero(t, testing.AllocsPerRun(20, func() {
				e = (e + 1) % 6
				for _, side := range []kg.Side{kg.Tail, kg.Head} {
					w.Features(side, 0, e, psi)
					w.Query(kg.Query{Side: side, Relation: e % 3, Anchor: e}, psi)
					w.Reference(kg.Query{Side: side, Relation: e % 3, Anchor: e}, 5-e)
				}
			}), name)
		}
	})
}

func TestNewRefuses(t *testing.T) {
	_, err := New(Config{Model: "mquine", Dim: 2, Entities: 3, Relations: 1}, [][]float32{make([]float32, 9), make([]float32, 4), make([]float32, 4)})
	assert.EqualError(t, err, "model mquine has 4 tensors, not 3")
	_, err = New(Config{Model: "mquade", Dim: 2, Entities: 3, Relations: 1}, [][]float32{make([]float32, 8), make([]float32, 4), make([]float32, 4)})
	assert.EqualError(t, err, "model mquade: tensor entity must have 9 elements ([3 3]), not 8")
	_, err = New(Config{Model: "complex", Dim: 2, Entities: 3, Relations: 2}, [][]float32{make([]float32, 12), make([]float32, 4)})
	assert.EqualError(t, err, "model complex: tensor relation must have 8 elements ([2 4]), not 4")
	for _, c := range []struct {
		config  Config
		message string
	}{
		{Config{Model: "transd", Dim: 2}, "unknown model"},
		{Config{Model: "mquine", Dim: 0}, "out of range"},
		{Config{Model: "mquine", Dim: 513}, "dimension 513 (1 to 512)"},
		{Config{Model: "complex", Dim: 1 << 16}, "dimension 65536 (1 to 32768)"},
		{Config{Model: "rotate", Dim: 2}, "model rotate: the embedding range 0 is not from 1e-30 to 1e+30"},
		{Config{Model: "protate", Dim: 2, EmbeddingRange: math.NaN()}, "the embedding range NaN is not"},
		{Config{Model: "protate", Dim: 2, EmbeddingRange: 1, Modulus: -1}, "the modulus -1 is not a positive number"},
		{Config{Model: "transe-l1", Dim: 2, Gamma: math.Inf(1)}, "γ = +Inf is not a number"},
	} {
		_, err = Shapes(c.config)
		assert.ErrorContains(t, err, c.message)
	}
}
