package rank

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank/internal/engine"
)

// pairEngine compares targets with the candidates that the plan lists for them, one pair after the
// other. Such targets share so few candidates that panels would mostly compute unwanted scores. The
// first stage is the float64 score of a pair, and the last stage is its reference score.
type pairEngine struct {
	job      *engine.Job
	features *engine.Features
	rowOf    []int32         // the row of each entity in the slice, or −1
	workers  *engine.Workers // of Load
	scratch  []pairScratch   // by goroutine
}

// pairScratch holds the candidates of a target in the slice, and their scores.
type pairScratch struct {
	rows   []int32
	scores []float64
}

func newPairEngine(j *engine.Job) *pairEngine {
	n := pairSlice(j)
	e := &pairEngine{
		job: j, features: engine.NewFeatures(engine.WidestTower(j.Model), n, true),
		rowOf: make([]int32, j.Model.Config().Entities), workers: engine.NewWorkers(j),
		scratch: make([]pairScratch, j.Threads),
	}
	for i := range e.rowOf {
		e.rowOf[i] = -1
	}
	for i := range n {
		e.features.RowAt[i], e.features.PositionOf[i] = int32(i), int32(i)
	}
	return e
}

// pairSlice returns the largest number of candidates whose φ fit into memory together.
func pairSlice(j *engine.Job) int {
	return max(1, min(int(min(j.FeatureMemory/rowBytes(engine.WidestTower(j.Model)), math.MaxInt32)), j.Most))
}

// pairBlock is the number of queries in a block.
const pairBlock = 32

func (e *pairEngine) Slices() (size, buffers int) { return pairSlice(e.job), 1 }

func (e *pairEngine) Room() (queries, entries int) {
	m := e.job.Model
	return pairBlock, pairBlock * max(engine.PsiStride(m.Tower(kg.Tail)), engine.PsiStride(m.Tower(kg.Head)))
}

// Load computes φ of the candidates.
func (e *pairEngine) Load(ctx context.Context, _ int, p engine.Pass, slice engine.Set) (engine.Candidates, error) {
	f := e.features
	for i := range f.N {
		e.rowOf[f.Slice.Entity(i)] = -1
	}
	if err := f.Fill(ctx, e.job, e.workers, p, slice); err != nil {
		return nil, err
	}
	for i := range f.N {
		e.rowOf[slice.Entity(i)] = int32(i)
	}
	return e, nil
}

func (e *pairEngine) Features() *engine.Features { return e.features }
func (e *pairEngine) QueryBlock() int            { return pairBlock }
func (e *pairEngine) Strip() int                 { return 1 }
func (e *pairEngine) MostParts() int             { return 1 }
func (*pairEngine) Close() error                 { return nil }

func (*pairEngine) Contend(context.Context, int, *engine.Block, *engine.Lists) error {
	return errors.New("rank: a prediction has no lists of candidates")
}

func (e *pairEngine) Count(ctx context.Context, worker int, b *engine.Block) error {
	phases := b.Job.Phases
	phases.Enter(engine.QueryPhase)
	if err := b.ComputeVectors(ctx, e.features); err != nil {
		return err
	}
	if err := b.BoundTargets(ctx, e.features); err != nil {
		return err
	}
	known := b.Known
	for row := range b.Queries {
		n := 0
		for n < len(known) && int(known[n].Row) == row {
			n++
		}
		for t := b.TargetStart[row]; t < b.TargetStart[row+1]; t++ {
			if err := ctx.Err(); err != nil {
				return err
			}
			s := &e.scratch[worker]
			if first := t == b.TargetStart[row]; first || !same(b.Listed[t-1], b.Listed[t]) {
				phases.Enter(engine.KernelPhase)
				e.score(b, s, row, b.Listed[t])
			}
			phases.Enter(engine.DecidePhase)
			e.compare(b, s, row, t, known[:n])
			b.DecideMany(ctx)
		}
		known = known[n:]
	}
	return nil
}

// same reports whether two lists share their memory, as the lists of targets that differ only in
// their tolerance do.
func same(a, b []int32) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// score scores the listed candidates in the slice for the query of a row.
func (e *pairEngine) score(b *engine.Block, s *pairScratch, row int, listed []int32) {
	f := e.features
	s.rows = s.rows[:0]
	for _, entity := range f.Slice.Within(listed) {
		if at := e.rowOf[entity]; at >= 0 {
			s.rows = append(s.rows, at)
		}
	}
	s.scores = slices.Grow(s.scores[:0], len(s.rows))[:len(s.rows)]
	b.Job.Backend.Pair(f.Tower.Compare, s.scores, b.Row(row), f.Rows, f.Stride(), s.rows)
}

// compare compares the scored candidates with target t of a row. known are the known answers to the
// row's query, in ascending order.
func (e *pairEngine) compare(b *engine.Block, s *pairScratch, row int, t int32, known []engine.Known) {
	f := e.features
	for i, at := range s.rows {
		for len(known) > 0 && known[0].Position < at {
			known = known[1:]
		}
		left := [NumFilters]int8{1, 1, 1}
		if len(known) > 0 && known[0].Position == at {
			for f := range left {
				left[f] -= int8(known[0].Filters >> f & 1)
			}
		}
		entity := b.Job.Rep(f.Slice.Entity(int(at)))
		low, high := b.Interval(row, s.scores[i], f.Norms[at], f.Sizes[at])
		order := b.Order(t, entity, low, high)
		if order == engine.Undecided {
			b.Pending = append(b.Pending, engine.Pending{Row: int32(row), Target: t, Entity: entity, Left: left})
		}
		b.Counts[t].Count(order, left)
	}
	n := int64(len(s.rows))
	b.Job.Progress.Done.Add(n)
	b.Job.Progress.Compared.Add(n)
}
