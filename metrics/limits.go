package metrics

import (
	"cmp"
	"context"
	"slices"

	"github.com/mquine/mquine/internal/input"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank"
)

// LimitKind is an assumption about what the best possible ranking knows.
type LimitKind uint8

const (
	// Oracle knows the evaluated split: every target comes before all other candidates.
	Oracle LimitKind = iota
	// Exchangeable cannot tell the target of a query from the other true answers that the filter
	// leaves, such as validation answers under the filter train. They all come before the false ones,
	// in an order that is independent of the split.
	Exchangeable
	// NumLimitKinds is the number of kinds.
	NumLimitKinds
)

// String returns "oracle" or "exchangeable".
func (k LimitKind) String() string {
	return text.Name([]string{"oracle", "exchangeable"}, k, "LimitKind")
}

// Limit holds the highest metrics that a ranking of some queries can have. Other true answers that
// a filter leaves compete with the target. For Exchangeable, the limits are expected values over
// all ways to divide the answers between the splits.
//
// The limits hold for rankings without ties. The limit of MRR also holds under every tie rule
// except optimistic: the reciprocal of a rank that equal candidates share is at most the mean of
// 1/r over their places. With ties, realistic ranks may exceed the limit of Hits@k.
type Limit struct {
	Kind   LimitKind
	Side   rank.Sides
	Filter rank.Filter
	// N is the number of queries.
	N    int
	MRR  Number
	Hits Hits
}

// Limits returns the limits for the queries of triples, by filter, then by side as in Summarize,
// then by kind. x indexes all splits of the graph. Limits leaves out queries whose target is not a
// candidate. If among is nil, all entities are candidates. ks are the cut-offs of Hits@k. There are
// no limits for RelationSide. Limits returns an error for an unknown filter or selection of sides, and
// for cut-offs that are not distinct and at least 1. If ctx is cancelled, Limits returns its error at
// once and abandons the work, which may read the arguments a little longer.
func Limits(ctx context.Context, x *kg.Index, triples []kg.Triple, among *rank.Candidates, sides rank.Sides,
	filters []rank.Filter, ks []int) ([]Limit, error) {
	if err := cmp.Or(checkSides(sides), checkFilters(filters), checkHits(ks)); err != nil {
		return nil, err
	}
	if sides == rank.RelationSide {
		return nil, nil
	}
	return input.Await(ctx, func() ([]Limit, error) { return limits(x, triples, among, sides, filters, ks), nil })
}

func limits(x *kg.Index, triples []kg.Triple, among *rank.Candidates, sides rank.Sides, filters []rank.Filter,
	ks []int) (list []Limit) {
	var sums [2][rank.NumFilters]limitSums
	for _, side := range sides.List() {
		sums[side] = addLimits(x, triples, among, side, ks)
	}
	for _, f := range filters {
		for _, s := range selections(sides) {
			total := newLimitSums(ks)
			for _, side := range s.List() {
				total.add(&sums[side][f])
			}
			n := total.n
			for kind := range NumLimitKinds {
				l := Limit{Kind: kind, Side: s, Filter: f, N: n, MRR: ratio(total.mrr[kind], float64(n))}
				for i, k := range ks {
					l.Hits = append(l.Hits, HitsAt{k, ratio(total.hits[kind][i], float64(n))})
				}
				list = append(list, l)
			}
		}
	}
	return list
}

// limitSums holds the number of queries, and the sums over them of 1/rank and of [rank ≤ k], by kind.
type limitSums struct {
	n    int
	mrr  [NumLimitKinds]float64
	hits [NumLimitKinds][]float64
}

func newLimitSums(ks []int) limitSums {
	var s limitSums
	for kind := range s.hits {
		s.hits[kind] = make([]float64, len(ks))
	}
	return s
}

