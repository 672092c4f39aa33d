// Package engine defines the interface between a ranking and the hardware that counts its
// candidates: the processor (package rank) or GPUs (package rank/gpu).
//
// Begin reading with Engine and Candidates. A Job holds the Plan: distinct queries with their
// targets, in passes of queries whose candidates share features. The ranking loads each pass slice
// by slice (Engine.Load) and divides its queries into blocks (Job.Blocks). Candidates.Count counts
// a slice for a Block and leaves undecided pairs pending, Block.Decide orders the pending pairs by
// reference scores, and the ranking adds the block's Counts to the ranks.
//
// The package contains these types and the stages that all engines share: features (Features),
// query vectors with their error bands (Vectors), intervals of targets (Block.BoundTargets), the
// last decision (Block.Decide), and the lists of the best candidates (Lists).
package engine

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/mquine/mquine/internal/proc"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
)

// NumFilters is the number of filters (rank.Filter). An engine counts under all filters at once;
// filter 0 removes no candidate.
const NumFilters = 3

// Provider creates an engine for each ranking.
type Provider interface {
	// Test returns an error if the engine cannot rank m, or if its ranks for a model of m's kind
	// and size differ from the backend's.
	Test(ctx context.Context, m model.Model, backend *kernel.Backend, threads int) error
	// Fallback reports whether the processor should rank after an error that the engine caused. If
	// so, the ranking does not use the provider again. Fallback returns false for other errors, such
	// as scores that overflow, because they would occur on the processor too.
	Fallback(err error) bool
	// Memory returns the memory that a ranking uses. The job's plan may lack passes: it then stands
	// for any plan with at most Unique queries or, if Unique is 0, for a large one.
	Memory(j *Job) (Memory, error)
	// Start creates the engine of a ranking.
	Start(j *Job) (Engine, error)
	// String names the hardware, for reports.
	String() string
}

// Memory is the memory that a ranking uses with an engine.
type Memory struct {
	Slice  int   // the number of candidates in a slice
	Device int64 // memory of the devices for candidates, in bytes
	// Host lists memory of the host. The first need is φ of the candidates, which is 0 bytes if the
	// engine computes φ itself.
	Host []proc.Need
}

// Engine counts the candidates of one ranking.
type Engine interface {
	// Slices returns the number of candidates in a slice, and the number of buffers for slices.
	Slices() (size, buffers int)
	// Room returns the largest number of queries in a block, and the largest number of entries of
	// their ψ, which is 0 if the engine computes ψ itself.
	Room() (queries, entries int)
	// Load prepares a slice of the candidates of a pass in a buffer that is no longer in use.
	// Meanwhile other goroutines may count the candidates in other buffers.
	Load(ctx context.Context, buffer int, p Pass, slice Set) (Candidates, error)
	// Close releases the engine's resources.
	Close() error
}

// Candidates are a slice of the candidates in an engine's memory. Several goroutines may count
// different blocks at once. The argument worker is the number of the calling goroutine, from 0.
type Candidates interface {
	// Features returns the candidates, their order, and their φ unless the engine computes φ
	// itself.
	Features() *Features
	// QueryBlock returns the best number of queries in a block.
	QueryBlock() int
	// Strip returns the number of queries that are scored together. A block with fewer queries
	// takes the same time.
	Strip() int
	// MostParts returns the largest number of parts into which Count can divide a slice.
	MostParts() int
	// Count compares the candidates of the block's part with every target. To b.Counts, it adds the
	// candidates that are certainly better or certainly equal, except the target itself and the
	// answers that filters remove (b.Known). It appends the candidates that only reference scores
	// can order to b.Pending. Counts over ranges of candidates add up.
	Count(ctx context.Context, worker int, b *Block) error
	// Contend adds all candidates that may be among the best to the lists of the block's queries.
	Contend(ctx context.Context, worker int, b *Block, lists *Lists) error
}

// Query is a query of a plan. Its targets are Targets[First:Last] of the plan. A query with more
// than MostTargets targets becomes several Queries.
type Query struct {
	kg.Query
	First, Last int32
}

// Target is a true answer to a query. Rank is its index in the result. Tolerance is 0, or the number
// of a tolerance of the job, counted from 1.
type Target struct {
	Answer, Rank, Tolerance int32
}

// Pass is a run of queries that have the same candidates with the same features. There is only one
// pass, unless candidates or features depend on the side or the relation.
type Pass struct {
	Side        kg.Side
	Relation    int32
	Tower       model.Tower
	First, Last int // queries of the plan
	Candidates  Set
}

// Plan holds the queries of a ranking or a prediction.
type Plan struct {
	Queries []Query
	Targets []Target
	Passes  []Pass
	Unique  int // number of distinct queries; Queries is longer if a query has too many targets for one entry
	// Listed holds the candidates of each target in ascending order, possibly repeated. It is nil if
	// every target competes with all candidates of its pass.
	Listed [][]int32
}

