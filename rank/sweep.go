package rank

import (
	"context"
	"math"
	"math/bits"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/rank/internal/engine"
)

// sweeper compares blocks of queries with one panel after another. It holds the memory of the
// stages for one goroutine: each stage fills one field from the fields before it.
type sweeper struct {
	f          *features
	queries    packedQueries        // written by screen.packQueries, read by the kernel
	thresholds thresholds           // thresholds of a panel group, which the kernel reads
	panel      *kernel.PanelScratch // written by the kernel: scores, and undecided pairs
	better     []int32              // written by the kernel: numbers of candidates certainly better than each target
	known      knownByPanel
	subtractor subtractor
	decider    decider
	contenders []duplicates // contenders of a row in a panel, for a list
}

func newSweeper(j *engine.Job, f *features, asked Screen) *sweeper {
	b := j.Backend
	queries, _, strips := blockSizes(j.Model, b, asked)
	return &sweeper{
		f: f,
		queries: packedQueries{
			most: queries, strips: kernel.AlignedWords(strips), ids: ascending(b.NR),
			codedQueries: codedQueries{fineSums: make([]int32, b.NR)},
		},
		thresholds: newThresholds(queries),
		panel:      b.NewPanelScratch(queries, engine.BlockTargets),
		better:     make([]int32, engine.BlockTargets),
		subtractor: newSubtractor(queries),
		decider:    newDecider(b.NR),
		contenders: make([]duplicates, 0, b.NR),
	}
}

// count counts the candidates of the block's part.
func (s *sweeper) count(ctx context.Context, b *engine.Block) error {
	f, phases := s.f, b.Job.Phases
	phases.Enter(engine.QueryPhase)
	if err := b.ComputeVectors(ctx, &f.Features); err != nil {
		return err
	}
	if err := b.BoundTargets(ctx, &f.Features); err != nil {
		return err
	}
	f.screen.packQueries(&s.queries, &b.Vectors, len(b.Queries))
	from, to := f.panelCount()*b.Part/b.Parts, f.panelCount()*(b.Part+1)/b.Parts
	phases.Enter(engine.KnownPhase)
	s.known.sort(b.Known, from, to, f.nr)
	s.subtractor.reset(b)
	clear(s.better[:len(b.Targets)])
	call := s.call(b)
	for p := from; p < to; p++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if p == from || p%groupPanels == 0 {
			phases.Enter(engine.QueryPhase)
			s.thresholds.set(f, b, &s.queries, p/groupPanels)
			phases.Enter(engine.KnownPhase)
			last := min((p/groupPanels+1)*groupPanels, to)
			s.subtractor.begin(b, s.known.between(p, last), s.thresholds.ends)
		}
		s.score(b, &call, p)
		phases.Enter(engine.KnownPhase)
		known := s.known.in(p)
		s.subtractor.subtract(b, known, s.panel.Scores, f.nr, s.thresholds.ends)
		if p+1 == to || (p+1)%groupPanels == 0 {
			s.subtractor.finish(b)
		}
		phases.Enter(engine.DecidePhase)
		s.decider.decide(b, f, &s.queries, s.thresholds.fineBands, screened{p, s.panel.Scores, s.undecided(), known})
		b.DecideMany(ctx)
		b.Job.Progress.Compared.Add(int64(len(b.Targets)) * int64(bits.OnesCount64(call.ValidLanes)))
	}
	for t := range b.Targets {
		b.Counts[t].Add(s.better[t], 0)
	}
	s.reportExits(b.Job)
	return nil
}

