package metrics

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank"
)

// someRanks draws the ranks of both sides of some triples, with ties and repeated triples. A filter
// can only lower the counts.
func someRanks(t *rapid.T) []rank.Rank {
	triples := rapid.SliceOf(rapid.Custom(func(t *rapid.T) kg.Triple {
		id := rapid.Int32Range(0, 4)
		return kg.Triple{Head: id.Draw(t, "head"), Relation: id.Draw(t, "relation"), Tail: id.Draw(t, "tail")}
	})).Draw(t, "triples")
	var ranks []rank.Rank
	for _, side := range []kg.Side{kg.Tail, kg.Head} {
		for _, triple := range triples {
			r := rank.Rank{Triple: triple, Side: side}
			better, equal, worse := int32(60), int32(20), int32(60)
			for f := range rank.NumFilters {
				better = rapid.Int32Range(0, better).Draw(t, "better")
				equal = rapid.Int32Range(0, equal).Draw(t, "equal")
				worse = rapid.Int32Range(0, worse).Draw(t, "worse")
				r.Better[f], r.Equal[f], r.Candidates[f] = better, equal, better+equal+worse+1
			}
			ranks = append(ranks, r)
		}
	}
	return ranks
}

// oneRank returns the rank of a query with the same counts under every filter.
func oneRank(better, equal, candidates int32) rank.Rank {
	var r rank.Rank
	for f := range rank.NumFilters {
		r.Better[f], r.Equal[f], r.Candidates[f] = better, equal, candidates
	}
	return r
}

func TestMeasureByHand(t *testing.T) {
	ranks := []rank.Rank{oneRank(0, 0, 5), oneRank(2, 1, 5), oneRank(4, 0, 10)} // 1, 3.5 and 5
	m := Measure(ranks, rank.TailSide, rank.All, rank.Realistic, []int{10, 1, 3})
	assert.Equal(t, 3, m.N)
	assert.InDelta(t, (1+1/3.5+1/5.)/3, float64(m.MRR), 1e-15)
	assert.InDelta(t, 9.5/3, float64(m.MR), 1e-15)
	assert.Equal(t, Number(3.5), m.Median)
	assert.InDelta(t, math.Cbrt(17.5), float64(m.GMR), 1e-15)
	assert.InDelta(t, 9.5/(3+3+5.5), float64(m.AMR), 1e-15)
	assert.InDelta(t, 1-2*6.5/(4+4+9), float64(m.AMRI), 1e-15)
	require.Len(t, m.Hits, 3)
	assert.Equal(t, HitsAt{10, 1}, m.Hits[0])
	assert.Equal(t, HitsAt{1, Number(1 / 3.)}, m.Hits[1])
	assert.Equal(t, HitsAt{3, Number(1 / 3.)}, m.Hits[2])

	even := Measure(append(ranks, oneRank(1, 0, 5)), rank.TailSide, rank.All, rank.Realistic, nil)
	assert.Equal(t, Number((2+3.5)/2), even.Median)
}

// With realistic ties, a scorer that gives all candidates the same score is as good as chance.
func TestConstantScorer(t *testing.T) {
	const candidates = 1000
	var ranks []rank.Rank
	for range 50 {
		ranks = append(ranks, oneRank(0, candidates-1, candidates))
	}
	m := Measure(ranks, rank.TailSide, rank.None, rank.Realistic, []int{10})
	assert.Equal(t, Number(0), m.AMRI)
	assert.Equal(t, Number(1), m.AMR)
	assert.InDelta(t, 2./(candidates+1), float64(m.MRR), 1e-15)
	assert.Equal(t, Number(0), m.Hits[0].Share)
	assert.Equal(t, Number(1), Measure(ranks, rank.TailSide, rank.None, rank.Optimistic, nil).MRR)
	assert.InDelta(
		t,
		1./candidates,
		float64(Measure(ranks, rank.TailSide, rank.None, rank.Pessimistic, nil).MRR),
		1e-15,
	)
}

