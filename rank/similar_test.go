package rank

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/proc/proctest"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/kerneltest"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/ranktest"
)

// tensorRows joins the rows of all tensors with the given axis.
func tensorRows(t *testing.T, m model.Model, axis model.Axis, n int) [][]float64 {
	parameters, err := model.Parameters(m.Config())
	require.NoError(t, err)
	rows := make([][]float64, n)
	for i, p := range parameters {
		if p.Axis != axis {
			continue
		}
		for at, v := range m.Tensors()[i] {
			rows[at/p.Width()] = append(rows[at/p.Width()], float64(v))
		}
	}
	return rows
}

// requireNeighbours compares lists with all similarities, computed one by one. Neighbours with
// nearly the same similarity may be in any order.
func requireNeighbours(
	t *testing.T, name string, got [][]Neighbour, ids []int32, n, k int, similarity func(a, b int32) float64,
) {
	t.Helper()
	for i, id := range ids {
		var want []Neighbour
		for e := range int32(n) {
			if e != id {
				want = append(want, Neighbour{e, similarity(id, e)})
			}
		}
		slices.SortFunc(want, func(a, b Neighbour) int {
			return cmp.Or(cmp.Compare(b.Similarity, a.Similarity), cmp.Compare(a.ID, b.ID))
		})
		require.Len(t, got[i], min(k, n-1))
		seen := map[int32]bool{id: true}
		for j, g := range got[i] {
			require.False(t, seen[g.ID])
			seen[g.ID] = true
			require.InDelta(t, want[j].Similarity, g.Similarity, 1e-6, name)
			require.InDelta(t, similarity(id, g.ID), g.Similarity, 1e-6, name)
		}
	}
}

func dot(a, b []float64) (sum float64) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

func cosine(a, b []float64) float64 { return dot(a, b) / math.Sqrt(dot(a, a)*dot(b, b)) }

// TestSimilar checks that every list equals the sorted list of all neighbours. Of the models here,
// only TransE-L1 and RotatE compare entities by a distance.
func TestSimilar(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	g := ranktest.Graph(rand.New(rand.NewPCG(6, 1)), 2*similarChunk+30, 40, 10, 0, 0)
	n, ids := g.Entities.Len(), []int32{0, 3, 300, int32(g.Entities.Len() - 1)}
	l1 := func(a, b []float64) (sum float64) {
		for i := range a {
			sum -= math.Abs(a[i] - b[i])
		}
		return sum
	}
	moduli := func(a, b []float64) (sum float64) { // real parts, then imaginary parts
		k := len(a) / 2
		for i := range k {
			sum -= math.Hypot(a[i]-b[i], a[k+i]-b[k+i])
		}
		return sum
	}
	for name, compared := range map[string]func(a, b []float64) float64{
		"distmult": nil, "transe-l1": l1, "cp": nil, "rescal": nil, "rotate-l2": nil, "rotate": moduli, "mquine": nil,
	} {
		m := ranktest.Model(t, name, 7, g, 8, ranktest.VectorKinds[0])
		entities, relations := tensorRows(t, m, model.PerEntity, n), tensorRows(t, m, model.PerRelation, 40)
		of := func(rows [][]float64, f func(a, b []float64) float64) func(a, b int32) float64 {
			return func(a, b int32) float64 { return f(rows[a], rows[b]) }
		}
		for i, b := range backends {
			o := Options{Backend: b, Threads: 1 + i}
			for s, f := range []func(a, b []float64) float64{cosine, dot, compared} {
				if f == nil {
					_, err := SimilarEntities(t.Context(), m, ids, Compared, 5, o)
					require.ErrorContains(t, err, "use the cosine or the dot product", name)
					continue
				}
				for _, k := range []int{1, 10, 10_000} {
					got, err := SimilarEntities(t.Context(), m, ids, Similarity(s), k, o)
					require.NoError(t, err, name)
					requireNeighbours(t, name, got, ids, n, k, of(entities, f))
				}
			}
			got, err := SimilarRelations(t.Context(), m, []int32{0, 39}, Cosine, 7, o)
			require.NoError(t, err)
			requireNeighbours(t, name, got, []int32{0, 39}, 40, 7, of(relations, cosine))
		}
		_, err := SimilarRelations(t.Context(), m, ids, Compared, 5, Options{})
		require.Error(t, err)
	}
}

