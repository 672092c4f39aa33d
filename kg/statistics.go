package kg

import (
	"context"
	"slices"

	"github.com/mquine/mquine/internal/input"
)

// Statistics describes a data set in numbers.
type Statistics struct {
	Name      string `json:"name"`
	Entities  int    `json:"entities"`
	Relations int    `json:"relations"`
	// Distinct counts the distinct triples of all splits together.
	Distinct int `json:"distinct_triples"`
	// Splits describes the splits that the data set has, in the order train, valid, test.
	Splits []SplitStatistics `json:"splits"`
	// Shared counts the distinct triples that two splits share.
	Shared SharedTriples `json:"shared_triples"`
	// Training describes the graph of the training triples. It is nil without a train split.
	Training *TrainingStatistics `json:"training,omitempty"`
}

// SplitStatistics describes one split. All counts except the counts of distinct queries include
// repeated triples.
type SplitStatistics struct {
	Split   Split `json:"split"`
	Triples int   `json:"triples"`
	// Repeats counts the triples that repeat an earlier triple of the split.
	Repeats int `json:"repeats"`
	// Loops counts the triples with the same head and tail.
	Loops int `json:"loops"`
	// TailQueries counts the distinct queries (h, r, ?), and HeadQueries counts the distinct
	// queries (?, r, t).
	TailQueries int `json:"tail_queries"`
	HeadQueries int `json:"head_queries"`
	// Unseen counts the triples with an entity that is in no training triple, and Categories
	// counts the triples by the category of their relation. Both are nil without a train split.
	Unseen     *int             `json:"triples_with_unseen_entity,omitempty"`
	Categories map[Category]int `json:"categories,omitempty"`
}

// SharedTriples counts the distinct triples that two splits share.
type SharedTriples struct {
	TrainValid int `json:"train_valid"`
	TrainTest  int `json:"train_test"`
	ValidTest  int `json:"valid_test"`
}

// TrainingStatistics describes the graph of the training triples.
type TrainingStatistics struct {
	// UnseenEntities and UnseenRelations count entities and relations without a training triple.
	UnseenEntities  int `json:"unseen_entities"`
	UnseenRelations int `json:"unseen_relations"`
	// Categories counts the relations of each category.
	Categories map[Category]int `json:"relation_categories"`
	Degrees    Degrees          `json:"degrees"`
}

// Degrees describes how heads and tails of the distinct training triples are distributed over the
// entities. The degree of an entity is the number of times that it is a head or a tail; a loop counts
// twice.
type Degrees struct {
	Max    int     `json:"max"`
	Median float64 `json:"median"`
	Mean   float64 `json:"mean"`
	// TopShare is the share of all heads and tails, from 0 to 1, that falls on the 5% of the
	// entities (rounded up) with the largest degrees.
	TopShare float64 `json:"top_5_percent_share"`
}

// Describe computes the statistics of a graph with the index x. The only error is the error of ctx,
// as for NewIndex.
func Describe(ctx context.Context, g *Graph, x *Index) (Statistics, error) {
	return input.Await(ctx, func() (Statistics, error) { return describe(g, x), nil })
}

func describe(g *Graph, x *Index) Statistics {
	distinct := x.sides[Tail].tally()
	stats := Statistics{
		Name:      g.Name,
		Entities:  g.Entities.Len(),
		Relations: g.Relations.Len(),
		Distinct:  distinct.in(),
		Shared: SharedTriples{
			TrainValid: distinct.in(Train, Valid),
			TrainTest:  distinct.in(Train, Test),
			ValidTest:  distinct.in(Valid, Test),
		},
	}
	for s := range NumSplits {
		if g.Has(s) {
			stats.Splits = append(stats.Splits, SplitStatistics{
				Split:       s,
				Triples:     len(g.Splits[s]),
				Repeats:     len(g.Splits[s]) - distinct.in(s),
				Loops:       count(g.Splits[s], func(t Triple) bool { return t.Head == t.Tail }),
				TailQueries: x.sides[Tail].queries(s),
				HeadQueries: x.sides[Head].queries(s),
			})
		}
	}
	if !g.Has(Train) {
		return stats
	}

	entities, relations := g.seen(Train)
	categories := x.Categories()
	stats.Training = &TrainingStatistics{
		UnseenEntities:  countFalse(entities),
		UnseenRelations: countFalse(relations),
		Categories:      make(map[Category]int),
		Degrees:         describeDegrees(x.degrees(Train)),
	}
	for _, c := range categories {
		stats.Training.Categories[c]++
	}
	for i := range stats.Splits {
		s := &stats.Splits[i]
		triples := g.Splits[s.Split]
		unseen := count(triples, func(t Triple) bool { return !entities[t.Head] || !entities[t.Tail] })
		s.Unseen = &unseen
		s.Categories = make(map[Category]int)
		for _, t := range triples {
			s.Categories[categories[t.Relation]]++
		}
	}
	return stats
}

func count(triples []Triple, is func(Triple) bool) int {
	n := 0
	for _, t := range triples {
		if is(t) {
			n++
		}
	}
	return n
}

// queries counts the distinct queries of a split.
func (a adjacency) queries(s Split) int {
	n := 0
	for row := range a.relations {
		if countIn(a.answers(row), s) > 0 {
			n++
		}
	}
	return n
}

// Degrees returns, for each entity, the number of distinct triples of a split with the entity as head
// or tail. A triple with the entity as both counts once.
func (x *Index) Degrees(s Split) []int {
	d := x.degrees(s)
	tails := x.sides[Tail]
	for entity := range d {
		for row := tails.rowStart[entity]; row < tails.rowStart[entity+1]; row++ {
			a := tails.answers(int(row))
			if i, loop := slices.BinarySearch(a.Entities, int32(entity)); loop && a.Splits[i].Has(s) {
				d[entity]--
			}
		}
	}
	return d
}

// degrees returns how many times each entity is the head or the tail of a distinct triple of a split.
func (x *Index) degrees(s Split) []int {
	entities, _ := x.Sizes()
	d := make([]int, entities)
	for _, a := range x.sides {
		for entity := range d {
			for row := a.rowStart[entity]; row < a.rowStart[entity+1]; row++ {
				d[entity] += countIn(a.answers(int(row)), s)
			}
		}
	}
	return d
}

// describeDegrees summarises degrees, which it sorts.
func describeDegrees(degrees []int) Degrees {
	n := len(degrees)
	if n == 0 {
		return Degrees{}
	}
	slices.Sort(degrees)
	ends, top := 0, 0
	for i, d := range degrees {
		ends += d
		if n-i <= (n+19)/20 {
			top += d
		}
	}
	summary := Degrees{
		Max:    degrees[n-1],
		Median: float64(degrees[(n-1)/2]+degrees[n/2]) / 2,
		Mean:   float64(ends) / float64(n),
	}
	if ends > 0 {
		summary.TopShare = float64(top) / float64(ends)
	}
	return summary
}
