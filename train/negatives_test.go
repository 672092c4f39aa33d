package train

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/kgtest"
	"github.com/mquine/mquine/train/internal/traintest"
	"github.com/mquine/mquine/train/recipe"
)

// preparerOf returns the preparer of a graph with many known answers.
func preparerOf(t *testing.T, change func(*recipe.Recipe)) *preparer {
	t.Helper()
	c := recipe.Default()
	c.Dim, c.Batch = 2, 40
	change(&c)
	tr := trainerFor(t, c, traintest.RandomGraph(15, 2, 120, 8), machineOf(t, 2).Backend, 2)
	return tr.preparer
}

func TestIndependentNegatives(t *testing.T) {
	p := preparerOf(t, func(c *recipe.Recipe) {
		c.Negatives, c.NegativeCount, c.Filter = recipe.IndependentNegatives, 30, true
	})
	counts := map[kg.Query]map[int32]int{}
	for step := range 200 {
		w, err := p.prepare(t.Context(), firstItems(40), 3, step)
		require.NoError(t, err)
		require.Len(t, w.queries, 80)
		for i, q := range w.queries {
			require.Equal(t, w.answers[i], w.rows[w.pairRows[w.pairs[i]]])
			if counts[q] == nil {
				counts[q] = map[int32]int{}
			}
			for _, r := range w.pairRows[w.pairs[i]+1 : w.pairs[i+1]] {
				counts[q][w.rows[r]]++
			}
		}
	}
	// All unobserved entities are equally likely, and observed ones are never drawn.
	for q, drawn := range counts {
		known := p.known.Answers(q)
		total, free := 0, 0
		for e := range int32(15) {
			if isTrainAnswer(known, e) {
				assert.Zero(t, drawn[e])
			} else {
				total += drawn[e]
				free++
			}
		}
		for e, n := range drawn {
			want := float64(total) / float64(free)
			assert.InDelta(t, want, n, 5*math.Sqrt(want), "%+v %d", q, e)
		}
	}
}

// A query whose answers are all entities has no negatives, and the search for negatives ends.
func TestNoNegativesLeft(t *testing.T) {
	g := &kg.Graph{Name: "full", Entities: kg.NewVocabulary("a", "b", "c"), Relations: kg.NewVocabulary("r")}
	for h := range int32(3) {
		for e := range int32(3) {
			g.Splits[kg.Train] = append(g.Splits[kg.Train], kg.Triple{Head: h, Tail: e})
		}
	}
	for _, negatives := range []recipe.Negatives{recipe.OneVsAll, recipe.SharedNegatives, recipe.IndependentNegatives} {
		for _, loss := range []recipe.Loss{recipe.Softmax, recipe.NSSA, recipe.BCE, recipe.Margin} {
			c := recipe.Default()
			c.Dim, c.Batch, c.Negatives, c.NegativeCount, c.Filter, c.Loss = 3, 4, negatives, 2, true, loss
			c.Adversarial, c.Smoothing, c.ZSamples = 1, 0.1, 2
			tr := trainerFor(t, c, g, machineOf(t, 1).Backend, 1)
			e, err := tr.Epoch(t.Context())
			require.NoError(t, err)
			assert.False(t, math.IsNaN(e.Loss.Total))
			assert.Zero(t, e.Loss.Z)
		}
	}
}

func TestSharedNegatives(t *testing.T) {
	p := preparerOf(t, func(c *recipe.Recipe) { c.Negatives, c.NegativeCount = recipe.SharedNegatives, 6 })
	counts := make([]int, 15)
	for step := range 500 {
		w, err := p.prepare(t.Context(), firstItems(40), 0, step)
		require.NoError(t, err)
		require.Equal(t, []scoreMatrix{{0, 40, 0, 6}, {40, 80, 6, 12}}, w.matrices)
		for _, b := range w.matrices {
			candidates := w.rows[b.row:b.lastRow]
			require.True(t, slices.IsSorted(candidates))
			require.Len(t, slices.Compact(slices.Clone(candidates)), 6)
			for _, e := range candidates {
				counts[e]++
			}
		}
		assert.False(t, slices.Contains(p.taken, true))
	}
	for e, n := range counts {
		assert.InDelta(t, 400, n, 5*math.Sqrt(400), "entity %d", e)
	}
}

