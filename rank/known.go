package rank

import (
	"slices"

	"github.com/mquine/mquine/kg"
)

// knownAnswer is a candidate that some filter removes for a row's query.
type knownAnswer struct {
	panel   int32
	row     uint16
	lane    uint8
	filters uint8 // bit f: filter f removes it
}

// bucketKnown sorts the known answers of the block's queries among the panels of it.
func (s *sweeper) bucketKnown(it item, count bool) {
	f, nr := s.f, s.backend.NR
	s.scratch = s.scratch[:0]
	panels := it.toPanel - it.fromPanel
	if cap(s.byPanel) < panels+2 {
		s.byPanel = make([]int32, panels+2)
	}
	s.byPanel = s.byPanel[:panels+2]
	clear(s.byPanel)
	starts := s.byPanel[1:]
	for row, q := range s.queries {
		known := s.index.Answers(q.Query)
		var removed [NumFilters]int32
		for i, e := range known.Entities {
			filters := filtersOf[known.Splits[i]]
			for fl := range NumFilters {
				removed[fl] += int32(filters >> fl & 1)
			}
			if e < int32(f.first) || e >= int32(f.first+f.n) {
				continue
			}
			at := f.place[int(e)-f.first]
			p := at/int32(nr) - int32(it.fromPanel)
			if p < 0 || p >= int32(panels) {
				continue
			}
			s.scratch = append(s.scratch, knownAnswer{p, uint16(row), uint8(at % int32(nr)), filters})
			starts[p+1]++
		}
		if count {
			s.countCandidates(q, known, removed)
		}
	}
	// A stable counting sort: starts[p] becomes the first place of panel p, then its end.
	for p := range panels {
		starts[p+1] += starts[p]
	}
	if cap(s.known) < len(s.scratch) {
		s.known = make([]knownAnswer, len(s.scratch), 2*len(s.scratch))
	}
	s.known = s.known[:len(s.scratch)]
	for _, k := range s.scratch {
		s.known[starts[k.panel]] = k
		starts[k.panel]++
	}
	// Every start has moved to its end: s.byPanel, one element before, has the starts.
}

// filtersOf holds, for every set of splits, the filters that remove an answer known from them.
var filtersOf = func() (table [1 << kg.NumSplits]uint8) {
	for splits := range table {
		for f := range NumFilters {
			if kg.SplitSet(splits)&f.Splits() != 0 {
				table[splits] |= 1 << f
			}
		}
	}
	return table
}()

// countCandidates counts what every filter leaves for the truths of q: the truth always stays.
func (s *sweeper) countCandidates(q query, known kg.Answers, removed [NumFilters]int32) {
	n := int32(s.model.Config().Entities)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.plan.truths[q.first:q.last] {
		filters := s.filtersOfAnswer(known, t.answer)
		for fl := range NumFilters {
			s.ranks[t.rank].Candidates[fl] = n - removed[fl] + int32(filters>>fl&1)
		}
	}
}

// filtersOfAnswer returns the filters that remove e.
func (s *sweeper) filtersOfAnswer(known kg.Answers, e int32) uint8 {
	if i, ok := slices.BinarySearch(known.Entities, e); ok {
		return filtersOf[known.Splits[i]]
	}
	return 0
}

// subtractKnown takes the known answers in a panel back out of the panel's counts. Those that its
// scores do not decide are left to decide.
func (s *sweeper) subtractKnown(known []knownAnswer, nr int) {
	for _, k := range known {
		score := s.panel.Scores[int(k.row)*nr+int(k.lane)]
		for t := s.rows[k.row]; t < s.rows[k.row+1]; t++ {
			if score > s.thresholds[2*t+1] {
				b := &s.tally[t].better
				b[Train] -= int32(k.filters >> Train & 1)
				b[All] -= int32(k.filters >> All & 1)
			}
		}
	}
}
