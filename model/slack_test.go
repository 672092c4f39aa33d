package model

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/exactly"
	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/kerneltest"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model/internal/unrounded"
)

// The tests in this file compare slacks with exact errors, computed in math/big. The parameters
// bring the errors close to the slacks, so the tests fail if a term of a slack is halved or missing
// (docs/numerics.md, "Tests of the bounds"). One tier is enough, because the float64 kernels give
// the same bits on all tiers.

// vector returns n entries: the value first once, and then the value rest n − 1 times.
func vector(n int, first, rest float64) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rest)
	}
	x[0] = float32(first)
	return x
}

// wide returns x, padded with zeros to n entries.
func wide(x []float32, n int) []float32 { return append(x, make([]float32, n-len(x))...) }

// slackError compares the errors for both queries of the triple (0, 0, 1) with the slacks. For a
// dot product, float32 must hold ψ and φ exactly. c must be 0.
func slackError(t *testing.T, m Model, ratio *exactly.Ratio) {
	for _, side := range []kg.Side{kg.Tail, kg.Head} {
		slackErrorOf(t, m, side, ratio)
	}
}

// slackErrorOf is slackError for the query on one side.
func slackErrorOf(t *testing.T, m Model, side kg.Side, ratio *exactly.Ratio) {
	w, triple := single(m, kerneltest.Best(t)), kg.Triple{Head: 0, Tail: 1}
	q, answer := triple.Query(side)
	tower := m.Tower(side)
	psi, phi := make([]float32, tower.Psi), make([]float32, tower.Phi)
	slack, size := w.Query(q, psi), w.Feature(side, 0, answer, phi)
	compared, _ := unrounded.Compare(tower.Compare, psi, phi)
	ratio.See(exactly.Sub(exactly.Of(w.Reference(q, answer)), compared), slack.At(size))
}

// The reference loses half a unit in the last place in every sum. The first term is 1, and adding
// any other term is a tie that rounds to even, which is 1.
func TestSlackOfSums(t *testing.T) {
	const d = 512
	zero := make([]float32, d)
	for _, c := range []struct {
		name                 string
		head, relation, tail []float32
		least                float64
	}{
		{"distmult", vector(d, 1, 0x1p-26), vector(d, 1, 1), vector(d, 1, 0x1p-27), 0.99},
		// The bound on |e_re| + |e_im| is √2 times too large here.
		{"complex", append(vector(d, 1, 0x1p-26), zero...), append(vector(d, 1, 1), zero...),
			append(vector(d, 1, 0x1p-27), zero...), 0.69},
		{"cp", slices.Concat(vector(d, 1, 0x1p-26), zero), vector(d, 1, 1),
			slices.Concat(zero, vector(d, 1, 0x1p-27)), 0.99},
		{"simple", slices.Concat(vector(d, 1, 0x1p-26), zero), slices.Concat(vector(d, 1, 1), zero),
			slices.Concat(zero, vector(d, 1, 0x1p-27)), 0.99},
		{"quate", wide(vector(d, 1, 0x1p-26), 4*d), wide(vector(d, 1, 1), 4*d), wide(vector(d, 1, 0x1p-27), 4*d), 0.93},
		{"duale", wide(vector(d, 1, 0x1p-26), 8*d), wide(vector(d, 1, 1), 8*d), wide(vector(d, 1, 0x1p-27), 8*d), 0.92},
		{"dihedral", wide(vector(d, 1, 0x1p-26), 2*d), make([]float32, 8*d), wide(vector(d, 1, 0x1p-27), 2*d), 0.96},
		{"seek", vector(4*d, 1, 0x1p-26), wide(vector(d, 1, 1), 4*d), vector(4*d, 1, 0x1p-27), 0.99},
		{"transe-l1", vector(d, 1, 0x1p-53), zero, vector(d, -0x1p-53, 0), 0.99},
		{"rotate", append(vector(d, 1, 0x1p-53), zero...), zero, append(vector(d, -0x1p-53, 0), zero...), 0.96},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := Config{Model: c.name, Dim: d, Hyper: rangeOf(c.name, 1)}
			var ratio exactly.Ratio
			slackError(t, rows(t, config, [][]float32{c.head, c.tail}, [][]float32{c.relation}), &ratio)
			ratio.Check(t, c.least)
		})
	}
}

