package zpattern

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mquine/mquine/kg"
)

// Values returns n_Z and rank_Z of every triple on one side, in the order of the triples. It uses
// at most threads goroutines, or GOMAXPROCS if threads is 0. The values do not depend on the number
// of goroutines. Values returns ctx's error soon after ctx ends. If progress is not nil, Values
// calls it from one goroutine, at most five times a second, with the work done so far and the total
// work, in arbitrary units.
//
// For each distinct query, Values computes a row of A·Aᵀ·A as two products of a sparse vector with
// a sparse matrix. It reads each training triple of the relation at most twice, or three times with
// Definition, which subtracts the patterns with e₂ = e₃.
func (x *Index) Values(
	ctx context.Context, triples []kg.Triple, side kg.Side, c Convention, threads int,
	progress func(done, total int64),
) ([]Value, error) {
	queries, order, err := x.group(triples, side)
	if err != nil {
		return nil, err
	}
	if threads <= 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	values := make([]Value, len(triples))
	var next, done atomic.Int64
	var total int64
	for _, q := range queries {
		total += x.cost(q.Relation)
	}
	var workers errgroup.Group
	for worker := range min(threads, len(queries)) {
		workers.Go(func() error {
			w, told := newCounter(x, c), time.Now()
			for i := next.Add(1) - 1; i < int64(len(queries)); i = next.Add(1) - 1 {
				if err := ctx.Err(); err != nil {
					return err
				}
				q := &queries[i]
				w.value(q.Query, triples, order[q.first:q.last], values)
				done.Add(x.cost(q.Relation))
				if worker == 0 && progress != nil && time.Since(told) > 200*time.Millisecond {
					told = time.Now()
					progress(done.Load(), total)
				}
			}
			return nil
		})
	}
	if err := workers.Wait(); err != nil {
		return nil, err
	}
	return values, ctx.Err()
}

// cost estimates the work for a query with relation r, in arbitrary units.
func (x *Index) cost(r int32) int64 { return int64(len(x.relations[r][kg.Tail].answers)) + 1 }

// query is a distinct query. Its triples are order[first:last].
type query struct {
	kg.Query
	first, last int
}

// group returns the distinct queries of triples, and the indices of the triples ordered by query.
func (x *Index) group(triples []kg.Triple, side kg.Side) (queries []query, order []int32, err error) {
	order = make([]int32, len(triples))
	for i, t := range triples {
		n, m := uint(x.entities), uint(len(x.relations))
		if uint(t.Head) >= n || uint(t.Tail) >= n || uint(t.Relation) >= m {
			return nil, nil, fmt.Errorf("triple %v is outside the graph's %d entities and %d relations", t, n, m)
		}
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int {
		p, _ := triples[a].Query(side)
		q, _ := triples[b].Query(side)
		return cmp.Or(cmp.Compare(p.Relation, q.Relation), cmp.Compare(p.Anchor, q.Anchor), cmp.Compare(a, b))
	})
	for at, i := range order {
		q, _ := triples[i].Query(side)
		if at == 0 || q != queries[len(queries)-1].Query {
			queries = append(queries, query{Query: q, first: at})
		}
		queries[len(queries)-1].last = at + 1
	}
	return queries, order, nil
}

// counter computes rows of A·Aᵀ·A. It belongs to one goroutine.
type counter struct {
	index      *Index
	convention Convention
	middle     sparse // by anchor e₃: the number of e₂ that it shares with the query's anchor
	end        sparse // by answer: its Z-value
	thresholds []uint32
	tally      []int
}

func newCounter(x *Index, c Convention) *counter {
	return &counter{index: x, convention: c, middle: newSparse(x.widest), end: newSparse(x.widest)}
}

// value computes the values of the triples of query q. The list of holds the indices of these
// triples in triples. value writes their values to the same indices of values.
func (w *counter) value(q kg.Query, triples []kg.Triple, of []int32, values []Value) {
	defer w.end.clear()
	from, back := &w.index.relations[q.Relation][q.Side], &w.index.relations[q.Relation][1-q.Side]
	var known []int32
	if anchor, ok := from.find(q.Anchor); ok {
		known = from.row(anchor)
		w.count(from, back, known)
	}

	w.thresholds = w.thresholds[:0]
	for _, i := range of {
		_, answer := triples[i].Query(q.Side)
		z := uint32(0)
		if t, ok := back.find(answer); ok {
			z = w.end.values[t]
		}
		values[i].Z = uint64(z)
		w.thresholds = append(w.thresholds, z)
	}
	slices.Sort(w.thresholds)
	w.thresholds = slices.Compact(w.thresholds)

	// tally[2i+1] counts the candidates with the Z-value thresholds[i]. tally[2i] counts the
	// candidates with a Z-value between thresholds[i−1] and thresholds[i].
	w.tally = append(w.tally[:0], make([]int, 2*len(w.thresholds)+1)...)
	for _, t := range known {
		w.end.values[t] = 0
	}
	unobserved := w.index.candidates - len(known)
	zeros := unobserved
	for _, t := range w.end.used {
		z := w.end.values[t]
		if z == 0 {
			continue
		}
		zeros--
		w.tally[w.place(z)]++
	}
	w.tally[w.place(0)] += zeros
	for i := len(w.tally) - 1; i > 0; i-- {
		w.tally[i-1] += w.tally[i]
	}
	for _, i := range of {
		v := &values[i]
		place := w.place(uint32(v.Z))
		v.Rank, v.Above = w.tally[place], w.tally[place+1]
		v.Case = w.convention.caseOf(v.Rank, v.Above)
	}
}

// place returns the index of a Z-value in the tally.
func (w *counter) place(z uint32) int {
	i, found := slices.BinarySearch(w.thresholds, z)
	if found {
		return 2*i + 1
	}
	return 2 * i
}

// count adds the Z-values of all answers to a query to w.end, given the known answers to the query.
// The sums fit in 32 bits, because a Z-value is at most the number of training triples.
func (w *counter) count(from, back *adjacency, known []int32) {
	for _, e2 := range known {
		for _, e3 := range back.row(e2) {
			w.middle.add(e3, 1)
		}
	}
	for _, e3 := range w.middle.used {
		n := w.middle.values[e3]
		for _, t := range from.row(e3) {
			w.end.add(t, n)
		}
	}
	w.middle.clear()
	if w.convention == Paper {
		return
	}
	// Subtract the patterns with e₂ = e₃, whose middle triple is a loop.
	for _, e2 := range known {
		e3, ok := from.find(back.ids[e2])
		if !ok {
			continue
		}
		answers := from.row(e3)
		if _, loop := slices.BinarySearch(answers, e2); loop {
			for _, t := range answers {
				w.end.values[t]--
			}
		}
	}
}

// sparse is a vector that is mostly 0.
type sparse struct {
	values []uint32
	used   []int32 // indices of all values that have been nonzero since the last clear
}

func newSparse(n int) sparse { return sparse{values: make([]uint32, n)} }

func (s *sparse) add(i int32, n uint32) {
	if s.values[i] == 0 {
		s.used = append(s.used, i)
	}
	s.values[i] += n
}

func (s *sparse) clear() {
	for _, i := range s.used {
		s.values[i] = 0
	}
	s.used = s.used[:0]
}
