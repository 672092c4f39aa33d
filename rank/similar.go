package rank

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/mquine/mquine/internal/fault"
	"github.com/mquine/mquine/internal/proc"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/engine"
)

// Similarity is a measure of how similar two vectors are. Larger is more similar.
type Similarity uint8

const (
	// Cosine is the cosine of the angle between the vectors, or 0 if one of them is zero.
	Cosine Similarity = iota
	// DotProduct is the dot product.
	DotProduct
	// Compared is the negative distance between the features φ of two entities, by the comparison of
	// the model.
	Compared
)

var similarityNames = []string{"cosine", "dot", "comparison"}

// String returns "cosine", "dot" or "comparison".
func (s Similarity) String() string { return text.Name(similarityNames, s, "Similarity") }

// Neighbour is an entity or a relation with its similarity to another one.
type Neighbour struct {
	ID         int32
	Similarity float64
}

// SimilarEntities returns, for each of the given entities, the k other entities with the most
// similar vectors, or all others if there are fewer than k. The most similar comes first; equally
// similar ones are in the order of their identifiers. The vector of an entity is its rows in all
// tensors, one after the other, as in exports. An ensemble is therefore an error; compare the vectors
// of one of its members. Compared uses φ instead, and needs a model whose comparison is a distance and
// whose φ depends on the entity alone. Products and distances are computed in float64 from the float32
// vectors, and they have the same bits on every tier and for any number of threads. It is an error if
// the lists do not fit into memory. Of the options, SimilarEntities uses the backend and the threads.
func SimilarEntities(
	ctx context.Context, m model.Model, entities []int32, s Similarity, k int, o Options,
) ([][]Neighbour, error) {
	if m == nil {
		return nil, errNoModel
	}
	vectorsOf := parameterVectors
	if s == Compared {
		vectorsOf = comparedVectors
	}
	v, err := vectorsOf(m, model.PerEntity)
	if err != nil {
		return nil, err
	}
	return similar(ctx, m, entities, m.Config().Entities, v, s, k, o)
}

// SimilarRelations is like SimilarEntities, for relations. The vector of a relation is its rows in
// all tensors, one after the other. The measure is Cosine or DotProduct.
func SimilarRelations(
	ctx context.Context, m model.Model, relations []int32, s Similarity, k int, o Options,
) ([][]Neighbour, error) {
	if s == Compared {
		return nil, errors.New("the comparison of a model does not apply to relations: " +
			"use the cosine or the dot product")
	}
	if m == nil {
		return nil, errNoModel
	}
	v, err := parameterVectors(m, model.PerRelation)
	if err != nil {
		return nil, err
	}
	return similar(ctx, m, relations, m.Config().Relations, v, s, k, o)
}

// vectors computes the vectors to compare.
type vectors struct {
	compare model.Comparison
	stride  int // a multiple of kernel.PairWidth coordinates
	// fill writes the vectors of ids to rows, which must be zero before the call.
	fill func(w model.Worker, ids []int32, rows []float32, sizes []float64)
}

// parameterVectors returns vectors that join the rows of all tensors with the given axis.
func parameterVectors(m model.Model, axis model.Axis) (vectors, error) {
	parameters, err := model.Parameters(m.Config())
	if err != nil { // registered models have passed the same checks
		return vectors{}, fmt.Errorf("rank: the tensors of model %s are unknown, because it is not registered: "+
			"compare the vectors of a registered model, such as a member of the ensemble", m.Config().Model)
	}
	width := 0
	for _, p := range parameters {
		if p.Axis == axis {
			width += p.Width()
		}
	}
	stride := engine.PairPad(width)
	tensors := m.Tensors()
	return vectors{compare: kernel.Dot, stride: stride, fill: func(
		_ model.Worker, ids []int32, rows []float32, _ []float64,
	) {
		for i, id := range ids {
			at := i * stride
			for t, p := range parameters {
				if p.Axis == axis {
					at += copy(rows[at:], tensors[t][int(id)*p.Width():][:p.Width()])
				}
			}
		}
	}}, nil
}

