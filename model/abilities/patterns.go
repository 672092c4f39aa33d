package abilities

import (
	"slices"
	"strings"
)

// The names of the patterns.
const (
	symmetry       = "symmetry"
	antisymmetry   = "anti-symmetry"
	inversion      = "inversion"
	abelian        = "Abelian composition"
	nonAbelian     = "non-Abelian composition"
	oneToMany      = "1-N"
	manyToOne      = "N-1"
	manyToMany     = "N-N"
	injective      = "injective"
	nonInjective   = "non-injective"
	freeOfZParadox = "free of the Z-paradox"
)

// patterns lists all patterns. The relation q tells entities apart: without it, a model could give
// them the same parameters.
var patterns = []*Pattern{
	pattern(symmetry, "sym", "(x, r, y) implies (y, r, x)",
		"a r b, b r a, a q c", "b q c, a r c", "x r y → y r x"),
	pattern(antisymmetry, "asy", "(a, r, b) is true and (b, r, a) is false",
		"a r b", "b r a", ""),
	pattern(inversion, "inv", "(x, r1, y) if and only if (y, r2, x)",
		"a r1 b, b r2 a", "b r1 a, a r2 b", "x r1 y → y r2 x, x r2 y → y r1 x"),
	pattern(abelian, "ab", "(x, r1, y) and (y, r2, z), in either order of r1 and r2, imply (x, r3, z)",
		"a r1 b, b r2 c, a r2 d, d r1 c, a r3 c", "a r1 d, a r2 b, a r2 c, a r3 b",
		"x r1 y & y r2 z → x r3 z, x r2 y & y r1 z → x r3 z"),
	pattern(nonAbelian, "nab", "(x, r1, y) and (y, r2, z) imply (x, r3, z), but r2 followed by r1 does not",
		"a r1 b, b r2 c, a r2 d, d r1 e, a r3 c", "a r3 e, a r1 d, a r2 b, a r2 c",
		"x r1 y & y r2 z → x r3 z"),
	pattern(oneToMany, "1-N", "a head has two tails",
		"a r b, a r c, d q b", "d q c", ""),
	pattern(manyToOne, "N-1", "two heads have the same tail",
		"b r a, c r a, b q d", "c q d", ""),
	pattern(manyToMany, "N-N", "two heads have the same two tails",
		"a r c, a r d, b r c, b r d, a q e, f q c", "b q e, f q d", ""),
	pattern(injective, "inj", "different heads have different tails",
		"a r b, c r d", "a r d, c r b", ""),
	pattern(nonInjective, "ninj", "two heads share a tail, and a third has another tail",
		"a r c, b r c, d r e, a q f", "a r e, d r c, b q f", ""),
	pattern(freeOfZParadox, "Z", "(a, r, c), (b, r, c) and (b, r, d) are true, and (a, r, d) is false",
		"a r c, b r c, b r d", "a r d", ""),
}

// triple is a triple of indices.
type triple struct{ head, relation, tail int }

// rule says that the premises imply the conclusion, for all entities.
type rule struct {
	premises   []triple
	conclusion triple
}

// graph holds the triples and rules of a pattern as indices.
type graph struct {
	entities, relations int
	truths, falsehoods  []triple
	rules               []rule
}

// pattern parses the triples and rules of a pattern. The letters of entities and variables become
// indices. Relations are numbered in the order in which truths names them.
func pattern(name, short, means, truths, falsehoods, rules string) *Pattern {
	p := &Pattern{Name: name, Short: short, Means: means, True: truths, False: falsehoods, Rules: rules}
	var relations []string
	parse := func(list, separator string, first byte) (triples []triple) {
		for text := range strings.SplitSeq(list, separator) {
			words := strings.Fields(text)
			r := slices.Index(relations, words[1])
			if r < 0 {
				r, relations = len(relations), append(relations, words[1])
			}
			t := triple{int(words[0][0] - first), r, int(words[2][0] - first)}
			triples = append(triples, t)
		}
		return triples
	}
	p.truths, p.falsehoods = parse(truths, ",", 'a'), parse(falsehoods, ",", 'a')
	if rules != "" {
		for text := range strings.SplitSeq(rules, ",") {
			premises, conclusion, _ := strings.Cut(text, "→")
			p.rules = append(p.rules, rule{parse(premises, "&", 'x'), parse(conclusion, "&", 'x')[0]})
		}
	}
	p.relations = len(relations)
	for _, t := range slices.Concat(p.truths, p.falsehoods) {
		p.entities = max(p.entities, t.head+1, t.tail+1)
	}
	return p
}

// converse returns the relation that holds from y to x wherever relation r holds from x to y, or −1.
// It is r itself if r is symmetric.
func (g *graph) converse(r int) int {
	for _, rule := range g.rules {
		p, c := rule.premises[0], rule.conclusion
		if len(rule.premises) == 1 && p.relation == r && c.head == p.tail {
			return c.relation
		}
	}
	return -1
}
