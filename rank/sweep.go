package rank

import (
	"context"
	"math/bits"
	"time"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/model"
)

// maxBlockTruths bounds the truths of a block of queries and with them the scratch memory.
const maxBlockTruths = 4096

// sweeper ranks blocks of queries: it is one goroutine's scratch memory.
type sweeper struct {
	*run
	f      *features
	worker model.Worker
	panel  *kernel.PanelScratch

	// Of the block's queries, by row.
	queries []query
	psi     []float32 // [row][stride]
	strips  []uint32  // packed for the screen, [row/MR][terms][MR]
	norms   []float64 // ‖ψ‖
	slacks  []model.Slack
	// exitBelow has scores below which none matters.
	exitBelow []float32
	ids       []int32 // 0, 1, 2, …

	// With codes.
	coded      []codedQuery
	codes      []uint32  // fine and coarse codes, [row][int8Stride], with Int8Screen
	fineBands  []float64 // of the rows, over the block of panels
	fineScores []int32
	places     []int32 // positions of the rescored rows
	// Pairs that coarse codes, and the stage before float64, left since the last count.
	leftCoarse, left64 int64
	rotated            []float64

	// Of the block's truths, numbered from the block's first.
	truths     []truth
	rowOf      []int32
	rows       []int32 // first truth of each row and one more
	low, high  []float64
	thresholds []float32 // lo, hi for the panels' scores
	better     []int32   // unfiltered, certainly better in the panels
	tally      []tally
	reference  []float64
	scored     []bool // reference is known

	known   []knownAnswer // sorted by panel, then by row
	byPanel []int32       // first known answer of each panel
	scratch []knownAnswer

	anchors []int32 // of some queries of one relation and side
	phi     []float32
	entity  [1]int32 // whose φ is in phi
	size    [1]float64
	rescore []int32 // rows of features to score in float64
	scores  []float64
	classes []class
	pending []candidate
	// deciding is the time spent on what the panels left undecided.
	deciding time.Duration
}

// tally is what the panels' count of better candidates misses, by filter.
type tally struct {
	better, equal [NumFilters]int32
}

func newSweeper(r *run, f *features, w model.Worker) *sweeper {
	b := r.backend
	truths := maxBlockTruths + maxTruths
	block, terms, strips := blockSizes(r.model, b, r.screen)
	return &sweeper{
		run: r, f: f, worker: w, panel: b.NewPanelScratch(block, truths),
		psi: kernel.AlignedFloat32(terms), strips: kernel.AlignedWords(strips),
		norms: make([]float64, block), exitBelow: make([]float32, block), slacks: make([]model.Slack, block),
		ids:     ascending(max(block, b.NR)),
		anchors: make([]int32, 0, vectorBatch),
		rowOf:   make([]int32, truths), rows: make([]int32, block+1),
		low: make([]float64, truths), high: make([]float64, truths), thresholds: make([]float32, 2*truths),
		better: make([]int32, truths), tally: make([]tally, truths),
		reference: make([]float64, truths), scored: make([]bool, truths),
		phi: kernel.AlignedFloat32(pairPad(widestTower(r.model))), rescore: make([]int32, 0, b.NR),
		scores: make([]float64, b.NR), fineScores: make([]int32, b.NR),
	}
}

// sweep ranks a block of queries against the panels of it. With first, it also counts the
// candidates that each filter leaves.
func (s *sweeper) sweep(ctx context.Context, it item, first bool) {
	if !s.prepare(ctx, it) {
		return
	}
	s.f.screen.packStrips(s)
	s.phases.enter(knownPhase)
	s.bucketKnown(it, first)
	call, panels := s.call(), s.f.screen.panels()
	queries := int64(len(s.queries))
	for p := it.fromPanel; p < it.toPanel && ctx.Err() == nil; p++ {
		if p == it.fromPanel || p%blockPanels == 0 {
			s.phases.enter(queryPhase)
			s.setThresholds(p / blockPanels)
		}
		s.f.aim(&call, p)
		s.phases.enter(kernelPhase)
		panels.Score(s.panel, &call)
		known := s.known[s.byPanel[p-it.fromPanel]:s.byPanel[p-it.fromPanel+1]]
		s.phases.enter(knownPhase)
		s.subtractKnown(known, panels.NR)
		s.phases.enter(decidePhase)
		s.decide(p, known)
		lanes := int64(bits.OnesCount64(call.ValidLanes))
		s.done.Add(queries * lanes)
		s.compared.Add(int64(len(s.truths)) * lanes)
		if len(s.pending) > maxPending {
			s.decideByReference(ctx)
		}
	}
	s.phases.enter(decidePhase)
	s.decideByReference(ctx)
	if ctx.Err() == nil {
		s.addCounts()
	}
}

