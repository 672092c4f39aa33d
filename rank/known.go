package rank

import (
	"context"
	"slices"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank/internal/engine"
)

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

// countCandidates counts, for every rank, the candidates that each filter leaves: a target among them always stays.
func countCandidates(ctx context.Context, j *engine.Job, x *kg.Index, ranks []Rank) error {
	const each = 64
	return kernel.Parallel(ctx, j.Threads, (len(j.Queries)+each-1)/each, func(_, item int) {
		for _, q := range j.Queries[item*each : min((item+1)*each, len(j.Queries))] {
			known := x.Answers(q.Query)
			var left [NumFilters]int32
			for f := range left {
				left[f] = int32(j.Last - j.First)
			}
			for i, e := range known.Entities {
				if int(e) >= j.First && int(e) < j.Last {
					addFilters(&left, filtersOf[known.Splits[i]], -1)
				}
			}
			for _, t := range j.Targets[q.First:q.Last] {
				candidates := &ranks[t.Rank].Candidates
				*candidates = left
				i, isKnown := slices.BinarySearch(known.Entities, t.Answer)
				if isKnown && int(t.Answer) >= j.First && int(t.Answer) < j.Last {
					addFilters(candidates, filtersOf[known.Splits[i]], 1)
				}
			}
		}
	})
}

// addFilters adds n to the counts of the filters in a set.
func addFilters(counts *[NumFilters]int32, filters uint8, n int32) {
	for f := range NumFilters {
		counts[f] += n * int32(filters>>f&1)
	}
}

// findKnown lists the known answers of the block's queries among the candidates of f.
func findKnown(b *engine.Block, f *engine.Features, x *kg.Index) {
	for row, q := range b.Queries {
		known := x.Answers(q.Query)
		for i, e := range known.Entities {
			if at := f.Position(e); at >= 0 {
				b.Known = append(b.Known, engine.Known{Row: int32(row), Position: int32(at), Filters: filtersOf[known.Splits[i]]})
			}
		}
	}
}

// knownAnswer is a known answer in a panel.
type knownAnswer struct {
	panel         int32
	row           uint16
	lane, filters uint8
}

// sortKnown sorts the block's known answers in the panels from ≤ p < to by panel, then by row.
func (s *sweeper) sortKnown(from, to int) {
	panels, nr := int32(to-from), int32(s.f.nr)
	if cap(s.byPanel) < int(panels)+2 {
		s.byPanel = make([]int32, panels+2)
	}
	s.byPanel = s.byPanel[:panels+2]
	clear(s.byPanel)
	starts := s.byPanel[1:]
	s.unsorted = s.unsorted[:0]
	for _, k := range s.Known {
		p := k.Position/nr - int32(from)
		if p < 0 || p >= panels {
			continue
		}
		s.unsorted = append(s.unsorted, knownAnswer{p, uint16(k.Row), uint8(k.Position % nr), k.Filters})
		starts[p+1]++
	}
	// A stable counting sort: starts[p] becomes the first place of panel p, then its end.
	for p := range panels {
		starts[p+1] += starts[p]
	}
	if cap(s.known) < len(s.unsorted) {
		s.known = make([]knownAnswer, len(s.unsorted), 2*len(s.unsorted))
	}
	s.known = s.known[:len(s.unsorted)]
	for _, k := range s.unsorted {
		s.known[starts[k.panel]] = k
		starts[k.panel]++
	}
	// Every start has moved to its end: s.byPanel, one element before, has the starts.
}

// subtractKnown takes the known answers in a panel back out of the panel's counts. Those that its
// scores do not decide are left to decide.
func (s *sweeper) subtractKnown(known []knownAnswer) {
	for _, k := range known {
		score := s.panel.Scores[int(k.row)*s.f.nr+int(k.lane)]
		for t := s.TargetStart[k.row]; t < s.TargetStart[k.row+1]; t++ {
			if score > s.thresholds[2*t+1] {
				addFilters(&s.Counts[t].Better, k.filters, -1)
			}
		}
	}
}
