// Package zpattern counts, lists and samples the Z-patterns of a knowledge graph: how much a
// triple is exposed to the Z-paradox of Liu et al., "MQuinE: a cure for Z-paradox in knowledge
// graph embedding models" (EMNLP 2024).
//
// A Z-pattern of (h, r, t) is a pair (e₂, e₃) with the training triples
//
//	(h, r, e₂)   (e₃, r, e₂)   (e₃, r, t)
//
// and its Z-value n_Z(h, r, t) is their number. With A the 0/1 matrix of the training triples of
// r, it is the entry (h, t) of A·Aᵀ·A. A pattern is determined by its middle triple (e₃, r, e₂),
// so that a Z-value never exceeds the number of training triples of its relation.
//
// The rank rank_Z(h, r, t) is the number of candidates t' for which (h, r, t') is no training
// triple and n_Z(h, r, t') ≥ n_Z(h, r, t), the candidate t itself included. On the head side the
// candidates are h' with (h', r, t). A triple that is in training itself is not among its
// candidates. All entities of the graph are candidates, and a training triple that is repeated
// counts once.
package zpattern

import (
	"fmt"

	"github.com/mquine/mquine/kg"
)

// Convention says which pairs are patterns and where the cases divide.
type Convention uint8

const (
	// Paper reproduces the published table of cases: pairs with e₂ = e₃ count, and a triple is
	// easy if rank_Z ≤ 8.
	Paper Convention = iota
	// Definition follows the definitions in the paper's text: e₂ ≠ e₃, and easy if rank_Z < 10.
	Definition
	// NumConventions is the number of conventions.
	NumConventions
)

var conventionNames = [NumConventions]string{"paper", "definition"}

// String returns "paper" or "definition".
func (c Convention) String() string {
	if c < NumConventions {
		return conventionNames[c]
	}
	return fmt.Sprintf("Convention(%d)", uint8(c))
}

// MarshalText returns the same as String, for JSON.
func (c Convention) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// Case says how a model that suffers from the Z-paradox is expected to fare with a triple.
type Case uint8

const (
	// Easy: few candidates have a Z-value at least as large; see Convention.
	Easy Case = iota
	// Neutral is neither easy nor hard.
	Neutral
	// Hard: at least ten unobserved candidates have a larger Z-value.
	Hard
	// NumCases is the number of cases.
	NumCases
)

var caseNames = [NumCases]string{"easy", "neutral", "hard"}

// String returns "easy", "neutral" or "hard".
func (c Case) String() string {
	if c < NumCases {
		return caseNames[c]
	}
	return fmt.Sprintf("Case(%d)", uint8(c))
}

// MarshalText returns the same as String, for JSON.
func (c Case) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// The place that divides the cases. The published table has one candidate less among the easy
// ones than the text.
const (
	hardFrom           = 10
	easyUpToPaper      = 8
	easyUpToDefinition = 9
)

// caseOf returns the case of a triple with this rank_Z, above which so many unobserved
// candidates have a larger Z-value.
func (c Convention) caseOf(rank, above int) Case {
	easyUpTo := easyUpToPaper
	if c == Definition {
		easyUpTo = easyUpToDefinition
	}
	switch {
	case rank <= easyUpTo:
		return Easy
	case above >= hardFrom:
		return Hard
	}
	return Neutral
}

// Value tells how exposed a triple is to the Z-paradox on one side.
type Value struct {
	// Z is n_Z of the triple.
	Z uint64
	// Rank is rank_Z; Above counts those of its candidates whose Z-value is strictly larger.
	Rank, Above int
	Case        Case
}

// Pattern is a Z-pattern of a triple, in entities.
type Pattern struct {
	E2, E3 int32
}

// Triples returns the three edges of the pattern of t: (h, r, e₂), (e₃, r, e₂), (e₃, r, t).
func (p Pattern) Triples(t kg.Triple) [3]kg.Triple {
	return [3]kg.Triple{
		{Head: t.Head, Relation: t.Relation, Tail: p.E2},
		{Head: p.E3, Relation: t.Relation, Tail: p.E2},
		{Head: p.E3, Relation: t.Relation, Tail: t.Tail},
	}
}
