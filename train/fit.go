package train

import (
	"context"
	"math/rand/v2"
	"slices"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
)

// schedule is the work of the optimiser: so many steps on batches of so many triples, of a size
// that falls from rate to 0 in a straight line.
type schedule struct {
	steps, batch int
	rate         float64
}

// loss is the mean over the triples of a batch and both sides of
//
//	−log softmax_e(score(q, e))[answer]
//
// with the reference scores of a model, and all its entities e as the candidates of every query q.
type loss interface {
	// take makes the triples the batch.
	take(triples []kg.Triple)
	// gradient computes the gradients of the batch's loss.
	gradient(ctx context.Context) error
	// step moves the model's parameters, in place, against the gradients.
	step(ctx context.Context, rate float64) error
}

// newLoss returns the loss of m for batches of up to so many triples.
func newLoss(m model.Model, triples int, o Options) loss {
	if isMatrixModel(m.Config().Model) {
		return newMatrixLoss(m, triples, o)
	}
	return newTableLoss(m, triples, o)
}

// softmax turns the scores of all candidates of a query into the gradient of its part of the loss:
// for each candidate, its softmax times the number of answers, less the times that it is one.
func softmax(scores []float64, answers []int32) {
	top := slices.Max(scores)
	var sum float64
	for e, v := range scores {
		scores[e] = exp(v - top)
		sum += scores[e]
	}
	scale := float64(len(answers)) / sum
	for e, v := range scores {
		scores[e] = float64(v * scale)
	}
	for _, e := range answers {
		scores[e]--
	}
}

// fit changes the parameters of m in place to lower its loss, by steps of Adam on shuffled batches.
func fit(ctx context.Context, m model.Model, triples []kg.Triple, sch schedule, o Options) error {
	if len(triples) == 0 {
		return nil
	}
	order := slices.Clone(triples)
	rng := rand.New(rand.NewPCG(o.Seed, streamBatches))
	l := newLoss(m, min(sch.batch, len(triples)), o)
	at := len(order)
	for step := range sch.steps {
		if at == len(order) {
			rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
			at = 0
		}
		to := min(at+sch.batch, len(order))
		l.take(order[at:to])
		at = to
		if err := l.gradient(ctx); err != nil {
			return err
		}
		if err := l.step(ctx, sch.rate*float64(sch.steps-step)/float64(sch.steps)); err != nil {
			return err
		}
		if o.Progress != nil {
			o.Progress(step+1, sch.steps)
		}
	}
	return nil
}