// prepare computes ψ of the block's queries and the intervals of their truths; false if ctx ended.
func (s *sweeper) prepare(ctx context.Context, it item) bool {
	s.begin(it)
	return s.compute(ctx)
}

// begin takes up a block of queries.
func (s *sweeper) begin(it item) {
	s.queries = s.plan.queries[it.first:it.last]
	base := s.queries[0].first
	s.truths = s.plan.truths[base:s.queries[len(s.queries)-1].last]
	for i, q := range s.queries {
		for t := q.first; t < q.last; t++ {
			s.rowOf[t-base] = int32(i)
		}
		s.rows[i] = q.first - base
	}
	for i := len(s.queries); i < len(s.rows); i++ {
		s.rows[i] = int32(len(s.truths))
	}
	clear(s.better[:len(s.truths)])
	clear(s.tally[:len(s.truths)])
	clear(s.scored[:len(s.truths)])
	s.pending = s.pending[:0]
}

// compute makes ψ of the block's queries and the intervals of their truths; false if ctx ended.
func (s *sweeper) compute(ctx context.Context) bool {
	if !s.computePsi(ctx) {
		return false
	}
	for t, tr := range s.truths {
		if ctx.Err() != nil {
			return false
		}
		s.low[t], s.high[t] = s.truthInterval(int(s.rowOf[t]), tr.answer)
	}
	return true
}

// computePsi makes ψ of the block's queries; false if ctx ended.
func (s *sweeper) computePsi(ctx context.Context) bool {
	s.phases.enter(queryPhase)
	clear(s.psi)
	for first, last := 0, 0; first < len(s.queries); first = last {
		if ctx.Err() != nil {
			return false
		}
		q := s.queries[first]
		s.anchors = s.anchors[:0]
		for last < len(s.queries) && len(s.anchors) < vectorBatch &&
			s.queries[last].Side == q.Side && s.queries[last].Relation == q.Relation {
			s.anchors = append(s.anchors, s.queries[last].Anchor)
			last++
		}
		psi := model.Rows{Values: s.psi[first*s.f.stride():], Width: s.f.tower.Psi, Stride: s.f.stride()}
		s.worker.Queries(q.Side, q.Relation, s.anchors, psi, s.slacks[first:])
		for i := first; i < last; i++ {
			s.norms[i] = s.f.measure(s.row(i))
		}
	}
	return true
}

// call is a call of the kernel for the block's queries, but for the panel.
func (s *sweeper) call() kernel.PanelCall {
	mr := s.f.screen.panels().MR
	rows := (len(s.queries) + mr - 1) / mr * mr
	call := kernel.PanelCall{
		K: s.f.screen.terms(), Strips: s.strips,
		TruthStart: s.rows[:rows+1], Thresholds: s.thresholds, Counts: s.better,
	}
	if s.f.tower.Compare.Distance() {
		call.ExitBelow = s.exitBelow // setThresholds fills it
	}
	return call
}

// truthInterval bounds the reference score of a truth minus the constant of its query.
func (s *sweeper) truthInterval(row int, answer int32) (low, high float64) {
	f := s.f
	if i := int(answer) - f.first; i >= 0 && i < f.n {
		return s.interval(row, s.pairScore(row, f.rows, int32(i)), f.norms[i], f.sizes[i])
	}
	size := s.feature(s.queries[row], answer)
	return s.interval(row, s.pairScore(row, s.phi, 0), f.measure(s.phi), size)
}

// feature writes φ of a candidate of q to s.phi, padded with zeros, and returns its size.
func (s *sweeper) feature(q query, e int32) (size float64) {
	clear(s.phi)
	s.entity[0] = e
	phi := model.Rows{Values: s.phi, Width: s.f.tower.Phi, Stride: s.f.stride()}
	s.worker.Features(q.Side, q.Relation, s.entity[:], phi, s.size[:])
	return s.size[0]
}

// row returns ψ of a row, padded with zeros.
func (s *sweeper) row(i int) []float32 { return s.psi[i*s.f.stride() : (i+1)*s.f.stride()] }

// pairScore is the float64 score of the query of row and row i of table.
func (s *sweeper) pairScore(row int, table []float32, i int32) float64 {
	s.rescore = append(s.rescore[:0], i)
	s.backend.Pair(s.f.tower.Compare, s.scores, s.row(row), table, s.f.stride(), s.rescore)
	return s.scores[0]
}

// addCounts adds the block's counts to the result.
func (s *sweeper) addCounts() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for t, tr := range s.truths {
		r := &s.ranks[tr.rank]
		for fl := range NumFilters {
			r.Better[fl] += s.better[t] + s.tally[t].better[fl]
			r.Equal[fl] += s.tally[t].equal[fl]
		}
	}
}
