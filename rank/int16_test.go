package rank

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/ranktest"
)

// TestInt16Band checks that the scores of both kinds of int16 panels differ from the exact products of
// the float32 rows by at most the band. If a term of the band for coarse and fine codes is missing, a
// case fails, except for the terms for ψ·μ and for the roundings of the fine sum.
func TestInt16Band(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	const n, queries = 1000, 20
	plain := func(rng *rand.Rand, x []float32) { ranktest.Normal(rng, x, 0.3) }
	// The rotation turns these rows into integer codes of one sign, with no residuals and with sums
	// beyond 2²⁴.
	whole := func(rng *rand.Rand, x []float32) {
		codes := make([]float64, len(x))
		for i := range codes {
			codes[i] = 127 - float64(rng.IntN(4))
		}
		codes[0] = 127
		rotate(codes)
		groups := len(x) / spread
		for t := range x {
			x[t] = float32(codes[t%groups*spread+t/groups])
		}
	}
	for _, c := range []struct {
		name     string
		d        int
		psi, phi func(*rand.Rand, []float32)
		rotated  bool // without center and weights
	}{
		{"one dimension", 1, plain, plain, false},
		{"two dimensions", 2, plain, plain, false},
		{"random", 40, plain, plain, false},
		{"an outlier in each row", 50, plain, func(rng *rand.Rand, x []float32) {
			plain(rng, x)
			x[rng.IntN(len(x))] *= 1e5
		}, false},
		{"sizes apart", 20, plain, func(rng *rand.Rand,
			x []float32) {
			ranktest.Normal(rng, x, math.Exp(8*rng.NormFloat64()))
		}, false},
		{"far from 0", 8, plain, func(rng *rand.Rand, x []float32) {
			for i := range x {
				x[i] = float32(1e4 + rng.NormFloat64()*1e-2)
			}
		}, false},
		{"whole codes", 1536, whole, whole, true},
		{"whole codes of queries", 1536, whole, plain, true},
		{"whole codes of candidates", 1536, plain, whole, true},
	} {
		g := ranktest.Graph(rand.New(rand.NewPCG(3, 16)), n+queries, 1, 0, 0, 0)
		ranks := make([]Rank, queries)
		for i := range ranks {
			ranks[i] = Rank{Triple: kg.Triple{Head: int32(n + i), Tail: int32(i)}, Side: kg.Tail}
		}
		m := ranktest.Model(t, "distmult", c.d, g, 1,
			ranktest.Kind{Fill: func(rng *rand.Rand, _ model.Config, ts [][]float32) {
				for e := range n + queries {
					fill := c.phi
					if e >= n {
						fill = c.psi
					}
					fill(rng, ts[0][e*c.d:(e+1)*c.d])
				}
				for i := range ts[1] {
					ts[1][i] = 1
				}
			}})
		for _, b := range backends {
			for _, asked := range []Screen{int16Tiles, int16OneProduct} {
				if sameTwin(b, asked, kernel.Dot) {
					continue
				}
				e := loadAll(t, m, b, asked, ranks, n)
				x := e.features.screen.(bandedScreen)
				require.Equal(t, Int16Screen, x.name())
				if c.rotated {
					plain := x.common().coordinates
					clear(plain.center)
					plain.norm = 0
					for t := range c.d {
						plain.forward[t], plain.inverse[t] = 1.0/4, 1.0/4
					}
					require.NoError(t, repack(t.Context(), e))
				}
				wrong := scoresOutsideBands(t, e, x, queries, n, c.d)
				assert.Zero(t, wrong, "%s, %s: scores outside their bands", c.name, b.Tier)
			}
		}
	}
}

// bandedScreen is a screen of two-byte codes for dot products.
type bandedScreen interface {
	screen
	common() *codes
	band(q *codedQuery, g *codeGroup) float64
}

// scoresOutsideBands counts the panel scores of queries and n candidates that differ by more than their
// bands from the exact products.
func scoresOutsideBands(t *testing.T, e *cpuEngine, x bandedScreen, queries, n, width int) (wrong int) {
	f, mr, groups := e.features, x.panels().MR, x.common().groups
	for first := 0; first < queries; first += mr {
		s := begin(t, e, first, min(first+mr, queries))
		x.packQueries(&s.queries, &s.Vectors, len(s.Queries))
		call := s.call(s.Block)
		for p := range f.panelCount() {
			block := p / groupPanels
			s.thresholds.set(f, s.Block, &s.queries, block)
			f.aim(&call, p)
			x.panels().Score(s.panel, &call)
			for row := range s.Queries {
				// Each panel tests only some lanes, because sums of big.Float values are slow.
				for lane := p % 7; lane < min(f.nr, n-p*f.nr); lane += 7 {
					q := s.queries.coded[row]
					score := exactSum(q.center, q.step, groups[block].step, float64(s.panel.Scores[row*f.nr+lane]))
					want := exactDot(s.Row(row)[:width], f.Row(f.RowAt[p*f.nr+lane]))
					miss, _ := score.Sub(score, want).Float64()
					if !(math.Abs(miss) <= x.band(&q, &groups[block])) {
						wrong++
					}
				}
			}
		}
	}
	return wrong
}

// bigFloat returns x with enough bits for exact sums and products of ordinary numbers.
func bigFloat(x float64) *big.Float { return new(big.Float).SetPrec(500).SetFloat64(x) }

// exactSum returns a + xyz.
func exactSum(a, x, y, z float64) *big.Float {
	product := bigFloat(x)
	product.Mul(product, bigFloat(y))
	product.Mul(product, bigFloat(z))
	return product.Add(product, bigFloat(a))
}

func exactDot(x, y []float32) *big.Float {
	sum := bigFloat(0)
	for i, v := range x {
		sum.Add(sum, bigFloat(float64(v)*float64(y[i])))
	}
	return sum
}
