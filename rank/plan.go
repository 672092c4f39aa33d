package rank

import (
	"cmp"
	"slices"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
)

// query is a distinct query with its truths, truths[first:last] of the plan.
type query struct {
	kg.Query
	first, last int32
}

// truth is one true answer of a query; rank is its place in the result.
type truth struct {
	answer, rank int32
}

// pass is a run of queries whose candidates have the same features: all of them, unless the
// features depend on the side or the relation.
type pass struct {
	side        kg.Side
	relation    int32
	tower       model.Tower
	first, last int // queries
}

type plan struct {
	queries []query
	truths  []truth
	passes  []pass
	unique  int // distinct (anchor, relation) pairs over both sides
}

// maxTruths bounds the truths of one row of a tile, whose counting cannot be interrupted. A query
// with more truths takes several rows.
const maxTruths = 512

// newPlan groups the queries of ranks. Queries of one relation stand together, so that a worker
// prepares its matrices once.
func newPlan(m model.Model, ranks []Rank) *plan {
	p := &plan{truths: make([]truth, len(ranks))}
	for i := range p.truths {
		_, answer := ranks[i].Triple.Query(ranks[i].Side)
		p.truths[i] = truth{answer, int32(i)}
	}
	at := func(t truth) kg.Query {
		q, _ := ranks[t.rank].Triple.Query(ranks[t.rank].Side)
		return q
	}
	slices.SortFunc(p.truths, func(x, y truth) int {
		return cmp.Or(compareQueries(at(x), at(y)), cmp.Compare(x.rank, y.rank))
	})
	for i, t := range p.truths {
		q := at(t)
		n := len(p.queries)
		same := n > 0 && p.queries[n-1].Query == q
		if same && int32(i)-p.queries[n-1].first < maxTruths {
			p.queries[n-1].last++
			continue
		}
		if !same {
			p.unique++
		}
		p.queries = append(p.queries, query{q, int32(i), int32(i) + 1})
	}
	p.passes = newPasses(m, p.queries)
	return p
}

// newPasses splits queries, ordered by side and relation, into runs with the same features.
func newPasses(m model.Model, queries []query) []pass {
	var passes []pass
	shared := m.Tower(kg.Tail) == m.Tower(kg.Head)
	for i, q := range queries {
		tower := m.Tower(q.Side)
		if n := len(passes); n > 0 {
			last := &passes[n-1]
			if (shared && !tower.Relational) || (last.side == q.Side && (!tower.Relational || last.relation == q.Relation)) {
				last.last++
				continue
			}
		}
		passes = append(passes, pass{q.Side, q.Relation, tower, i, i + 1})
	}
	return passes
}

func compareQueries(a, b kg.Query) int {
	return cmp.Or(cmp.Compare(a.Side, b.Side), cmp.Compare(a.Relation, b.Relation), cmp.Compare(a.Anchor, b.Anchor))
}
