package rank

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/mquine/mquine/internal/fault"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/engine"
)

// scoreChunk is the number of scores that a goroutine computes between checks of the context.
const scoreChunk = 256

// Scores returns the scores of triples that users see (model.Model.Score), computed from reference
// scores, in the order of the triples. Each score is the mean of the triple's scores as an answer to
// its queries on the sides. The sides matter only for models that score a triple differently on them
// (model.Spec.IsSided). RelationSide is an error, because (h, ?, t) has the same scores as (h, r, ?).
// Of the options, Scores uses only the backend and the threads. Verify a mapped checkpoint as Run's
// comment describes.
func Scores(
	ctx context.Context, m model.Model, triples []kg.Triple, sides Sides, o Options,
) (scores []float64, err error) {
	defer fault.Guard().Catch(&err)
	if o, err = o.withoutCandidates(); err != nil {
		return nil, err
	}
	if m == nil {
		return nil, errNoModel
	}
	if sides > BothSides {
		return nil, fmt.Errorf("rank: Scores takes TailSide, HeadSide or BothSides, not %v", sides)
	}
	for _, side := range sides.List() {
		references, err := referenceScores(ctx, m, triples, side, o)
		if err != nil {
			return nil, err
		}
		for i, reference := range references {
			references[i] = m.Score(reference)
			if scores != nil {
				references[i] = (scores[i] + references[i]) / 2
			}
		}
		scores = references
	}
	return scores, nil
}

// referenceScores returns the reference scores of triples as answers to their queries on a side, in
// the order of the triples.
func referenceScores(
	ctx context.Context, m model.Model, triples []kg.Triple, side kg.Side, o Options,
) ([]float64, error) {
	if err := checkTriples(m, triples); err != nil {
		return nil, err
	}
	// A worker saves work if consecutive calls have the same relation or the same query.
	order := byQuery(triples, side)
	scores := make([]float64, len(triples))
	j := o.job(m, engine.Plan{})
	workers := engine.NewWorkers(j)
	err := engine.InChunks(ctx, o.Threads, len(order), scoreChunk, func(w, first, last int) {
		worker := workers.Get(w)
		for _, i := range order[first:last] {
			q, answer := triples[i].Query(side)
			scores[i] = worker.Reference(q, answer)
		}
	})
	return scores, cmp.Or(err, j.CheckScores())
}

// byQuery returns the indices of triples, ordered by relation and then by query.
func byQuery(triples []kg.Triple, side kg.Side) []int32 {
	order := ascending(len(triples))
	slices.SortFunc(order, func(i, j int32) int {
		p, _ := triples[i].Query(side)
		q, _ := triples[j].Query(side)
		return cmp.Or(cmp.Compare(p.Relation, q.Relation), cmp.Compare(p.Anchor, q.Anchor), cmp.Compare(i, j))
	})
	return order
}
