package train

import (
	"context"
	"math/rand/v2"
	"slices"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/train/internal/stream"
)

// queryParts lists the items of an epoch with kvsall: the distinct queries that the training triples
// answer. A query with more than max_answers answers is divided into parts of about the same size, at
// random in every epoch.
type queryParts struct {
	seed    uint64
	items   []queryPart
	answers []int32 // the training answers to all queries
	divided []span  // the answers to each divided query
}

// queryPart is a query with some of its training answers.
type queryPart struct {
	kg.Query
	n, total int32 // number of these answers, and of all training answers to the query
	first    int   // position of the first of them in queryParts.answers
}

// newQueryParts lists the queries in the order of their first answers. If maxAnswers is 0, no query is
// divided.
func newQueryParts(
	ctx context.Context, triples []kg.Triple, known *kg.Index, maxAnswers int, seed uint64,
) (*queryParts, error) {
	p := &queryParts{
		seed: seed, items: make([]queryPart, 0, known.Queries()), answers: make([]int32, 0, 2*len(triples)),
	}
	seen := make([]bool, known.Queries())
	err := forQueries(ctx, triples, known, func(_, number int, q kg.Query) {
		if seen[number] {
			return
		}
		seen[number] = true
		first := len(p.answers)
		p.answers = trainAnswers(p.answers, known.Answers(q))
		n, parts := len(p.answers)-first, 1
		if maxAnswers > 0 && n > maxAnswers {
			parts = (n + maxAnswers - 1) / maxAnswers
			p.divided = append(p.divided, span{first, first + n})
		}
		for k := range parts {
			from, to := k*n/parts, (k+1)*n/parts
			p.items = append(p.items, queryPart{q, int32(to - from), int32(n), first + from})
		}
	})
	return p, err
}

// targets returns the answers of a part.
func (p *queryParts) targets(q queryPart) []int32 { return p.answers[q.first : q.first+int(q.n)] }

// shuffle distributes the answers to the divided queries over their parts for an epoch. The result does
// not depend on earlier calls.
func (p *queryParts) shuffle(epoch int) {
	pcg := rand.NewPCG(0, 0)
	rng := rand.New(pcg)
	for i, s := range p.divided {
		answers := p.answers[s.first:s.last]
		slices.Sort(answers)
		stream.Seed(pcg, p.seed, useQueryParts, epoch, 0, i)
		rng.Shuffle(len(answers), func(i, j int) { answers[i], answers[j] = answers[j], answers[i] })
	}
}

// forQueries calls f for both queries of each triple, with the number of the triple and the number of the
// query in known.
func forQueries(
	ctx context.Context, triples []kg.Triple, known *kg.Index, f func(triple, number int, q kg.Query),
) error {
	for i, t := range triples {
		if i%(1<<16) == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		for _, side := range []kg.Side{kg.Tail, kg.Head} {
			q, _ := t.Query(side)
			f(i, known.Number(q), q)
		}
	}
	return nil
}
