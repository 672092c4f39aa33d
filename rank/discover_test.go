package rank

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/proc"
	"github.com/mquine/mquine/internal/proc/proctest"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/kgtest"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/engine"
	"github.com/mquine/mquine/rank/internal/ranktest"
)

// bruteDiscovery scores all triples of a discovery and sorts them.
func bruteDiscovery(
	g *kg.Graph, m model.Model, d Discovery, score plausibility, among *Candidates,
) (all []Discovered) {
	known := map[kg.Triple]bool{}
	for _, split := range g.Splits {
		for _, t := range split {
			known[t] = true
		}
	}
	scopes := map[kg.Query][]Discovered{}
	var order []kg.Query
	for _, r := range slices.Sorted(slices.Values(d.Relations)) {
		for a := range int32(g.Entities.Len()) {
			q := kg.Query{Side: d.Side, Relation: r, Anchor: a}
			if other := (kg.Query{Side: 1 - d.Side, Relation: r}); !among.Has(other, a) {
				continue
			}
			var list []Discovered
			var sample []float64
			for e := range int32(g.Entities.Len()) {
				if among.Has(q, e) {
					sample = append(sample, m.Score(score(q, e))) // fewer than ZSample
					if t := q.Triple(e); !known[t] {
						list = append(list, Discovered{Triple: t, Score: score(q, e)})
					}
				}
			}
			slices.SortStableFunc(list, func(a, b Discovered) int { return cmp.Compare(b.Score, a.Score) })
			mean, variance := 0.0, 0.0
			for _, s := range sample {
				mean += s / float64(len(sample))
			}
			for _, s := range sample {
				variance += (s - mean) * (s - mean) / float64(len(sample))
			}
			for i := range list {
				list[i].Rank = i + 1
				if d.Standardise && variance > 0 {
					list[i].Z = (m.Score(list[i].Score) - mean) / math.Sqrt(variance)
				}
			}
			scope := q
			switch d.Scope {
			case PerRelation:
				scope.Anchor = 0
			case PerGraph:
				scope = kg.Query{}
			}
			if _, ok := scopes[scope]; !ok {
				order = append(order, scope)
			}
			scopes[scope] = append(scopes[scope], list...)
		}
	}
	for _, scope := range order {
		list := scopes[scope]
		slices.SortStableFunc(list, func(a, b Discovered) int {
			byScore := cmp.Compare(b.Score, a.Score)
			if d.Standardise && d.Scope != PerQuery {
				byScore = cmp.Or(cmp.Compare(b.Z, a.Z), byScore)
			}
			return cmp.Or(byScore, cmp.Compare(a.Triple.Relation, b.Triple.Relation),
				cmp.Compare(a.Triple.Head, b.Triple.Head), cmp.Compare(a.Triple.Tail, b.Triple.Tail))
		})
		all = append(all, list[:min(d.K, len(list))]...)
	}
	return all
}

// TestDiscover checks that Discover finds the triples of a brute force, for every model, scope,
// screen and number of threads, in batches and in slices.
func TestDiscover(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	const entities = 60
	rng := rand.New(rand.NewPCG(44, 1))
	g := ranktest.Graph(rng, entities, 3, 300, 20, 20)
	index := kgtest.Index(t, g)
	models := []model.Model{ranktest.Model(t, "mquine", 3, g, 1, ranktest.MatrixKinds[1])}
	for i, c := range ranktest.VectorConfigs(6, g) {
		models = append(models, ranktest.ModelOf(t, c, 2, ranktest.VectorKinds[i%4]))
	}
	turn := 0
	for _, m := range models {
		score := m.NewWorker(backends[0]).Reference
		for _, name := range []string{"all", "by relation", "one list"} {
			turn++
			among := NewCandidates(3)
			if name != "all" {
				among = someCandidates(t, rng, g)[name]
			}
			for scope := range Scope(3) {
				d := Discovery{
					Side: kg.Side(turn % 2), Relations: []int32{2, 0, 1}, Scope: scope,
					K: []int{1, 4, 30, 5000}[(turn+int(scope))%4],
				}
				among.RestrictAll(1-d.Side, []int32{59, 3, 1, 40, 17, 11, 5, 30, 2})
				among.Restrict(1-d.Side, int32(turn%3), []int32{7, 8, 9, 10}[:turn%5])
				o := Options{Backend: backends[turn%len(backends)], Threads: 1 + turn%3, Among: among,
					batch: []int{0, 4, 7, 9}[turn%4]}
				if turn%2 == 0 {
					o.FeatureMemory = 20 * featureBytes(engine.WidestTower(m))
				}
				if s := []Screen{Float32Screen, Int8Screen, Int16Screen}[turn/2%3]; s.Fits(m.Tower(kg.Tail).Compare) {
					o.Screen = s
				}
				want := bruteDiscovery(g, m, d, score, among)
				got := discover(t, m, index, d, o)
				require.Equal(t, want, got, "%s, %s, %+v", m.Config().Model, name, d)
			}
		}
	}
}