// The errors from rounding ψ and φ to float32 may all have the same sign. The error of a score is
// then nearly as large as the slack.
func TestSlackOfChanges(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 4))
	some := func(n int) func() []float32 {
		return func() []float32 {
			x := make([]float32, n)
			for i := range x {
				x[i] = rng.Float32()
			}
			return x
		}
	}
	constant := func(x float32) func() []float32 { return func() []float32 { return []float32{x} } }
	for _, c := range []struct {
		name                 string
		head, relation, tail func() []float32
		least                float64
	}{
		{"transe-l1", constant(1), constant(0x1p-24), constant(0), 0.999}, // 1 + 2⁻²⁴ becomes 1
		{"rotate", some(2), some(1), some(2), 0.99},
		{"protate", some(1), some(1), some(1), 0.99}, // φ changes too
		{"mode", some(1), some(1), some(1), 0.99},    // φ of heads changes
	} {
		t.Run(c.name, func(t *testing.T) {
			config := Config{Model: c.name, Dim: 1, Hyper: rangeOf(c.name, 1)}
			var ratio exactly.Ratio
			for range 3000 {
				slackError(t, rows(t, config, [][]float32{c.head(), c.tail()}, [][]float32{c.relation()}), &ratio)
			}
			ratio.Check(t, c.least)
		})
	}
}

// In TransE-L2, every sum of the reference loses half a unit in the last place, and every sum of
// ‖e‖² in the features gains as much. The first coordinate is share for the candidate and share − 1
// for the anchor, so these coordinates differ by 1.
func TestSlackOfSquares(t *testing.T) {
	const d = 512
	root := math.Sqrt(kernel.U64)
	for _, c := range []struct{ share, least float64 }{{1, 0.98}, {0.5, 0.6}, {0, 0.49}} {
		candidate := vector(d, c.share, c.share*root*(1+0x1p-12))
		anchor := vector(d, c.share-1, root*((c.share-1)*(1-0x1p-11)+c.share*0x1p-11))
		relation := make([]float32, d)
		m := rows(t, Config{Model: "transe-l2", Dim: d}, [][]float32{anchor, candidate},
			[][]float32{relation}).(*transEL2)
		var ratio exactly.Ratio
		for _, side := range []kg.Side{kg.Tail, kg.Head} { // both sides are the same, because the relation is 0
			psi, phi := make([]float32, d+1), make([]float32, d+1)
			q := kg.Query{Side: side}
			slack, size := m.Query(q, psi), m.Feature(side, 0, 1, phi)
			var squares float64 // the last entry of φ, before rounding, is b times this sum
			for _, v := range candidate {
				squares += float64(float64(v) * float64(v))
			}
			last := m.b * squares
			require.Equal(t, float32(last), phi[d])
			score := exactly.Add(exactly.Dot(psi[:d], phi[:d]),
				exactly.Mul(exactly.Of(float64(psi[d])), exactly.Of(last)))
			score = exactly.Sub(score, exactly.Dot(anchor, anchor)) // c = −‖q‖²
			ratio.See(exactly.Sub(exactly.Of(m.Reference(q, 1)), score), slack.At(size))
		}
		ratio.Check(t, c.least)
	}
}

