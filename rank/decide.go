package rank

import (
	"math/bits"
	"time"

	"github.com/mquine/mquine/rank/internal/engine"
)

// screened holds the kernel's results for one panel and a block of queries.
type screened struct {
	panel  int
	scores []float32 // [row][NR]
	// undecided holds pairs of a target and a mask of lanes, in the order of the targets. decide
	// changes the masks.
	undecided []uint64
	known     []knownAnswer // in this panel
}

// duplicates describes candidates of a panel that have the same parameters. Their common score is
// in [low, high].
type duplicates struct {
	entity    int32 // the first entity with these parameters
	lanes     uint64
	low, high float64
}

// decider orders the pairs that panels leave undecided, by increasingly precise scores.
type decider struct {
	// open holds the undecided candidates of one query, which is a row of the block. rows[i] is the
	// row of the features of open[i].
	open   []duplicates
	rows   []int32
	scores []float64
	// coarse and rescored count the pairs of the panel that reached fine codes and float64 scores.
	coarse, rescored int64
}

func newDecider(nr int) decider {
	return decider{open: make([]duplicates, 0, nr), rows: make([]int32, 0, nr), scores: make([]float64, nr)}
}

// decide orders the undecided pairs of a panel, by fine codes if the screen has them and then by
// float64 scores. It adds the decided pairs to b.Counts and appends the others to b.Pending.
func (d *decider) decide(b *engine.Block, f *features, q *packedQueries, fineBands []float64, s screened) {
	if len(s.undecided) == 0 {
		return
	}
	start := time.Now()
	known := s.known
	for pairs := s.undecided; len(pairs) > 0; {
		// The pairs of a row are consecutive.
		row := b.Rows[pairs[0]]
		n, lanes := 0, uint64(0)
		for n < len(pairs) && b.Rows[pairs[n]] == row {
			pairs[n+1] = withoutTarget(b, f, s.panel, pairs[n], pairs[n+1])
			lanes |= pairs[n+1]
			n += 2
		}
		for len(known) > 0 && int32(known[0].row) < row {
			known = known[1:]
		}
		if lanes != 0 {
			var removed lanesByFilter
			for _, k := range known {
				if int32(k.row) != row {
					break
				}
				for f := range NumFilters {
					removed[f] |= uint64(k.filters>>f&1) << k.lane
				}
			}
			d.open, d.rows = groupDuplicates(d.open[:0], d.rows[:0], b, f, s.panel, lanes)
			d.decideRow(b, f, q, fineBands, s, int(row), rowPairs{pairs[:n], removed})
		}
		pairs = pairs[n:]
	}
	progress := &b.Job.Progress
	progress.Coarse.Add(d.coarse)
	progress.Undecided.Add(d.rescored)
	d.coarse, d.rescored = 0, 0
	progress.Deciding.Add(int64(time.Since(start)))
}

// withoutTarget returns lanes without the lane of target t itself.
func withoutTarget(b *engine.Block, f *features, panel int, t, lanes uint64) uint64 {
	at := f.Position(b.Targets[t].Answer)
	if lane := at - panel*f.nr; at >= 0 && lane >= 0 && lane < f.nr {
		lanes &^= 1 << lane
	}
	return lanes
}

// groupDuplicates appends the distinct candidates in the given lanes of a panel to open, and a row
// of features for each to rows. Candidates with the same parameters have the same sort key, so they are
// usually neighbours. If a candidate with an equal key is between them, they are decided one by one.
func groupDuplicates(
	open []duplicates, rows []int32, b *engine.Block, f *features, panel int, lanes uint64,
) ([]duplicates, []int32) {
	for ; lanes != 0; lanes &= lanes - 1 {
		lane := bits.TrailingZeros64(lanes)
		row := f.RowAt[panel*f.nr+lane]
		e := b.Job.Rep(f.Slice.Entity(int(row)))
		if n := len(open); n > 0 && open[n-1].entity == e {
			open[n-1].lanes |= 1 << lane
			continue
		}
		open = append(open, duplicates{entity: e, lanes: 1 << lane})
		rows = append(rows, row)
	}
	return open, rows
}

// rowPairs are the undecided pairs of a row in a panel.
type rowPairs struct {
	pairs   []uint64 // target, lanes
	removed lanesByFilter
}

// decideRow orders the candidates in d.open relative to the targets of a row.
func (d *decider) decideRow(
	b *engine.Block, f *features, q *packedQueries, fineBands []float64, s screened, row int, p rowPairs,
) {
	if f.finer != nil {
		f.finer.refine(q, row, s.panel, s.scores[row*f.nr:(row+1)*f.nr], fineBands[row], d.open)
		d.coarse += d.settle(b, p)
		if len(d.open) == 0 {
			return
		}
	}
	b.Job.Backend.Pair(f.Tower.Compare, d.scores, b.Row(row), f.Rows, f.Stride(), d.rows)
	for i, at := range d.rows {
		d.open[i].low, d.open[i].high = b.Interval(row, d.scores[i], f.Norms[at], f.Sizes[at])
	}
	d.rescored += d.settle(b, p)
	for _, c := range d.open {
		for i := 0; i < len(p.pairs); i += 2 {
			if lanes := p.pairs[i+1] & c.lanes; lanes != 0 {
				b.Pending = append(b.Pending, engine.Pending{
					Row: int32(row), Target: int32(p.pairs[i]), Entity: c.entity, Left: p.removed.remaining(lanes),
				})
			}
		}
	}
}

// settle counts the open candidates whose interval decides a pair, and clears their lanes in the
// pair. Candidates that remain undecided for some target stay open. settle returns the number of
// pairs that were undecided before the call.
func (d *decider) settle(b *engine.Block, p rowPairs) (asked int64) {
	open := 0
	for i, c := range d.open {
		left := uint64(0)
		for j := 0; j < len(p.pairs); j += 2 {
			t, lanes := p.pairs[j], p.pairs[j+1]&c.lanes
			if lanes == 0 {
				continue
			}
			asked += int64(bits.OnesCount64(lanes))
			switch b.Order(int32(t), c.entity, c.low, c.high) {
			case engine.Undecided:
				left |= lanes
				continue
			case engine.Equal:
				p.removed.count(&b.Counts[t].Equal, lanes)
			case engine.Better:
				p.removed.count(&b.Counts[t].Better, lanes)
			}
			p.pairs[j+1] &^= lanes
		}
		if left != 0 {
			d.open[open], d.rows[open] = c, d.rows[i]
			open++
		}
	}
	d.open, d.rows = d.open[:open], d.rows[:open]
	return asked
}

// lanesByFilter holds, for each filter, the lanes of a panel that it removes.
type lanesByFilter [NumFilters]uint64

// remaining returns how many of the lanes each filter leaves.
func (r *lanesByFilter) remaining(lanes uint64) (left [NumFilters]int8) {
	for f := range NumFilters {
		left[f] = int8(bits.OnesCount64(lanes &^ r[f]))
	}
	return left
}

// count adds the number of remaining lanes to each filter's count.
func (r *lanesByFilter) count(to *[NumFilters]int32, lanes uint64) {
	for f, n := range r.remaining(lanes) {
		to[f] += int32(n)
	}
}