// comparedVectors returns the features φ of entities.
func comparedVectors(m model.Model, _ model.Axis) (vectors, error) {
	tower := m.Tower(kg.Tail)
	psi, phi := tower.Compare.Words()
	if !tower.Compare.Distance() || psi != phi || tower.Features != model.OnEntity || tower != m.Tower(kg.Head) {
		return vectors{}, fmt.Errorf("model %s has no distance between two entities: use the cosine or the dot product",
			m.Config().Model)
	}
	stride := engine.PhiStride(tower)
	return vectors{compare: tower.Compare, stride: stride, fill: func(
		w model.Worker, ids []int32, rows []float32, sizes []float64,
	) {
		w.Features(kg.Tail, 0, ids, model.Rows{Values: rows, Width: tower.Phi, Stride: stride}, sizes)
	}}, nil
}

const (
	// similarChunk is the number of vectors that a goroutine compares at a time.
	similarChunk = 256
	// similarBatch is the number of given vectors that a goroutine compares with a chunk between checks
	// of the context.
	similarBatch = 16
)

// similar compares the vectors of ids with the vectors of all n entities or relations.
func similar(
	ctx context.Context, m model.Model, ids []int32, n int, v vectors, measure Similarity, k int, o Options,
) (_ [][]Neighbour, err error) {
	defer fault.Guard().Catch(&err)
	if o, err = o.withoutCandidates(); err != nil {
		return nil, err
	}
	if err := checkSimilar(ids, n, measure, k); err != nil {
		return nil, err
	}
	k = min(k, max(n-1, 1))
	chunks := (n + similarChunk - 1) / similarChunk
	lists := make([][]topK[Neighbour], min(o.Threads, chunks)) // by goroutine and identifier
	perList := int64(len(lists)) * int64(unsafe.Sizeof(topK[Neighbour]{}))
	perList += int64(min(len(lists)*k, n-1)) * int64(unsafe.Sizeof(Neighbour{}))
	err = proc.CheckMemory(fmt.Sprintf("listing up to %s of %s", text.Plural(k, "neighbour"),
		text.Plural(len(ids), "vector")), "ask for fewer, use fewer threads, or make more memory available",
		proc.Need{For: "vectors", Bytes: 4 * int64(len(ids)) * int64(v.stride)},
		proc.Need{For: "neighbours", Bytes: int64(len(ids)) * perList})
	if err != nil {
		return nil, err
	}
	s := &similarities{
		vectors: v, backend: o.Backend, workers: engine.NewWorkers(o.job(m, engine.Plan{})),
		measure: measure, k: k, ids: ids, given: newVectorTable(len(ids), v.stride),
	}
	err = engine.InChunks(ctx, o.Threads, len(ids), similarBatch, func(w, first, last int) {
		s.load(w, s.given.part(first, last), ids[first:last])
	})
	if err != nil {
		return nil, err
	}
	tables := make([]vectorTable, len(lists))
	err = engine.Parallel(ctx, len(lists), chunks, func(ctx context.Context, w, chunk int) error {
		if lists[w] == nil {
			lists[w], tables[w] = s.newLists(), newVectorTable(similarChunk, v.stride)
		}
		var others []int32
		for other := chunk * similarChunk; other < min((chunk+1)*similarChunk, n); other++ {
			others = append(others, int32(other))
		}
		table := tables[w].part(0, len(others))
		s.load(w, table, others)
		return s.extend(ctx, lists[w], table, others)
	})
	if err != nil {
		return nil, err
	}
	return mergeLists(ctx, slices.DeleteFunc(lists, func(of []topK[Neighbour]) bool { return of == nil }),
		len(ids), o.Threads)
}

