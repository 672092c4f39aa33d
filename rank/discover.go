package rank

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/mquine/mquine/internal/fault"
	"github.com/mquine/mquine/internal/proc"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/engine"
)

// Scope says among which triples Discover chooses the best K.
type Scope uint8

const (
	// PerQuery keeps the best answers to each query.
	PerQuery Scope = iota
	// PerRelation keeps the best triples of each relation.
	PerRelation
	// PerGraph keeps the best triples of all queries.
	PerGraph
)

var scopeNames = []string{"query", "relation", "graph"}

// String returns "query", "relation" or "graph".
func (s Scope) String() string { return text.Name(scopeNames, s, "Scope") }

// Discovery says which triples Discover looks for: triples of some relations whose heads and tails
// are candidates (Options.Among).
type Discovery struct {
	// Side is the side that queries ask for. It affects scores only if the model scores a triple
	// differently on the two sides (model.Spec.IsSided). It must not be kg.Relation.
	Side kg.Side
	// Relations must be distinct.
	Relations []int32
	// K is the number of triples in each scope, and Scope says among which triples they are the best.
	K     int
	Scope Scope
	// Standardise computes z-scores (Discovered.Z) and compares triples by z-score instead of by
	// score. Triples with equal z-scores are compared by score.
	Standardise bool
	// Resume is the state of an interrupted search for the same triples, or nil.
	Resume *DiscoveryState
	// Save, if not nil, receives the state after each batch of queries. An error from Save ends the
	// search.
	Save func(DiscoveryState) error
}

// DiscoveryState is the state of a search between two batches of queries. The triples of finished
// scopes have been passed to emit.
type DiscoveryState struct {
	Queries int // the number of finished queries
	// Kept holds the best triples so far in the unfinished scopes.
	Kept []Discovered
}

// Discovered is an unknown triple that a model finds plausible.
type Discovered struct {
	Triple kg.Triple
	// Rank is the position among the unknown answers to the query, from 1.
	Rank int
	// Score is the reference score. Model.Score converts it to the score that Scores returns for
	// Discovery.Side.
	Score float64
	// Z is the number of standard deviations by which the printed score (model.Model.Score) exceeds
	// the mean of the query's candidates. Mean and deviation come from at most ZSample evenly
	// spaced candidates. Z is 0 if these candidates all have the same score, or if
	// Discovery.Standardise is false.
	Z float64
}

// ZSample is the largest number of candidates that determine the mean and the deviation of z-scores.
const ZSample = 256

// Discover finds the best triples that no split in x contains and passes them to emit, scope after
// scope. The scopes of PerQuery are in the order of relation and anchor, and the scopes of
// PerRelation are in the order of relation. Within a scope the best come first. Triples with equal
// reference scores are in the order of relation, head and tail. The result is exact and depends
// neither on the engine nor on the number of threads, as for Predict. Memory does not grow with the
// number of queries. An error from emit ends the search. x must suit m as for Run.
func Discover(
	ctx context.Context, m model.Model, x *kg.Index, d Discovery, o Options, emit func(Discovered) error,
) (err error) {
	defer fault.Guard().Catch(&err)
	if emit == nil {
		return errors.New("rank: emit is nil: give Discover a function that takes the triples")
	}
	s, err := newSearch(ctx, m, x, d, o, emit)
	if err != nil {
		return err
	}
	return s.run(ctx)
}

// newSearch returns a search that fits into memory, in the state from which it continues.
func newSearch(
	ctx context.Context, m model.Model, x *kg.Index, d Discovery, o Options, emit func(Discovered) error,
) (*search, error) {
	if err := cmp.Or(checkTowers(m), checkIndex(m, x)); err != nil {
		return nil, err
	}
	if err := d.check(m.Config()); err != nil {
		return nil, err
	}
	o.Negatives = nil
	o, err := o.Resolve(ctx, m)
	if err != nil {
		return nil, err
	}
	s := &search{Discovery: d, model: m, index: x, options: o, sets: o.sets(m), emit: emit, start: time.Now()}
	s.Relations = slices.Sorted(slices.Values(s.Relations))
	s.k = min(s.K, s.options.most(s.model))
	for _, r := range s.Relations {
		n := s.anchors(r).Len()
		s.queries += n
		s.total += int64(n) * int64(s.sets.of(kg.Query{Side: s.Side, Relation: r}).Len())
	}
	if s.queries == 0 {
		return nil, fmt.Errorf("nothing to discover, because no relation has a candidate on the %v side: "+
			"choose other relations or candidates", s.Side.Opposite())
	}
	if err := s.fit(); err != nil {
		return nil, err
	}
	return s, s.resume()
}

