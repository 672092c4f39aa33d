package rank

import (
	"math/bits"
	"time"

	"github.com/mquine/mquine/rank/internal/engine"
)

// class is a set of lanes whose candidates have the same parameters.
type class struct {
	entity int32 // the first entity with these parameters
	lanes  uint64
}

// decide compares the candidates that the scores of panel p left undecided by more exact scores, in
// the end by their float64 scores; those that are still undecided become pending. known
// are the known answers in the panel.
func (s *sweeper) decide(p int, known []knownAnswer) {
	if s.panel.Pairs == 0 {
		return
	}
	start := time.Now()
	pairs := s.panel.Undecided[:2*s.panel.Pairs]
	for len(pairs) > 0 {
		// The pairs of one row stand together, in the order of the rows.
		row := s.Rows[pairs[0]]
		n, lanes := 0, uint64(0)
		for n < len(pairs) && s.Rows[pairs[n]] == row {
			m := s.withoutTarget(p, pairs[n], pairs[n+1])
			pairs[n+1] = m
			lanes |= m
			n += 2
		}
		for len(known) > 0 && int32(known[0].row) < row {
			known = known[1:]
		}
		if lanes != 0 {
			var removed [NumFilters]uint64
			for _, k := range known {
				if int32(k.row) != row {
					break
				}
				for f := range NumFilters {
					removed[f] |= uint64(k.filters>>f&1) << k.lane
				}
			}
			s.decideRow(p, row, lanes, pairs[:n], removed)
		}
		pairs = pairs[n:]
	}
	progress := &s.Job.Progress
	progress.Coarse.Add(s.leftCoarse)
	progress.Undecided.Add(s.left64)
	s.leftCoarse, s.left64 = 0, 0
	progress.Deciding.Add(int64(time.Since(start)))
}

// withoutTarget clears the lane of target t itself.
func (s *sweeper) withoutTarget(p int, t, mask uint64) uint64 {
	at := s.f.Position(s.Targets[t].Answer)
	if lane := at - p*s.f.nr; at >= 0 && lane >= 0 && lane < s.f.nr {
		mask &^= 1 << lane
	}
	return mask
}

// decideRow decides the undecided lanes of a row's targets; removed are the lanes that each filter
// removes.
func (s *sweeper) decideRow(p int, row int32, lanes uint64, pairs []uint64, removed [NumFilters]uint64) {
	f := s.f
	s.classify(p, lanes)
	if !f.screen.refine(s, p, row, pairs, removed) {
		return
	}
	s.Job.Backend.Pair(f.Tower.Compare, s.scores, s.Row(int(row)), f.Rows, f.Stride(), s.rescore)
	for i, c := range s.classes {
		local := s.rescore[i]
		low, high := s.Interval(int(row), s.scores[i], f.Norms[local], f.Sizes[local])
		if s.settle(c, pairs, removed, low, high, &s.left64) == 0 {
			continue
		}
		for j := 0; j < len(pairs); j += 2 {
			if m := pairs[j+1] & c.lanes; m != 0 {
				s.Pending = append(s.Pending, engine.Pending{
					Row: row, Target: int32(pairs[j]), Entity: c.entity, Left: remaining(m, removed),
				})
			}
		}
	}
}

// settle counts the candidates of a class, with scores from low to high, for those of the pairs'
// targets that this decides, and clears their lanes. It adds to asked the candidates that it was asked
// about, and returns the lanes that are left.
func (s *sweeper) settle(c class, pairs []uint64, removed [NumFilters]uint64, low, high float64, asked *int64) (open uint64) {
	for j := 0; j < len(pairs); j += 2 {
		m := pairs[j+1] & c.lanes
		if m == 0 {
			continue
		}
		*asked += int64(bits.OnesCount64(m))
		t := pairs[j]
		switch {
		case c.entity == s.Job.Rep(s.Targets[t].Answer):
			count(&s.Counts[t].Equal, m, removed)
		case low > s.High[t]:
			count(&s.Counts[t].Better, m, removed)
		case high < s.Low[t]:
		default:
			open |= m
			continue
		}
		pairs[j+1] &^= m
	}
	return open
}

// count adds what every filter leaves of lanes.
func count(to *[NumFilters]int32, lanes uint64, removed [NumFilters]uint64) {
	for f, n := range remaining(lanes, removed) {
		to[f] += int32(n)
	}
}

// remaining counts what every filter leaves of lanes.
func remaining(lanes uint64, removed [NumFilters]uint64) (left [NumFilters]int8) {
	for f := range NumFilters {
		left[f] = int8(bits.OnesCount64(lanes &^ removed[f]))
	}
	return left
}

// classify sets classes to the distinct candidates among lanes of panel p, and rescore to the row
// of one of each. Candidates with the same parameters stand together, being in the order of ‖φ‖.
func (s *sweeper) classify(p int, lanes uint64) {
	s.classes, s.rescore = s.classes[:0], s.rescore[:0]
	for m := lanes; m != 0; m &= m - 1 {
		lane := bits.TrailingZeros64(m)
		local := s.f.Order[p*s.f.nr+lane]
		e := s.Job.Rep(local + int32(s.f.First))
		if n := len(s.classes); n > 0 && s.classes[n-1].entity == e {
			s.classes[n-1].lanes |= 1 << lane
			continue
		}
		s.classes = append(s.classes, class{e, 1 << lane})
		s.rescore = append(s.rescore, local)
	}
}
