package rank

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/mquine/mquine/internal/fault"
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
// tensors, one after the other, as in exports. Compared uses φ instead, and needs a model whose
// comparison is a distance and whose φ depends on the entity alone. Products and distances are
// computed in float64 from the float32 vectors, and they have the same bits on every tier and for
// any number of threads. Of the options, SimilarEntities uses the backend and the threads.
func SimilarEntities(
	ctx context.Context, m model.Model, entities []int32, s Similarity, k int, o Options,
) ([][]Neighbour, error) {
	v := parameterVectors(m, model.PerEntity)
	if s == Compared {
		tower := m.Tower(kg.Tail)
		psi, phi := tower.Compare.Words()
		if !tower.Compare.Distance() || psi != phi || tower.Features != model.OnEntity || tower != m.Tower(kg.Head) {
			return nil, fmt.Errorf("model %s has no distance between two entities: use the cosine or the dot product",
				m.Config().Model)
		}
		v = vectors{compare: tower.Compare, stride: engine.PhiStride(tower)}
		v.fill = func(w model.Worker, ids []int32, rows []float32, sizes []float64) {
			w.Features(kg.Tail, 0, ids, model.Rows{Values: rows, Width: tower.Phi, Stride: v.stride}, sizes)
		}
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
	return similar(ctx, m, relations, m.Config().Relations, parameterVectors(m, model.PerRelation), s, k, o)
}

// vectors computes the vectors to compare.
type vectors struct {
	compare model.Comparison
	stride  int // a multiple of kernel.PairWidth coordinates
	// fill writes the vectors of ids to rows, which must be zero before the call.
	fill func(w model.Worker, ids []int32, rows []float32, sizes []float64)
}

// parameterVectors returns vectors that join the rows of all tensors with the given axis.
func parameterVectors(m model.Model, axis model.Axis) vectors {
	parameters, err := model.Parameters(m.Config())
	if err != nil {
		panic(err) // the model has passed the same checks
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
	}}
}

// similarChunk is the number of vectors that a goroutine compares at a time.
const similarChunk = 256

// similar compares the vectors of ids with the vectors of all n entities or relations.
func similar(
	ctx context.Context, m model.Model, ids []int32, n int, v vectors, s Similarity, k int, o Options,
) (_ [][]Neighbour, err error) {
	defer fault.Guard().Catch(&err)
	if o, err = o.withDefaults(); err != nil {
		return nil, err
	}
	if k < 1 {
		return nil, fmt.Errorf("rank: cannot list %d neighbours: ask for at least 1", k)
	}
	for _, id := range ids {
		if id < 0 || int(id) >= n {
			return nil, fmt.Errorf("rank: identifier %d is outside the model's %d identifiers", id, n)
		}
	}
	workers := engine.NewWorkers(o.job(m, engine.Plan{}))
	given := kernel.AlignedFloat32(len(ids) * v.stride)
	v.fill(workers.Get(0), ids, given, make([]float64, len(ids)))
	b := o.Backend
	norm := func(x []float32) float64 {
		var square [1]float64
		b.Pair(kernel.Dot, square[:], x, x, len(x), []int32{0})
		return math.Sqrt(square[0])
	}
	row := func(table []float32, i int) []float32 { return table[i*v.stride:][:v.stride] }
	norms := make([]float64, len(ids))
	for i := range ids {
		norms[i] = norm(row(given, i))
	}
	lists := make([][][]Neighbour, o.Threads) // by goroutine and identifier
	tables := make([][]float32, o.Threads)
	err = engine.InChunks(ctx, o.Threads, n, similarChunk, func(w, first, last int) {
		if lists[w] == nil {
			lists[w], tables[w] = make([][]Neighbour, len(ids)), kernel.AlignedFloat32(similarChunk*v.stride)
		}
		table := tables[w]
		clear(table)
		var others, rows []int32
		for other := first; other < last; other++ {
			others, rows = append(others, int32(other)), append(rows, int32(other-first))
		}
		v.fill(workers.Get(w), others, table, make([]float64, len(others)))
		lengths, scores := make([]float64, len(others)), make([]float64, len(others))
		for i := range others {
			lengths[i] = norm(row(table, i))
		}
		for i, id := range ids {
			b.Pair(v.compare, scores, row(given, i), table, v.stride, rows)
			list := lists[w][i]
			for j, other := range others {
				if other == id {
					continue
				}
				value := scores[j]
				if s == Cosine {
					if value = 0; norms[i] > 0 && lengths[j] > 0 {
						value = scores[j] / norms[i] / lengths[j]
					}
				}
				list = append(list, Neighbour{other, value})
			}
			lists[w][i] = nearest(list, k)
		}
	})
	if err != nil {
		return nil, err
	}
	out := make([][]Neighbour, len(ids))
	for _, list := range lists {
		for i := range list {
			out[i] = append(out[i], list[i]...)
		}
	}
	for i := range out {
		out[i] = nearest(out[i], k)
	}
	return out, nil
}

// nearest returns the k most similar of a list, in order.
func nearest(list []Neighbour, k int) []Neighbour {
	slices.SortFunc(list, func(a, b Neighbour) int {
		return cmp.Or(cmp.Compare(b.Similarity, a.Similarity), cmp.Compare(a.ID, b.ID))
	})
	return list[:min(k, len(list))]
}
