// Package kg holds knowledge graphs: vocabularies, triples, splits, the index of known answers, and the readers and
// writers of data sets.
package kg

import "fmt"

// Triple is one fact (head, relation, tail) in the identifiers of a graph's vocabularies.
type Triple struct {
	Head, Relation, Tail int32
}

// Side names the end of a triple that a query asks for.
type Side uint8

const (
	// Tail asks (h, r, ?).
	Tail Side = iota
	// Head asks (?, r, t).
	Head
)

// String returns "tail" or "head".
func (s Side) String() string {
	switch s {
	case Tail:
		return "tail"
	case Head:
		return "head"
	}
	return fmt.Sprintf("Side(%d)", uint8(s))
}

// Query asks for the entities on one side of a relation, given the entity on the other.
type Query struct {
	Side     Side
	Relation int32
	// Anchor is the given entity: the head of a tail query, the tail of a head query.
	Anchor int32
}

// Query returns the query whose answer is the side s of the triple, and that answer.
func (t Triple) Query(s Side) (q Query, answer int32) {
	if s == Tail {
		return Query{Tail, t.Relation, t.Head}, t.Tail
	}
	return Query{Head, t.Relation, t.Tail}, t.Head
}

// Split is one of the three parts of a data set.
type Split uint8

const (
	Train Split = iota
	Valid
	Test
	// NumSplits is the number of splits of a data set.
	NumSplits
)

var splitNames = [NumSplits]string{"train", "valid", "test"}

// String returns "train", "valid" or "test".
func (s Split) String() string {
	if s < NumSplits {
		return splitNames[s]
	}
	return fmt.Sprintf("Split(%d)", uint8(s))
}

// MarshalText returns the same as String, for JSON.
func (s Split) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// ParseSplit is the inverse of String.
func ParseSplit(name string) (Split, error) {
	for s, n := range splitNames {
		if n == name {
			return Split(s), nil
		}
	}
	return 0, fmt.Errorf("unknown split %q: the splits are train, valid and test", name)
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

// Has tells whether s is in the set.
func (set SplitSet) Has(s Split) bool { return set&(1<<s) != 0 }
