package train

import (
	"math/rand/v2"
	"slices"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/train/internal/stream"
)

// queryParts lists the items of an epoch with kvsall: the distinct queries that the training triples
// answer. With max_answers, a query with more answers is divided into parts of about the same size, at
// random in every epoch.
type queryParts struct {
	seed    uint64
	items   []queryPart
	answers []int32    // the training answers of all queries
	divided []rowRange // the answers of each divided query
}

// queryPart is a query with some of its training answers.
type queryPart struct {
	kg.Query
	first, last int // range of queryParts.answers
	of          int // number of all training answers to the query
}

// newQueryParts lists the queries in the order of their first answers. With most = 0, all queries are
// whole.
func newQueryParts(triples []kg.Triple, known *kg.Index, most int, seed uint64) *queryParts {
	p := &queryParts{seed: seed}
	for _, q := range distinctQueries(triples) {
		first := len(p.answers)
		p.answers = trainAnswers(p.answers, known.Answers(q))
		n, parts := len(p.answers)-first, 1
		if most > 0 && n > most {
			parts = (n + most - 1) / most
			p.divided = append(p.divided, rowRange{first, first + n})
		}
		for k := range parts {
			p.items = append(p.items, queryPart{q, first + k*n/parts, first + (k+1)*n/parts, n})
		}
	}
	return p
}

// shuffle divides the answers among the parts of their queries for the given epoch. The result does
// not depend on former epochs.
func (p *queryParts) shuffle(epoch int) {
	pcg := rand.NewPCG(0, 0)
	rng := rand.New(pcg)
	for i, r := range p.divided {
		answers := p.answers[r.first:r.last]
		slices.Sort(answers)
		stream.Seed(pcg, p.seed, useQueryParts, epoch, 0, i)
		rng.Shuffle(len(answers), func(i, j int) { answers[i], answers[j] = answers[j], answers[i] })
	}
}

// distinctQueries returns the queries that the triples answer, in the order of their first answers.
func distinctQueries(triples []kg.Triple) []kg.Query {
	var queries []kg.Query
	seen := map[kg.Query]bool{}
	for _, t := range triples {
		for _, side := range []kg.Side{kg.Tail, kg.Head} {
			if q, _ := t.Query(side); !seen[q] {
				seen[q] = true
				queries = append(queries, q)
			}
		}
	}
	return queries
}
