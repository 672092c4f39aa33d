// Package kg represents knowledge graphs by vocabularies, triples and splits. It indexes known
// answers, and reads and writes data sets.
//
// Begin with [Open], which reads a data set into a [Graph], and [NewIndex], which finds the known
// answers to a [Query]. The packages below fetch public data sets (catalogue), generate graphs
// (synth) and count Z-patterns (zpattern). docs/datasets.md describes the files.
package kg

import "github.com/mquine/mquine/internal/text"

// Triple is one fact (head, relation, tail) in the identifiers of a graph's vocabularies.
type Triple struct {
	Head, Relation, Tail int32
}

// Side is the member of a triple that a query asks for.
type Side uint8

const (
	// Tail asks for the tail: (h, r, ?).
	Tail Side = iota
	// Head asks for the head: (?, r, t).
	Head
	// Relation asks for the relation: (h, ?, t). A Query cannot have this side.
	Relation
)

var sideNames = []string{"tail", "head", "relation"}

// String returns "tail", "head" or "relation".
func (s Side) String() string { return text.Name(sideNames, s, "Side") }

// Opposite returns Head for Tail and Tail for Head. The side must not be Relation.
func (s Side) Opposite() Side { return Tail + Head - s }

// Query is a triple with one side left open: (head, relation, ?) or (?, relation, tail).
type Query struct {
	Side     Side
	Relation int32
	// Anchor is the given entity: the head of a tail query or the tail of a head query.
	Anchor int32
}

// Query leaves side s of the triple open; s must be Tail or Head. Query returns the query and the
// entity that was on that side, which is an answer.
func (t Triple) Query(s Side) (q Query, answer int32) {
	if s == Tail {
		return Query{Tail, t.Relation, t.Head}, t.Tail
	}
	return Query{Head, t.Relation, t.Tail}, t.Head
}

// Triple returns the triple that completes q with an answer.
func (q Query) Triple(answer int32) Triple {
	if q.Side == Tail {
		return Triple{q.Anchor, q.Relation, answer}
	}
	return Triple{answer, q.Relation, q.Anchor}
}

// Split is one of the three parts of a data set: Train, Valid or Test.
type Split uint8

const (
	Train Split = iota
	Valid
	Test
	// NumSplits is the number of splits of a data set.
	NumSplits
)

var splitNames = []string{"train", "valid", "test"}

// String returns "train", "valid" or "test".
func (s Split) String() string { return text.Name(splitNames, s, "Split") }

// MarshalText returns the text of String, for JSON.
func (s Split) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// ParseSplit is the inverse of String.
func ParseSplit(name string) (Split, error) { return text.ParseName[Split](splitNames, name, "split") }

// UnmarshalText is the inverse of MarshalText.
func (s *Split) UnmarshalText(name []byte) (err error) {
	*s, err = ParseSplit(string(name))
	return err
}

// SplitSet is a set of splits, one bit each.
type SplitSet uint8

// Set returns the set of the given splits.
func Set(splits ...Split) SplitSet {
	var set SplitSet
	for _, s := range splits {
		set |= 1 << s
	}
	return set
}

// Has reports whether s is in the set.
func (set SplitSet) Has(s Split) bool { return set&(1<<s) != 0 }
