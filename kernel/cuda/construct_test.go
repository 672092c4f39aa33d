//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
)

// TestConstruct requires that φ and ψ of MQuinE and MQuadE equal the results of the definition in
// model/mquine.go bit for bit.
func TestConstruct(t *testing.T) {
	f, d := openStandin(t)
	assert.EqualValues(t, unsafe.Sizeof(Construct{}), f.ArgumentSize("construct_features"))
	assert.EqualValues(t, unsafe.Sizeof(ConstructQueries{}), f.ArgumentSize("construct_queries"))
	dims := []int{1, 2, 7, 33, MaxTowerDim}
	if testing.Short() {
		dims = dims[:4]
	}
	conformConstruct(newRig(t, d), dims)
	_, err := NewTowers(d, MaxTowerDim)
	assert.NoError(t, err)
	_, err = NewTowers(d, MaxTowerDim+1)
	assert.Error(t, err, "the stand-in has 99 KiB of shared memory")
}

func TestGPUConstruct(t *testing.T) {
	conformConstruct(openGPU(t), []int{1, 2, 7, 18, 33, 38, MaxTowerDim})
}

// matrix is a d × d matrix with the arithmetic of the definition in model/mquine.go.
type matrix struct {
	d int
	v []float64
}

func newMatrix(d int, entry func(i, j int) float64) matrix {
	m := matrix{d, make([]float64, d*d)}
	for i := range d {
		for j := range d {
			m.v[i*d+j] = entry(i, j)
		}
	}
	return m
}

func (m matrix) at(i, j int) float64 { return m.v[i*m.d+j] }

func (m matrix) transposed() matrix {
	return newMatrix(m.d, func(i, j int) float64 { return m.at(j, i) })
}

// times computes a product in which every entry is one chain of fused multiply-adds.
func (m matrix) times(o matrix) matrix {
	return newMatrix(m.d, func(i, j int) (sum float64) {
		for k := range m.d {
			sum = math.FMA(m.at(i, k), o.at(k, j), sum)
		}
		return sum
	})
}

func (m matrix) norm() (sum float64) {
	for _, v := range m.v {
		sum += v * v
	}
	return math.Sqrt(sum)
}

