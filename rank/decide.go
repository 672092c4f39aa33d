package rank

import (
	"cmp"
	"context"
	"math/bits"
	"slices"
)

// maxPending bounds the candidates that wait for their reference scores.
const maxPending = 1 << 16

// candidate is a pair that only the reference can decide.
type candidate struct {
	row, truth, entity int32
}

// decide compares the candidates that the tile of panel p left undecided by their float64
// products; those that are still undecided wait for decideByReference.
func (s *sweeper) decide(p int) {
	pairs := s.tile.Undecided[:2*s.tile.Pairs]
	for len(pairs) > 0 {
		// The pairs of one row stand together.
		row := s.rowOf[pairs[0]]
		n, lanes := 0, uint64(0)
		for n < len(pairs) && s.rowOf[pairs[n]] == row {
			m := s.withoutTruth(p, pairs[n], pairs[n+1])
			pairs[n+1] = m
			lanes |= m
			n += 2
		}
		if lanes != 0 {
			s.decideRow(p, row, lanes, pairs[:n])
		}
		pairs = pairs[n:]
	}
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

func (s *sweeper) decideRow(p int, row int32, lanes uint64, pairs []uint64) {
	f := s.f
	s.rescore = s.rescore[:0]
	for m := lanes; m != 0; m &= m - 1 {
		s.rescore = append(s.rescore, f.order[p*f.nr+bits.TrailingZeros64(m)])
	}
	s.backend.Pair(f.tower.Compare, s.scores, s.row(int(row)), f.rows, f.stride(), s.rescore)
	for i, m := 0, lanes; m != 0; i, m = i+1, m&(m-1) {
		local := s.rescore[i]
		entity := local + int32(f.first)
		low, high := s.interval(int(row), s.scores[i], f.norms[local], f.sizes[local])
		lane := uint64(1) << bits.TrailingZeros64(m)
		for j := 0; j < len(pairs); j += 2 {
			if pairs[j+1]&lane == 0 {
				continue
			}
			t := int32(pairs[j])
			s.undecided.Add(1)
			switch {
			case low > s.high[t]:
				s.count(row, t, entity, true)
			case high < s.low[t]:
			default:
				s.pending = append(s.pending, candidate{row, t, entity})
			}
		}
	}
}

// count adds a candidate that is better than truth t, or equal to it, under every filter that
// leaves it.
func (s *sweeper) count(row, t, entity int32, better bool) {
	filters := s.filtersOfAnswer(s.index.Answers(s.queries[row].Query), entity)
	for fl := range NumFilters {
		left := 1 - int32(filters>>fl&1)
		if better {
			s.tally[t].better[fl] += left
		} else {
			s.tally[t].equal[fl] += left
		}
	}
}

// decideByReference decides the pending candidates by their reference scores, each of them
// computed once for a query and once for all entities with the same parameters.
func (s *sweeper) decideByReference(ctx context.Context) {
	slices.SortFunc(s.pending, func(x, y candidate) int {
		return cmp.Or(cmp.Compare(x.row, y.row), cmp.Compare(s.rep(x.entity), s.rep(y.entity)), cmp.Compare(x.truth, y.truth))
	})
	row, rep, score := int32(-1), int32(-1), 0.0
	for i, c := range s.pending {
		if i%64 == 0 && ctx.Err() != nil {
			return
		}
		q := s.queries[c.row].Query
		s.referenced.Add(1)
		answer := s.truths[c.truth].answer
		if s.rep(c.entity) == s.rep(answer) {
			s.count(c.row, c.truth, c.entity, false)
			continue
		}
		if c.row != row || s.rep(c.entity) != rep {
			row, rep = c.row, s.rep(c.entity)
			score = s.worker.Reference(q, rep)
		}
		if !s.scored[c.truth] {
			s.reference[c.truth], s.scored[c.truth] = s.worker.Reference(q, answer), true
		}
		switch want := s.reference[c.truth]; {
		case score > want:
			s.count(c.row, c.truth, c.entity, true)
		case score == want:
			s.count(c.row, c.truth, c.entity, false)
		}
	}
	s.pending = s.pending[:0]
}

func (s *sweeper) rep(e int32) int32 {
	if s.reps == nil {
		return e
	}
	return s.reps[e]
}