// anchors returns the anchors of the queries of a relation.
func (s *search) anchors(relation int32) engine.Set {
	list, all := s.options.Among.Of(kg.Query{Side: s.Side.Opposite(), Relation: relation})
	if all {
		return engine.Range(0, s.model.Config().Entities)
	}
	return engine.List(list)
}

// check returns an error if a discovery does not suit a model.
func (d *Discovery) check(c model.Config) error {
	if d.K < 1 {
		return fmt.Errorf("rank: cannot discover %d triples: ask for at least 1", d.K)
	}
	if len(d.Relations) == 0 {
		return errors.New("rank: nothing to discover: give at least one relation")
	}
	if d.Side != kg.Tail && d.Side != kg.Head {
		return fmt.Errorf("rank: Discover asks for entities, not on the %v side: set Side to kg.Tail or kg.Head",
			d.Side)
	}
	if int(d.Scope) >= len(scopeNames) {
		return fmt.Errorf("rank: %v is not a scope: choose PerQuery, PerRelation or PerGraph", d.Scope)
	}
	seen := map[int32]bool{}
	for _, r := range d.Relations {
		if r < 0 || int(r) >= c.Relations {
			return fmt.Errorf("rank: relation %d is outside the model's %d", r, c.Relations)
		}
		if seen[r] {
			return fmt.Errorf("rank: Discover got relation %d twice: give distinct relations", r)
		}
		seen[r] = true
	}
	return nil
}

// search is a running discovery.
type search struct {
	Discovery
	model   model.Model
	index   *kg.Index
	options Options
	sets    *sets
	k       int // number of answers to a query
	queries int
	batch   int // number of queries in a batch
	emit    func(Discovered) error
	start   time.Time
	// done counts the pairs of finished batches, earlier the pairs of the interrupted search, and total all
	// pairs.
	done, earlier, total int64
	finished             int // finished queries, including the queries of the interrupted search

	mu   sync.Mutex
	best map[int32]*topK[Discovered] // by scope: a relation, or 0 for the graph
}

// most returns the largest number of queries in a batch. listed says that the lists of all queries of
// the batch are in memory at once.
func (s *search) most(listed bool) int {
	const queries, contenders = 1 << 16, 1 << 22
	if s.options.batch > 0 {
		return s.options.batch
	}
	if !listed {
		return queries
	}
	return max(256, min(queries, contenders/s.k))
}

// fit is like Fit but serves Discover. It sets the options and the number of queries in a batch.
func (s *search) fit() (err error) {
	all, listed := int64(s.queries)*int64(s.k), s.most(true)
	kept := min(int64(s.K), all)
	switch s.Scope {
	case PerQuery:
		kept = int64(listed) * int64(s.k)
	case PerRelation: // only the relations of a batch
		n := int64(len(s.Relations))
		kept = min(kept, all/n) * min(n, max(1, int64(listed)*n/int64(s.queries)))
	}
	triples := proc.Need{For: "triples", Bytes: min(kept, all) * int64(unsafe.Sizeof(Discovered{}))}
	w := fitted{
		work: "discovering", advice: "ask for fewer triples, or make more memory available",
		outcome: []proc.Need{triples}, threads: s.options.Threads, queries: min(listed, s.queries),
		kept: func(before int) int64 { return int64(min(listed, s.queries)) * int64(min(2*s.k, before)) },
	}
	if s.options, err = w.fit(s.model, s.options); err != nil {
		return err
	}
	// Between slices, the lists of a batch stay in memory.
	_, slices := Memory(s.model, s.options)
	s.batch = s.most(s.Scope == PerQuery || slices > 1)
	return nil
}

// resume continues from the state of an interrupted search, if there is one.
func (s *search) resume() error {
	s.best = map[int32]*topK[Discovered]{}
	from := s.Resume
	if from == nil {
		return nil
	}
	if from.Queries < 0 || from.Queries > s.queries {
		return fmt.Errorf("rank: the state of the search has %d finished queries, but there are only %d",
			from.Queries, s.queries)
	}
	s.finished = from.Queries
	for _, t := range from.Kept {
		if err := checkTriples(s.model, []kg.Triple{t.Triple}); err != nil {
			return err
		}
		q, _ := t.Triple.Query(s.Side)
		best := s.bestOf(q)
		_, asked := slices.BinarySearch(s.Relations, q.Relation)
		if !asked || s.Scope == PerQuery || best.full() {
			return errors.New("rank: the state is from a search for other triples")
		}
		best.add(t)
	}
	return nil
}

