package zpattern

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"

	"github.com/mquine/mquine/kg"
)

// Sampler draws the additional positive triples of Z-sampling (Algorithm 1 of the paper). Only one
// goroutine may use it at a time. Once it has processed its largest query, it no longer allocates.
//
// For a tail query (h, r, ?) and unobserved candidates t₁, …, t_m, the set S_Z contains the triples
// of all Z-patterns of the candidates, including patterns with e₂ = e₃. It has three parts:
//
//	(h, r, e₂)    (e₃, r, e₂)    (e₃, r, t_i)
//
// The parts are disjoint. Since (h, r, t_i) is not observed, t_i is not an e₂, so the second and
// the third part share no triple. For the same reason h is not an e₃, so the first part shares no
// triple with the others. The size of S_Z is therefore the sum of three counts, and Sample finds a
// triple of S_Z by its number without listing the others.
type Sampler struct {
	index *Index
	flags []uint8 // by answer
	// For every e₃ that leads to a candidate, candidates holds the number of candidates to which e₃
	// leads, and shared the number of the query's known answers to which e₃ leads.
	candidates, shared sparse
	marked             []int32  // answers with a flag
	first              []int32  // the e₂ of S_Z
	sums               []uint64 // by e₃: the number of triples of S_Z up to the last triple from e₃
	numbers            []uint64 // numbers of the drawn triples, ascending
}

// These are the flags of an answer.
const (
	isKnown uint8 = 1 << iota
	isCandidate
	isShared // a known answer that is the e₂ of a pattern
)

// NewSampler returns a sampler for the training triples of x.
func (x *Index) NewSampler() *Sampler {
	return &Sampler{
		index:      x,
		flags:      make([]uint8, x.widest),
		candidates: newSparse(x.widest),
		shared:     newSparse(x.widest),
	}
}

// Sample appends k different triples of S_Z to dst, or all of S_Z if it contains at most k. All
// sets of k triples have the same probability. Sample returns the extended slice and the size of
// S_Z, which is often 0.
//
// Candidates may repeat, but must not be known answers to q in the training split; otherwise Sample
// panics.
func (s *Sampler) Sample(
	dst []kg.Triple, q kg.Query, candidates []int32, k int, rng *rand.Rand,
) (sample []kg.Triple, size uint64) {
	from, back := &s.index.relations[q.Relation][q.Side], &s.index.relations[q.Relation][1-q.Side]
	anchor, ok := from.find(q.Anchor)
	if !ok {
		return dst, 0
	}
	defer s.reset()
	if s.mark(back, candidates); len(s.marked) == 0 {
		return dst, 0
	}
	known := from.row(anchor)
	s.markKnown(q, back, known)
	s.share(from, back, known)

	for _, e2 := range known {
		if s.flags[e2]&isShared != 0 {
			s.first = append(s.first, e2)
		}
	}
	size = uint64(len(s.first))
	for _, e3 := range s.candidates.used {
		if n := s.shared.values[e3]; n > 0 {
			size += uint64(n) + uint64(s.candidates.values[e3])
		}
		s.sums = append(s.sums, size)
	}
	s.draw(size, k, rng)
	return s.look(dst, q, from, back), size
}

// mark flags the candidates. For every e₃, it counts the candidates to which e₃ leads.
func (s *Sampler) mark(back *adjacency, candidates []int32) {
	for _, e := range candidates {
		t, ok := back.find(e)
		if !ok || s.flags[t] != 0 {
			continue
		}
		s.flags[t] = isCandidate
		s.marked = append(s.marked, t)
		for _, e3 := range back.row(t) {
			s.candidates.add(e3, 1)
		}
	}
}

// markKnown flags the known answers to the query.
func (s *Sampler) markKnown(q kg.Query, back *adjacency, known []int32) {
	for _, e2 := range known {
		if s.flags[e2] != 0 {
			panic(fmt.Sprintf("zpattern: candidate %d of %+v is a known answer", back.ids[e2], q))
		}
		s.flags[e2] = isKnown
		s.marked = append(s.marked, e2)
	}
}

// share counts, for every e₃ that leads to a candidate, the known answers to the query that e₃ also
// leads to. It reads the edges of the e₃ or of the known answers, whichever are fewer.
func (s *Sampler) share(from, back *adjacency, known []int32) {
	middle := s.candidates.used
	if edges(from, middle) <= edges(back, known) {
		for _, e3 := range middle {
			for _, t := range from.row(e3) {
				if s.flags[t]&isKnown != 0 {
					s.flags[t] |= isShared
					s.shared.add(e3, 1)
				}
			}
		}
		return
	}
	for _, e2 := range known {
		for _, e3 := range back.row(e2) {
			if s.candidates.values[e3] != 0 {
				s.flags[e2] |= isShared
				s.shared.add(e3, 1)
			}
		}
	}
}

// edges returns the total number of answers in the rows of the anchors.
func edges(a *adjacency, anchors []int32) int {
	n := 0
	for _, i := range anchors {
		n += len(a.row(i))
	}
	return n
}

// draw sets s.numbers to k different numbers below size, in ascending order. If size is less than
// k, it sets s.numbers to all numbers below size.
func (s *Sampler) draw(size uint64, k int, rng *rand.Rand) {
	switch want := uint64(max(k, 0)); {
	case size <= want:
		for i := range size {
			s.numbers = append(s.numbers, i)
		}
	case size < 2*want:
		// This is algorithm S of Knuth, The Art of Computer Programming, volume 2, 3.4.2.
		for i := range size {
			if rng.Uint64N(size-i) < want {
				s.numbers = append(s.numbers, i)
				want--
			}
		}
	default:
		// Draw as many numbers as are missing, remove duplicates, and repeat.
		for uint64(len(s.numbers)) < want {
			for range want - uint64(len(s.numbers)) {
				s.numbers = append(s.numbers, rng.Uint64N(size))
			}
			slices.Sort(s.numbers)
			s.numbers = slices.Compact(s.numbers)
		}
	}
}

// look appends the triples with the numbers s.numbers to dst. The triples (h, r, e₂) come first.
// The triples from each e₃ to known answers and candidates follow, one e₃ after another.
func (s *Sampler) look(dst []kg.Triple, q kg.Query, from, back *adjacency) []kg.Triple {
	numbers := s.numbers
	for len(numbers) > 0 && numbers[0] < uint64(len(s.first)) {
		dst = append(dst, q.Triple(back.ids[s.first[numbers[0]]]))
		numbers = numbers[1:]
	}
	for len(numbers) > 0 {
		i := sort.Search(len(s.sums), func(i int) bool { return s.sums[i] > numbers[0] })
		e3, at := s.candidates.used[i], uint64(len(s.first))
		if i > 0 {
			at = s.sums[i-1]
		}
		for _, t := range from.row(e3) {
			if s.flags[t] == 0 {
				continue
			}
			if at == numbers[0] {
				of := kg.Query{Side: q.Side, Relation: q.Relation, Anchor: from.ids[e3]}
				dst = append(dst, of.Triple(back.ids[t]))
				if numbers = numbers[1:]; len(numbers) == 0 || numbers[0] >= s.sums[i] {
					break
				}
			}
			at++
		}
	}
	return dst
}

// reset clears the state of a query.
func (s *Sampler) reset() {
	for _, t := range s.marked {
		s.flags[t] = 0
	}
	s.candidates.clear()
	s.shared.clear()
	s.marked, s.first, s.sums, s.numbers = s.marked[:0], s.first[:0], s.sums[:0], s.numbers[:0]
}
