package rank

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/proc/proctest"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/kgtest"
	"github.com/mquine/mquine/rank/internal/ranktest"
)

// TestDraw checks that every set of n entities that are not excluded is equally likely.
func TestDraw(t *testing.T) {
	const rounds = 6000
	excluded := []int32{0, 3, 4, 7}
	counts := map[[2]int32]int{}
	for i := range uint64(rounds) {
		list := draw(rand.New(rand.NewPCG(1, i)), excluded, 8, 2, make([]bool, 8))
		require.Len(t, list, 2)
		require.Less(t, list[0], list[1])
		counts[[2]int32(list)]++
	}
	require.Len(t, counts, 6, "pairs of 1, 2, 5 and 6")
	for pair, n := range counts {
		assert.NotContains(t, excluded, pair[0])
		assert.NotContains(t, excluded, pair[1])
		// The standard deviation of a count is below 29.
		assert.InDelta(t, rounds/6, n, 145, "%v", pair)
	}
	assert.Equal(t, []int32{1, 2, 5, 6}, draw(rand.New(rand.NewPCG(1, 1)), excluded, 8, 5, make([]bool, 8)))
	assert.Empty(t, draw(rand.New(rand.NewPCG(1, 1)), []int32{0, 1}, 2, 5, make([]bool, 8)))
}

// TestSample checks that the mean rank estimated from a sample is right on average, and that the
// mean reciprocal rank is too high on average, among all entities and among restricted candidates. A
// sample of all candidates must give the exact ranks.
func TestSample(t *testing.T) {
	const entities, seeds = 60, 150
	g := ranktest.Graph(rand.New(rand.NewPCG(50, 1)), entities, 3, 300, 10, 30)
	index, test, order := kgtest.Index(t, g), g.Splits[kg.Test], g.EntityOrder()
	m := ranktest.Model(t, "complex", 4, g, 1, ranktest.VectorKinds[2]) // small integers: with ties
	sides := []kg.Side{kg.Head, kg.Tail}
	// The tails of relation 0 keep all entities. Some targets are not candidates.
	restricted := NewCandidates(3)
	require.NoError(t, restricted.Observe(t.Context(), g, kg.Head))
	restricted.Restrict(kg.Tail, 1, []int32{0, 3, 5, 8, 13, 21, 22, 23, 30, 34, 44, 55, 59})
	restricted.Restrict(kg.Tail, 2, []int32{2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26})
	means := func(ranks []Rank, f Filter) (mr, mrr float64) {
		for i := range ranks {
			rank := Realistic.Rank(&ranks[i], f)
			mr, mrr = mr+rank/float64(len(ranks)), mrr+1/rank/float64(len(ranks))
		}
		return mr, mrr
	}
	for _, among := range []*Candidates{nil, restricted} {
		full, err := Run(t.Context(), m, index, test, Options{Sides: sides, Among: among})
		require.NoError(t, err)
		for f := range NumFilters {
			d := Sampling{Negatives: entities, Filter: f, Order: order, Seed: 1}
			all, err := Draw(t.Context(), index, test, d, Options{Sides: sides, Among: among, Threads: 1})
			require.NoError(t, err)
			r, err := Run(t.Context(), m, index, test, Options{Sides: sides, Negatives: &all.Negatives})
			require.NoError(t, err)
			require.NoError(t, all.Scale(r.Ranks))
			for i := range r.Ranks {
				require.Equal(t, Realistic.Rank(&full.Ranks[i], f), Realistic.Rank(&r.Ranks[i], f))
				require.Equal(t, full.Ranks[i].Candidates[f], r.Ranks[i].Candidates[f])
			}

			wantMR, wantMRR := means(full.Ranks, f)
			var sum, squares, reciprocal float64
			for seed := range uint64(seeds) {
				d.Negatives, d.Seed = 7, seed
				o := Options{Sides: sides, Among: among, Threads: 1 + int(seed)%3}
				s, err := Draw(t.Context(), index, test, d, o)
				require.NoError(t, err)
				o.Threads = 2
				again, err := Draw(t.Context(), index, test, d, o)
				require.NoError(t, err)
				require.Equal(t, s, again)
				r, err := Run(t.Context(), m, index, test, Options{Sides: sides, Negatives: &s.Negatives})
				require.NoError(t, err)
				require.NoError(t, s.Scale(r.Ranks))
				mr, mrr := means(r.Ranks, f)
				sum, squares, reciprocal = sum+mr, squares+mr*mr, reciprocal+mrr
			}
			mean := sum / seeds
			deviation := math.Sqrt((squares/seeds - mean*mean) / seeds) // standard error of the mean
			assert.InDelta(t, wantMR, mean, 4*deviation, "filter %v", f)
			assert.Less(t, deviation, 0.02*wantMR, "the test is sharp")
			assert.Greater(t, reciprocal/seeds, wantMRR+0.01, "filter %v", f)
		}
	}

	// A sample contains neither known answers nor the target.
	d, o := Sampling{Negatives: 20, Filter: All, Order: order, Seed: 3}, Options{Sides: sides, Threads: 2}
	s, err := Draw(t.Context(), index, test, d, o)
	require.NoError(t, err)
	for i, triple := range test {
		q, answer := triple.Query(kg.Head)
		list := s.Negatives[kg.Head][i]
		assert.NotContains(t, list, answer)
		for _, e := range list {
			assert.Zero(t, index.Splits(q.Triple(e)))
		}
		assert.True(t, slices.IsSorted(list))
	}
}

