package rank

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/mquine/mquine/internal/fault"
	"github.com/mquine/mquine/internal/proc"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/engine"
)

// PredictRelations returns, for the head and the tail of each triple, the relations that have the
// highest reference scores as answers to (h, ?, t). The relations of the triples do not matter. As
// in Relations, a model with reciprocal relations uses the direct relation. The order and the
// options are as in Predict, except that only the backend, the threads and the progress are used. x
// must suit m as for Run.
func PredictRelations(
	ctx context.Context, m model.Model, x *kg.Index, triples []kg.Triple, top Top, o Options,
) (_ [][]Prediction, err error) {
	defer fault.Guard().Catch(&err)
	if err := checkIndex(m, x); err != nil {
		return nil, err
	}
	if top.K < 1 {
		return nil, fmt.Errorf("rank: cannot predict %d relations: ask for at least 1", top.K)
	}
	asked := slices.Clone(triples)
	for i := range asked {
		asked[i].Relation = 0
	}
	if err := checkTriples(m, asked); err != nil {
		return nil, err
	}
	if o, err = o.withoutCandidates(); err != nil {
		return nil, err
	}
	order, relations := byHead(triples), m.Config().Relations
	const mostScores = 1 << 20
	size := max(1, min(len(order), relationChunk, mostScores/max(1, relations))) // triples in a chunk
	err = proc.CheckMemory("choosing among "+text.Plural(relations, "relation"),
		"ask for fewer answers or fewer queries, or make more memory available",
		proc.Need{For: "answers", Bytes: int64(len(triples)) * int64(min(top.K, relations)) *
			int64(unsafe.Sizeof(Prediction{}))},
		proc.Need{For: "scores", Bytes: 8 * int64(size) * int64(relations)})
	if err != nil {
		return nil, err
	}
	var done atomic.Int64
	defer o.relationProgress(time.Now(), len(triples)*relations, &done)()
	lists := make([][]Prediction, len(triples))
	j := o.job(m, engine.Plan{})
	workers := engine.NewWorkers(j)
	scores := make([]float64, size*relations) // by triple of a chunk and relation
	best := make([]topK[Prediction], o.Threads)
	for w := range best {
		best[w] = topK[Prediction]{k: top.K, heap: []Prediction{}, compare: func(a, b Prediction) int {
			return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Answer, b.Answer))
		}}
	}
	for chunk := range slices.Chunk(order, size) {
		err := engine.Parallel(ctx, o.Threads, relations, func(ctx context.Context, w, relation int) error {
			worker := workers.Get(w)
			for n, i := range chunk {
				if n%64 == 0 && ctx.Err() != nil {
					return ctx.Err()
				}
				q := kg.Query{Side: kg.Tail, Relation: int32(relation), Anchor: triples[i].Head}
				scores[n*relations+relation] = worker.Reference(q, triples[i].Tail)
			}
			done.Add(int64(len(chunk)))
			return nil
		})
		if err = cmp.Or(err, j.CheckScores()); err != nil {
			return nil, err
		}
		err = engine.InChunks(ctx, o.Threads, len(chunk), 1, func(w, n, _ int) {
			lists[chunk[n]] = bestRelations(&best[w], x, triples[chunk[n]], scores[n*relations:][:relations], top)
		})
		if err != nil {
			return nil, err
		}
	}
	return lists, nil
}

// bestRelations returns the relations with the highest scores between the head and the tail of t. best
// is scratch memory.
func bestRelations(best *topK[Prediction], x *kg.Index, t kg.Triple, scores []float64, top Top) []Prediction {
	best.heap = best.heap[:0]
	for relation, score := range scores {
		if best.full() && score <= best.heap[0].Score {
			continue
		}
		t.Relation = int32(relation)
		if known := x.Splits(t) != 0; !known || !top.FilterKnown {
			best.add(Prediction{t.Relation, score, known})
		}
	}
	return slices.Clone(best.sorted())
}
