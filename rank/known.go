package rank

import (
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
		for i, e := range known.Entities {
			if at := f.Position(e); at >= 0 {
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
func (k *knownByPanel) in(panel int) []knownAnswer {
	p := panel - k.first
	return k.answers[k.start[p]:k.start[p+1]]
}

// subtractKnown subtracts from b.Counts the known answers that the scores of a panel count as
// better, under the filters that remove them. decide handles the known answers that the scores
// leave undecided.
func subtractKnown(b *engine.Block, known []knownAnswer, scores []float32, nr int, ends []float32) {
	for _, k := range known {
		score := scores[int(k.row)*nr+int(k.lane)]
		for t := b.TargetStart[k.row]; t < b.TargetStart[k.row+1]; t++ {
			if score > ends[2*t+1] {
				addFilters(&b.Counts[t].Better, k.filters, -1)
			}
		}
	}
}