// contend adds the candidates that may be among the best to the lists. For each list, it passes the
// kernel a target whose interval begins at the list's threshold and has no upper end. The kernel
// then counts no candidate as better and leaves undecided the candidates that may reach the
// threshold.
func (s *sweeper) contend(ctx context.Context, b *engine.Block, lists *engine.Lists) error {
	f, phases := s.f, b.Job.Phases
	phases.Enter(engine.QueryPhase)
	if err := b.ComputeVectors(ctx, &f.Features); err != nil {
		return err
	}
	if err := lists.Raise(ctx); err != nil {
		return err
	}
	f.screen.packQueries(&s.queries, &b.Vectors, len(b.Queries))
	call := s.call(b)
	for row := range b.Queries {
		b.Low[row], b.High[row] = lists.Threshold(row), lists.Threshold(row)
	}
	for p := range f.panelCount() {
		if err := ctx.Err(); err != nil {
			return err
		}
		group := p / groupPanels
		if p%groupPanels == 0 {
			s.thresholds.set(f, b, &s.queries, group)
			for row := range b.Queries {
				s.thresholds.openAbove(row)
			}
		}
		s.score(b, &call, p)
		phases.Enter(engine.DecidePhase)
		for pairs := s.undecided(); len(pairs) > 0; pairs = pairs[2:] {
			row := int(pairs[0])
			if err := s.list(ctx, b, lists, row, p, pairs[1]); err != nil {
				return err
			}
			if threshold := lists.Threshold(row); threshold > b.Low[row] {
				b.Low[row], b.High[row] = threshold, threshold
				s.thresholds.setRow(f, b, &s.queries, row, group)
				s.thresholds.openAbove(row)
			}
		}
	}
	s.reportExits(b.Job)
	return nil
}

// list adds the candidates in the given lanes of a panel to the list of a row. Their intervals come
// from the fine codes, if the screen has them, and otherwise from the panel.
func (s *sweeper) list(
	ctx context.Context, b *engine.Block, lists *engine.Lists, row, panel int, lanes uint64,
) error {
	f := s.f
	scores := s.panel.Scores[row*f.nr : (row+1)*f.nr]
	s.contenders = s.contenders[:0]
	for ; lanes != 0; lanes &= lanes - 1 {
		lane := bits.TrailingZeros64(lanes)
		c := duplicates{entity: f.Entity(panel*f.nr + lane), lanes: 1 << lane}
		if f.finer == nil {
			c.low, c.high = f.panelInterval(b, &s.queries, row, panel/groupPanels, scores[lane])
		}
		s.contenders = append(s.contenders, c)
	}
	if f.finer != nil {
		f.finer.refine(&s.queries, row, panel, scores, s.thresholds.fineBands[row], s.contenders)
	}
	for _, c := range s.contenders {
		if !(c.high-c.low < math.Inf(1)) {
			c.low, c.high = math.Inf(-1), math.Inf(1)
		}
		err := lists.Add(ctx, row, engine.Contender{Entity: c.entity, Low: c.low, High: c.high})
		if err != nil {
			return err
		}
	}
	return nil
}

// call returns a kernel call for the block's queries, without a panel.
func (s *sweeper) call(b *engine.Block) kernel.PanelCall {
	mr := s.f.screen.panels().MR
	rows := (len(b.Queries) + mr - 1) / mr * mr
	call := kernel.PanelCall{
		K: s.f.screen.terms(), Strips: s.queries.strips,
		TargetStart: b.TargetStart[:rows+1], Thresholds: s.thresholds.ends, Counts: s.better,
	}
	if s.f.Tower.Compare.Exits() {
		call.ExitBelow = s.thresholds.exitBelow
	}
	return call
}

// score scores panel p.
func (s *sweeper) score(b *engine.Block, call *kernel.PanelCall, p int) {
	s.f.aim(call, p)
	b.Job.Phases.Enter(engine.KernelPhase)
	s.f.screen.panels().Score(s.panel, call)
	b.Job.Progress.Done.Add(int64(len(b.Queries)) * int64(bits.OnesCount64(call.ValidLanes)))
}

// undecided returns the pairs that the most recently scored panel left undecided, each as a target
// and a mask of lanes, in the order of the targets.
func (s *sweeper) undecided() []uint64 { return s.panel.Undecided[:2*s.panel.Pairs] }

// reportExits adds to the progress the numbers of all chains and of chains that early exit skipped.
func (s *sweeper) reportExits(j *engine.Job) {
	j.Progress.Strips.Add(s.panel.Strips)
	j.Progress.Dropped.Add(s.panel.Dropped)
	s.panel.Strips, s.panel.Dropped = 0, 0
}
