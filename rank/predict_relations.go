package rank

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/mquine/mquine/internal/fault"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/engine"
)

// PredictRelations returns, for the head and the tail of each triple, the relations that have the
// highest reference scores as answers to (h, ?, t). The relations of the triples do not matter. As
// in Relations, a model with reciprocal relations uses the direct relation. The order and the
// options are as in Predict, except that only the backend, the threads and the progress are used.
func PredictRelations(
	ctx context.Context, m model.Model, x *kg.Index, triples []kg.Triple, top Top, o Options,
) (_ [][]Prediction, err error) {
	defer fault.Guard().Catch(&err)
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
	if o, err = o.withDefaults(); err != nil {
		return nil, err
	}
	order, relations := byHead(triples), m.Config().Relations
	var done atomic.Int64
	defer o.relationProgress(time.Now(), len(triples)*relations, &done)()
	lists := make([][]Prediction, len(triples))
	j := o.job(m, engine.Plan{})
	workers := engine.NewWorkers(j)
	scores := make([][]float64, min(len(order), relationChunk)) // by triple of a chunk and relation
	for i := range scores {
		scores[i] = make([]float64, relations)
	}
	for chunk := range slices.Chunk(order, relationChunk) {
		err := engine.Parallel(ctx, o.Threads, relations, func(ctx context.Context, w, relation int) error {
			worker := workers.Get(w)
			for n, i := range chunk {
				if n%64 == 0 && ctx.Err() != nil {
					return ctx.Err()
				}
				q := kg.Query{Side: kg.Tail, Relation: int32(relation), Anchor: triples[i].Head}
				scores[n][relation] = worker.Reference(q, triples[i].Tail)
			}
			done.Add(int64(len(chunk)))
			return nil
		})
		if err = cmp.Or(err, j.CheckScores()); err != nil {
			return nil, err
		}
		for n, i := range chunk {
			lists[i] = bestRelations(x, triples[i], scores[n], top)
		}
	}
	return lists, nil
}

// bestRelations returns the relations with the highest scores between the head and the tail of t.
func bestRelations(x *kg.Index, t kg.Triple, scores []float64, top Top) []Prediction {
	all := make([]Prediction, 0, len(scores))
	for relation, score := range scores {
		t.Relation = int32(relation)
		if known := x.Splits(t) != 0; !known || !top.FilterKnown {
			all = append(all, Prediction{t.Relation, score, known})
		}
	}
	slices.SortStableFunc(all, func(a, b Prediction) int { return cmp.Compare(b.Score, a.Score) })
	return slices.Clone(all[:min(top.K, len(all))])
}