// In a head query of RESCAL, every sum of the reference loses half a unit in the last place, and
// every sum of ψ gains half a unit. The first entry of h, R and t is 1. The other products h_i R_i0
// are half a unit, so u₀ loses them. The other products R_0j t_j are a little more than half a
// unit, so ψ₀ rounds up. Row 1 of R makes the other u_j a little smaller than R_0j, so u_j t_j is
// less than half a unit, and the score loses it.
func TestSlackOfProducts(t *testing.T) {
	const d = 512
	root := math.Sqrt(kernel.U64)
	h, tail := vector(d, 1, 0x1p-27), vector(d, 1, root)
	r := make([]float32, d*d)
	copy(r, vector(d, 1, root*(1+0x1p-18)))
	for i := 1; i < d; i++ {
		r[i*d] = 0x1p-26
		r[d+i] = float32(-root * 0x1p-14 / 0x1p-27)
	}
	w := rows(t, Config{Model: "rescal", Dim: d}, [][]float32{h, tail}, [][]float32{r}).NewWorker(kerneltest.Best(t))
	q, rescal := kg.Query{Side: kg.Head, Anchor: 1}, w.(*rescalWorker)
	psi, slacks := Rows{make([]float32, d), d, d}, make([]Slack, 1)
	w.Queries(q.Side, 0, []int32{1}, psi, slacks)
	var ratio exactly.Ratio
	score := exactly.Dot(rescal.queries[:d], h)
	ratio.See(exactly.Sub(exactly.Of(w.Reference(q, 0)), score), slacks[0].At(fmath.Norm(h)))
	ratio.Check(t, 0.98)
}

// In TransR-L1, ψ and φ change when they are rounded to float32. In TransH-L2, the first coordinate
// of the difference is 1, and every sum of the reference loses half a unit in the last place.
func TestSlackOfProjections(t *testing.T) {
	check := func(c Config, tensors [][]float32, ratio *exactly.Ratio) {
		c.Entities, c.Relations = 2, 1
		m, err := New(c, tensors)
		require.NoError(t, err)
		w, triple := m.NewWorker(kerneltest.Best(t)), kg.Triple{Head: 0, Tail: 1}
		for _, side := range []kg.Side{kg.Tail, kg.Head} {
			q, answer := triple.Query(side)
			width := m.Tower(side).Psi
			psi, phi := Rows{make([]float32, width), width, width}, Rows{make([]float32, width), width, width}
			slack, size := make([]Slack, 1), make([]float64, 1)
			w.Queries(side, 0, []int32{q.Anchor}, psi, slack)
			w.Features(side, 0, []int32{answer}, phi, size)
			compared, _ := unrounded.Compare(m.Tower(side).Compare, psi.Values, phi.Values)
			ratio.See(exactly.Sub(exactly.Of(w.Reference(q, answer)), compared), slack[0].At(size[0]))
		}
	}
	t.Run("changes", func(t *testing.T) {
		rng := rand.New(rand.NewPCG(2, 5))
		var ratio exactly.Ratio
		for range 3000 {
			x := [4]float32{}
			for i := range x {
				x[i] = rng.Float32()
			}
			check(Config{Model: "transr-l1", Dim: 1}, [][]float32{{x[0], x[1]}, {x[2]}, {x[3]}}, &ratio)
		}
		ratio.Check(t, 0.9)
	})
	t.Run("sums", func(t *testing.T) {
		const d = 512
		zero, root := make([]float32, d), math.Sqrt(kernel.U64)
		anchor := vector(d, 1, root*(1-0x1p-12))
		var ratio exactly.Ratio
		// The candidate is 0, so c = −‖q‖² is the whole score, and the slack must cover the reference.
		m, err := New(Config{Model: "transh-l2", Dim: d, Entities: 2, Relations: 1},
			[][]float32{append(append([]float32{}, anchor...), zero...), zero, zero})
		require.NoError(t, err)
		w, q := m.NewWorker(kerneltest.Best(t)), kg.Query{}
		psi, slack := Rows{make([]float32, d+1), d + 1, d + 1}, make([]Slack, 1)
		w.Queries(kg.Tail, 0, []int32{0}, psi, slack)
		ratio.See(exactly.Add(exactly.Of(w.Reference(q, 1)), exactly.Dot(anchor, anchor)), slack[0].At(0))
		ratio.Check(t, 0.48)
	})
}