// The anchors of the queries on a side are added to the side's negative samples, each entity once.
func TestAnchorNegatives(t *testing.T) {
	config := func(anchors bool) func(*recipe.Recipe) {
		return func(c *recipe.Recipe) {
			c.Negatives, c.NegativeCount, c.AnchorNegatives = recipe.SharedNegatives, 6, anchors
		}
	}
	drawn := preparerOf(t, config(false))
	p := preparerOf(t, config(true))
	for step := range 20 {
		want, err := drawn.prepare(t.Context(), firstItems(5), 0, step)
		require.NoError(t, err)
		w, err := p.prepare(t.Context(), firstItems(5), 0, step)
		require.NoError(t, err)
		require.Len(t, w.matrices, 2)
		for i, b := range w.matrices {
			candidates := map[int32]bool{}
			for _, e := range want.rows[want.matrices[i].row:want.matrices[i].lastRow] {
				candidates[e] = true
			}
			for _, q := range w.queries[b.query:b.lastQuery] {
				candidates[q.Anchor] = true
			}
			assert.Equal(t, slices.Sorted(maps.Keys(candidates)), w.rows[b.row:b.lastRow])
		}
	}
}

func TestDegreeDistribution(t *testing.T) {
	triples := []kg.Triple{{Head: 0, Tail: 1}, {Head: 0, Tail: 2}, {Head: 0, Tail: 3}}
	s := newSampler(&recipe.Recipe{Distribution: recipe.Degree}, 5, triples, nil)
	rng := rand.New(rand.NewPCG(1, 1))
	counts := make([]float64, 5)
	const n = 100_000
	for range n {
		counts[s.draw(rng)]++
	}
	power := math.Pow(3, 0.75)
	for e, want := range []float64{power, 1, 1, 1, 0} {
		want *= n / (power + 3)
		assert.InDelta(t, want, counts[e], 5*math.Sqrt(want)+1e-9, "entity %d", e)
	}
}

// The guide finds the entity that a search of all cumulative weights finds, also at the borders of entities
// and of parts, next to hubs and among entities of degree 0.
func TestGuide(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	for _, entities := range []int{1, 2, 7, 1000, 4099} {
		var triples []kg.Triple
		for range entities { // most entities are isolated, and a few are hubs
			tail := int32(math.Pow(rng.Float64(), 8) * float64(entities))
			triples = append(triples, kg.Triple{Head: int32(entities) / 2, Tail: tail})
		}
		s := newSampler(&recipe.Recipe{Distribution: recipe.Degree}, entities, triples, nil)
		total := s.cumulative[entities-1]
		points := []float64{0, total}
		for i, c := range s.cumulative {
			points = append(points, c, float64(i)/s.parts, float64(i)*total/float64(entities))
		}
		for range 10_000 {
			points = append(points, rng.Float64()*total)
		}
		for _, point := range points {
			for _, x := range []float64{math.Nextafter(point, 0), point, math.Nextafter(point, total)} {
				want := min(sort.Search(entities, func(i int) bool { return s.cumulative[i] > x }), entities-1)
				require.Equal(t, int32(want), s.at(x), "%d entities, %v", entities, x)
			}
		}
	}
}

func BenchmarkDegreeDistribution(b *testing.B) {
	const entities = 1_000_000
	rng := rand.New(rand.NewPCG(3, 1))
	triples := make([]kg.Triple, 2*entities)
	for i := range triples {
		triples[i] = kg.Triple{Head: rng.Int32N(entities), Tail: int32(math.Pow(rng.Float64(), 8) * entities)}
	}
	s := newSampler(&recipe.Recipe{Distribution: recipe.Degree}, entities, triples, nil)
	for b.Loop() {
		s.draw(rng)
	}
}

