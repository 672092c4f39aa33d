package engine

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/model"
)

const (
	// MostTargets bounds the number of targets of a query. A query with more targets becomes
	// several queries, because a kernel cannot be interrupted while it compares a panel with the
	// targets.
	MostTargets = 512
	// blockTargets bounds the number of targets of a block with several queries, and hence the
	// scratch memory.
	blockTargets = 4096
	// BlockTargets is the number of targets for which a Block has room.
	BlockTargets = blockTargets + MostTargets
	// mostPending is the number of pending pairs above which DecideMany decides them.
	mostPending = 1 << 16
)

// Block is a block of queries and their results for a slice of the candidates. Each stage of a
// ranking reads from it and writes to it. A goroutine reuses one Block.
type Block struct {
	Job *Job
	// Worker computes ψ, φ of single candidates, and reference scores.
	Worker model.Worker

	// Begin and the ranking set these fields.
	Queries     []Query
	Targets     []Target  // targets of the queries; a target's number is its index here
	Rows        []int32   // the row of each target
	TargetStart []int32   // the first target of each row; after the last row, the number of targets
	Listed      [][]int32 // as in Plan, for the block's targets
	Part, Parts int       // the candidates form Parts parts; the engine counts the one numbered Part
	Known       []Known   // known answers among the candidates, by row

	// An engine that needs these fields computes them first (Vectors.Compute, BoundTargets).
	Vectors
	Low, High []float64 // the intervals of the targets, widened by their tolerances
	// Scores from TieLow to TieHigh certainly tie with a target. BoundTargets sets them for targets
	// with a tolerance and leaves the ranges of the others empty.
	TieLow, TieHigh []float64

	// An engine adds to these fields.
	Counts  []Counts
	Pending []Pending

	phi       []float32 // φ of one candidate
	entity    [1]int32
	size      [1]float64
	score     [1]float64
	tieRanges []tieRange // the range of each target; valid if tiesKnown
	tiesKnown []bool
}

// Pending is a pair of a target and a candidate that only reference scores can order. The candidate
// represents one or more candidates with the same parameters.
type Pending struct {
	Row, Target, Entity int32
	// Left is the number of such candidates under each filter. A negative number subtracts the
	// candidates from the counts.
	Left [NumFilters]int8
}

// NewBlock returns a block with room for the largest block of e.
func NewBlock(j *Job, e Engine) *Block {
	queries, entries := e.Room()
	return &Block{
		Job: j, Worker: j.newWorker(), Vectors: NewVectors(queries, entries),
		Rows: make([]int32, BlockTargets), TargetStart: make([]int32, queries+1),
		Low: make([]float64, BlockTargets), High: make([]float64, BlockTargets), Counts: make([]Counts, BlockTargets),
		TieLow: make([]float64, BlockTargets), TieHigh: make([]float64, BlockTargets),
		phi:       kernel.AlignedFloat32(PairPad(WidestTower(j.Model))),
		tieRanges: make([]tieRange, BlockTargets), tiesKnown: make([]bool, BlockTargets),
	}
}

// Begin starts a block of queries and sets the counts to 0.
func (b *Block) Begin(s Span) {
	b.Queries = b.Job.Queries[s.First:s.Last]
	base := b.Queries[0].First
	b.Targets = b.Job.Targets[base:b.Queries[len(b.Queries)-1].Last]
	if b.Job.Listed != nil {
		b.Listed = b.Job.Listed[base : int(base)+len(b.Targets)]
	}
	for i, q := range b.Queries {
		for t := q.First; t < q.Last; t++ {
			b.Rows[t-base] = int32(i)
		}
		b.TargetStart[i] = q.First - base
	}
	for i := len(b.Queries); i < len(b.TargetStart); i++ {
		b.TargetStart[i] = int32(len(b.Targets))
	}
	b.Part, b.Parts = 0, 1
	b.Known = b.Known[:0]
	clear(b.Counts[:len(b.Targets)])
	clear(b.tiesKnown[:len(b.Targets)])
	b.Pending = b.Pending[:0]
}

// ComputeVectors computes ψ of the block's queries.
func (b *Block) ComputeVectors(ctx context.Context, f *Features) error {
	return b.Compute(ctx, b.Worker, f.Tower, b.Queries)
}