// TestDrawHub checks that the triples of one query have the same samples as if each were drawn alone.
func TestDrawHub(t *testing.T) {
	const entities = 300
	rng := rand.New(rand.NewPCG(50, 5))
	g := ranktest.Graph(rng, entities, 3, 300, 10, 30)
	for i, e := range rng.Perm(entities)[:250] { // answers to two queries
		split := kg.Split(i % 3)
		g.Splits[split] = append(g.Splits[split], kg.Triple{Head: 4, Tail: int32(e)},
			kg.Triple{Head: int32(e), Relation: 1, Tail: 9})
	}
	// Triples of other queries are between them, and some targets are not known.
	triples := g.Splits[kg.Test]
	for e := range int32(entities) {
		triples = append(triples, kg.Triple{Head: 4, Tail: e}, kg.Triple{Head: e, Relation: 1, Tail: 9})
	}
	index := kgtest.Index(t, g)
	restricted := NewCandidates(3)
	restricted.Restrict(kg.Tail, 0, []int32{0, 3, 4, 5, 8, 13, 21, 22, 23, 30, 34, 44, 55, 59, 210, 299})
	require.NoError(t, restricted.Observe(t.Context(), g, kg.Head))
	for _, order := range [][]int32{ascending(entities), g.EntityOrder()} {
		for f := range NumFilters {
			for _, among := range []*Candidates{nil, restricted} {
				d := Sampling{Negatives: 6, Filter: f, Order: order, Seed: 7}
				s, err := Draw(t.Context(), index, triples, d, Options{Among: among, Threads: 3})
				require.NoError(t, err)
				p, scratch := newPlaces(order), make([]bool, entities)
				for side := range kg.Side(2) {
					for i, triple := range triples {
						q, answer := triple.Query(side)
						rng := rand.New(rand.NewPCG(d.Seed, 2*uint64(i)+uint64(side)))
						list, population := drawAlone(rng, p, among, index.Answers(q), q, answer, d, scratch)
						require.Equal(t, list, s.Negatives[side][i])
						require.Equal(t, population, s.Population[side][i])
					}
				}
			}
		}
	}
}

// drawAlone draws candidates for one query. It filters and sorts the known answers.
func drawAlone(rng *rand.Rand, p *places, among *Candidates, known kg.Answers, q kg.Query, target int32, d Sampling,
	scratch []bool) (drawn []int32, population int32) {
	excluded := []int32{target}
	for i, e := range known.Entities {
		if e != target && known.Splits[i]&d.Filter.Splits() != 0 {
			excluded = append(excluded, e)
		}
	}
	slices.Sort(excluded)
	excluded = p.of(excluded)
	list, all := among.Of(q)
	if all {
		drawn = draw(rng, excluded, len(d.Order), d.Negatives, scratch)
		return p.entities(drawn), int32(len(d.Order) - len(excluded))
	}
	list = p.of(slices.Clone(list))
	excluded = positions(list, excluded)
	drawn = draw(rng, excluded, len(list), d.Negatives, scratch)
	for k, at := range drawn {
		drawn[k] = list[at]
	}
	return p.entities(drawn), int32(len(list) - len(excluded))
}