// TestSimilarOnAllTiers checks that the lists have the same bits on every tier. The same entity may
// be given twice.
func TestSimilarOnAllTiers(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	g := ranktest.Graph(rand.New(rand.NewPCG(6, 2)), 50, 3, 10, 0, 0)
	m := ranktest.Model(t, "rotate", 21, g, 9, ranktest.VectorKinds[0])
	ids := []int32{4, 49, 4}
	for _, s := range []Similarity{Cosine, DotProduct, Compared} {
		var first [][]Neighbour
		for i, b := range backends {
			got, err := SimilarEntities(t.Context(), m, ids, s, 6, Options{Backend: b, Threads: 1 + i})
			require.NoError(t, err)
			if first == nil {
				first = got
			}
			assert.Equal(t, first, got)
			assert.Equal(t, got[0], got[2])
		}
	}
	_, err = SimilarEntities(t.Context(), m, []int32{50}, Cosine, 6, Options{})
	require.ErrorContains(t, err, "outside")
	_, err = SimilarEntities(t.Context(), m, ids, Cosine, 0, Options{})
	require.ErrorContains(t, err, "at least 1")
	_, err = SimilarEntities(t.Context(), m, ids, 3, 6, Options{})
	require.ErrorContains(t, err, "Similarity(3) is not a measure: choose Cosine, ")
	_, err = SimilarRelations(t.Context(), m, []int32{0}, 3, 6, Options{})
	require.ErrorContains(t, err, "is not a measure")
}

// TestSimilarTies checks that equal vectors are in the order of their identifiers, and that a
// vector of zeros has the cosine 0.
func TestSimilarTies(t *testing.T) {
	g := ranktest.Graph(rand.New(rand.NewPCG(6, 3)), 600, 2, 10, 0, 0)
	m := ranktest.Model(t, "distmult", 4, g, 9, ranktest.Kind{Fill: func(
		rng *rand.Rand, c model.Config, ts [][]float32,
	) {
		for i := range ts[0] {
			if e := i / 4; e%2 == 0 {
				ts[0][i] = 1
			}
		}
	}})
	got, err := SimilarEntities(t.Context(), m, []int32{2, 1}, Cosine, 3, Options{Threads: 3})
	require.NoError(t, err)
	assert.Equal(t, [][]Neighbour{{{0, 1}, {4, 1}, {6, 1}}, {{0, 0}, {2, 0}, {3, 0}}}, got)
}

// TestCosineOfCopies checks that the cosine of an exact copy is 1, that no cosine exceeds 1, and that
// an opposite vector has the cosine −1.
func TestCosineOfCopies(t *testing.T) {
	const d = 20
	for seed := range uint64(100) {
		g := ranktest.Graph(rand.New(rand.NewPCG(seed, 1)), 4, 1, 2, 0, 0)
		m := ranktest.Model(t, "distmult", d, g, seed, ranktest.Kind{Fill: func(
			rng *rand.Rand, c model.Config, ts [][]float32,
		) {
			x := ts[0]
			ranktest.Normal(rng, x[:d], 1)
			for i, v := range x[:d] {
				x[d+i] = v * float32(1+float64(rng.IntN(3)-1)*0x1p-23) // nearly a copy
				x[2*d+i], x[3*d+i] = v, -v
			}
		}})
		got, err := SimilarEntities(t.Context(), m, []int32{0}, Cosine, 3, Options{Threads: 1})
		require.NoError(t, err)
		for _, x := range got[0] {
			assert.LessOrEqual(t, x.Similarity, 1.0)
		}
		assert.Contains(t, got[0], Neighbour{2, 1})
		assert.Equal(t, Neighbour{3, -1}, got[0][2])
	}
}