// checkSimilar checks the arguments of similar.
func checkSimilar(ids []int32, n int, measure Similarity, k int) error {
	if int(measure) >= len(similarityNames) {
		return fmt.Errorf("rank: %v is not a measure: choose Cosine, DotProduct or Compared", measure)
	}
	if k < 1 {
		return fmt.Errorf("rank: cannot list %d neighbours: ask for at least 1", k)
	}
	for _, id := range ids {
		if id < 0 || int(id) >= n {
			return fmt.Errorf("rank: identifier %d is outside the model's %d identifiers", id, n)
		}
	}
	return nil
}

// mergeLists merges the lists of the goroutines for each of n identifiers.
func mergeLists(ctx context.Context, lists [][]topK[Neighbour], n, threads int) ([][]Neighbour, error) {
	out := make([][]Neighbour, n)
	err := engine.InChunks(ctx, threads, n, similarBatch, func(_, first, last int) {
		for i := first; i < last; i++ {
			all := &lists[0][i]
			for _, of := range lists[1:] {
				for _, neighbour := range of[i].heap {
					all.add(neighbour)
				}
				of[i].heap = nil // frees its memory
			}
			out[i] = all.sorted()
		}
	})
	return out, err
}

// similarities compares the vectors of ids with other vectors.
type similarities struct {
	vectors
	backend *kernel.Backend
	workers *engine.Workers
	measure Similarity
	k       int // the largest length of a list
	ids     []int32
	given   vectorTable // vectors of ids
}

// vectorTable holds vectors in rows of stride entries, with their squared norms.
type vectorTable struct {
	rows    []float32
	squares []float64
	stride  int
}

func newVectorTable(n, stride int) vectorTable {
	return vectorTable{kernel.AlignedFloat32(n * stride), make([]float64, n), stride}
}

func (t vectorTable) row(i int) []float32 { return t.rows[i*t.stride:][:t.stride] }

// part returns the rows from first to last−1.
func (t vectorTable) part(first, last int) vectorTable {
	return vectorTable{t.rows[first*t.stride : last*t.stride], t.squares[first:last], t.stride}
}

// load writes the vectors of ids to a table with as many rows. w is the number of the goroutine.
func (s *similarities) load(w int, t vectorTable, ids []int32) {
	clear(t.rows)
	s.fill(s.workers.Get(w), ids, t.rows, make([]float64, len(ids)))
	for i := range ids {
		s.backend.Pair(kernel.Dot, t.squares[i:i+1], t.row(i), t.row(i), t.stride, []int32{0})
	}
}

// newLists returns an empty list for each of the given vectors, the most similar first.
func (s *similarities) newLists() []topK[Neighbour] {
	lists := make([]topK[Neighbour], len(s.ids))
	for i := range lists {
		lists[i] = topK[Neighbour]{k: s.k, compare: func(a, b Neighbour) int {
			return cmp.Or(cmp.Compare(b.Similarity, a.Similarity), cmp.Compare(a.ID, b.ID))
		}}
	}
	return lists
}

// extend compares the given vectors with the vectors of others, which table holds, and adds others to
// their lists.
func (s *similarities) extend(
	ctx context.Context, lists []topK[Neighbour], table vectorTable, others []int32,
) error {
	rows, scores := ascending(len(others)), make([]float64, len(others))
	for i, id := range s.ids {
		if i%similarBatch == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		s.backend.Pair(s.compare, scores, s.given.row(i), table.rows, s.stride, rows)
		list := &lists[i]
		for j, other := range others {
			if other == id {
				continue
			}
			value := scores[j]
			if s.measure == Cosine {
				value = cosineOf(value, s.given.squares[i], table.squares[j])
			}
			if !list.full() || value >= list.heap[0].Similarity {
				list.add(Neighbour{other, value})
			}
		}
	}
	return nil
}

// cosineOf returns the cosine of the angle between two vectors, given their dot product and their
// squared norms. Copies of a vector have the cosine 1 exactly, because all three are then equal, and
// the root of a rounded square is exact.
func cosineOf(product, a, b float64) float64 {
	if !(a > 0 && b > 0) {
		return 0
	}
	return min(max(product/math.Sqrt(a*b), -1), 1)
}