// TestDrawStops checks that Draw stops at the next triple if its context ends.
func TestDrawStops(t *testing.T) {
	g := ranktest.Graph(rand.New(rand.NewPCG(50, 6)), 100, 1, 200, 10, 60)
	d := Sampling{Negatives: 5, Filter: All, Order: g.EntityOrder()}
	ctx := &countdown{Context: t.Context(), left: 20}
	_, err := Draw(ctx, kgtest.Index(t, g), g.Splits[kg.Test], d, Options{Threads: 1})
	require.ErrorIs(t, err, context.Canceled)
}

// countdown is a context that ends after a number of calls of Err.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestScaleErrors checks that a sample scales only ranks that may be among it, and otherwise changes none.
func TestScaleErrors(t *testing.T) {
	g := ranktest.Graph(rand.New(rand.NewPCG(50, 4)), 60, 3, 300, 10, 30)
	index, test := kgtest.Index(t, g), g.Splits[kg.Test]
	m := ranktest.Model(t, "complex", 4, g, 1, ranktest.VectorKinds[2])
	d := Sampling{Negatives: 7, Filter: All, Order: g.EntityOrder()}
	s, err := Draw(t.Context(), index, test, d, Options{})
	require.NoError(t, err)
	tails, err := Draw(t.Context(), index, test, d, Options{Sides: []kg.Side{kg.Tail}})
	require.NoError(t, err)
	ranks := func(o Options) []Rank {
		r, err := Run(t.Context(), m, index, test, o)
		require.NoError(t, err)
		return r.Ranks
	}
	among := func() []Rank { return ranks(Options{Negatives: &s.Negatives}) }
	n := len(test)
	scaled, related, twice := among(), among(), slices.Repeat(among()[:n], 2)
	require.NoError(t, s.Scale(scaled))
	related[3].Side = kg.Relation
	for want, list := range map[string][]Rank{
		"under filter all, but the sample has 7 and the target: rank the sample's triples": ranks(Options{}),
		"rank 0 has been scaled already: scale the ranks of Run once":                      scaled,
		"rank 3 is on the relation side, but a sample is for tails and heads":              related,
		"has lists for 30 queries on the head side, but 29 were ranked":                    among()[:2*n-1],
		"has lists for 30 queries on the tail side, but 60 were ranked":                    twice,
	} {
		before := slices.Clone(list)
		assert.ErrorContains(t, s.Scale(list), want)
		assert.Equal(t, before, list)
	}
	assert.ErrorContains(t, tails.Scale(among()), "has lists for 0 queries on the head side, but 30 were ranked")
	assert.NoError(t, s.Scale(among()[:n]), "one side of the sample")
}

