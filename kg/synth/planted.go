package synth

import (
	"context"
	"slices"

	"github.com/mquine/mquine/kg"
)

// Kind is a kind of regularity.
type Kind string

// These are the kinds of regularity. A pattern lists its relations in the order of the letters p,
// q, r, s below.
const (
	Symmetric Kind = "symmetric" // r: facts (a, r, b) with (b, r, a)
	Inverse   Kind = "inverse"   // r, s: facts (a, r, b) with (b, s, a)
	Composed  Kind = "composed"  // p, q, r: pairs of facts (a, p, b), (b, q, c) with (a, r, c)
	ZPattern  Kind = "Z-pattern" // r: facts (e1, r, e2), (e3, r, e2), (e3, r, e4) without (e1, r, e4)
)

// Pattern is a regularity of a graph.
type Pattern struct {
	Kind      Kind
	Relations []int32
	// Count is the number of instances among the facts of all splits.
	Count int
}

// Planted lists the regularities in a graph of [Families].
type Planted struct {
	Patterns []Pattern
	// Implied is the number of test triples that follow from training triples in one step, by a
	// symmetric, inverse or composed relation.
	Implied int
}

// patterns lists the regularities that Families plants, without their counts.
var patterns = []Pattern{
	{Kind: Symmetric, Relations: []int32{hasSpouse}},
	{Kind: Symmetric, Relations: []int32{hasSibling}},
	{Kind: Inverse, Relations: []int32{hasParent, hasChild}},
	{Kind: Inverse, Relations: []int32{directedBy, directed}},
	{Kind: Inverse, Relations: []int32{hasActor, actedIn}},
	{Kind: Inverse, Relations: []int32{hasGrandparent, hasGrandchild}},
	{Kind: Inverse, Relations: []int32{sequelOf, followedBy}},
	{Kind: Composed, Relations: []int32{hasParent, hasParent, hasGrandparent}},
	{Kind: Composed, Relations: []int32{hasParent, hasSibling, hasAuntOrUncle}},
	{Kind: Composed, Relations: []int32{hasParent, livesIn, livesIn}},
	{Kind: Composed, Relations: []int32{hasChild, livesIn, livesIn}},
	{Kind: Composed, Relations: []int32{directedBy, livesIn, producedIn}},
	{Kind: Composed, Relations: []int32{actedIn, directedBy, actedFor}},
	{Kind: Composed, Relations: []int32{sequelOf, hasGenre, hasGenre}},
	{Kind: Composed, Relations: []int32{followedBy, hasGenre, hasGenre}},
	{Kind: ZPattern, Relations: []int32{hasGenre}},
}

// findPlanted counts the instances of every pattern whose relations g has.
func findPlanted(ctx context.Context, g *kg.Graph) (*Planted, error) {
	all, err := newFacts(ctx, g.Splits[:]...)
	if err != nil {
		return nil, err
	}
	train, err := newFacts(ctx, g.Splits[kg.Train])
	if err != nil {
		return nil, err
	}

	planted := &Planted{}
	for _, p := range patterns {
		if !p.within(g.Relations.Len()) {
			continue
		}
		p.Relations = slices.Clone(p.Relations)
		if p.Count, err = all.count(ctx, p); err != nil {
			return nil, err
		}
		planted.Patterns = append(planted.Patterns, p)
	}
	check := pulse(ctx)
	for _, t := range g.Splits[kg.Test] {
		if err := check(); err != nil {
			return nil, err
		}
		if train.imply(planted.Patterns, t) {
			planted.Implied++
		}
	}
	return planted, nil
}

// within reports whether a graph with the given number of relations contains all relations of p.
func (p Pattern) within(relations int) bool {
	for _, r := range p.Relations {
		if int(r) >= relations {
			return false
		}
	}
	return true
}

// facts is an index of distinct triples.
type facts struct {
	triples []kg.Triple
	known   map[kg.Triple]bool
	answers map[kg.Query][]int32
}

func newFacts(ctx context.Context, splits ...[]kg.Triple) (*facts, error) {
	check := pulse(ctx)
	f := &facts{known: map[kg.Triple]bool{}, answers: map[kg.Query][]int32{}}
	for _, triples := range splits {
		for _, t := range triples {
			if err := check(); err != nil {
				return nil, err
			}
			f.triples = append(f.triples, t)
			f.known[t] = true
			for _, side := range []kg.Side{kg.Tail, kg.Head} {
				q, answer := t.Query(side)
				f.answers[q] = append(f.answers[q], answer)
			}
		}
	}
	return f, nil
}

func (f *facts) tails(head, relation int32) []int32 {
	return f.answers[kg.Query{Side: kg.Tail, Relation: relation, Anchor: head}]
}

func (f *facts) heads(relation, tail int32) []int32 {
	return f.answers[kg.Query{Side: kg.Head, Relation: relation, Anchor: tail}]
}

func (f *facts) has(head, relation, tail int32) bool {
	return f.known[kg.Triple{Head: head, Relation: relation, Tail: tail}]
}

// count returns the number of instances of p.
func (f *facts) count(ctx context.Context, p Pattern) (int, error) {
	check := pulse(ctx)
	n := 0
	r := p.Relations
	for _, t := range f.triples {
		if err := check(); err != nil {
			return 0, err
		}
		if t.Relation != r[0] {
			continue
		}
		switch p.Kind {
		case Symmetric, Inverse:
			if f.has(t.Tail, r[len(r)-1], t.Head) {
				n++
			}
		case Composed:
			for _, c := range f.tails(t.Tail, r[1]) {
				if f.has(t.Head, r[2], c) {
					n++
				}
			}
		case ZPattern:
			n += f.zPatterns(t)
		}
	}
	return n, nil
}

// zPatterns returns the number of Z-patterns whose middle fact (e3, r, e2) is t.
func (f *facts) zPatterns(t kg.Triple) int {
	n := 0
	for _, e1 := range f.heads(t.Relation, t.Tail) {
		for _, e4 := range f.tails(t.Head, t.Relation) {
			if !f.has(e1, t.Relation, e4) {
				n++
			}
		}
	}
	return n
}

// imply reports whether t follows from the facts in one step by one of the patterns.
func (f *facts) imply(patterns []Pattern, t kg.Triple) bool {
	for _, p := range patterns {
		r := p.Relations
		switch p.Kind {
		case Symmetric:
			if t.Relation == r[0] && f.has(t.Tail, r[0], t.Head) {
				return true
			}
		case Inverse:
			if t.Relation == r[0] && f.has(t.Tail, r[1], t.Head) ||
				t.Relation == r[1] && f.has(t.Tail, r[0], t.Head) {
				return true
			}
		case Composed:
			if t.Relation != r[2] {
				continue
			}
			for _, b := range f.tails(t.Head, r[0]) {
				if f.has(b, r[1], t.Tail) {
					return true
				}
			}
		}
	}
	return false
}
