package rank

import (
	"context"
	"math"
	"math/bits"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/rank/internal/engine"
)

// sweeper counts a block of queries in panel after panel: it is one goroutine's scratch memory.
type sweeper struct {
	*engine.Block
	f *features

	// What the panels' kernels read, from packStrips and setThresholds, and what they write.
	strips     []uint32  // ψ packed for the screen, [row/MR][terms][MR]
	thresholds []float32 // lo, hi of each target, for the panels' scores
	exitBelow  []float32 // scores below which none of a row's candidates matters
	panel      *kernel.PanelScratch
	better     []int32 // by target, unfiltered: certainly better

	// Known answers, sorted by panel, then by row, and the first one of each panel of the part.
	known, unsorted []knownAnswer
	byPanel         []int32

	codeScratch
	undecided

	ids []int32 // 0, 1, 2, …
}

// codeScratch is what screens in whole numbers keep of a block of queries.
type codeScratch struct {
	coded      []codedQuery
	codes      []uint32  // fine and coarse codes, [row][int8Stride], with Int8Screen
	fineBands  []float64 // of the rows, over the block of panels
	fineScores []int32
	places     []int32 // positions of the rescored rows
	rotated    []float64
}

// undecided is what the stages after a panel keep of the lanes that it left for a row.
type undecided struct {
	classes []class
	rescore []int32 // rows of features to score in float64
	scores  []float64
	// Pairs that coarse codes, and the stage before float64, left since the last count.
	leftCoarse, left64 int64
}

func newSweeper(j *engine.Job, f *features, screen Screen) *sweeper {
	b := j.Backend
	block, _, strips := blockSizes(j.Model, b, screen)
	return &sweeper{
		f: f, strips: kernel.AlignedWords(strips), thresholds: make([]float32, 2*engine.BlockTargets),
		exitBelow: make([]float32, block), panel: b.NewPanelScratch(block, engine.BlockTargets),
		better: make([]int32, engine.BlockTargets), codeScratch: codeScratch{fineScores: make([]int32, b.NR)},
		undecided: undecided{rescore: make([]int32, 0, b.NR), scores: make([]float64, b.NR)},
		ids:       ascending(max(block, b.NR)),
	}
}

// count counts the candidates of the block's part.
func (s *sweeper) count(ctx context.Context) error {
	s.Job.Phases.Enter(engine.QueryPhase)
	if err := s.Compute(ctx, s.Worker, s.f.Tower, s.Queries); err != nil {
		return err
	}
	if err := s.BoundTargets(ctx, &s.f.Features); err != nil {
		return err
	}
	s.f.screen.packStrips(s)
	from, to := s.f.panelCount()*s.Part/s.Parts, s.f.panelCount()*(s.Part+1)/s.Parts
	s.Job.Phases.Enter(engine.KnownPhase)
	s.sortKnown(from, to)
	clear(s.better[:len(s.Targets)])
	call := s.call()
	for p := from; p < to; p++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if p == from || p%blockPanels == 0 {
			s.Job.Phases.Enter(engine.QueryPhase)
			s.setThresholds(p / blockPanels)
		}
		s.score(&call, p)
		known := s.known[s.byPanel[p-from]:s.byPanel[p-from+1]]
		s.Job.Phases.Enter(engine.KnownPhase)
		s.subtractKnown(known)
		s.Job.Phases.Enter(engine.DecidePhase)
		s.decide(p, known)
		s.DecideMany(ctx)
		s.Job.Progress.Compared.Add(int64(len(s.Targets)) * int64(bits.OnesCount64(call.ValidLanes)))
	}
	for t := range s.Targets {
		s.Counts[t].Add(s.better[t], 0)
	}
	s.reportExits()
	return nil
}

// contend adds to the lists the candidates that may be among the best. To the kernel, the threshold of a list is a target
// that no candidate surpasses for certain: it counts none as better, and leaves those undecided that may reach the
// threshold.
func (s *sweeper) contend(ctx context.Context, lists *engine.Lists) error {
	s.Job.Phases.Enter(engine.QueryPhase)
	if err := s.Compute(ctx, s.Worker, s.f.Tower, s.Queries); err != nil {
		return err
	}
	s.f.screen.packStrips(s)
	call := s.call()
	for row := range s.Queries {
		s.Low[row], s.High[row] = lists.Threshold(row), lists.Threshold(row)
	}
	for p := range s.f.panelCount() {
		if err := ctx.Err(); err != nil {
			return err
		}
		block := p / blockPanels
		if p%blockPanels == 0 {
			s.setThresholds(block)
			for row := range s.Queries {
				s.thresholds[2*row+1] = float32(math.Inf(1))
			}
		}
		s.score(&call, p)
		s.Job.Phases.Enter(engine.DecidePhase)
		for pairs := s.panel.Undecided[:2*s.panel.Pairs]; len(pairs) > 0; pairs = pairs[2:] {
			row := int(pairs[0])
			if err := s.list(ctx, lists, row, p, pairs[1]); err != nil {
				return err
			}
			if threshold := lists.Threshold(row); threshold > s.Low[row] {
				s.Low[row], s.High[row] = threshold, threshold
				s.setRowThresholds(row, block)
				s.thresholds[2*row+1] = float32(math.Inf(1))
			}
		}
	}
	s.reportExits()
	return nil
}

// list adds the candidates in the given lanes of a panel to the list of a row.
func (s *sweeper) list(ctx context.Context, lists *engine.Lists, row, panel int, lanes uint64) error {
	f := s.f
	for ; lanes != 0; lanes &= lanes - 1 {
		lane := bits.TrailingZeros64(lanes)
		low, high := s.panelInterval(row, panel/blockPanels, s.panel.Scores[row*f.nr+lane])
		err := lists.Add(ctx, row, engine.Contender{Entity: f.Entity(panel*f.nr + lane), Low: low, High: high})
		if err != nil {
			return err
		}
	}
	return nil
}

// call is a call of the kernel for the block's queries, but for the panel.
func (s *sweeper) call() kernel.PanelCall {
	mr := s.f.screen.panels().MR
	rows := (len(s.Queries) + mr - 1) / mr * mr
	call := kernel.PanelCall{
		K: s.f.screen.terms(), Strips: s.strips,
		TargetStart: s.TargetStart[:rows+1], Thresholds: s.thresholds, Counts: s.better,
	}
	if s.f.Tower.Compare.Distance() {
		call.ExitBelow = s.exitBelow
	}
	return call
}

// score scores panel p.
func (s *sweeper) score(call *kernel.PanelCall, p int) {
	s.f.aim(call, p)
	s.Job.Phases.Enter(engine.KernelPhase)
	s.f.screen.panels().Score(s.panel, call)
	s.Job.Progress.Done.Add(int64(len(s.Queries)) * int64(bits.OnesCount64(call.ValidLanes)))
}

// reportExits adds what early exit passed over to the progress.
func (s *sweeper) reportExits() {
	s.Job.Progress.Strips.Add(s.panel.Strips)
	s.Job.Progress.Dropped.Add(s.panel.Dropped)
	s.panel.Strips, s.panel.Dropped = 0, 0
}