// In a head query of MQuinE, all sums of the reference (both products and both sums of squares)
// lose half a unit in the last place, and the sums of the towers (B, BᵀB and T²) gain as much.
//
// The first entry of anchor, candidate and Rᶜ is 1, and the other entries of the first row and
// column are nearly ω = √u. Every summand after the first is therefore nearly u, half a unit. The
// small diagonals decide on which side of u a summand lies, and therefore whether a sum loses or
// gains it.
func TestSlackOfMatrices(t *testing.T) {
	const (
		d     = 100
		sigma = 0x1p-8  // on the diagonals of the anchor and of Rᶜ
		tau   = 0x1p-16 // σ²
		small = 0x1p-21 // on the diagonal of the candidate
	)
	omega := math.Sqrt(kernel.U64)
	rho := omega / (1 - sigma)
	var eta float64
	for range 20 { // η + σρ = ω(1 + τ) and ηρ = ω²(1 + 2τ)
		eta = omega*(1+tau) - sigma*rho
		rho = omega * omega * (1 + 2*tau) / eta
	}
	anchor, candidate := packed(d, 1, eta, sigma), packed(d, 1, omega*(1+small), -2*small)
	zero, cross := make([]float32, d*d), make([]float32, d*d)
	cross[0] = 1
	for k := 1; k < d; k++ {
		cross[k], cross[k*d], cross[k*d+k] = float32(rho), float32(omega*(1-2*small)), -2*sigma
	}
	m, err := New(Config{Model: "mquine", Dim: d, Entities: 2, Relations: 1},
		[][]float32{append(anchor, candidate...), zero, zero, cross})
	require.NoError(t, err)
	w := m.NewWorker(kerneltest.Best(t)).(oneByOne).SingleWorker.(*matrixWorker)

	// BᵀA and c are 0. Query and Feature leave BᵀB and T² in square, before the rounding to
	// float32.
	q, half := kg.Query{Side: kg.Head}, Triangle(d)
	psi, phi := make([]float32, 2*half), make([]float32, 2*half)
	triangle := func(diagonal, other float64) (x []float64) {
		for i := range d {
			for j := range i {
				x = append(x, other*w.square[i*w.ld+j])
			}
			x = append(x, diagonal*w.square[i*w.ld+i])
		}
		return x
	}
	slack := w.Query(q, psi)
	second := triangle(-1, -2)
	size := w.Feature(kg.Head, 0, 1, phi)
	squares := triangle(1, 1)
	for i := range half {
		require.Zero(t, psi[i])
		require.Equal(t, float32(second[i]), psi[half+i])
		require.Equal(t, float32(squares[i]), phi[half+i])
	}
	var ratio exactly.Ratio
	ratio.See(exactly.Sub(exactly.Of(w.Reference(q, 1)), exactly.Dot(second, squares)), slack.At(size))
	ratio.Check(t, 0.95)
}

// packed returns the packed triangle of an entity. first is its first entry, row fills the other
// entries of the first row and column, and diagonal fills the other entries of the diagonal.
func packed(d int, first, row, diagonal float64) []float32 {
	x := make([]float32, Triangle(d))
	x[0] = float32(first / 2)
	for k := 1; k < d; k++ {
		x[Triangle(k)], x[Triangle(k)+k] = float32(row), float32(diagonal/2)
	}
	return x
}

