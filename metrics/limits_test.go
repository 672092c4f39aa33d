package metrics

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/kgtest"
	"github.com/mquine/mquine/rank"
)

// eachOrder calls f with every order of 0, …, n−1.
func eachOrder(n int, f func(order []int32)) {
	order := make([]int32, n)
	for i := range order {
		order[i] = int32(i)
	}
	var permute func(k int)
	permute = func(k int) {
		if k == n {
			f(order)
			return
		}
		for i := k; i < n; i++ {
			order[k], order[i] = order[i], order[k]
			permute(k + 1)
			order[k], order[i] = order[i], order[k]
		}
	}
	permute(0)
}

// rankIn returns the rank of the answer of t in an order of the entities, under a filter.
func rankIn(order []int32, t kg.Triple, side kg.Side, splits map[kg.Triple]kg.SplitSet, f rank.Filter) int {
	_, answer := t.Query(side)
	r := 1
	for _, e := range order {
		if e == answer {
			break
		}
		other := t
		if side == kg.Tail {
			other.Tail = e
		} else {
			other.Head = e
		}
		if splits[other]&f.Splits() == 0 {
			r++
		}
	}
	return r
}

// smallGraph returns a random graph and the splits of its triples. Unless repeats is true, all triples
// differ.
func smallGraph(rng *rand.Rand, entities int, repeats bool) (*kg.Graph, map[kg.Triple]kg.SplitSet) {
	g := &kg.Graph{Entities: kg.NewVocabulary(), Relations: kg.NewVocabulary()}
	for _, name := range []string{"a", "b", "c", "d", "e"}[:entities] {
		g.Entities.Add(name)
	}
	g.Relations.Add("r")
	splits := map[kg.Triple]kg.SplitSet{}
	for s, n := range []int{4, 4, 5} {
		for range n {
			t := kg.Triple{Head: int32(rng.IntN(2)), Tail: int32(rng.IntN(entities))}
			if splits[t] != 0 && !repeats {
				continue
			}
			splits[t] |= kg.Set(kg.Split(s))
			g.Splits[s] = append(g.Splits[s], t)
		}
	}
	return g, splits
}

// limitsFor returns the limits of a graph.
func limitsFor(
	t require.TestingT, g *kg.Graph, triples []kg.Triple, among *rank.Candidates, sides rank.Sides,
	filters []rank.Filter, ks []int,
) []Limit {
	limits, err := Limits(context.Background(), kgtest.Index(t, g), triples, among, sides, filters, ks)
	require.NoError(t, err)
	return limits
}

// limitOf returns the limits of one side and filter, by kind.
func limitOf(all []Limit, s rank.Sides, f rank.Filter) (limits [NumLimitKinds]Limit) {
	for _, l := range all {
		if l.Side == s && l.Filter == f {
			limits[l.Kind] = l
		}
	}
	return limits
}

var allFilters = []rank.Filter{rank.None, rank.Train, rank.All}

// The oracle's limits are the maxima over all orders of the entities for each query, even if triples
// repeat and splits share them.
func TestOracleLimits(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 35))
	ks := []int{1, 2, 3}
	for i := range 40 {
		g, splits := smallGraph(rng, 4, true)
		test := g.Splits[kg.Test]
		var among *rank.Candidates
		if i%2 == 1 {
			among = rank.NewCandidates(1)
			among.Restrict(kg.Tail, 0, []int32{0, 2, 3})
			among.Restrict(kg.Head, 0, []int32{1, 3})
		}
		limits := limitsFor(t, g, test, among, rank.BothSides, allFilters, ks)
		require.Len(t, limits, 18)
		for _, f := range allFilters {
			var sums [2][4]float64 // MRR and Hits@k, by side
			var n [2]int
			for _, side := range []kg.Side{kg.Tail, kg.Head} {
				byQuery := map[kg.Query][]kg.Triple{}
				for _, triple := range test {
					if q, answer := triple.Query(side); among.Has(q, answer) {
						byQuery[q] = append(byQuery[q], triple)
						n[side]++
					}
				}
				for q, triples := range byQuery {
					var best [4]float64
					eachOrder(4, func(order []int32) {
						var got [4]float64
						order = slices.DeleteFunc(slices.Clone(order), func(e int32) bool { return !among.Has(q, e) })
						for _, triple := range triples {
							r := rankIn(order, triple, side, splits, f)
							got[0] += 1 / float64(r)
							for i, k := range ks {
								if r <= k {
									got[1+i]++
								}
							}
						}
						for i := range best {
							best[i] = max(best[i], got[i])
						}
					})
					for i := range best {
						sums[side][i] += best[i]
					}
				}
			}
			for _, s := range []rank.Sides{rank.TailSide, rank.HeadSide, rank.BothSides} {
				l := limitOf(limits, s, f)[Oracle]
				queries := 0
				for _, side := range s.List() {
					queries += n[side]
				}
				require.Equal(t, queries, l.N)
				if queries == 0 {
					continue
				}
				for i, got := range append([]Number{l.MRR}, l.Hits[0].Share, l.Hits[1].Share, l.Hits[2].Share) {
					var want float64
					for _, side := range s.List() {
						want += sums[side][i] / float64(queries)
					}
					require.InDelta(t, want, float64(got), 1e-12, "%v, %v, %d", s, f, i)
				}
			}
		}
	}
}

