// Package zpattern counts, lists and samples the Z-patterns of a knowledge graph. Z-patterns show
// how much a triple is exposed to the Z-paradox of Liu et al., "MQuinE: a cure for Z-paradox in
// knowledge graph embedding models" (EMNLP 2024).
//
// A Z-pattern of (h, r, t) is a pair (e₂, e₃) with the training triples
//
//	(h, r, e₂)   (e₃, r, e₂)   (e₃, r, t)
//
// The Z-value n_Z(h, r, t) is the number of Z-patterns of (h, r, t). If A is the 0/1 matrix of the
// training triples of r, n_Z(h, r, t) is the entry (h, t) of A·Aᵀ·A. The middle triple (e₃, r, e₂)
// determines the pattern, so a Z-value never exceeds the number of training triples of its
// relation.
//
// On the tail side, rank_Z(h, r, t) is the number of candidates t' such that (h, r, t') is not a
// training triple and n_Z(h, r, t') ≥ n_Z(h, r, t). On the head side, the candidates are the h' of
// (h', r, t). All entities of the data set ([kg.Graph.DataEntities]) are candidates, including t itself
// unless (h, r, t) is a training triple. Repeated training triples count once.
//
// Begin with [NewIndex]. [Index.Values] counts, [Index.Patterns] lists and [Sampler.Sample]
// samples. docs/zvalues.md compares the conventions.
package zpattern

import (
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
)

// Convention defines which pairs are patterns and where the easy cases end.
type Convention uint8

const (
	// Paper reproduces the paper's table of cases: pairs with e₂ = e₃ count, and a triple is easy
	// if rank_Z ≤ 8.
	Paper Convention = iota
	// Definition follows the definitions in the paper's text: e₂ ≠ e₃, and a triple is easy if
	// rank_Z < 10.
	Definition
)

var conventionNames = []string{"paper", "definition"}

// String returns "paper" or "definition".
func (c Convention) String() string { return text.Name(conventionNames, c, "Convention") }

// MarshalText returns the text of String, for JSON.
func (c Convention) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// Case classifies a triple by how difficult it is for a model that suffers from the Z-paradox.
type Case uint8

const (
	// Easy means that few candidates have a Z-value at least as large; see Convention.
	Easy Case = iota
	// Neutral means neither easy nor hard.
	Neutral
	// Hard means that at least ten unobserved candidates have a larger Z-value.
	Hard
	// NumCases is the number of cases.
	NumCases
)

var caseNames = []string{"easy", "neutral", "hard"}

// String returns "easy", "neutral" or "hard".
func (c Case) String() string { return text.Name(caseNames, c, "Case") }

// MarshalText returns the text of String, for JSON.
func (c Case) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// These are the limits of the cases. In the published table, the limit on rank_Z for easy triples
// is one lower than in the text.
const (
	hardFrom           = 10
	easyUpToPaper      = 8
	easyUpToDefinition = 9
)

// caseOf returns the case of a triple with the given rank_Z and number of unobserved candidates
// with a larger Z-value.
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

// Value describes the exposure of a triple to the Z-paradox on one side.
type Value struct {
	// Z is n_Z of the triple.
	Z uint64
	// Rank is rank_Z. Above counts the unobserved candidates with a strictly larger Z-value.
	Rank, Above int
	Case        Case
}

// Pattern is a Z-pattern of a triple: the identifiers of e₂ and e₃.
type Pattern struct {
	E2, E3 int32
}

// Triples returns the three triples of a pattern of t: (h, r, e₂), (e₃, r, e₂) and (e₃, r, t).
func (p Pattern) Triples(t kg.Triple) [3]kg.Triple {
	return [3]kg.Triple{
		{Head: t.Head, Relation: t.Relation, Tail: p.E2},
		{Head: p.E3, Relation: t.Relation, Tail: p.E2},
		{Head: p.E3, Relation: t.Relation, Tail: t.Tail},
	}
}
