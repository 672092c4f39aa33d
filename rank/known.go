package rank

import (
	"cmp"
	"context"
	"slices"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank/internal/engine"
)

// filtersOf holds, for every set of splits, the filters that remove an answer known from these
// splits.
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

// countCandidates sets, for every rank, the number of candidates that each filter leaves. A target
// among the candidates always stays.
func countCandidates(ctx context.Context, j *engine.Job, x *kg.Index, ranks []Rank) error {
	for _, p := range j.Passes {
		err := engine.InChunks(ctx, j.Threads, p.Last-p.First, 64, func(_, first, last int) {
			for _, q := range j.Queries[p.First+first : p.First+last] {
				known := x.Answers(q.Query)
				if j.Listed == nil {
					countCandidatesOf(j.Targets[q.First:q.Last], p.Candidates, known, ranks)
					continue
				}
				for t := q.First; t < q.Last; t++ {
					target := j.Targets[t]
					ranks[target.Rank].Candidates = countListed(target.Answer, j.Listed[t], p.Candidates, known)
				}
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// countCandidatesOf is countCandidates for the targets of a query.
func countCandidatesOf(targets []engine.Target, candidates engine.Set, known kg.Answers, ranks []Rank) {
	var left [NumFilters]int32
	for f := range left {
		left[f] = int32(candidates.Len())
	}
	for i, e := range known.Entities {
		if candidates.Find(e) >= 0 {
			addFilters(&left, filtersOf[known.Splits[i]], -1)
		}
	}
	for _, t := range targets {
		count := &ranks[t.Rank].Candidates
		*count = left
		i, isKnown := slices.BinarySearch(known.Entities, t.Answer)
		if isKnown && candidates.Find(t.Answer) >= 0 {
			addFilters(count, filtersOf[known.Splits[i]], 1)
		}
	}
}

// countListed is countCandidates for a target with listed candidates.
func countListed(answer int32, listed []int32, among engine.Set, known kg.Answers) (left [NumFilters]int32) {
	n := int32(len(listed))
	if among.Find(answer) >= 0 {
		n++
	}
	for f := range left {
		left[f] = n
	}
	for _, e := range listed {
		if i, isKnown := slices.BinarySearch(known.Entities, e); isKnown {
			addFilters(&left, filtersOf[known.Splits[i]], -1)
		}
	}
	return left
}

// addFilters adds n to the counts of the filters in a set.
func addFilters(counts *[NumFilters]int32, filters uint8, n int32) {
	for f := range NumFilters {
		counts[f] += n * int32(filters>>f&1)
	}
}

// findKnown appends to b.Known the candidates of f that are known answers to the block's queries.
func findKnown(b *engine.Block, f *engine.Features, x *kg.Index) {
	for row, q := range b.Queries {
		known := x.Answers(q.Query)
		first, last := f.Slice.Bounds(known.Entities)
		for i := first; i < last; i++ {
			if at := f.Position(known.Entities[i]); at >= 0 {
				filters := filtersOf[known.Splits[i]]
				b.Known = append(b.Known, engine.Known{Row: int32(row), Position: int32(at), Filters: filters})
			}
		}
	}
}

// knownAnswer is a candidate of a panel that is a known answer to the query of a row.
type knownAnswer struct {
	panel         int32 // counted from the first panel of knownByPanel
	row           uint16
	lane, filters uint8
}

// knownByPanel holds known answers by panel, then by row.
type knownByPanel struct {
	first             int     // panel
	start             []int32 // first index of each panel in answers, and the end of the last panel
	answers, unsorted []knownAnswer
}

// sort sorts the known answers, which are ordered by row, into the panels first ≤ p < last of nr
// candidates each.
func (k *knownByPanel) sort(known []engine.Known, first, last, nr int) {
	k.first = first
	panels := int32(last - first)
	if cap(k.start) < int(panels)+2 {
		k.start = make([]int32, panels+2)
	}
	k.start = k.start[:panels+2]
	clear(k.start)
	ends := k.start[1:]
	k.unsorted = k.unsorted[:0]
	for _, a := range known {
		p := a.Position/int32(nr) - int32(first)
		if p < 0 || p >= panels {
			continue
		}
		k.unsorted = append(k.unsorted, knownAnswer{p, uint16(a.Row), uint8(a.Position % int32(nr)), a.Filters})
		ends[p+1]++
	}
	// This is a stable counting sort. ends[p] becomes the start of panel p and then moves to its
	// end, so k.start, which begins one element earlier, finally holds the starts.
	for p := range panels {
		ends[p+1] += ends[p]
	}
	if cap(k.answers) < len(k.unsorted) {
		k.answers = make([]knownAnswer, len(k.unsorted), 2*len(k.unsorted))
	}
	k.answers = k.answers[:len(k.unsorted)]
	for _, a := range k.unsorted {
		k.answers[ends[a.panel]] = a
		ends[a.panel]++
	}
}

// in returns the known answers in a panel.
func (k *knownByPanel) in(panel int) []knownAnswer { return k.between(panel, panel+1) }

// between returns the known answers in the panels first ≤ p < last.
func (k *knownByPanel) between(first, last int) []knownAnswer {
	return k.answers[k.start[first-k.first]:k.start[last-k.first]]
}

// In a row with as many targets, and as many known answers in a panel group, it takes less time to
// sort the targets than to compare every known answer with every target.
const (
	manyTargets = 32
	manyKnown   = 16
)

// subtractor subtracts known answers from the counts of a block, one panel group after another. In
// the rows with many targets and many known answers, it sorts the targets by their upper ends and
// finds by binary search how many of them a known answer surpasses.
type subtractor struct {
	known   []int32   // by row: the number of known answers in the group
	sorted  []bool    // by row: whether its targets are sorted
	targets []int32   // the targets of each sorted row, by their upper ends
	ends    []float32 // the upper ends of targets
	// surpassed[i] counts, under each filter that removes them, the known answers above ends[i] that
	// are not above the next end of the row.
	surpassed [][NumFilters]int32
}

func newSubtractor(queries int) subtractor {
	return subtractor{
		known: make([]int32, queries), sorted: make([]bool, queries),
		targets: make([]int32, engine.BlockTargets), ends: make([]float32, engine.BlockTargets),
		surpassed: make([][NumFilters]int32, engine.BlockTargets),
	}
}

// reset prepares for the first panel group of a block.
func (s *subtractor) reset(b *engine.Block) {
	for t := range b.Targets {
		s.targets[t] = int32(t)
	}
}

// begin prepares for a panel group with the given known answers and thresholds.
func (s *subtractor) begin(b *engine.Block, known []knownAnswer, ends []float32) {
	clear(s.known[:len(b.Queries)])
	for _, k := range known {
		s.known[k.row]++
	}
	for row := range b.Queries {
		first, last := b.TargetStart[row], b.TargetStart[row+1]
		s.sorted[row] = last-first >= manyTargets && s.known[row] >= manyKnown
		if !s.sorted[row] {
			continue
		}
		// The order hardly changes between groups, which makes sorting fast.
		targets := s.targets[first:last]
		slices.SortFunc(targets, func(t, u int32) int { return cmp.Compare(ends[2*t+1], ends[2*u+1]) })
		for i, t := range targets {
			s.ends[int(first)+i] = ends[2*t+1]
		}
		clear(s.surpassed[first:last])
	}
}

// subtract subtracts the known answers that the scores of a panel count as better, under the filters
// that remove them. The counts of sorted rows change in finish. decide handles the known answers that
// the scores leave undecided.
func (s *subtractor) subtract(b *engine.Block, known []knownAnswer, scores []float32, nr int, ends []float32) {
	for _, k := range known {
		score := scores[int(k.row)*nr+int(k.lane)]
		first, last := b.TargetStart[k.row], b.TargetStart[k.row+1]
		if s.sorted[k.row] {
			if n := surpassed(s.ends[first:last], score); n > 0 {
				addFilters(&s.surpassed[int(first)+n-1], k.filters, 1)
			}
			continue
		}
		for t := first; t < last; t++ {
			if score > ends[2*t+1] {
				addFilters(&b.Counts[t].Better, k.filters, -1)
			}
		}
	}
}

// surpassed returns the number of ends, which are in ascending order, that a score is greater than.
func surpassed(ends []float32, score float32) int {
	first, last := 0, len(ends)
	for first < last {
		if middle := (first + last) / 2; score > ends[middle] {
			first = middle + 1
		} else {
			last = middle
		}
	}
	return first
}

// finish subtracts the known answers of the sorted rows, at the end of a panel group.
func (s *subtractor) finish(b *engine.Block) {
	for row := range b.Queries {
		if !s.sorted[row] {
			continue
		}
		var sum [NumFilters]int32
		for i := b.TargetStart[row+1] - 1; i >= b.TargetStart[row]; i-- {
			better := &b.Counts[s.targets[i]].Better
			for f := range NumFilters {
				sum[f] += s.surpassed[i][f]
				better[f] -= sum[f]
			}
		}
	}
}