func TestPerfectAndWorstScorer(t *testing.T) {
	perfect := Measure([]rank.Rank{oneRank(0, 0, 9), oneRank(0, 0, 4)}, rank.TailSide, rank.None, rank.Realistic, nil)
	assert.Equal(t, Number(1), perfect.AMRI)
	worst := Measure([]rank.Rank{oneRank(8, 0, 9), oneRank(3, 0, 4)}, rank.TailSide, rank.None, rank.Realistic, nil)
	assert.Equal(t, Number(-1), worst.AMRI)
}

func TestUndefinedMetrics(t *testing.T) {
	isUndefined := func(n Number) { t.Helper(); assert.True(t, math.IsNaN(float64(n)), "%v", n) }

	none := Measure(nil, rank.BothSides, rank.All, rank.Realistic, []int{1})
	assert.Zero(t, none.N)
	for _, n := range []Number{
		none.MRR, none.MR, none.Median, none.GMR, none.AMR, none.AMRI, none.Hits[0].Share, none.MRRCI[0],
	} {
		isUndefined(n)
	}

	alone := Measure([]rank.Rank{oneRank(0, 0, 1)}, rank.TailSide, rank.All, rank.Realistic, nil)
	assert.Equal(t, Number(1), alone.MRR)
	isUndefined(alone.AMRI)

	uncounted := Measure([]rank.Rank{oneRank(0, 0, 5), oneRank(3, 0, 0)}, rank.TailSide, rank.All, rank.Realistic, nil)
	assert.Equal(t, Number(2.5), uncounted.MR)
	isUndefined(uncounted.AMR)
	isUndefined(uncounted.AMRI)
}

// exactMeasure computes the metrics from their definitions, in exact rational arithmetic.
func exactMeasure(
	ranks []rank.Rank,
	sides rank.Sides,
	f rank.Filter,
	ties rank.Ties,
	k int,
) (n int, metrics map[string]float64) {
	var values, candidates []*big.Rat
	for _, r := range ranks {
		if sides.String() != "both" && sides.String() != r.Side.String() {
			continue
		}
		b, e := int64(r.Better[f]), int64(r.Equal[f])
		value := map[rank.Ties]*big.Rat{
			rank.Optimistic: big.NewRat(1+b, 1), rank.Pessimistic: big.NewRat(1+b+e, 1),
			rank.Realistic: big.NewRat(2+2*b+e, 2), rank.Rounded: big.NewRat(1+b+(e+1)/2, 1),
		}[ties]
		values = append(values, value)
		candidates = append(candidates, big.NewRat(int64(r.Candidates[f]), 1))
	}
	n = len(values)
	mean := func(of func(i int) *big.Rat) *big.Rat {
		sum := new(big.Rat)
		for i := range values {
			sum.Add(sum, of(i))
		}
		return sum.Quo(sum, big.NewRat(int64(n), 1))
	}
	float := func(r *big.Rat) float64 { x, _ := r.Float64(); return x }
	one, half := big.NewRat(1, 1), big.NewRat(1, 2)

	mr := mean(func(i int) *big.Rat { return values[i] })
	expected := mean(func(i int) *big.Rat { x := new(big.Rat).Add(candidates[i], one); return x.Mul(x, half) })
	metrics = map[string]float64{
		"mr":  float(mr),
		"mrr": float(mean(func(i int) *big.Rat { return new(big.Rat).Inv(values[i]) })),
		"hits": float(mean(func(i int) *big.Rat {
			if values[i].Cmp(big.NewRat(int64(k), 1)) <= 0 {
				return one
			}
			return new(big.Rat)
		})),
		"amr": float(new(big.Rat).Quo(mr, expected)),
	}
	if excess := new(big.Rat).Sub(expected, one); excess.Sign() > 0 {
		index := new(big.Rat).Quo(new(big.Rat).Sub(mr, one), excess)
		metrics["amri"] = float(index.Sub(one, index))
	}
	product := 1.
	for _, v := range values {
		product *= math.Pow(float(v), 1/float64(n))
	}
	metrics["gmr"] = product
	slices.SortFunc(values, (*big.Rat).Cmp)
	middle := new(big.Rat).Add(values[n/2], values[n-1-n/2])
	metrics["median"] = float(middle.Mul(middle, half))
	return n, metrics
}