// Predicts reports whether the plan is for a prediction, whose targets have no entity.
func (p *Plan) Predicts() bool { return len(p.Targets) > 0 && p.Targets[0].Answer < 0 }

// Span is the range First ≤ i < Last of a plan's queries.
type Span struct{ First, Last int }

// Known is an answer that some filters remove from the candidates of a row.
type Known struct {
	Row, Position int32 // the position as in Features
	Filters       uint8 // bit f is set if filter f removes the answer
}

// Counts holds, under each filter, the number of other candidates that are better than a target,
// and the number of other candidates that tie with it. Without a tolerance, candidates tie if they
// have exactly the target's score.
type Counts struct {
	Better, Equal [NumFilters]int32
}

// Add adds candidates that no filter removes.
func (c *Counts) Add(better, equal int32) {
	for f := range NumFilters {
		c.Better[f] += better
		c.Equal[f] += equal
	}
}

// Job is the ranking or the prediction that an engine works on.
type Job struct {
	Model   model.Model
	Backend *kernel.Backend
	Threads int
	// Most is the largest number of candidates of a pass.
	Most int
	// FeatureMemory bounds the memory for features in bytes. 0 lets the engine choose.
	FeatureMemory int64
	// OnePass says that no plan of the job has more than one pass.
	OnePass bool
	// Tolerances lists the tolerances that targets refer to.
	Tolerances []Tolerance

	Plan
	// Representatives maps every candidate and target to the first of them with identical
	// parameters. It is nil if all differ.
	Representatives []int32
	Phases          *Phases
	Progress        Progress

	overflow atomic.Pointer[OverflowError]
}

// Progress counts finished work. Goroutines update it concurrently.
type Progress struct {
	// Done counts pairs of a query and a candidate. Compared counts pairs of a target and a
	// candidate.
	Done, Compared atomic.Int64
	// Coarse, Undecided and Referenced count pairs of a target and another candidate: the pairs
	// that reached the fine codes of the int8 screen, the float64 scores, and the reference scores.
	Coarse, Undecided, Referenced atomic.Int64
	// Strips counts the strips of all calls, once for each chain of terms. Dropped counts, in the
	// same way, the strips that early exit skipped.
	Strips, Dropped atomic.Int64
	// Deciding is the time that goroutines spent on pairs that the first stage left undecided, in
	// nanoseconds.
	Deciding atomic.Int64
	// Half and Single count the blocks that devices screened in fp16 and in float32. The processor
	// changes none of them, and devices change none of Coarse, Strips, Dropped and Deciding.
	Half, Single atomic.Int64
}

// Rep returns the first candidate or target that has the same parameters as the candidate or target
// e.
func (j *Job) Rep(e int32) int32 {
	if j.Representatives == nil {
		return e
	}
	return j.Representatives[e]
}

// Pairs returns the number of pairs of a query and a candidate or, if the plan lists
// candidates, of a target and a candidate.
func (j *Job) Pairs() (n int64) {
	if j.Listed != nil {
		for _, list := range j.Listed {
			n += int64(len(list))
		}
		return n
	}
	for _, p := range j.Passes {
		n += int64(p.Last-p.First) * int64(p.Candidates.Len())
	}
	return n
}

// Blocks divides queries into blocks of at most n queries and as many targets as a Block holds.
func (j *Job) Blocks(s Span, n int) (blocks []Span) {
	for first := s.First; first < s.Last; {
		last := first + 1
		for last < s.Last && last-first < n && j.Queries[last].Last-j.Queries[first].First <= blockTargets {
			last++
		}
		blocks = append(blocks, Span{first, last})
		first = last
	}
	return blocks
}

// WidestTower returns the number of entries of the model's longest φ, including its padding if a
// coordinate has several entries.
func WidestTower(m model.Model) int {
	width := func(t model.Tower) int {
		if t.Terms() < t.Phi {
			return PhiStride(t)
		}
		return t.Phi
	}
	return max(width(m.Tower(kg.Tail)), width(m.Tower(kg.Head)))
}

// InChunks divides the items 0 ≤ i < n into chunks of the given size and calls work for each, on
// several goroutines.
func InChunks(ctx context.Context, threads, n, size int, work func(worker, first, last int)) error {
	return kernel.Parallel(ctx, threads, (n+size-1)/size, func(worker, chunk int) {
		work(worker, chunk*size, min((chunk+1)*size, n))
	})
}

// Parallel is like kernel.Parallel, for work that can fail. It returns the first error and starts
// no more work after it. If ctx is cancelled first, it returns ctx.Err(), not the cause.
func Parallel(ctx context.Context, threads, n int, do func(ctx context.Context, worker, item int) error) error {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := kernel.Parallel(inner, threads, n, func(w, i int) {
		if err := do(inner, w, i); err != nil {
			cancel(failure{err})
		}
	})
	if f, failed := context.Cause(inner).(failure); failed && !errors.Is(f.error, context.Canceled) {
		return f.error
	}
	return err
}

// failure is an error of work in Parallel, as distinct from the cause of a cancellation.
type failure struct{ error }