// save passes the state to Save.
func (s *search) save(queries int) error {
	if s.finished += queries; s.Save == nil {
		return nil
	}
	state := DiscoveryState{Queries: s.finished}
	for _, scope := range slices.Sorted(maps.Keys(s.best)) {
		state.Kept = append(state.Kept, s.best[scope].heap...)
	}
	return s.Save(state)
}

// run searches batch after batch. Batches consist of whole queries in the order of relations.
func (s *search) run(ctx context.Context) error {
	skip := s.finished
	batch := make([]kg.Query, 0, min(s.batch, s.queries))
	for _, r := range s.Relations {
		anchors := s.anchors(r)
		for i := range anchors.Len() {
			q := kg.Query{Side: s.Side, Relation: r, Anchor: anchors.Entity(i)}
			if skip > 0 {
				skip--
				n := int64(s.sets.of(q).Len())
				s.done, s.earlier = s.done+n, s.earlier+n
				continue
			}
			batch = append(batch, q)
			if len(batch) < s.batch {
				continue
			}
			if err := s.searchBatch(ctx, batch); err != nil {
				return err
			}
			if err := s.flush(r, false); err != nil {
				return err
			}
			if err := s.save(len(batch)); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	if len(batch) > 0 {
		if err := s.searchBatch(ctx, batch); err != nil {
			return err
		}
		if err := s.save(len(batch)); err != nil {
			return err
		}
	}
	return s.flush(0, true)
}

// flush emits the triples of the relations before next, or the triples of all relations if all is
// true.
func (s *search) flush(next int32, all bool) error {
	if s.Scope == PerGraph && !all {
		return nil
	}
	var complete []int32
	for scope := range s.best {
		if scope < next || all {
			complete = append(complete, scope)
		}
	}
	slices.Sort(complete)
	for _, scope := range complete {
		for _, t := range s.best[scope].sorted() {
			if err := s.emit(t); err != nil {
				return err
			}
		}
		delete(s.best, scope)
	}
	return nil
}

// searchBatch searches for the answers to a batch of queries and emits them if every query is a scope.
// If the engine fails and the processor replaces it, searchBatch repeats the batch.
func (s *search) searchBatch(ctx context.Context, batch []kg.Query) error {
	before := s.snapshot()
	lists, err := s.listBatch(ctx, batch)
	if s.options.givesWay(ctx, err) {
		// The failed attempt may have merged the lists of some queries.
		s.best, s.options.Engine = before, nil
		if err := s.fit(); err != nil {
			return err
		}
		lists, err = s.listBatch(ctx, batch)
	}
	if err != nil {
		return err
	}
	for _, list := range lists {
		for _, t := range list {
			if err := s.emit(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// snapshot copies the best triples so far if an engine may fail.
func (s *search) snapshot() map[int32]*topK[Discovered] {
	if s.options.Engine == nil {
		return nil
	}
	best := maps.Clone(s.best)
	for scope, t := range best {
		own := *t
		own.heap = slices.Clone(t.heap)
		best[scope] = &own
	}
	return best
}

// listBatch returns the lists of a batch of queries in the order of the batch or, if several queries
// share a scope, merges them into the best triples.
func (s *search) listBatch(ctx context.Context, batch []kg.Query) ([][]Discovered, error) {
	o := s.options
	if report := o.Progress; report != nil {
		o.Progress = func(p Progress) {
			p.Done, p.Earlier, p.Total, p.Elapsed = p.Done+s.done, s.earlier, s.total, time.Since(s.start)
			report(p)
		}
	}
	distinct := slices.Clone(batch)
	order := queryOrder(s.model, s.sets)
	slices.SortFunc(distinct, order)
	var lists [][]Discovered
	p := &predictor{model: s.model, index: s.index, top: Top{K: s.k, FilterKnown: true}, sets: s.sets}
	if s.Scope == PerQuery {
		lists = make([][]Discovered, len(distinct))
		p.take = func(w model.Worker, number int, q kg.Query, best []engine.Contender) {
			lists[number] = s.discovered(w, q, best)
		}
	} else {
		p.floor, p.take = s.floor, s.merge
	}
	pairs, err := p.run(ctx, distinct, o)
	if err != nil {
		return nil, err
	}
	s.done += pairs
	if s.Scope != PerQuery {
		return nil, nil
	}
	inOrder := make([][]Discovered, len(batch))
	for i, q := range batch {
		number, _ := slices.BinarySearchFunc(distinct, q, order)
		inOrder[i] = lists[number]
	}
	return inOrder, nil
}

// discovered returns the triples of a query's list.
func (s *search) discovered(w model.Worker, q kg.Query, best []engine.Contender) []Discovered {
	list := make([]Discovered, len(best))
	for i, c := range best {
		list[i] = Discovered{Triple: q.Triple(c.Entity), Rank: i + 1, Score: c.Score}
	}
	if s.Standardise && len(list) > 0 {
		mean, deviation := s.moments(w, q)
		for i := range list {
			list[i].Z = standardised(s.model.Score(list[i].Score), mean, deviation)
		}
	}
	return list
}

// bestOf returns the best triples of q's scope. The caller holds the lock.
func (s *search) bestOf(q kg.Query) *topK[Discovered] {
	scope := q.Relation
	if s.Scope == PerGraph {
		scope = 0
	}
	if s.best[scope] == nil {
		s.best[scope] = &topK[Discovered]{k: s.K, compare: s.compare}
	}
	return s.best[scope]
}

// compare orders triples, the best first.
func (s *search) compare(a, b Discovered) int {
	byScore := cmp.Compare(b.Score, a.Score)
	if s.Standardise {
		// Different scores can have the same z-score. The lists of queries are in the order of scores.
		byScore = cmp.Or(cmp.Compare(b.Z, a.Z), byScore)
	}
	return cmp.Or(byScore, cmp.Compare(a.Triple.Relation, b.Triple.Relation),
		cmp.Compare(a.Triple.Head, b.Triple.Head), cmp.Compare(a.Triple.Tail, b.Triple.Tail))
}

// merge adds the list of a query to the best triples of its scope.
func (s *search) merge(w model.Worker, _ int, q kg.Query, answers []engine.Contender) {
	if len(answers) == 0 {
		return
	}
	list := s.discovered(w, q, answers)
	s.mu.Lock()
	defer s.mu.Unlock()
	best := s.bestOf(q)
	for _, t := range list {
		best.add(t)
	}
}

// floor returns a reference score below which no answer to q is among the best of its scope.
func (s *search) floor(w model.Worker, q kg.Query) float64 {
	s.mu.Lock()
	best := s.bestOf(q)
	full := best.full()
	var worst Discovered
	if full {
		worst = best.heap[0]
	}
	s.mu.Unlock()
	if !full {
		return math.Inf(-1)
	}
	if !s.Standardise {
		return worst.Score
	}
	mean, deviation := s.moments(w, q)
	return engine.Lowest(func(reference float64) bool {
		// Score may return NaN for a reference score that no triple has.
		return !(standardised(s.model.Score(reference), mean, deviation) < worst.Z)
	})
}

// moments returns the mean and the standard deviation of the scores of a sample of q's candidates. It
// scales the scores if their squares leave the range of float64.
func (s *search) moments(w model.Worker, q kg.Query) (mean, deviation float64) {
	mean, deviation = s.scaledMoments(w, q, 1)
	var scale float64
	switch {
	case !(deviation < 0x1p500): // NaN, too
		scale = 0x1p-520
	case deviation < 0x1p-500 && math.Abs(mean) < 0x1p-400: // with a larger mean, different scores differ by more
		scale = 0x1p520
	default:
		return mean, deviation
	}
	mean, deviation = s.scaledMoments(w, q, scale)
	return mean / scale, deviation / scale
}

// scaledMoments returns the moments of the scores times scale.
func (s *search) scaledMoments(w model.Worker, q kg.Query, scale float64) (mean, deviation float64) {
	candidates := s.sets.of(q)
	n := min(candidates.Len(), ZSample)
	squares := 0.0
	for i := range n { // Welford's update
		e := candidates.Entity(share(i, candidates.Len(), n))
		score := s.model.Score(w.Reference(q, e)) * scale
		d := score - mean
		mean += d / float64(i+1)
		squares += d * (score - mean)
	}
	return mean, math.Sqrt(squares / float64(n))
}

func standardised(score, mean, deviation float64) float64 {
	if deviation == 0 {
		return 0
	}
	return (score - mean) / deviation
}