func conformConstruct(r *rig, dims []int) {
	rng := rand.New(rand.NewPCG(8, 1))
	const entities, relations = 9, 3
	for _, d := range dims {
		for _, scale := range []float64{1, 1e-25, 1e25} { // includes φ and ψ below and above the range of float32
			packed := d * (d + 1) / 2
			k := max(64, roundUpTo(2*packed, 32))
			random := func(n int) []float32 {
				v := make([]float32, n)
				for i := range v {
					v[i] = float32(scale * rng.NormFloat64())
				}
				return v
			}
			table := random(entities * packed)
			tensors := [3][]float32{random(relations * d * d), random(relations * d * d), random(relations * d * d)}
			entity := func(e int) matrix {
				return newMatrix(d, func(i, j int) float64 {
					i, j = max(i, j), min(i, j)
					v := float64(table[e*packed+i*(i+1)/2+j])
					if i == j {
						v *= 2
					}
					return v
				})
			}
			relation := func(which, r int) matrix {
				return newMatrix(d, func(i, j int) float64 { return float64(tensors[which][(r*d+i)*d+j]) })
			}
			// row packs two symmetric matrices.
			row := func(first, second func(i, j int) float64) []float32 {
				out := make([]float32, k)
				for i := range d {
					for j := range i + 1 {
						out[i*(i+1)/2+j], out[packed+i*(i+1)/2+j] = float32(first(i, j)), float32(second(i, j))
					}
				}
				return out
			}
			same := func(want, got []float32, what string, arguments ...any) {
				for t := range want {
					require.Equal(r.t, math.Float32bits(want[t]), math.Float32bits(got[t]),
						"d = %d, scale %g, entry %d of %s", d, scale, t, fmt.Sprintf(what, arguments...))
				}
			}
			bound := func(want, got float64, what string) {
				require.GreaterOrEqual(r.t, got, want, what)
				require.False(r.t, got > want*(1+1e-8), "%s: %g is far above %g", what, got, want)
			}

			towers, err := NewTowers(r.d, d)
			require.NoError(r.t, err)
			order := []int32{4, 0, 8, 8, 1}
			n := len(order)
			out, norm, size := up(r, make([]float32, n*k)), up(r, make([]float64, n)), up(r, make([]float64, n))
			where := up(r, table)
			towers.Features(r.s, Construct{Entities: where.At(0), Entity: up(r, order).At(0),
				Out: out.At(0), Norms: norm.At(0), Sizes: size.At(0),
				N: int32(n), Dim: int32(d), K: int32(k)})
			phi := down[float32](r, out, n*k)
			phiNorms, phiSizes := down[float64](r, norm, n), down[float64](r, size, n)
			for i, e := range order {
				m := entity(int(e))
				want := row(m.at, m.times(m).at)
				same(want, phi[i*k:][:k], "φ of %d", e)
				bound(norms(want, k)[0]/(1+1e-9), phiNorms[i], "‖φ‖")
				bound(m.norm(), phiSizes[i], "‖E‖")
			}

			queries := []Query{{0, 0, 0}, {0, 0, 1}, {5, 2, 0}, {5, 2, 1}, {8, 1, 0}}
			n = len(queries)
			for _, cross := range []bool{true, false} {
				const kappa = 1e-3
				out, rows := up(r, make([]float32, n*k)), up(r, make([]PairRow, n))
				a := ConstructQueries{Entities: where.At(0), Head: up(r, tensors[0]).At(0),
					Tail: up(r, tensors[1]).At(0), Queries: up(r, queries).At(0),
					Out: out.At(0), Rows: rows.At(0), Kappa: kappa, N: int32(n), Dim: int32(d), K: int32(k)}
				if cross {
					a.Cross = up(r, tensors[2]).At(0)
				}
				towers.Queries(r.s, a)
				psi, pairRows := down[float32](r, out, n*k), down[PairRow](r, rows, n)
				for i, q := range queries {
					h, head, tail, c := entity(int(q.Anchor)), relation(0, int(q.Relation)),
						relation(1, int(q.Relation)), relation(2, int(q.Relation))
					if !cross {
						c = newMatrix(d, func(int, int) float64 { return 0 })
					}
					if q.Side == 1 {
						head, tail = tail.transposed(), head.transposed()
						inverse := c
						c = newMatrix(d, func(i, j int) float64 { return -inverse.at(j, i) })
					}
					a, b := h.times(head), h.times(c)
					for i := range b.v {
						b.v[i] -= tail.v[i]
					}
					ba, bb := b.transposed().times(a), b.transposed().times(b)
					want := row(func(i, j int) float64 {
						if i == j {
							return -2 * ba.at(i, i)
						}
						return -2 * (ba.at(i, j) + ba.at(j, i))
					}, func(i, j int) float64 {
						if i == j {
							return -bb.at(i, i)
						}
						return -2 * bb.at(i, j)
					})
					same(want, psi[i*k:][:k], "ψ of %v, with a cross matrix: %v", q, cross)
					bound(norms(want, k)[0]/(1+1e-9), pairRows[i].Norm, "‖ψ‖")
					a0, a1 := h.norm()*head.norm(), tail.norm()+h.norm()*c.norm()
					for power, v := range [3]float64{a0 * a0, 2 * a0 * a1, a1 * a1} {
						bound(kappa*v, pairRows[i].Slack[power], "slack")
					}
				}
			}
		}
	}
}

// TestPrepareRows compares the results of prepare_rows with the formulas in docs/numerics.md.
func TestPrepareRows(t *testing.T) {
	f, d := openStandin(t)
	assert.EqualValues(t, unsafe.Sizeof(Prepare{}), f.ArgumentSize("prepare_rows"))
	conformRows(newRig(t, d))
}

func TestGPUPrepareRows(t *testing.T) { conformRows(openGPU(t)) }