// TestDiscoverStandardised checks that z-scores compare the answers to different queries, and that
// they agree with the mean and the deviation of all candidates if there are few.
func TestDiscoverStandardised(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	g := ranktest.Graph(rand.New(rand.NewPCG(44, 2)), 60, 3, 300, 20, 20)
	index := kgtest.Index(t, g)
	among := NewCandidates(3)
	among.RestrictAll(kg.Head, []int32{0, 1, 2, 3, 50, 51, 52, 59})
	for i, name := range []string{"mquine", "complex", "rotate", "transe-l2"} {
		kind := ranktest.VectorKinds[0]
		if name == "mquine" {
			kind = ranktest.MatrixKinds[0]
		}
		m := ranktest.Model(t, name, 4, g, uint64(i), kind)
		for scope := range Scope(3) {
			d := Discovery{Relations: []int32{0, 1, 2}, K: 13, Scope: scope, Standardise: true}
			want := bruteDiscovery(g, m, d, m.NewWorker(backends[0]).Reference, among)
			got := discover(t, m, index, d, Options{Threads: 2, batch: 5, Among: among})
			require.Len(t, got, len(want))
			for i := range want {
				require.InDelta(t, want[i].Z, got[i].Z, 1e-9)
				got[i].Z = want[i].Z
			}
			require.Equal(t, want, got, "%s, %v", name, scope)
		}
	}
}

// TestDiscoverStandardisedRange checks that z-scores do not depend on the scale of the scores, even if
// their squares leave the range of float64.
func TestDiscoverStandardisedRange(t *testing.T) {
	g := ranktest.Graph(rand.New(rand.NewPCG(44, 3)), 60, 3, 300, 20, 20)
	index := kgtest.Index(t, g)
	member := ranktest.Model(t, "distmult", 4, g, 1, ranktest.VectorKinds[0])
	found := func(weight float64) []Discovered {
		m, err := model.NewEnsemble([]model.Member{{Model: member, Weight: weight}})
		require.NoError(t, err)
		d := Discovery{Relations: []int32{0, 1, 2}, K: 13, Scope: PerGraph, Standardise: true}
		return discover(t, m, index, d, Options{Threads: 1})
	}
	want := found(1)
	require.NotEqual(t, want[0].Z, want[12].Z)
	for _, exponent := range []int{-900, -700, -510, 510, 700, 1000} {
		weight := math.Ldexp(1, exponent)
		got := found(weight)
		require.Len(t, got, len(want))
		for i := range got {
			require.InDelta(t, want[i].Z, got[i].Z, 1e-12, "2^%d", exponent)
			got[i].Z, got[i].Score = want[i].Z, got[i].Score/weight
		}
		require.Equal(t, want, got, "2^%d", exponent)
	}
}