// TestSimilarMemory checks that lists of few neighbours need little memory, and that lists that do not fit
// into memory are an error.
func TestSimilarMemory(t *testing.T) {
	const n = 2000
	g := ranktest.Graph(rand.New(rand.NewPCG(6, 5)), n, 1, 10, 0, 0)
	m := ranktest.Model(t, "distmult", 4, g, 9, ranktest.VectorKinds[0])
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(i)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := SimilarEntities(t.Context(), m, ids, Cosine, 2, Options{Threads: 2})
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1000*n))

	proctest.Leave(t, 33<<20)
	_, err = SimilarEntities(t.Context(), m, slices.Repeat(ids, 500), Cosine, 3, Options{Threads: 2})
	assert.ErrorContains(t, err, "listing up to 3 neighbours of 1,000,000 vectors needs about ")
	assert.ErrorContains(t, err, "neighbours 168 MiB), but only 33 MiB is available (a limit of the test): ask")
}

// TestSimilarEnsemble checks that an ensemble, whose tensors are not declared, is an error for every
// measure.
func TestSimilarEnsemble(t *testing.T) {
	g := ranktest.Graph(rand.New(rand.NewPCG(6, 6)), 20, 2, 10, 0, 0)
	cp := ranktest.Model(t, "cp", 4, g, 9, ranktest.VectorKinds[0])
	m, err := model.NewEnsemble([]model.Member{{Model: cp, Weight: 1}})
	require.NoError(t, err)
	const unknown = "the tensors of model ensemble are unknown"
	for s, want := range map[Similarity]string{
		Cosine: unknown, DotProduct: unknown, Compared: "model ensemble has no distance between two entities",
	} {
		_, err := SimilarEntities(t.Context(), m, []int32{0}, s, 3, Options{})
		assert.ErrorContains(t, err, want)
	}
	_, err = SimilarRelations(t.Context(), m, []int32{0}, Cosine, 1, Options{})
	assert.ErrorContains(t, err, unknown)
}

// watched is a model whose workers call functions before they work, unless they are nil.
type watched struct {
	model.Model
	features  func(entities []int32)
	reference func()
}

type watchedWorker struct {
	model.Worker
	watched *watched
}

func (m *watched) NewWorker(b *kernel.Backend) model.Worker {
	return watchedWorker{m.Model.NewWorker(b), m}
}

func (w watchedWorker) Features(side kg.Side, relation int32, entities []int32, phi model.Rows, sizes []float64) {
	if w.watched.features != nil {
		w.watched.features(entities)
	}
	w.Worker.Features(side, relation, entities, phi, sizes)
}

func (w watchedWorker) Reference(q kg.Query, e int32) float64 {
	if w.watched.reference != nil {
		w.watched.reference()
	}
	return w.Worker.Reference(q, e)
}

// TestSimilarStops checks that a comparison stops if the context ends while it computes the given
// vectors, and before it compares a chunk with them.
func TestSimilarStops(t *testing.T) {
	g := ranktest.Graph(rand.New(rand.NewPCG(6, 4)), 200, 1, 10, 0, 0)
	m := ranktest.Model(t, "transe-l1", 4, g, 9, ranktest.VectorKinds[0])
	ids := make([]int32, 100)
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	stop := func([]int32) { calls++; cancel() }
	o := Options{Threads: 1}
	_, err := SimilarEntities(ctx, &watched{Model: m, features: stop}, ids, Compared, 5, o)
	assert.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, 1, calls)
	_, err = SimilarEntities(t.Context(), &watched{Model: m, features: func(entities []int32) {
		assert.True(t, len(entities) <= similarBatch || len(entities) == 200, "%d vectors", len(entities))
	}}, ids, Compared, 5, o)
	require.NoError(t, err)

	const stride = kernel.PairWidth
	s := &similarities{
		vectors: vectors{compare: kernel.Dot, stride: stride}, backend: kerneltest.Best(t), k: 5, ids: ids,
		given: newVectorTable(len(ids), stride),
	}
	lists := s.newLists()
	assert.ErrorIs(t, s.extend(ctx, lists, newVectorTable(1, stride), []int32{7}), context.Canceled)
	assert.Empty(t, lists[0].heap)
	require.NoError(t, s.extend(t.Context(), lists, newVectorTable(1, stride), []int32{7}))
	assert.Equal(t, []Neighbour{{7, 0}}, lists[99].heap)
}