// TestDrawErrors checks that Draw returns an error if its arguments do not suit each other, or if the
// sample does not fit into memory.
func TestDrawErrors(t *testing.T) {
	const entities = 60
	g := ranktest.Graph(rand.New(rand.NewPCG(50, 3)), entities, 3, 300, 10, 30)
	test := g.Splits[kg.Test]
	outside := NewCandidates(3)
	outside.Restrict(kg.Tail, 2, []int32{7, entities})
	known := kg.Triple{Head: 3, Relation: 1, Tail: 8}
	g.Splits[kg.Train] = append(g.Splits[kg.Train], known)
	index := kgtest.Index(t, g)
	type request struct {
		Sampling
		Options
		triples []kg.Triple
	}
	for want, change := range map[string]func(*request){
		"cannot draw 0 candidates":                  func(r *request) { r.Sampling.Negatives = 0 },
		"outside the 0 entities of Sampling.Order":  func(r *request) { r.Order = nil },
		"has 60 entities, but entity 60 is not":     func(r *request) { r.Order[9] = 60 },
		"has 60 entities, but entity -1 is not":     func(r *request) { r.Order[9] = -1 },
		"is not below this number, or occurs twice": func(r *request) { r.Order[9] = r.Order[8] },
		"not on the relation side: set Sides to kg": func(r *request) { r.Sides = []kg.Side{kg.Relation} },
		"or the relations of Options.Among":         func(r *request) { r.Among = NewCandidates(1) },
		"7 to 60 are not among the 60 entities":     func(r *request) { r.Among = outside },
		"Filter(3) is not a filter: choose None,":   func(r *request) { r.Filter = NumFilters },
		"triple {60 0 1} is outside":                func(r *request) { r.triples[0] = kg.Triple{Head: 60, Tail: 1} },
		"triple {1 0 -1} is outside":                func(r *request) { r.triples[0] = kg.Triple{Head: 1, Tail: -1} },
		"triple {1 -1 1} is outside": func(r *request) {
			r.triples[0] = kg.Triple{Head: 1, Relation: -1, Tail: 1}
		},
		"has 8 entities and lacks entity": func(r *request) {
			r.Order = []int32{0, 1, 2, 3, 4, 5, 6, 7}
			r.triples = []kg.Triple{{Head: known.Head, Relation: known.Relation, Tail: 0}}
		},
	} {
		r := &request{
			Sampling{Negatives: 5, Filter: All, Order: g.EntityOrder()}, Options{Threads: 2}, slices.Clone(test),
		}
		change(r)
		_, err := Draw(t.Context(), index, r.triples, r.Sampling, r.Options)
		assert.ErrorContains(t, err, want)
	}

	triples := slices.Repeat(test, 3000)
	proctest.Leave(t, 33<<20)
	d := Sampling{Negatives: 55, Filter: All, Order: g.EntityOrder()}
	_, err := Draw(t.Context(), index, triples, d, Options{Threads: 2})
	assert.ErrorContains(t, err, "drawing up to 55 candidates for each query needs about 4")
	assert.ErrorContains(t, err, "but only 33 MiB is available (a limit of the test): draw fewer candidates")
}

// TestDrawOfPermutedEntities checks that the drawn candidates have the same labels if the entities are
// numbered in reverse.
func TestDrawOfPermutedEntities(t *testing.T) {
	const entities = 60
	g := ranktest.Graph(rand.New(rand.NewPCG(50, 2)), entities, 2, 300, 10, 30)
	reverse := func(e int32) int32 { return entities - 1 - e }
	reversed := &kg.Graph{Entities: kg.NewVocabulary(), Relations: g.Relations}
	for e := range int32(entities) {
		reversed.Entities.Add(g.Entities.Label(reverse(e)))
	}
	for split, triples := range g.Splits {
		for _, tr := range triples {
			tr.Head, tr.Tail = reverse(tr.Head), reverse(tr.Tail)
			reversed.Splits[split] = append(reversed.Splits[split], tr)
		}
	}
	sides := []kg.Side{kg.Tail, kg.Head}
	sample := func(g *kg.Graph, restricted bool) *Sample {
		var among *Candidates
		if restricted {
			among = NewCandidates(2)
			require.NoError(t, among.Observe(t.Context(), g, kg.Head))
			among.Restrict(kg.Tail, 1, []int32{0, 3, 5, 54, 56, 59}) // the same set in reverse
		}
		d := Sampling{Negatives: 4, Filter: All, Order: g.EntityOrder(), Seed: 1}
		o := Options{Sides: sides, Among: among, Threads: 2}
		s, err := Draw(t.Context(), kgtest.Index(t, g), g.Splits[kg.Test], d, o)
		require.NoError(t, err)
		return s
	}
	for _, restricted := range []bool{false, true} {
		want, got := sample(g, restricted), sample(reversed, restricted)
		require.Equal(t, want.Population, got.Population)
		for _, side := range sides {
			for i, list := range got.Negatives[side] {
				require.True(t, slices.IsSorted(list))
				for k, e := range list {
					list[k] = reverse(e)
				}
				slices.Sort(list)
				require.Equal(t, want.Negatives[side][i], list)
			}
		}
	}
}