// TestDiscoverStandardisedTies checks that triples with equal z-scores are in the order of scores, then
// of relation, head and tail, and that the best of them are found.
func TestDiscoverStandardisedTies(t *testing.T) {
	g := ranktest.Graph(rand.New(rand.NewPCG(44, 2)), 60, 3, 300, 20, 20)
	index := kgtest.Index(t, g)
	ties := 0
	for i, name := range []string{"mquine", "complex"} {
		kinds := ranktest.VectorKinds
		if name == "mquine" {
			kinds = ranktest.MatrixKinds
		}
		for _, kind := range kinds {
			m := ranktest.Model(t, name, 4, g, uint64(i), kind)
			for scope := PerRelation; scope <= PerGraph; scope++ {
				d := Discovery{Relations: []int32{0, 1, 2}, K: 1 << 20, Scope: scope, Standardise: true}
				all := discover(t, m, index, d, Options{Threads: 1})
				of := func(x Discovered) int32 {
					if scope == PerGraph {
						return 0
					}
					return x.Triple.Relation
				}
				require.True(t, slices.IsSortedFunc(all, func(a, b Discovered) int {
					return cmp.Or(cmp.Compare(of(a), of(b)), cmp.Compare(b.Z, a.Z), cmp.Compare(b.Score, a.Score),
						cmp.Compare(a.Triple.Relation, b.Triple.Relation), cmp.Compare(a.Triple.Head, b.Triple.Head),
						cmp.Compare(a.Triple.Tail, b.Triple.Tail))
				}), "%s, %s, %v", name, kind.Name, scope)
				for _, d.K = range []int{3, 13} {
					var want []Discovered
					kept := map[int32]int{}
					for i, x := range all {
						if kept[of(x)]++; kept[of(x)] <= d.K {
							want = append(want, x)
						}
						if i > 0 && all[i-1].Z == x.Z && all[i-1].Score != x.Score {
							ties++
						}
					}
					got := discover(t, m, index, d, Options{Threads: 2, batch: 5})
					require.Equal(t, want, got, "%s, %s, %v, k = %d", name, kind.Name, scope, d.K)
				}
			}
		}
	}
	assert.Positive(t, ties)
}

// failing is an engine that counts on the processor and fails after some blocks.
type failing struct{ blocks int64 }

var errLost = errors.New("the device is lost")

func (*failing) Test(context.Context, model.Model, *kernel.Backend, int) error { return nil }
func (*failing) Fallback(err error) bool                                       { return errors.Is(err, errLost) }
func (*failing) String() string                                                { return "failing" }

func (*failing) Memory(j *engine.Job) (engine.Memory, error) {
	return engine.Memory{Slice: j.Most, Host: make([]proc.Need, 1)}, nil
}

func (f *failing) Start(j *engine.Job) (engine.Engine, error) {
	j.FeatureMemory = cmp.Or(j.FeatureMemory, DefaultFeatureMemory)
	e := &failingEngine{cpuEngine: newCPUEngine(j, Float32Screen)}
	e.left.Store(f.blocks)
	return e, nil
}

type failingEngine struct {
	*cpuEngine
	left atomic.Int64
}

func (e *failingEngine) Load(
	ctx context.Context, buffer int, p engine.Pass, slice engine.Set,
) (engine.Candidates, error) {
	_, err := e.cpuEngine.Load(ctx, buffer, p, slice)
	return e, err
}

func (e *failingEngine) QueryBlock() int { return 18 }

func (e *failingEngine) Contend(ctx context.Context, w int, b *engine.Block, lists *engine.Lists) error {
	if e.left.Add(-1) < 0 {
		return errLost
	}
	return e.cpuEngine.Contend(ctx, w, b, lists)
}

// TestDiscoverFallback checks that the result does not depend on the block after which an engine
// fails, in the first batch or in a later one.
func TestDiscoverFallback(t *testing.T) {
	g := ranktest.Graph(rand.New(rand.NewPCG(44, 1)), 60, 3, 300, 20, 20)
	index := kgtest.Index(t, g)
	m := ranktest.Model(t, "complex", 6, g, 2, ranktest.VectorKinds[0])
	for scope := range Scope(3) {
		d := Discovery{Relations: []int32{0, 1, 2}, K: 7, Scope: scope}
		want := discover(t, m, index, d, Options{Threads: 1})
		for blocks := range int64(5) {
			for _, batch := range []int{0, 50} {
				o := Options{Threads: 1 + int(blocks)%2, Engine: &failing{blocks}, batch: batch}
				require.Equal(t, want, discover(t, m, index, d, o), "%v, %d blocks", scope, blocks)
			}
		}
	}
}

// willing is an engine that counts on the processor, and that the processor may replace after any error.
type willing struct {
	failing
	asked int // the number of calls of Fallback
}

func (w *willing) Fallback(error) bool {
	w.asked++
	return true
}