// Z-samples are training triples. Their weights add up to λ_Z times the weights of the main queries
// that have Z-samples.
func TestZSamples(t *testing.T) {
	for _, negatives := range []recipe.Negatives{recipe.OneVsAll, recipe.SharedNegatives, recipe.IndependentNegatives} {
		p := preparerOf(t, func(c *recipe.Recipe) {
			c.Negatives, c.NegativeCount, c.Filter, c.ZSamples, c.LambdaZ = negatives, 5, true, 4, 0.5
		})
		w, err := p.prepare(t.Context(), firstItems(40), 0, 0)
		require.NoError(t, err)
		require.Greater(t, len(w.queries), w.main)
		var weight, withSamples float64
		for i := w.main; i < len(w.queries); i++ {
			if i > w.main {
				require.NotEqual(t, w.queries[i-1], w.queries[i])
			}
			require.Less(t, w.pairs[i], w.pairs[i+1])
			for k := w.pairs[i]; k < w.pairs[i+1]; k++ {
				assert.True(t, isTrainAnswer(p.known.Answers(w.queries[i]), w.rows[w.pairRows[k]]))
				weight += w.zWeights[k-w.pairs[w.main]]
			}
		}
		for i := range w.main {
			assert.LessOrEqual(t, len(p.zTriples[i]), 4)
			if len(p.zTriples[i]) > 0 {
				withSamples += w.weights[i]
			}
		}
		assert.InDelta(t, 0.5*withSamples, weight, 1e-12)
	}
}

// indexOf returns the index of a graph with one relation and the given training triples.
func indexOf(t *testing.T, entities int, triples []kg.Triple) *kg.Index {
	t.Helper()
	g := &kg.Graph{Name: "small", Entities: kg.NewVocabulary(), Relations: kg.NewVocabulary()}
	g.Relations.Add("r")
	for i := range entities {
		g.Entities.Add(fmt.Sprint(i))
	}
	g.Splits[kg.Train] = triples
	return kgtest.Index(t, g)
}

func TestSubsamplingWeights(t *testing.T) {
	triples := []kg.Triple{{Head: 0, Tail: 1}, {Head: 0, Tail: 2}}
	weights, err := subsamplingWeights(t.Context(), triples, indexOf(t, 3, triples))
	require.NoError(t, err)
	assert.InDelta(t, 1/math.Sqrt(5+4), weights[0], 1e-12) // (h, r) twice, (r, t) once, each from 3
	assert.InDelta(t, weights[0], weights[1], 1e-12)
}

// Counting the queries of a large graph takes long, so a cancelled context stops it.
func TestCountsOfQueriesStopWithTheirContext(t *testing.T) {
	triples := []kg.Triple{{Head: 0, Tail: 1}}
	known := indexOf(t, 2, triples)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := subsamplingWeights(ctx, triples, known)
	assert.ErrorIs(t, err, context.Canceled)
	_, err = headProbabilities(ctx, triples, known)
	assert.ErrorIs(t, err, context.Canceled)
	_, err = newQueryParts(ctx, triples, known, 0, 1)
	assert.ErrorIs(t, err, context.Canceled)
}

// The candidates of Z-samples lack the training answers, however many answers there are.
func TestUnobserved(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 10, 64, 640, 641, 5000} { // for 10 entities, searches begin with 641 answers
		var known kg.Answers
		last := int32(-1)
		for range n {
			last += 1 + rng.Int32N(2)
			known.Entities = append(known.Entities, last)
			known.Splits = append(known.Splits, kg.SplitSet(1+rng.IntN(7)))
		}
		entities, want := []int32(nil), []int32{-1}
		for range 10 {
			entities = append(entities, rng.Int32N(last+50))
		}
		slices.Sort(entities)
		for _, e := range entities {
			if !isTrainAnswer(known, e) {
				want = append(want, e)
			}
		}
		assert.Equal(t, want, unobserved([]int32{-1}, entities, known), "%d answers", n)
	}
}

// With subsampling, the weights of the queries of a triple are proportional to the triple's weight.
func TestSubsampledQueries(t *testing.T) {
	p := preparerOf(t, func(c *recipe.Recipe) { c.Subsampling = true })
	w, err := p.prepare(t.Context(), []int32{50, 3, 71, 20, 9, 33}, 0, 0)
	require.NoError(t, err)
	require.Len(t, w.queries, 12)
	weight := func(i int) float64 {
		triple, n := w.queries[i].Triple(w.answers[i]), 6.0
		for _, other := range p.triples {
			if other.Relation != triple.Relation {
				continue
			}
			if other.Head == triple.Head {
				n++
			}
			if other.Tail == triple.Tail {
				n++
			}
		}
		return 1 / math.Sqrt(n)
	}
	var sum float64
	for i := range w.queries {
		sum += weight(i)
	}
	distinct := map[float64]bool{}
	for i, got := range w.weights {
		assert.InDelta(t, weight(i)/sum, got, 1e-12)
		distinct[got] = true
	}
	assert.Greater(t, len(distinct), 2)
}

