package kg

import "github.com/mquine/mquine/internal/text"

// Category is the cardinality of a relation, heads first: in a 1-N relation, each tail has one head
// and each head has many tails.
//
// Many means more than 1.5 on average (Bordes et al., NIPS 2013). The averages are the numbers of
// tails per distinct query (head, relation, ?) and of heads per distinct query (?, relation, tail)
// in the training split. Tools differ in the splits that they count, and in whether 1.5 itself is
// many. Category follows LibKGE. A relation without training triples is 1-1.
type Category uint8

const (
	OneToOne Category = iota
	OneToMany
	ManyToOne
	ManyToMany
	// NumCategories is the number of categories.
	NumCategories
)

var categoryNames = []string{"1-1", "1-N", "N-1", "N-N"}

// String returns "1-1", "1-N", "N-1" or "N-N".
func (c Category) String() string { return text.Name(categoryNames, c, "Category") }

// MarshalText returns the text of String, for JSON.
func (c Category) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// Categories returns the category of every relation of the graph.
func (x *Index) Categories() []Category {
	manyTails := x.sides[Tail].manyAnswers(x.relations)
	manyHeads := x.sides[Head].manyAnswers(x.relations)
	categories := make([]Category, x.relations)
	for r := range categories {
		switch {
		case manyHeads[r] && manyTails[r]:
			categories[r] = ManyToMany
		case manyHeads[r]:
			categories[r] = ManyToOne
		case manyTails[r]:
			categories[r] = OneToMany
		}
	}
	return categories
}

// manyAnswers reports, for every relation, whether its queries have more than 1.5 answers on
// average in the training split.
func (a adjacency) manyAnswers(relations int) []bool {
	queries, answers := make([]int, relations), make([]int, relations)
	for row, r := range a.relations {
		if n := countIn(a.answers(row), Train); n > 0 {
			queries[r]++
			answers[r] += n
		}
	}
	many := make([]bool, relations)
	for r := range many {
		many[r] = 2*answers[r] > 3*queries[r]
	}
	return many
}

// countIn returns the number of answers that are in the split.
func countIn(a Answers, s Split) int {
	n := 0
	for _, set := range a.Splits {
		if set.Has(s) {
			n++
		}
	}
	return n
}