// BoundTargets computes the intervals of the targets from ψ, widened by their tolerances. It reads φ
// of a target from f if the target is in the slice.
func (b *Block) BoundTargets(ctx context.Context, f *Features) error {
	for t, target := range b.Targets {
		if err := ctx.Err(); err != nil {
			return err
		}
		row := int(b.Rows[t])
		if i := f.Slice.Find(target.Answer); i >= 0 {
			score := b.pairScore(row, f.Rows, int32(i))
			b.Low[t], b.High[t] = b.Interval(row, score, f.Norms[i], f.Sizes[i])
			b.widen(int32(t))
			continue
		}
		size := b.feature(b.Queries[row], target.Answer)
		score := b.pairScore(row, b.phi, 0)
		b.Low[t], b.High[t] = b.Interval(row, score, b.Tower.Compare.PhiNorm(b.phi[:b.Tower.Phi]), size)
		b.widen(int32(t))
	}
	return nil
}

// feature writes φ of a candidate of q to b.phi, padded with zeros, and returns its size.
func (b *Block) feature(q Query, e int32) (size float64) {
	clear(b.phi)
	b.entity[0] = e
	phi := model.Rows{Values: b.phi, Width: b.Tower.Phi, Stride: PhiStride(b.Tower)}
	b.Worker.Features(q.Side, q.Relation, b.entity[:], phi, b.size[:])
	return b.size[0]
}

// pairScore returns the float64 score of the query in row and the vector φ in row i of table.
func (b *Block) pairScore(row int, table []float32, i int32) float64 {
	b.entity[0] = i
	b.Job.Backend.Pair(b.Tower.Compare, b.score[:], b.Row(row), table, PhiStride(b.Tower), b.entity[:])
	return b.score[0]
}

// Order says how a candidate compares with a target.
type Order uint8

const (
	Undecided Order = iota
	Worse
	Equal
	Better
)

// Order returns the order of target t and the candidate e, whose score is in [low, high]. e is the
// first entity with the candidate's parameters.
func (b *Block) Order(t, e int32, low, high float64) Order {
	switch {
	case e == b.Job.Rep(b.Targets[t].Answer), low >= b.TieLow[t] && high <= b.TieHigh[t]:
		return Equal
	case low > b.High[t]:
		return Better
	case high < b.Low[t]:
		return Worse
	}
	return Undecided
}

// Count counts a candidate of the given order, as often as each filter leaves it.
func (c *Counts) Count(order Order, left [NumFilters]int8) {
	switch order {
	case Equal:
		add(&c.Equal, left)
	case Better:
		add(&c.Better, left)
	}
}

// DecideMany calls Decide if many pairs are pending.
func (b *Block) DecideMany(ctx context.Context) {
	if len(b.Pending) > mostPending {
		b.Decide(ctx)
	}
}

// Decide orders the pending pairs by reference scores and adds them to the counts. It computes each
// candidate's score once for each query. It returns early if ctx ends.
func (b *Block) Decide(ctx context.Context) {
	if len(b.Pending) == 0 {
		return
	}
	start := time.Now()
	defer func() { b.Job.Progress.Deciding.Add(int64(time.Since(start))) }()
	slices.SortFunc(b.Pending, func(x, y Pending) int {
		return cmp.Or(cmp.Compare(x.Row, y.Row), cmp.Compare(x.Entity, y.Entity), cmp.Compare(x.Target, y.Target))
	})
	row, entity, score := int32(-1), int32(-1), 0.0
	for i, p := range b.Pending {
		if i%16 == 0 && ctx.Err() != nil {
			return
		}
		q := b.Queries[p.Row].Query
		if p.Row != row || p.Entity != entity {
			row, entity = p.Row, p.Entity
			score = b.Worker.Reference(q, entity)
		}
		b.Job.Progress.Referenced.Add(int64(p.Left[0]))
		switch ties := b.ties(p.Target); {
		case score > ties.high:
			add(&b.Counts[p.Target].Better, p.Left)
		case score >= ties.low:
			add(&b.Counts[p.Target].Equal, p.Left)
		}
	}
	b.Pending = b.Pending[:0]
}

func add(counts *[NumFilters]int32, n [NumFilters]int8) {
	for f, v := range n {
		counts[f] += int32(v)
	}
}
