// Package engine is the seam between a ranking and what counts its candidates: the processor (package rank) or GPUs
// (package rank/gpu). It holds the interface, the types that both sides read and write, and the stages that they share:
// features, queries, intervals, the decision by reference scores, and lists of the best candidates.
package engine

import (
	"context"
	"sync/atomic"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
)

// NumFilters is the number of filters that candidates are counted under at once (rank.Filter). Filter 0 removes no
// candidate.
const NumFilters = 3

// Provider makes an engine for each ranking.
type Provider interface {
	// Test is an error if the engine must not rank models of m's class and size. The backend is what it must agree with.
	Test(ctx context.Context, m model.Model, backend *kernel.Backend, threads int) error
	// Fallback tells whether the processor is to rank in place of an engine that failed with err, which is then not
	// used again.
	Fallback(err error) bool
	// Memory tells the bytes that a ranking holds of the candidates, and in how many slices these come.
	Memory(j *Job) (bytes int64, slices int, err error)
	// Start makes the engine of a ranking.
	Start(j *Job) (Engine, error)
	// String names what counts.
	String() string
}

// Engine counts the candidates of one ranking.
type Engine interface {
	// Slices returns the number of candidates to load at a time, and the number of buffers that Load fills in turn.
	Slices() (size, buffers int)
	// Room returns the most queries of a block, and the most entries of their ψ (0 if the engine makes ψ itself).
	Room() (queries, entries int)
	// Load prepares the candidates first ≤ e < first+n of a pass in a buffer whose former candidates are done with.
	// Other goroutines may be counting candidates of other buffers.
	Load(ctx context.Context, buffer int, p Pass, first, n int) (Candidates, error)
	// Close gives back what the engine holds.
	Close() error
}

// Candidates are a slice of the candidates in an engine's memory. Several goroutines, numbered from 0, work on different
// blocks at once.
type Candidates interface {
	// Features tells which candidates they are and in which order.
	Features() *Features
	// QueryBlock is the best number of queries for a block, Strip a number of queries that takes no longer than one,
	// and MostParts the number of parts that the candidates of a block can be counted in.
	QueryBlock() int
	Strip() int
	MostParts() int
	// Count adds to b.Counts, for every target, the candidates of the block's part that are certainly better or equal
	// under each filter, the target itself and removed ones (b.Known) left out, and to b.Pending those that only
	// reference scores can tell. Counts over ranges of candidates add up.
	Count(ctx context.Context, worker int, b *Block) error
	// Contend adds to the lists of the block's queries all candidates that may be among their best.
	Contend(ctx context.Context, worker int, b *Block, lists *Lists) error
}

// Query is a distinct query with its targets, Targets[First:Last] of the job.
type Query struct {
	kg.Query
	First, Last int32
}

// Target is a true answer of a query; Rank is its place in the result.
type Target struct {
	Answer, Rank int32
}

// Pass is a run of queries whose candidates have the same features: all of them, unless the
// features depend on the side or the relation.
type Pass struct {
	Side        kg.Side
	Relation    int32
	Tower       model.Tower
	First, Last int // queries
}

// Plan is what a ranking or a prediction asks.
type Plan struct {
	Queries []Query
	Targets []Target
	Passes  []Pass
	Unique  int // distinct queries with several targets each, before those with too many were split
}

// Known is a candidate that some filters remove for the query of a row.
type Known struct {
	Row, Position int32 // in the order of the candidates (Features)
	Filters       uint8 // bit f: filter f removes it
}

// Counts are the other candidates that are better than a target, or have its score, under each filter.
type Counts struct {
	Better, Equal [NumFilters]int32
}

// Add counts candidates under all filters.
func (c *Counts) Add(better, equal int32) {
	for f := range NumFilters {
		c.Better[f] += better
		c.Equal[f] += equal
	}
}

// Job is a ranking or a prediction: what its engine is made for.
type Job struct {
	Model   model.Model
	Backend *kernel.Backend
	Threads int
	// First ≤ e < Last are the candidates.
	First, Last int
	// FeatureMemory bounds the memory for their features in bytes.
	FeatureMemory int64

	Plan
	// Representatives maps every entity to the first one with identical parameters; nil if all differ.
	Representatives []int32
	Phases          *Phases
	Progress        Progress
}

// Progress counts the work done.
type Progress struct {
	// Pairs of a query and a candidate, and of a target and a candidate.
	Done, Compared atomic.Int64
	// Pairs of a target and another candidate that were left to the fine codes of the int8 screen, to float64 scores
	// and to reference scores.
	Coarse, Undecided, Referenced atomic.Int64
	// Chains of terms in all strips, and those that early exit passed over.
	Strips, Dropped atomic.Int64
	// Deciding is the time that goroutines spent on what the first stage left, in nanoseconds.
	Deciding atomic.Int64
}

// Rep returns the first entity with the parameters of e.
func (j *Job) Rep(e int32) int32 {
	if j.Representatives == nil {
		return e
	}
	return j.Representatives[e]
}

// Workers are a model's workers, one for each goroutine, made when first used.
type Workers struct {
	job  *Job
	list []model.Worker
}

// NewWorkers returns the workers of as many goroutines as the job has threads.
func NewWorkers(j *Job) *Workers { return &Workers{j, make([]model.Worker, j.Threads)} }

// Get returns the worker of a goroutine.
func (w *Workers) Get(i int) model.Worker {
	if w.list[i] == nil {
		w.list[i] = w.job.Model.NewWorker(w.job.Backend)
	}
	return w.list[i]
}

// WidestTower is the number of entries of the model's longest φ.
func WidestTower(m model.Model) int { return max(m.Tower(kg.Tail).Phi, m.Tower(kg.Head).Phi) }