// TestDiscoverFailingEmit checks that an error of emit ends the search at once. It is not an error of
// the engine, so the processor must not repeat the batch.
func TestDiscoverFailingEmit(t *testing.T) {
	g := ranktest.Graph(rand.New(rand.NewPCG(44, 1)), 60, 3, 300, 20, 20)
	m := ranktest.Model(t, "complex", 6, g, 2, ranktest.VectorKinds[0])
	full := errors.New("the disk is full")
	for scope := range Scope(3) {
		e := &willing{failing: failing{math.MaxInt64}}
		emitted := 0
		err := Discover(t.Context(), m, kgtest.Index(t, g), Discovery{Relations: []int32{0}, K: 7, Scope: scope},
			Options{Threads: 1, Engine: e}, func(Discovered) error {
				if emitted++; emitted > 2 {
					return full
				}
				return nil
			})
		require.ErrorIs(t, err, full, scope)
		require.Equal(t, 3, emitted, scope)
		require.Zero(t, e.asked, scope)
	}
}

// TestDiscoverFallbackFits checks that the processor takes the place of an engine only if the search
// fits into memory.
func TestDiscoverFallbackFits(t *testing.T) {
	const entities = 2000
	m, o := numbered(t, "distmult", 400, entities), memoryOptions(t)
	x := kgtest.Index(t, &kg.Graph{Entities: numberedVocabulary(entities), Relations: kg.NewVocabulary("r")})
	o.Engine = &failing{}
	proctest.Leave(t, 33<<20)
	d := Discovery{Relations: []int32{0}, K: 700_000, Scope: PerGraph}
	_, err := newSearch(t.Context(), m, x, d, o, nil)
	require.NoError(t, err, "the engine needs no memory")
	err = Discover(t.Context(), m, x, d, o, func(Discovered) error { return nil })
	assert.ErrorContains(t, err, "discovering with distmult, d = 400, among 2,000 candidates needs about ")
	assert.ErrorContains(t, err, "but only 33 MiB is available (a limit of the test): ask for fewer triples")
}

// TestDiscoverAllTriples checks that the largest K keeps all triples, and that a search for them needs
// memory for all of them.
func TestDiscoverAllTriples(t *testing.T) {
	const entities = 1000
	g := ranktest.Graph(rand.New(rand.NewPCG(45, 5)), entities, 2, 200, 10, 30)
	m := ranktest.Model(t, "distmult", 2, g, 1, ranktest.VectorKinds[0])
	for scope := range Scope(3) {
		d := Discovery{Relations: []int32{0, 1}, K: math.MaxInt, Scope: scope}
		s, err := newSearch(t.Context(), m, kgtest.Index(t, g), d, memoryOptions(t), nil)
		require.NoError(t, err)
		assert.Equal(t, entities, s.k)
		if scope == PerQuery {
			continue
		}
		proctest.Leave(t, 33<<20)
		_, err = newSearch(t.Context(), m, kgtest.Index(t, g), d, memoryOptions(t), nil)
		assert.ErrorContains(t, err, "triples 76 MiB", scope)
		proctest.Leave(t, 8<<30)
	}
}

// TestDiscoverBatches checks that batches are smaller if the lists of all their queries are in memory
// at once, and that the lists count as memory.
func TestDiscoverBatches(t *testing.T) {
	const entities = 4000
	m := numbered(t, "distmult", 4, entities)
	x := kgtest.Index(t, &kg.Graph{Entities: numberedVocabulary(entities), Relations: kg.NewVocabulary("r")})
	for scope := range Scope(3) {
		for _, slices := range []int{1, 4} {
			o := memoryOptions(t)
			o.FeatureMemory = int64(entities/slices+o.Backend.NR) * featureBytes(engine.WidestTower(m))
			d := Discovery{Relations: []int32{0}, K: entities, Scope: scope}
			s, err := newSearch(t.Context(), m, x, d, o, nil)
			require.NoError(t, err)
			want := 1 << 22 / entities
			if slices == 1 && scope != PerQuery {
				want = 1 << 16
			}
			assert.Equal(t, want, s.batch, "%v, %d slices", scope, slices)
			if scope == PerQuery || slices == 1 {
				continue
			}
			// In four slices, the lists of 1,048 queries hold at least 3,000 contenders each.
			proctest.Leave(t, 64<<20)
			_, err = newSearch(t.Context(), m, x, d, o, nil)
			assert.ErrorContains(t, err, "lists between slices 9")
			proctest.Leave(t, 1<<30)
		}
	}
}