func (s *limitSums) add(o *limitSums) {
	s.n += o.n
	for kind := range s.mrr {
		s.mrr[kind] += o.mrr[kind]
		for i, v := range o.hits[kind] {
			s.hits[kind][i] += v
		}
	}
}

// place adds n targets of the given rank.
func (s *limitSums) place(n, rank int, ks []int) {
	s.mrr[Oracle] += float64(n) / float64(rank)
	for i, k := range ks {
		if rank <= k {
			s.hits[Oracle][i] += float64(n)
		}
	}
}

// mix adds n targets, each at a random rank from 1 to the given number of places. harmonic is the
// sum of 1/rank over the places.
func (s *limitSums) mix(n, places int, harmonic float64, ks []int) {
	s.mrr[Exchangeable] += float64(n) * harmonic / float64(places)
	for i, k := range ks {
		s.hits[Exchangeable][i] += float64(n) * float64(min(k, places)) / float64(places)
	}
}

// addLimits returns the sums for the queries of triples on a side.
func addLimits(x *kg.Index, triples []kg.Triple, among *rank.Candidates, side kg.Side, ks []int,
) (sums [rank.NumFilters]limitSums) {
	type target struct {
		query  kg.Query
		answer int32
	}
	var targets []target
	for _, t := range triples {
		if q, answer := t.Query(side); among.Has(q, answer) {
			targets = append(targets, target{q, answer})
		}
	}
	slices.SortFunc(targets, func(a, b target) int {
		return cmp.Or(cmp.Compare(a.query.Relation, b.query.Relation), cmp.Compare(a.query.Anchor, b.query.Anchor),
			cmp.Compare(a.answer, b.answer))
	})
	for f := range sums {
		sums[f] = newLimitSums(ks)
		sums[f].n = len(targets)
	}
	harmonic := []float64{0} // harmonic[n] = Σ_{i ≤ n} 1/i
	var left []int           // for each distinct target that a filter leaves, the number of its queries
	for len(targets) > 0 {
		q := targets[0].query
		n := slices.IndexFunc(targets, func(t target) bool { return t.query != q })
		if n < 0 {
			n = len(targets)
		}
		known := x.Answers(q)
		for len(harmonic) < len(known.Entities)+2 {
			harmonic = append(harmonic, harmonic[len(harmonic)-1]+1/float64(len(harmonic)))
		}
		for f := range rank.NumFilters {
			s := &sums[f]
			competing := 0 // true answers that the filter leaves
			for i, splits := range known.Splits {
				if splits&f.Splits() == 0 && among.Has(q, known.Entities[i]) {
					competing++
				}
			}
			left = left[:0]
			for rest := targets[:n]; len(rest) > 0; {
				answer, queries := rest[0].answer, 1
				for queries < len(rest) && rest[queries].answer == answer {
					queries++
				}
				rest = rest[queries:]
				places := competing
				at, isKnown := slices.BinarySearch(known.Entities, answer)
				if isKnown && known.Splits[at]&f.Splits() == 0 {
					left = append(left, queries)
				} else {
					// The filter removes this answer from all queries except its own, where it
					// ranks first.
					s.place(queries, 1, ks)
					places++
				}
				s.mix(queries, places, harmonic[places], ks)
			}
			slices.SortFunc(left, func(a, b int) int { return cmp.Compare(b, a) })
			for i, queries := range left {
				s.place(queries, i+1, ks)
			}
		}
		targets = targets[n:]
	}
	return sums
}

// SetLimits adds the limits of MRR to the results that they apply to.
func (r *Report) SetLimits(limits []Limit) {
	for i := range r.Results {
		res := &r.Results[i]
		for _, l := range limits {
			if l.Side != res.Side || l.Filter != res.Filter || res.Ties == rank.Optimistic {
				continue
			}
			if res.Limits == nil {
				res.Limits = &[NumLimitKinds]Number{undefined, undefined}
			}
			res.Limits[l.Kind] = l.MRR
		}
	}
}