// The exchangeable limits are the best averages that a single order of the entities reaches over
// all ways to choose the targets among the competing true answers.
func TestExchangeableLimits(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 36))
	ks := []int{1, 2, 3}
	for range 20 {
		g, splits := smallGraph(rng, 5, false)
		test := g.Splits[kg.Test]
		limits := limitsFor(t, g, test, nil, rank.TailSide, allFilters, ks)
		for _, f := range allFilters {
			targets, pool := map[int32]int{}, map[int32][]int32{} // by head: targets, and competing answers
			for triple, in := range splits {
				if in.Has(kg.Test) {
					targets[triple.Head]++
				}
				if in&f.Splits() == 0 {
					pool[triple.Head] = append(pool[triple.Head], triple.Tail)
				}
			}
			var sums [4]float64
			for head, m := range targets {
				if f == rank.All { // only the target remains
					for i := range sums {
						sums[i] += float64(m)
					}
					continue
				}
				var best [4]float64
				eachOrder(5, func(order []int32) {
					var got [4]float64
					choices := 0.0
					for chosen := range 1 << len(pool[head]) {
						var answers []int32
						for i, e := range pool[head] {
							if chosen>>i&1 == 1 {
								answers = append(answers, e)
							}
						}
						if len(answers) != m {
							continue
						}
						choices++
						for _, e := range answers {
							r := 1 + slices.Index(order, e)
							got[0] += 1 / float64(r)
							for i, k := range ks {
								if r <= k {
									got[1+i]++
								}
							}
						}
					}
					for i := range best {
						best[i] = max(best[i], got[i]/choices)
					}
				})
				for i := range best {
					sums[i] += best[i]
				}
			}
			l := limitOf(limits, rank.TailSide, f)[Exchangeable]
			for i, got := range []Number{l.MRR, l.Hits[0].Share, l.Hits[1].Share, l.Hits[2].Share} {
				require.InDelta(t, sums[i]/float64(len(test)), float64(got), 1e-12, "%v, %d", f, i)
			}
		}
	}
}

// The MQuinE paper prints an MRR of 0.958 for WN18. No ranking reaches it under the filter train.
func TestLimitsOfWN18(t *testing.T) {
	if os.Getenv("MQUINE_DATA") == "" {
		t.Skip("MQUINE_DATA does not name the folder of the public data sets")
	}
	g, err := kg.Open(t.Context(), "wn18")
	if err != nil {
		t.Skipf("MQUINE_DATA: %v", err)
	}
	limits := limitsFor(t, g, g.Splits[kg.Test], nil, rank.TailSide, allFilters, []int{1})
	train := limitOf(limits, rank.TailSide, rank.Train)
	assert.Equal(t, "0.9425", train[Oracle].MRR.Format(4))
	assert.Equal(t, "0.914", train[Exchangeable].MRR.Format(3))
	for _, l := range limitOf(limits, rank.TailSide, rank.All) {
		assert.Equal(t, Number(1), l.MRR)
		assert.Equal(t, Hits{{1, 1}}, l.Hits)
	}
}

func TestLimitsStopWithTheirContext(t *testing.T) {
	g := familyGraph()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Limits(ctx, kgtest.Index(t, g), g.Splits[kg.Test], nil, rank.BothSides, allFilters, nil)
	assert.ErrorIs(t, err, context.Canceled)
}

// Reports have the limits of MRR, except under optimistic ties, where equal scores exceed them.
func TestLimitsInReports(t *testing.T) {
	g := familyGraph()
	r := familyReport(t)
	r.SetLimits(limitsFor(t, g, g.Splits[kg.Test], nil, rank.BothSides, allFilters, nil))
	for _, res := range r.Results {
		require.Equal(t, res.Ties == rank.Optimistic, res.Limits == nil)
		if res.Limits != nil {
			assert.LessOrEqual(t, res.MRR, res.Limits[Oracle]+1e-12, "%+v", res)
			assert.LessOrEqual(t, res.Limits[Exchangeable], res.Limits[Oracle]+1e-12)
		}
	}
	var out bytes.Buffer
	require.NoError(t, r.WriteJSON(&out))
	var again Report
	require.NoError(t, json.Unmarshal(out.Bytes(), &again))
	for i, res := range r.Results {
		assert.Equal(t, res.Limits, again.Results[i].Limits)
	}
	records, err := csv.NewReader(strings.NewReader(write(t, r, CSV, TableOptions{}))).ReadAll()
	require.NoError(t, err)
	for kind, name := range map[LimitKind]string{Oracle: "mrr_limit_oracle", Exchangeable: "mrr_limit_exchangeable"} {
		column := slices.Index(records[0], name)
		require.Positive(t, column)
		for i, res := range r.Results {
			want := ""
			if res.Limits != nil {
				want = strconv.FormatFloat(float64(res.Limits[kind]), 'g', -1, 64)
			}
			assert.Equal(t, want, records[1+i][column])
		}
	}
	r = only(r, rank.Realistic)
	wide := write(t, r, PlainText, TableOptions{Wide: true, NoCI: true})
	assert.Contains(t, wide, "MRR limit  exchangeable")
	assert.NotContains(t, write(t, r, PlainText, TableOptions{}), "limit")
	assert.False(t, math.IsNaN(float64(r.Results[0].Limits[Oracle])))
}
