package rank

import (
	"cmp"
	"context"
	"math/bits"
	"slices"
	"time"
)

// maxPending bounds the candidates that wait for their reference scores.
const maxPending = 1 << 16

// candidate is a pair that only the reference can decide: a truth, and a candidate that stands for
// all candidates of one panel with the same parameters.
type candidate struct {
	row, truth, entity int32
	left               [NumFilters]uint8 // how many they are under each filter
}

// class is a set of lanes whose candidates have the same parameters.
type class struct {
	entity int32 // the first entity with these parameters
	lanes  uint64
}

// decide compares the candidates that the scores of panel p left undecided by more exact scores, in
// the end by their float64 scores; those that are still undecided wait for decideByReference. known
// are the known answers in the panel.
func (s *sweeper) decide(p int, known []knownAnswer) {
	if s.panel.Pairs == 0 {
		return
	}
	start := time.Now()
	pairs := s.panel.Undecided[:2*s.panel.Pairs]
	for len(pairs) > 0 {
		// The pairs of one row stand together, in the order of the rows.
		row := s.rowOf[pairs[0]]
		n, lanes := 0, uint64(0)
		for n < len(pairs) && s.rowOf[pairs[n]] == row {
			m := s.withoutTruth(p, pairs[n], pairs[n+1])
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
	s.coarse.Add(s.leftCoarse)
	s.undecided.Add(s.left64)
	s.leftCoarse, s.left64 = 0, 0
	s.deciding += time.Since(start)
}

// withoutTruth clears the lane of truth t itself.
func (s *sweeper) withoutTruth(p int, t, mask uint64) uint64 {
	i := int(s.truths[t].answer) - s.f.first
	if i < 0 || i >= s.f.n {
		return mask
	}
	if lane := int(s.f.place[i]) - p*s.f.nr; lane >= 0 && lane < s.f.nr {
		mask &^= 1 << lane
	}
	return mask
}

// decideRow decides the undecided lanes of a row's truths; removed are the lanes that each filter
// removes.
func (s *sweeper) decideRow(p int, row int32, lanes uint64, pairs []uint64, removed [NumFilters]uint64) {
	f := s.f
	s.classify(p, lanes)
	if !f.screen.refine(s, p, row, pairs, removed) {
		return
	}
	s.backend.Pair(f.tower.Compare, s.scores, s.row(int(row)), f.rows, f.stride(), s.rescore)
	for i, c := range s.classes {
		local := s.rescore[i]
		low, high := s.interval(int(row), s.scores[i], f.norms[local], f.sizes[local])
		if s.settle(c, pairs, removed, low, high, &s.left64) == 0 {
			continue
		}
		for j := 0; j < len(pairs); j += 2 {
			if m := pairs[j+1] & c.lanes; m != 0 {
				s.pending = append(s.pending, candidate{row, int32(pairs[j]), c.entity, remaining(m, removed)})
			}
		}
	}
}

// settle counts the candidates of a class, with scores from low to high, for those of the pairs'
// truths that this decides, and clears their lanes. It adds to asked the candidates that it was asked
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
		case c.entity == s.rep(s.truths[t].answer):
			s.tally[t].addEqual(remaining(m, removed))
		case low > s.high[t]:
			s.tally[t].addBetter(remaining(m, removed))
		case high < s.low[t]:
		default:
			open |= m
			continue
		}
		pairs[j+1] &^= m
	}
	return open
}

// remaining counts what every filter leaves of lanes.
func remaining(lanes uint64, removed [NumFilters]uint64) (left [NumFilters]uint8) {
	for f := range NumFilters {
		left[f] = uint8(bits.OnesCount64(lanes &^ removed[f]))
	}
	return left
}

// classify sets classes to the distinct candidates among lanes of panel p, and rescore to the row
// of one of each. Candidates with the same parameters stand together, being in the order of ‖φ‖.
func (s *sweeper) classify(p int, lanes uint64) {
	s.classes, s.rescore = s.classes[:0], s.rescore[:0]
	for m := lanes; m != 0; m &= m - 1 {
		lane := bits.TrailingZeros64(m)
		local := s.f.order[p*s.f.nr+lane]
		e := s.rep(local + int32(s.f.first))
		if n := len(s.classes); n > 0 && s.classes[n-1].entity == e {
			s.classes[n-1].lanes |= 1 << lane
			continue
		}
		s.classes = append(s.classes, class{e, 1 << lane})
		s.rescore = append(s.rescore, local)
	}
}

func (t *tally) addBetter(n [NumFilters]uint8) {
	for f, v := range n {
		t.better[f] += int32(v)
	}
}

func (t *tally) addEqual(n [NumFilters]uint8) {
	for f, v := range n {
		t.equal[f] += int32(v)
	}
}

// decideByReference decides the pending candidates by their reference scores, each computed once
// for a query.
func (s *sweeper) decideByReference(ctx context.Context) {
	start := time.Now()
	defer func() { s.deciding += time.Since(start) }()
	slices.SortFunc(s.pending, func(x, y candidate) int {
		return cmp.Or(cmp.Compare(x.row, y.row), cmp.Compare(x.entity, y.entity), cmp.Compare(x.truth, y.truth))
	})
	row, entity, score := int32(-1), int32(-1), 0.0
	for i, c := range s.pending {
		if i%16 == 0 && ctx.Err() != nil {
			return
		}
		q := s.queries[c.row].Query
		if c.row != row || c.entity != entity {
			row, entity = c.row, c.entity
			score = s.worker.Reference(q, entity)
		}
		if !s.scored[c.truth] {
			s.reference[c.truth], s.scored[c.truth] = s.worker.Reference(q, s.truths[c.truth].answer), true
		}
		s.referenced.Add(int64(c.left[None]))
		switch want := s.reference[c.truth]; {
		case score > want:
			s.tally[c.truth].addBetter(c.left)
		case score == want:
			s.tally[c.truth].addEqual(c.left)
		}
	}
	s.pending = s.pending[:0]
}

// rep returns the first entity with the parameters of e.
func (s *sweeper) rep(e int32) int32 {
	if s.reps == nil {
		return e
	}
	return s.reps[e]
}