func conformRows(r *rig) {
	rng := rand.New(rand.NewPCG(8, 2))
	const n, k = 11, 96
	psi, centre := make([]float32, n*k), make([]float32, k)
	for i := range psi {
		psi[i] = float32(rng.NormFloat64())
	}
	for t := range centre {
		centre[t] = float32(rng.NormFloat64())
	}
	queries, sizes, scales := make([]PairRow, n), make([]float64, 3*n), make([]float32, n)
	first, interval := []int32{0}, []float64{}
	for q := range n {
		queries[q] = PairRow{Norm: rng.ExpFloat64(), Slack: [3]float64{rng.Float64() * 1e-6, rng.Float64() * 1e-6,
			rng.Float64() * 1e-6}}
		sizes[3*q], sizes[3*q+1], sizes[3*q+2], scales[q] = rng.Float64(), rng.Float64(), rng.Float64(),
			float32(math.Ldexp(1, q))
		for range q * 7 % 40 { // no targets, some, and more than a warp has threads
			x := rng.NormFloat64()
			interval = append(interval, x, x+1e-3*rng.Float64())
		}
		first = append(first, int32(len(interval)/2))
	}
	queries[3].Norm = math.Inf(1)
	interval[2*first[5]], interval[2*first[5]+1] = math.Inf(-1), math.Inf(1)
	interval[2*first[6]+1] = math.Inf(1)
	targets := len(interval) / 2
	for _, half := range []bool{true, false} {
		for _, c := range supported() {
			if half && c != kernel.Dot {
				continue
			}
			rows, ends := up(r, make([]Row, QueryTile)), up(r, make([]float32, 2*targets))
			a := Prepare{Psi: up(r, psi).At(0), Queries: up(r, queries).At(0), TargetStart: up(r, first).At(0),
				Interval: up(r, interval).At(0), Rows: rows.At(0), Ends: ends.At(0),
				N: n, Padded: QueryTile, K: k, Compare: int32(c.Kind()), Relative: 1e-5, Absolute: 1e-7, Centring: 1e-9}
			if c == kernel.Dot {
				a.Rounding, a.Subnormal = 1e-4, 1e-8
			}
			if half {
				a.Centre, a.Scales, a.Sizes = up(r, centre).At(0), up(r, scales).At(0), up(r, sizes).At(0)
			}
			r.stages.Rows(r.s, a)
			got, gotEnds := down[Row](r, rows, QueryTile), down[float32](r, ends, 2*targets)
			// A bound may exceed the exact value only slightly.
			bound := func(want float64, got float32, what string, q int) {
				require.GreaterOrEqual(r.t, float64(got), want*(1-1e-12), "%s, %s of row %d, tensor cores: %v", c,
					what, q, half)
				require.False(r.t, float64(got) > want*(1+1e-6)+1e-40,
					"%s, %s of row %d, tensor cores: %v: %g is far above %g", c, what, q, half, got, want)
			}
			for q, row := range got {
				if q >= n {
					require.Equal(r.t, Row{Low: float32(math.Inf(1))}, row)
					continue
				}
				p := queries[q]
				shift, shiftSize := 0.0, 0.0
				if half {
					for t := range k {
						x := float64(psi[q*k+t]) * float64(centre[t])
						shift, shiftSize = shift+x, shiftSize+math.Abs(x)
					}
				}
				absolute, factor := a.Absolute, 1.0
				rounding := 0.0
				if c == kernel.Dot {
					rounding, absolute = a.Rounding*p.Norm+a.Subnormal, absolute+a.Subnormal*(p.Norm+1)
				}
				switch {
				case c.Distance():
					absolute, factor = 0, 1+a.Relative
				case half:
					absolute += a.Centring * shiftSize
					bound(sizes[3*q+1], row.A[0], "a₀", q)
					bound(sizes[3*q+2], row.A[1], "a₁", q)
					bound(a.Relative*sizes[3*q+2], row.A[2], "a₂", q)
					require.Equal(r.t, scales[q], row.Scale)
				default:
					rounding += a.Relative * p.Norm
				}
				bound(rounding, row.A[3], "a₃", q)
				bound((p.Slack[0]+absolute)*factor, row.S[0], "s₀", q)
				bound(p.Slack[1]*factor, row.S[1], "s₁", q)
				bound(p.Slack[2]*factor, row.S[2], "s₂", q)
				norm := p.Norm
				if half {
					norm = sizes[3*q]
				}
				bound(norm, row.Norm, "norm", q)
				low := float32(math.Inf(1))
				for t := first[q]; t < first[q+1]; t++ {
					lo, hi := interval[2*t]-shift, interval[2*t+1]-shift
					if c.Distance() {
						lo, hi = interval[2*t]*(1+a.Relative)-a.Absolute, interval[2*t+1]*(1-a.Relative)+a.Absolute
					}
					low = min(low, gotEnds[2*t])
					for side, want := range [2]float64{lo, hi} {
						got := float64(gotEnds[2*t+int32(side)])
						if math.IsInf(want, 0) {
							require.Equal(r.t, want, got)
							continue
						}
						size := math.Abs(shift) + math.Abs(want)
						require.GreaterOrEqual(r.t, (got-want)*float64(2*side-1), -1e-13*size, "end %d lies outside",
							side)
						require.InDelta(r.t, want, got, 1e-6*size)
					}
				}
				require.Equal(r.t, low, row.Low)
			}
		}
	}
}