// The polynomial of the slack is κ(a₀ + a₁n)², with the norms of docs/models/mquine.md, "Slack".
func TestSlackOfMatrixNorms(t *testing.T) {
	for _, name := range []string{"mquine", "mquade"} {
		for _, d := range []int{1, 5, 18} {
			m := random(t, name, d, 2, 1, 1, 3)
			for i, tensor := range m.Tensors()[1:] { // with different norms
				for j := range tensor {
					tensor[j] *= float32(1 + 2*i)
				}
			}
			norms := [3]*big.Float{exactly.Of(0), exactly.Of(0), exactly.Of(0)} // of Rʰ, Rᵗ and Rᶜ
			for i, tensor := range m.Tensors()[1:] {
				norms[i] = exactly.Norm(exactly.All(tensor))
			}
			entity := func(e int32) *big.Float {
				var all []float64
				at := 0
				for i := range d {
					for range i {
						v := float64(entityRow(m, e)[at])
						all, at = append(all, v, v), at+1
					}
					all, at = append(all, 2*float64(entityRow(m, e)[at])), at+1
				}
				return exactly.Norm(exactly.All(all))
			}
			w := single(m, kerneltest.Best(t))
			psi := make([]float32, m.Tower(kg.Tail).Phi)
			var ratio exactly.Ratio
			for _, side := range []kg.Side{kg.Tail, kg.Head} {
				slack, size := w.Query(kg.Query{Side: side}, psi), w.Feature(side, 0, 1, psi)
				first, last := norms[0], norms[1]
				if side == kg.Head {
					first, last = last, first
				}
				a0 := exactly.Mul(entity(0), first)
				a1 := exactly.Add(last, exactly.Mul(entity(0), norms[2]))
				for _, n := range []*big.Float{exactly.Of(0), exactly.Quo(a0, a1),
					entity(1)} { // each term alone, and all terms equal
					at, _ := n.Float64()
					if n.Cmp(exactly.Of(at)) > 0 {
						at = math.Nextafter(at, math.Inf(1))
					}
					g := exactly.Add(a0, exactly.Mul(a1, n))
					ratio.See(exactly.Mul(exactly.Of(matrixKappa(d)), g, g), slack.At(at))
				}
				ratio.See(entity(1), size)
			}
			ratio.Check(t, 1-1e-8)
		}
	}
}

// Computed norms are upper bounds, even if a sum loses all terms except the first.
func TestNormsAreUpperBounds(t *testing.T) {
	x := vector(1<<10, 1, 0x1p-54)
	sum := exactly.Of(0)
	for _, v := range x {
		sum = exactly.Add(sum, exactly.Of(float64(v)))
	}
	y := vector(1<<10, 1, 0x1p-27)
	m, err := New(Config{Model: "mquade", Dim: 30, Entities: 1, Relations: 1},
		[][]float32{packed(30, 1, 0x1p-28, 0), make([]float32, 900), make([]float32, 900)})
	require.NoError(t, err)
	w := m.NewWorker(kerneltest.Best(t)).(oneByOne).SingleWorker.(*matrixWorker)
	unpacked := w.unpack(w.entity, 0)
	for _, c := range []struct {
		name string
		want *big.Float
		got  float64
	}{
		{"norm1", sum, fmath.Norm1(x)},
		{"pairNorm", sum, fmath.PairNorm(x, make([]float32, len(x)))},
		{"norm of float32", exactly.Norm(exactly.All(y)), fmath.Norm(y)},
		{"norm of float64", exactly.Norm(exactly.All(y)), fmath.Norm(doubles(y))},
		{"unpack", exactly.Norm(exactly.All(w.entity)), unpacked},
	} {
		t.Run(c.name, func(t *testing.T) {
			var ratio exactly.Ratio
			ratio.See(c.want, c.got)
			ratio.Check(t, 1-1.1e-9)
		})
	}
}

// The slack of HAKE covers rounding ψ and φ to float32, and the roundings of the reference. Each
// case sets one of the two weights to 0, so its score has only one distance.
func TestSlackOfHAKE(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 4))
	hyper := func(phases, moduli float64) map[string]float64 {
		return map[string]float64{EmbeddingRange: 1, PhaseWeight: phases, ModulusWeight: moduli}
	}
	try := func(ratio *exactly.Ratio, c Config, head, relation, tail []float32) {
		c.Model = "hake"
		slackError(t, rows(t, c, [][]float32{head, tail}, [][]float32{relation}), ratio)
	}
	t.Run("phases", func(t *testing.T) {
		var ratio exactly.Ratio
		for range 30_000 {
			try(&ratio, Config{Dim: 1, Hyper: hyper(1, 0)}, []float32{rng.Float32(), 0},
				[]float32{rng.Float32(), 0, 0}, []float32{rng.Float32(), 0})
		}
		ratio.Check(t, 0.9)
	})
	t.Run("anchors", func(t *testing.T) {
		var ratio exactly.Ratio
		for range 100 {
			try(&ratio, Config{Dim: 1, Hyper: hyper(0, 1)}, []float32{0, rng.Float32()},
				[]float32{0, rng.Float32(), 0}, []float32{0, 0})
		}
		ratio.Check(t, 0.99)
	})
	t.Run("candidates", func(t *testing.T) {
		var ratio exactly.Ratio
		for range 100 {
			try(&ratio, Config{Dim: 1, Hyper: hyper(0, 1)}, []float32{0, 0},
				[]float32{0, 0, rng.Float32() * 0x1p-8}, []float32{0, 1 + rng.Float32()})
		}
		ratio.Check(t, 0.99)
	})
	t.Run("reference", func(t *testing.T) {
		const d = 512
		zero := make([]float32, d)
		relation := append(append(slices.Clone(zero), vector(d, 1, 1)...), zero...)
		head := append(slices.Clone(zero), vector(d, 1, math.Sqrt(kernel.U64)*(1-0x1p-20))...)
		var ratio exactly.Ratio
		try(&ratio, Config{Dim: d, Hyper: hyper(0, 1)}, head, relation, make([]float32, 2*d))
		ratio.Check(t, 0.45)
	})
}