// The weight of a query is proportional to 0.1 + 0.9·(degree of its target)/(largest degree).
func TestDegreeWeights(t *testing.T) {
	p := preparerOf(t, func(c *recipe.Recipe) { c.DegreeWeights = true })
	degrees, largest := map[int32]float64{}, 0.0
	for _, tr := range p.triples {
		degrees[tr.Head]++
		degrees[tr.Tail]++
		largest = max(largest, degrees[tr.Head], degrees[tr.Tail])
	}
	w, err := p.prepare(t.Context(), firstItems(40), 0, 0)
	require.NoError(t, err)
	var sum float64
	for i := range w.main {
		sum += 0.1 + 0.9*degrees[w.answers[i]]/largest
	}
	distinct := map[float64]bool{}
	for i, got := range w.weights {
		assert.InDelta(t, (0.1+0.9*degrees[w.answers[i]]/largest)/sum, got, 1e-12)
		distinct[got] = true
	}
	assert.Greater(t, len(distinct), 2)
}

func TestBernoulli(t *testing.T) {
	// With two tails per head and one head per tail, two thirds of the queries ask for the head.
	var triples []kg.Triple
	for e := range int32(300) {
		triples = append(triples, kg.Triple{Head: e / 2, Tail: e})
	}
	probabilities, err := headProbabilities(t.Context(), triples, indexOf(t, 300, triples))
	require.NoError(t, err)
	assert.InDelta(t, 2.0/3, probabilities[0], 1e-12)
	p := preparerOf(t, func(c *recipe.Recipe) {
		c.Negatives, c.Distribution = recipe.IndependentNegatives, recipe.Bernoulli
	})
	heads, want := 0, 0.0
	for step := range 300 {
		w, err := p.prepare(t.Context(), firstItems(40), 0, step)
		require.NoError(t, err)
		require.Len(t, w.queries, 40)
		for _, q := range w.queries {
			want += p.headProbability[q.Relation]
			if q.Side == kg.Head {
				heads++
			}
		}
	}
	assert.InDelta(t, want, heads, 5*math.Sqrt(want))
}

// The candidates of relation prediction are distinct and in ascending order. They depend on the epoch and
// the step, and every relation is equally likely.
func TestRelationNegatives(t *testing.T) {
	draw := func(negatives int, reciprocal bool, step int) []int32 {
		c := recipe.Default()
		c.RelationWeight, c.RelationNegatives, c.Reciprocal = 1, negatives, reciprocal
		p := &preparer{config: &c, seed: 7, numRelations: 6, scratch: make([]drawScratch, 1)}
		pcg := rand.NewPCG(0, 0)
		p.scratch[0] = drawScratch{pcg: pcg, rng: rand.New(pcg)}
		p.reset(2, step)
		p.drawRelations()
		require.NotContains(t, p.takenRelations, true, "the next step begins without marks")
		return p.work.relationCandidates
	}
	all := []int32{0, 1, 2, 3, 4, 5}
	for _, n := range []int{0, 6, 100} {
		assert.Equal(t, all, draw(n, false, 0))
	}
	assert.Len(t, draw(0, true, 0), 12)
	counts, lists, same := make([]int, 12), 3000, 0
	for step := range lists {
		list := draw(4, true, step)
		require.Len(t, list, 4)
		require.Len(t, slices.Compact(slices.Clone(list)), 4)
		require.True(t, slices.IsSorted(list))
		require.Equal(t, list, draw(4, true, step))
		if slices.Equal(list, draw(4, true, step+1)) {
			same++
		}
		for _, r := range list {
			counts[r]++
		}
	}
	for r, n := range counts {
		assert.InDelta(t, 1.0/3, float64(n)/float64(lists), 0.05, r)
	}
	assert.Less(t, same, lists/100)
}