func TestMeasureAgainstDefinitions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks := append(someRanks(t), oneRank(1, 1, 4))
		ranks[len(ranks)-1].Side = kg.Side(rapid.IntRange(0, 1).Draw(t, "side"))
		k := rapid.IntRange(1, 30).Draw(t, "k")
		for sides := range rank.NumSides {
			for f := range rank.NumFilters {
				for ties := range rank.NumTies {
					m := Measure(ranks, sides, f, ties, []int{k})
					if m.N == 0 {
						continue
					}
					n, want := exactMeasure(ranks, sides, f, ties, k)
					got := map[string]Number{
						"mr": m.MR, "mrr": m.MRR, "hits": m.Hits[0].Share, "amr": m.AMR, "gmr": m.GMR,
						"median": m.Median, "amri": m.AMRI,
					}
					require.Equal(t, n, m.N)
					for name, w := range want {
						require.InDelta(
							t,
							w,
							float64(got[name]),
							1e-12*max(1, math.Abs(w)),
							"%s %v %v %v",
							name,
							sides,
							f,
							ties,
						)
					}
				}
			}
		}
	})
}

func TestMeasureProperties(t *testing.T) {
	const slack = 1e-12
	ks := []int{1, 3, 10, 1000}
	rapid.Check(t, func(t *rapid.T) {
		ranks := append(someRanks(t), oneRank(2, 1, 5))
		for f := range rank.NumFilters {
			var by [rank.NumTies]Result
			for ties := range rank.NumTies {
				m := Measure(ranks, rank.BothSides, f, ties, ks)
				by[ties] = m
				require.LessOrEqual(t, float64(1/m.MRR), float64(m.GMR)*(1+slack), "HMR ≤ GMR")
				require.LessOrEqual(t, float64(m.GMR), float64(m.MR)*(1+slack), "GMR ≤ MR")
				require.True(t, m.AMRI >= -1-slack && m.AMRI <= 1+slack, "AMRI %v", m.AMRI)
				require.True(t, m.AMR > 0 && m.AMR < 2, "AMR %v", m.AMR)
				for i := 1; i < len(ks); i++ {
					require.LessOrEqual(t, m.Hits[i-1].Share, m.Hits[i].Share)
				}
				require.Equal(t, Number(1), m.Hits[len(ks)-1].Share, "all ranks are below 1000")

				tail, head := Measure(ranks, rank.TailSide, f, ties, ks), Measure(ranks, rank.HeadSide, f, ties, ks)
				require.Equal(t, m.N, tail.N+head.N)
				if tail.N > 0 && head.N > 0 {
					mean := (tail.MRR*Number(tail.N) + head.MRR*Number(head.N)) / Number(m.N)
					require.InDelta(t, float64(mean), float64(m.MRR), slack)
				}
			}
			o, p, r := by[rank.Optimistic], by[rank.Pessimistic], by[rank.Realistic]
			require.True(t, o.MR <= r.MR && r.MR <= p.MR)
			require.True(t, o.Median <= r.Median && r.Median <= p.Median)
			require.True(t, o.MRR >= r.MRR && r.MRR >= p.MRR)
			require.True(t, o.AMRI >= r.AMRI && r.AMRI >= p.AMRI)
			require.InDelta(t, float64(o.MR+p.MR)/2, float64(r.MR), slack*float64(p.MR))
			for i := range ks {
				require.True(t, o.Hits[i].Share >= r.Hits[i].Share && r.Hits[i].Share >= p.Hits[i].Share)
			}
			if f > 0 {
				require.GreaterOrEqual(
					t,
					o.MRR,
					Measure(ranks, rank.BothSides, f-1, rank.Optimistic, nil).MRR,
					"a stronger filter only helps",
				)
			}
		}
	})
}