// The slack of OTE covers rounding ψ to float32, and the roundings of the reference. With groups of
// one coordinate, the chain over the groups loses half a unit in the last place in every sum. With
// one group, the chain of squares loses as much. The head is the anchor of one query and the
// candidate of the other.
func TestSlackOfOTE(t *testing.T) {
	hyper := func(size int, scale float64) map[string]float64 {
		return map[string]float64{Group: float64(size), Scale: scale}
	}
	t.Run("changes", func(t *testing.T) {
		rng := rand.New(rand.NewPCG(2, 6))
		var ratio exactly.Ratio
		for range 100 {
			slackError(t, rows(t, Config{Model: "ote", Dim: 1, Hyper: hyper(1, ExponentialScale)},
				[][]float32{{rng.Float32()}, {rng.Float32()}}, [][]float32{{1, rng.Float32()}}), &ratio)
		}
		ratio.Check(t, 0.999)
	})
	for _, c := range []struct {
		name    string
		d, size int
		rest    float64 // all entries of the head except the first
		least   float64
	}{
		{"groups", 512, 1, 0x1p-53, 0.97},
		{"squares", 256, 256, math.Sqrt(kernel.U64) * (1 - 0x1p-20), 0.47},
	} {
		t.Run(c.name, func(t *testing.T) {
			relation := make([]float32, c.d*c.size) // V and U are unit matrices
			for i := range c.d {
				relation[i*c.size+i%c.size] = 1
			}
			var ratio exactly.Ratio
			slackError(t, rows(t, Config{Model: "ote", Dim: c.d, Hyper: hyper(c.size, NoScale)},
				[][]float32{vector(c.d, 1, c.rest), make([]float32, c.d)}, [][]float32{relation}), &ratio)
			ratio.Check(t, c.least)
		})
	}
}

// The slack of HousE covers rounding ψ and φ to float32, and the roundings of distances and of
// reflections. A reflection with a unit vector that is too long makes a vector longer. In a head
// query, the reference reflects the sum of the candidate and the translation, and ψ reflects the
// anchor.
func TestSlackOfHousE(t *testing.T) {
	try := func(t *testing.T, d int, hyper map[string]float64, ratio *exactly.Ratio, tensors ...[]float32) {
		m, err := New(Config{Model: "house", Dim: d, Entities: 2, Relations: 1, Hyper: hyper}, tensors)
		require.NoError(t, err)
		slackError(t, m, ratio)
	}
	t.Run("changes", func(t *testing.T) {
		rng := rand.New(rand.NewPCG(2, 7))
		some := func() []float32 { return []float32{rng.Float32()} }
		hyper := map[string]float64{Group: 1, Projections: 1, Reflections: 1, Translation: 1}
		var ratio exactly.Ratio
		for range 300 {
			try(t, 1, hyper, &ratio, []float32{rng.Float32(), rng.Float32()}, []float32{1, 1, 1}, some(),
				some(), some(), some(), some())
		}
		ratio.Check(t, 0.99)
	})
	t.Run("distances", func(t *testing.T) {
		const d = 2048
		var ratio exactly.Ratio
		try(t, d, map[string]float64{Group: 1, Reflections: 1}, &ratio,
			wide(vector(d, 1, 0x1p-53), 2*d), vector(d, 1, 1))
		ratio.Check(t, 0.95)
	})
	// v·v loses every square except the first, so u = v, and every reflection of x = (±1, …) makes
	// it longer by twice the lost squares.
	const s, n = 64, 64
	var reflected []float32
	for range n {
		reflected = append(reflected, vector(s, 1, math.Sqrt(kernel.U64)*(1-0x1p-20))...)
	}
	t.Run("reflections of the candidate", func(t *testing.T) {
		var ratio exactly.Ratio
		try(t, s, map[string]float64{Group: s, Reflections: n}, &ratio, wide([]float32{1}, 2*s), reflected)
		ratio.Check(t, 0.09)
	})
	t.Run("reflections of the anchor", func(t *testing.T) { // w is close to the anchor, so ψ is close to 0
		var ratio exactly.Ratio
		entities := make([]float32, 2*s)
		entities[s] = 1
		try(t, s, map[string]float64{Group: s, Reflections: n, Translation: 1}, &ratio, entities, reflected,
			wide([]float32{1 + 0x1p-23}, s))
		ratio.Check(t, 0.09)
	})
}

