package rank

import (
	"math"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
)

// Sides selects the queries over which a metric averages.
type Sides uint8

const (
	// TailSide selects the queries (h, r, ?).
	TailSide Sides = iota
	// HeadSide selects the queries (?, r, t).
	HeadSide
	// BothSides selects both queries of each triple, with the same weight.
	BothSides
	// RelationSide selects the queries (h, ?, t).
	RelationSide
	// NumSides is the number of selections.
	NumSides
)

var sidesNames = []string{"tail", "head", "both", "relation"}

// String returns "tail", "head", "both" or "relation".
func (s Sides) String() string { return text.Name(sidesNames, s, "Sides") }

// ParseSides is the inverse of Sides.String.
func ParseSides(name string) (Sides, error) { return text.ParseName[Sides](sidesNames, name, "sides") }

// List returns the sides of the selection, tail first.
func (s Sides) List() []kg.Side {
	switch s {
	case TailSide:
		return []kg.Side{kg.Tail}
	case HeadSide:
		return []kg.Side{kg.Head}
	case RelationSide:
		return []kg.Side{kg.Relation}
	}
	return []kg.Side{kg.Tail, kg.Head}
}

// Ties is a tie rule. It turns the number b of other candidates with a better score than the
// target, and the number e with exactly the target's score, into a rank.
type Ties uint8

const (
	// Optimistic ranks the target before its equals: 1 + b.
	Optimistic Ties = iota
	// Pessimistic ranks the target after its equals: 1 + b + e.
	Pessimistic
	// Realistic is the mean of both, and the expected rank if equal candidates are in random order:
	// 1 + b + e/2, which may end in .5.
	Realistic
	// Rounded rounds Realistic up to a whole number: 1 + b + ⌈e/2⌉.
	Rounded
	// NumTies is the number of tie rules.
	NumTies
)

var tiesNames = []string{"optimistic", "pessimistic", "realistic", "rounded"}

// String returns "optimistic", "pessimistic", "realistic" or "rounded".
func (t Ties) String() string { return text.Name(tiesNames, t, "Ties") }

// ParseTies is the inverse of Ties.String.
func ParseTies(name string) (Ties, error) { return text.ParseName[Ties](tiesNames, name, "tie rule") }

// Rank returns the rank of r's target under a filter, or an estimate of the rank if r has a scale. It returns
// NaN if the counts under the filter are unknown.
func (t Ties) Rank(r *Rank, f Filter) float64 {
	if r.Better[f] < 0 {
		return math.NaN()
	}
	before := float64(r.Better[f])
	switch t {
	case Pessimistic:
		before += float64(r.Equal[f])
	case Realistic:
		before += float64(r.Equal[f]) / 2
	case Rounded:
		before += float64((int64(r.Equal[f]) + 1) / 2) // the sum may exceed an int32
	}
	if r.Scale != 0 {
		before *= r.Scale
	}
	return 1 + before
}

// ParseFilter is the inverse of Filter.String.
func ParseFilter(name string) (Filter, error) {
	return text.ParseName[Filter](filterNames[:], name, "filter")
}

// Sides, Ties and Filter marshal as text, for JSON.

func (s Sides) MarshalText() ([]byte, error)  { return []byte(s.String()), nil }
func (t Ties) MarshalText() ([]byte, error)   { return []byte(t.String()), nil }
func (f Filter) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

func (s *Sides) UnmarshalText(name []byte) (err error) {
	*s, err = ParseSides(string(name))
	return err
}

func (t *Ties) UnmarshalText(name []byte) (err error) {
	*t, err = ParseTies(string(name))
	return err
}

func (f *Filter) UnmarshalText(name []byte) (err error) {
	*f, err = ParseFilter(string(name))
	return err
}
