package rank

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/engine"
)

// newPlan returns the distinct queries of ranks, with their targets. The targets of ranks[:exact]
// have no tolerance. The same targets follow once for each tolerance; in the plan, the targets that
// differ only in their tolerance are consecutive. Queries with the same side and relation are
// consecutive, so a model.Worker prepares the relation once. listed holds the candidates of each
// rank in ranks[:exact], or is nil if all targets of a query share its candidates.
func newPlan(m model.Model, s *sets, ranks []Rank, exact int, listed [][]int32) engine.Plan {
	p := engine.Plan{Targets: make([]engine.Target, len(ranks))}
	for i := range p.Targets {
		_, answer := ranks[i].Triple.Query(ranks[i].Side)
		p.Targets[i] = engine.Target{Answer: answer, Rank: int32(i), Tolerance: int32(i / exact)}
	}
	queryOf := func(t engine.Target) kg.Query {
		q, _ := ranks[t.Rank].Triple.Query(ranks[t.Rank].Side)
		return q
	}
	key, keys := newQueryKey(m, s), make([]queryKey, len(ranks))
	for i, t := range p.Targets {
		keys[i] = key(queryOf(t))
	}
	slices.SortFunc(p.Targets, func(x, y engine.Target) int {
		if c := keys[x.Rank].compare(keys[y.Rank]); c != 0 {
			return c
		}
		return cmp.Or(cmp.Compare(int(x.Rank)%exact, int(y.Rank)%exact), cmp.Compare(x.Rank, y.Rank))
	})
	for i, t := range p.Targets {
		q := queryOf(t)
		n := len(p.Queries)
		same := n > 0 && p.Queries[n-1].Query == q
		if same && int32(i)-p.Queries[n-1].First < engine.MostTargets {
			p.Queries[n-1].Last++
			continue
		}
		if !same {
			p.Unique++
		}
		p.Queries = append(p.Queries, engine.Query{Query: q, First: int32(i), Last: int32(i) + 1})
	}
	p.Passes = newPasses(m, s, p.Queries)
	if listed != nil {
		p.Listed = make([][]int32, len(p.Targets))
		for i, t := range p.Targets {
			p.Listed[i] = s.list[0].Within(listed[int(t.Rank)%exact])
		}
		restrictPasses(&p, m.Config().Entities)
	}
	return p
}

// restrictPasses keeps, from the range of candidates of each pass, only the entities that are listed
// or targets.
func restrictPasses(p *engine.Plan, entities int) {
	pass := make([]int32, entities) // the last pass that needs an entity, counted from 1
	for i := range p.Passes {
		ps := &p.Passes[i]
		var needed []int32
		need := func(e int32) {
			if pass[e] != int32(i)+1 {
				pass[e] = int32(i) + 1
				needed = append(needed, e)
			}
		}
		for t := p.Queries[ps.First].First; t < p.Queries[ps.Last-1].Last; t++ {
			if ps.Candidates.Find(p.Targets[t].Answer) >= 0 {
				need(p.Targets[t].Answer)
			}
			for _, e := range p.Listed[t] {
				need(e)
			}
		}
		slices.Sort(needed)
		ps.Candidates = engine.List(needed)
	}
}

// newPredictionPlan returns a plan for distinct queries in queryOrder. Each has one target,
// whose interval begins at the threshold of the query's list.
func newPredictionPlan(m model.Model, s *sets, queries []kg.Query) engine.Plan {
	p := engine.Plan{Queries: make([]engine.Query, len(queries)), Targets: make([]engine.Target, len(queries))}
	for i, q := range queries {
		p.Queries[i] = engine.Query{Query: q, First: int32(i), Last: int32(i) + 1}
		p.Targets[i].Answer = -1
	}
	p.Passes = newPasses(m, s, p.Queries)
	return p
}

// checkTowers returns an error if ψ and φ differ in their numbers of coordinates.
func checkTowers(m model.Model) error {
	if m == nil {
		return errNoModel
	}
	for _, side := range []kg.Side{kg.Tail, kg.Head} {
		t := m.Tower(side)
		psi, phi := t.Compare.Words()
		if t.Psi != psi*t.Terms() || t.Phi != phi*t.Terms() {
			return fmt.Errorf("rank: model %s has ψ of %d entries and φ of %d on the %s side: "+
				"%v needs %d and %d entries per coordinate", m.Config().Model, t.Psi, t.Phi, side, t.Compare, psi, phi)
		}
	}
	return nil
}

// newPasses divides queries in queryOrder into runs that have the same candidates with the same
// features.
func newPasses(m model.Model, s *sets, queries []engine.Query) []engine.Pass {
	var passes []engine.Pass
	for i, q := range queries {
		tower, candidates := m.Tower(q.Side), s.of(q.Query)
		if n := len(passes); n > 0 {
			last := &passes[n-1]
			if last.Tower == tower && last.Candidates.Same(candidates) &&
				tower.Features.Shares(last.Side == q.Side, last.Relation == q.Relation) {
				last.Last++
				continue
			}
		}
		passes = append(passes, engine.Pass{
			Side: q.Side, Relation: q.Relation, Tower: tower, First: i, Last: i + 1, Candidates: candidates,
		})
	}
	return passes
}

// queryKey orders queries so that there are few passes. It holds four numbers of 32 bits, the most
// significant first: what features depend on, then the candidates, then the rest of the query.
type queryKey struct{ pass, query uint64 }

func (k queryKey) compare(l queryKey) int {
	if k.pass != l.pass {
		return cmp.Compare(k.pass, l.pass)
	}
	return cmp.Compare(k.query, l.query)
}

// newQueryKey returns a function that returns the key of a query.
func newQueryKey(m model.Model, s *sets) func(kg.Query) queryKey {
	features := model.OnRelationSide
	if m.Tower(kg.Tail) == m.Tower(kg.Head) {
		features = m.Tower(kg.Tail).Features
	}
	return func(q kg.Query) queryKey {
		candidates, side := uint64(s.number(q)), uint64(q.Side)
		relation, anchor := uint64(q.Relation), uint64(q.Anchor)
		switch features {
		case model.OnEntity:
			return queryKey{candidates<<32 | side, relation<<32 | anchor}
		case model.OnRelation:
			return queryKey{relation<<32 | candidates, side<<32 | anchor}
		}
		return queryKey{side<<32 | candidates, relation<<32 | anchor}
	}
}

// queryOrder returns a comparison that sorts queries by their keys.
func queryOrder(m model.Model, s *sets) func(a, b kg.Query) int {
	key := newQueryKey(m, s)
	return func(a, b kg.Query) int { return key(a).compare(key(b)) }
}
