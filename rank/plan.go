package rank

import (
	"cmp"
	"fmt"
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
	order := queryOrder(m)
	slices.SortFunc(p.truths, func(x, y truth) int {
		return cmp.Or(order(at(x), at(y)), cmp.Compare(x.rank, y.rank))
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

// checkTowers refuses vectors that no comparison of package kernel takes.
func checkTowers(m model.Model) error {
	for _, side := range []kg.Side{kg.Tail, kg.Head} {
		if t := m.Tower(side); t.Psi != t.Phi {
			return fmt.Errorf("rank: model %s has ψ of %d entries and φ of %d on the %s side: %v compares equally many",
				m.Config().Model, t.Psi, t.Phi, side, t.Compare)
		}
	}
	return nil
}

// newPasses splits queries in queryOrder into runs with the same features.
func newPasses(m model.Model, queries []query) []pass {
	var passes []pass
	for i, q := range queries {
		tower := m.Tower(q.Side)
		if n := len(passes); n > 0 {
			last := &passes[n-1]
			if last.tower == tower && tower.Features.Shares(last.side == q.Side, last.relation == q.Relation) {
				last.last++
				continue
			}
		}
		passes = append(passes, pass{q.Side, q.Relation, tower, i, i + 1})
	}
	return passes
}

// queryOrder returns a comparison of queries that puts those of one relation and side together and, if
// features depend on the relation alone, those of one relation.
func queryOrder(m model.Model) func(a, b kg.Query) int {
	byRelation := m.Tower(kg.Tail) == m.Tower(kg.Head) && m.Tower(kg.Tail).Features == model.OnRelation
	return func(a, b kg.Query) int {
		side, relation := cmp.Compare(a.Side, b.Side), cmp.Compare(a.Relation, b.Relation)
		if byRelation {
			side, relation = relation, side
		}
		return cmp.Or(side, relation, cmp.Compare(a.Anchor, b.Anchor))
	}
}