func discover(t *testing.T, m model.Model, x *kg.Index, d Discovery, o Options) (all []Discovered) {
	t.Helper()
	err := Discover(t.Context(), m, x, d, o, func(found Discovered) error {
		all = append(all, found)
		return nil
	})
	require.NoError(t, err)
	return all
}

// TestDiscoverResumes checks that a search that resumes from any of its states finds the triples of
// the uninterrupted search.
func TestDiscoverResumes(t *testing.T) {
	g := ranktest.Graph(rand.New(rand.NewPCG(44, 4)), 40, 3, 200, 20, 20)
	m := ranktest.Model(t, "complex", 4, g, 3, ranktest.VectorKinds[0])
	index := kgtest.Index(t, g)
	for _, standardise := range []bool{false, true} {
		for scope := range Scope(3) {
			type checkpoint struct {
				state   DiscoveryState
				emitted int
			}
			var all []Discovered
			var states []checkpoint
			d := Discovery{Relations: []int32{2, 0, 1}, Scope: scope, K: 7, Standardise: standardise}
			d.Save = func(s DiscoveryState) error {
				s.Kept = slices.Clone(s.Kept)
				states = append(states, checkpoint{s, len(all)})
				return nil
			}
			o := Options{Threads: 2, batch: 9}
			emit := func(found Discovered) error {
				all = append(all, found)
				return nil
			}
			require.NoError(t, Discover(t.Context(), m, index, d, o, emit))
			require.Len(t, states, (3*40+9-1)/9, "a state for each batch")
			want := slices.Clone(all)
			for i, from := range states {
				all = slices.Clone(want[:from.emitted])
				d.Resume, d.Save, o.batch = &from.state, nil, 1+i
				s, err := newSearch(t.Context(), m, index, d, o, emit)
				require.NoError(t, err)
				require.NoError(t, s.run(t.Context()))
				require.Equal(t, want, all, "%v, %d queries", scope, from.state.Queries)
				require.EqualValues(t, 3*40*40, s.total)
				require.Equal(t, s.total, s.done, "the progress at the end")
				require.EqualValues(t, 40*from.state.Queries, s.earlier)
			}
		}
	}
}

func TestDiscoverErrors(t *testing.T) {
	g := ranktest.Graph(rand.New(rand.NewPCG(44, 3)), 20, 2, 60, 10, 10)
	m := ranktest.Model(t, "distmult", 4, g, 1, ranktest.VectorKinds[0])
	among := NewCandidates(2)
	among.Restrict(kg.Head, 1, nil)
	full := errors.New("the disk is full")
	for _, c := range []struct {
		d    Discovery
		want string
	}{
		{Discovery{K: 0, Relations: []int32{0}}, "cannot discover 0 triples"},
		{Discovery{K: 1}, "nothing to discover: give at least one relation"},
		{Discovery{K: 1, Relations: []int32{2}}, "relation 2 is outside the model's 2"},
		{Discovery{K: 1, Relations: []int32{0, 1, 0}}, "Discover got relation 0 twice: give distinct relations"},
		{Discovery{K: 1, Relations: []int32{0}, Side: kg.Relation}, "not on the relation side: set Side to kg.Tail or"},
		{Discovery{K: 1, Relations: []int32{0}, Scope: 3}, "Scope(3) is not a scope: choose PerQuery, PerRelation or"},
		{Discovery{K: 1, Relations: []int32{1}},
			"nothing to discover, because no relation has a candidate on the head side"},
		{Discovery{K: 1, Relations: []int32{0}}, "the disk is full"},
		{Discovery{K: 1, Relations: []int32{0}, Resume: &DiscoveryState{Queries: 21}},
			"has 21 finished queries, but there are only 20"},
		{Discovery{K: 1, Relations: []int32{0}, Scope: PerGraph, Resume: &DiscoveryState{Kept: make([]Discovered, 2)}},
			"is from a search for other triples"},
		{Discovery{
			K: 1, Relations: []int32{0},
			Resume: &DiscoveryState{Kept: []Discovered{{Triple: kg.Triple{Head: 20}}}},
		}, "outside the model's 20 entities"},
	} {
		o := Options{Among: among}
		err := Discover(t.Context(), m, kgtest.Index(t, g), c.d, o, func(Discovered) error { return full })
		assert.ErrorContains(t, err, c.want)
	}
}
