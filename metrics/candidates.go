package metrics

import (
	"fmt"
	"strings"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank"
)

// These are the kinds of restrictions.
const (
	ListedCandidates   = "list"     // the entities in a file
	TypedCandidates    = "type"     // the entities of some types
	ObservedCandidates = "observed" // the entities seen on the side of the relation in training
	// GivenNegatives are the entities that a file lists for each query, and the target.
	GivenNegatives = "negatives"
)

// Restriction describes the candidates of one side, if they are not all entities.
type Restriction struct {
	Kind string `json:"kind"`
	// Names is the file of a list, or the types.
	Names []string `json:"names,omitempty"`
	// Entities is the number of candidates before a filter. If the number depends on the relation,
	// Entities is the largest number. For given negatives, Entities is the length of the longest
	// list, and Fewest is the length of the shortest.
	Entities int `json:"entities"`
	Fewest   int `json:"fewest,omitempty"`
	// SHA256 is the checksum of the candidates' labels in the order of their bytes, each followed by a
	// line feed. Earlier versions had them in the order of the checkpoint. For given negatives, it is
	// the checksum of the file. It is empty if the candidates depend on the relation.
	SHA256 string `json:"sha256,omitempty"`
	// Excluded counts the queries of this side that are left out because their target is not a
	// candidate. Files of earlier versions lack it.
	Excluded int `json:"excluded_queries,omitempty"`
}

// String returns text such as "1,200 candidates (type compound)" or "candidates observed with the
// relation".
func (r *Restriction) String() string {
	n := text.Plural(r.Entities, "candidate")
	switch r.Kind {
	case GivenNegatives:
		if r.Fewest < r.Entities {
			return fmt.Sprintf("%s to %s given negatives", text.Comma(r.Fewest), text.Comma(r.Entities))
		}
		return text.Plural(r.Entities, "given negative")
	case ObservedCandidates:
		return "candidates observed with the relation"
	case TypedCandidates:
		return fmt.Sprintf("%s (type %s)", n, strings.Join(r.Names, " or "))
	}
	return fmt.Sprintf("%s (%s)", n, strings.Join(r.Names, ", "))
}

// Restrictions describes the candidates of both sides. Nil means all entities.
type Restrictions struct {
	Tail *Restriction `json:"tail,omitempty"`
	Head *Restriction `json:"head,omitempty"`
	// Sample describes the drawn candidates if the metrics are estimates.
	Sample *Sample `json:"sample,omitempty"`
	// Excluded counts the queries that are left out on both sides.
	Excluded int `json:"excluded_queries,omitempty"`
}

// Describe describes the candidates of the queries on some sides, and counts the queries that are left
// out. all is the number of entities, or of relations for rank.RelationSide.
func (r *Restrictions) Describe(sides rank.Sides, all int) string {
	s := r.among(sides, all)
	if r == nil || sides == rank.RelationSide {
		return s
	}
	if n := r.excluded(sides); n > 0 {
		s += fmt.Sprintf(", %s left out", text.Plural(n, "query"))
	}
	return s
}

// among is like Describe, but without the queries that are left out.
func (r *Restrictions) among(sides rank.Sides, all int) string {
	if sides == rank.RelationSide {
		return text.Plural(all, "candidate relation")
	}
	every := text.Plural(all, "candidate")
	if r == nil {
		return every
	}
	side := func(x *Restriction) string {
		if x == nil {
			return every
		}
		return x.String()
	}
	var s string
	switch tail, head := side(r.Tail), side(r.Head); {
	case sides == rank.TailSide || sides == rank.BothSides && tail == head:
		s = tail
	case sides == rank.HeadSide:
		s = head
	default:
		s = fmt.Sprintf("tails among %s, heads among %s", tail, head)
	}
	if r.Sample != nil {
		s += ", " + r.Sample.String()
	}
	return s
}

// Sentence returns the text of Describe as a sentence.
func (r *Restrictions) Sentence(sides rank.Sides, all int) string {
	s := r.Describe(sides, all)
	if strings.Contains(s, "candidate") {
		s = strings.ToUpper(s[:1]) + s[1:]
	} else {
		s = "Candidates: " + s
	}
	return s + "."
}

// excluded returns the number of queries that are left out on some sides.
func (r *Restrictions) excluded(sides rank.Sides) int {
	var of [2]int
	for side, x := range []*Restriction{kg.Tail: r.Tail, kg.Head: r.Head} {
		if x != nil {
			of[side] = x.Excluded
		}
	}
	if of[kg.Tail]+of[kg.Head] == 0 {
		return r.Excluded // a file of an earlier version has only the total
	}
	n := 0
	for _, side := range sides.List() {
		n += of[side]
	}
	return n
}

// candidates describes the candidates of the report's queries.
func (r *Report) candidates() string {
	return r.Restrictions.Describe(r.headline().Side, r.Candidates)
}