// The slack of BoxE covers rounding ψ and φ to float32, and clamping exponents.
func TestSlackOfBoxE(t *testing.T) {
	t.Run("changes", func(t *testing.T) {
		rng := rand.New(rand.NewPCG(2, 8))
		var ratio exactly.Ratio
		for range 2000 { // both boxes have the same error
			entity := []float32{-2 * rng.Float32(), -2 * rng.Float32()}
			centre, size := 1+2*rng.Float32(), -3*rng.Float32()
			slackError(t, rows(t, Config{Model: "boxe", Dim: 1}, [][]float32{entity, entity},
				[][]float32{{centre, 1, centre, 1, size, size}}), &ratio)
		}
		ratio.Check(t, 0.4)
	})
	// Clamping makes a sum of exponents 0 instead of 60. The boxes are so narrow that V is 1.
	for _, c := range []struct {
		name       string
		head, tail []float32
	}{{"position", []float32{100, 0}, []float32{0, -40}}, {"bump", []float32{0, -40}, []float32{100, 0}}} {
		t.Run(c.name, func(t *testing.T) {
			var ratio exactly.Ratio
			slackError(t, rows(t, Config{Model: "boxe", Dim: 1}, [][]float32{c.head, c.tail},
				[][]float32{{0, 1, 0, 1, -40, -40}}), &ratio)
			ratio.Check(t, 0.49)
		})
	}
}

// The slack of ExpressivE covers rounding ψ and φ to float32. In the functional variant, the
// reference loses nearly half a unit in the last place in every second sum, and a quarter in the
// others.
func TestSlackOfExpressivE(t *testing.T) {
	t.Run("changes", func(t *testing.T) {
		rng := rand.New(rand.NewPCG(2, 9))
		var ratio exactly.Ratio
		for range 2000 { // x₁ is large, and δ_h is small but not 0
			width, centre, slope := (1+rng.Float32())/256, rng.Float32()/16, 1024+128*rng.Float32()
			slackError(t, rows(t, Config{Model: "expressive", Dim: 1}, [][]float32{{0}, {-2 - 3*rng.Float32()}},
				[][]float32{{width, 0, centre, 0, 0, slope}}), &ratio)
		}
		ratio.Check(t, 0.7)
	})
	t.Run("functional", func(t *testing.T) {
		const d = 512
		relation := make([]float32, 4*d)
		copy(relation[3*d:], vector(d, 0x1p27, 1.4140625))  // less than √2; float32 holds the square
		head, tail := make([]float32, d), vector(d, 20, 20) // tanh 20 rounds to 1
		m := rows(t, Config{Model: "expressive-functional", Dim: d}, [][]float32{head, tail}, [][]float32{relation})
		var ratio exactly.Ratio
		slackErrorOf(t, m, kg.Tail, &ratio) // in a head query, c is not 0
		ratio.Check(t, 0.36)
	})
}
