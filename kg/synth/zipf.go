package synth

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"strconv"
	"strings"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
)

// The sizes of YAGO3-10 are the default.
const (
	yagoEntities  = 123_182
	yagoRelations = 37
	yagoTrain     = 1_079_040
	yagoHeldOut   = 5_000
)

// Zipf generates a graph for benchmarks with the skew of YAGO3-10: a few large entities and
// relations occur in most of the triples. It also returns the planted group of each entity. The
// label of each entity contains its group, too, and [Group] parses the label.
//
// There are about √N groups. Group 0 contains the hubs, the largest 0.1% of the entities. Hubs are
// tails of every relation and never heads, except in very sparse or dense graphs. The other groups
// form a ring, and each relation leads from a group to the group that is a fixed number of places
// further along the ring. Rotations, and therefore matrix embeddings, can represent this structure.
// Within a group, Zipf draws entities by their weights alone. If the graph already contains most of
// the possible triples, as in dense graphs, it also draws from neighbouring groups, and finally
// from all entities.
//
// The default sizes are YAGO3-10's: 123,182 entities, 37 relations, and 1,079,040 training, 5,000
// validation and 5,000 test triples. If only the number of entities is given, the numbers of
// triples are proportional to it. The skew holds for graphs about as dense as YAGO3-10. It is
// flatter in much denser graphs, where the largest entities are linked to all others.
func Zipf(ctx context.Context, cfg Config) (g *kg.Graph, groups []int32, err error) {
	cfg, err = zipfSizes(cfg)
	if err != nil {
		return nil, nil, err
	}
	if err := checkMemory("a graph like YAGO3-10", cfg, zipfMemory(cfg)); err != nil {
		return nil, nil, err
	}
	z := newZipf(cfg)
	splits, err := z.draw(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}

	g = &kg.Graph{Name: "zipf", Entities: kg.NewVocabulary(), Relations: kg.NewVocabulary(), Splits: splits}
	groupWidth, entityWidth := digits(z.places+1), digits(cfg.Entities)
	err = name(ctx, g.Entities, cfg.Entities, func(e int) string {
		return fmt.Sprintf("g%0*d_e%0*d", groupWidth, z.groups[e], entityWidth, e)
	})
	if err != nil {
		return nil, nil, err
	}
	relationWidth := digits(cfg.Relations)
	err = name(ctx, g.Relations, cfg.Relations, func(r int) string { return fmt.Sprintf("r%0*d", relationWidth, r) })
	if err != nil {
		return nil, nil, err
	}
	return g, z.groups, nil
}

// Group returns the planted group in the label of an entity, and reports whether the label has the
// form of [Zipf]'s labels.
func Group(label string) (group int, ok bool) {
	digits, ok := strings.CutPrefix(label, "g")
	if !ok {
		return 0, false
	}
	digits, number, ok := strings.Cut(digits, "_e")
	if !ok {
		return 0, false
	}
	g, err := strconv.ParseUint(digits, 10, 31)
	if err != nil {
		return 0, false
	}
	if _, err := strconv.ParseUint(number, 10, 31); err != nil {
		return 0, false
	}
	return int(g), true
}

// zipfSizes sets the default sizes and rejects impossible sizes.
func zipfSizes(cfg Config) (Config, error) {
	if err := cfg.check(); err != nil {
		return cfg, err
	}
	setDefault(&cfg.Entities, yagoEntities)
	// With 2 entities, a relation has one triple, so none is left for the held-out splits.
	if cfg.Entities < 3 {
		return cfg, fmt.Errorf("%s too few for three splits: ask for at least 3",
			text.Count(cfg.Entities, "entity is", "entities are"))
	}
	perEntity := func(n int64) int { return max(1, int(n*int64(cfg.Entities)/yagoEntities)) }
	setDefault(&cfg.Train, perEntity(yagoTrain))
	setDefault(&cfg.Valid, perEntity(yagoHeldOut))
	setDefault(&cfg.Test, perEntity(yagoHeldOut))
	setDefault(&cfg.Relations, min(yagoRelations, cfg.Train))

	if least := max((cfg.Entities+1)/2, cfg.Relations); cfg.Train < least {
		return cfg, fmt.Errorf("%s too few for %s and %s: ask for at least %d",
			text.Count(cfg.Train, "training triple is", "training triples are"),
			text.Plural(cfg.Entities, "entity"), text.Plural(cfg.Relations, "relation"), least)
	}
	total := cfg.Train + cfg.Valid + cfg.Test
	if total > Largest {
		return cfg, fmt.Errorf("cannot make %d triples: ask for at most %d in all", total, Largest)
	}
	if most := perRelation(cfg.Entities); (total-1)/cfg.Relations >= most {
		return cfg, fmt.Errorf("%s triples are too many for %s and %s: "+
			"ask for at most %d for each relation, which is half of all pairs",
			text.Comma(total), text.Plural(cfg.Entities, "entity"), text.Plural(cfg.Relations, "relation"), most)
	}
	return cfg, nil
}

// perRelation returns the maximum number of triples per relation: half the number of pairs of
// different entities, but at most Largest. A uniform draw then finds a new triple after few
// attempts.
func perRelation(entities int) int {
	n := int64(entities)
	return int(min(n*(n-1)/2, Largest))
}

// zipf holds the planted structure and the triples drawn so far.
type zipf struct {
	rng    *rand.Rand
	groups []int32
	// places is the number of groups in the ring. Group p+1 is at place p.
	places int
	// ring contains all entities except hubs. The entities of place p are
	// ring[first[p]:first[p+1]].
	ring  urn
	first []int
	hubs  urn
	// A tail is a hub with probability hubTails / allTails.
	hubTails, allTails uint64
	// step[r] is the number of places by which relation r leads along the ring.
	step  []int
	known map[kg.Triple]struct{}
	// bare counts the entities without a triple so far.
	bare    int
	covered []bool
}

func newZipf(cfg Config) *zipf {
	n := cfg.Entities
	z := &zipf{
		rng:     random(cfg.Seed, 0x7a697066),
		groups:  make([]int32, n),
		places:  max(1, int(math.Round(math.Sqrt(float64(n))))-1),
		step:    make([]int, cfg.Relations),
		known:   make(map[kg.Triple]struct{}, cfg.Train+cfg.Valid+cfg.Test),
		bare:    n,
		covered: make([]bool, n),
	}
	weights := entitySkew.weights(n)
	ranked := permutation(z.rng, n)
	numHubs := max(1, n/1000)
	for i, e := range ranked[:numHubs] {
		z.hubs.add(e, weights[i])
	}

	// Dealing the entities to the places by rank gives all places nearly the same weight. The heads
	// of a relation then have nearly the weight of its tails.
	members := make([][]int, z.places)
	for i := numHubs; i < n; i++ {
		p := (i - numHubs) % z.places
		members[p] = append(members[p], i)
	}
	z.first = make([]int, z.places+1)
	for p, ranks := range members {
		for _, i := range ranks {
			z.groups[ranked[i]] = int32(p + 1)
			z.ring.add(ranked[i], weights[i])
		}
		z.first[p+1] = len(z.ring.entities)
	}

	// Hubs are never heads, so they are tails twice as often as their weights say. Even in the
	// smallest graphs, at least half of the tails are other entities.
	z.allTails = z.hubs.total() + z.ring.total()
	z.hubTails = min(2*z.hubs.total(), z.allTails/2)
	for r := range z.step {
		z.step[r] = z.rng.IntN(z.places)
	}
	return z
}

// draw draws the triples of all splits.
func (z *zipf) draw(ctx context.Context, cfg Config) (splits [kg.NumSplits][]kg.Triple, err error) {
	relations := z.relations(cfg)
	sizes := [kg.NumSplits]int{kg.Train: cfg.Train, kg.Valid: cfg.Valid, kg.Test: cfg.Test}
	uncovered := permutation(z.rng, cfg.Entities)
	check := pulse(ctx)
	for s, size := range sizes {
		triples := make([]kg.Triple, 0, size)
		for left := size; left > 0; left-- {
			if err := check(); err != nil {
				return splits, err
			}
			r := relations[0]
			relations = relations[1:]

			// The last training triples cover the entities without a triple: one entity per triple
			// if enough triples are left, otherwise two.
			var t kg.Triple
			switch {
			case z.bare < left:
				t = z.triple(r)
			case z.bare == left:
				t = z.tripleOf(r, z.next(&uncovered))
			default:
				t = kg.Triple{Head: z.next(&uncovered), Relation: r, Tail: z.next(&uncovered)}
			}
			z.add(t)
			triples = append(triples, t)
		}
		shuffle(z.rng, triples)
		splits[s] = triples
	}
	return splits, nil
}

// relations returns the relation of every triple to draw. Every relation is in the training split,
// because the first triples have different relations.
func (z *zipf) relations(cfg Config) []int32 {
	total := cfg.Train + cfg.Valid + cfg.Test
	relations := make([]int32, 0, total)
	for r := range cfg.Relations {
		relations = append(relations, int32(r))
	}
	for r, n := range apportion(total, relationSkew.weights(cfg.Relations), perRelation(cfg.Entities)) {
		for range n - 1 {
			relations = append(relations, int32(r))
		}
	}
	shuffle(z.rng, relations[cfg.Relations:])
	return relations
}

// next returns the first entity in the list that has no triple, and removes that entity and all
// entities before it.
func (z *zipf) next(list *[]int32) int32 {
	for {
		e := (*list)[0]
		*list = (*list)[1:]
		if !z.covered[e] {
			return e
		}
	}
}

func (z *zipf) add(t kg.Triple) {
	z.known[t] = struct{}{}
	for _, e := range [2]int32{t.Head, t.Tail} {
		if !z.covered[e] {
			z.covered[e] = true
			z.bare--
		}
	}
}

// fresh reports whether t is new and not a loop.
func (z *zipf) fresh(t kg.Triple) bool {
	_, known := z.known[t]
	return !known && t.Head != t.Tail
}

// patience is the number of rejected triples after which the method triple doubles the number of
// groups from which it draws.
const patience = 8

// triple draws a new triple of relation r. After a rejection, it keeps the tail if that is a hub,
// and otherwise the head. It draws only the other entity again. Drawing both entities again would
// flatten the skew, because triples of the largest entities are rejected most often. After many
// rejections, however, it draws both uniformly from all entities.
func (z *zipf) triple(r int32) kg.Triple {
	t := kg.Triple{Head: z.ring.pick(z.rng), Relation: r}
	toHub := z.toHub()
	if toHub {
		t.Tail = z.hubs.pick(z.rng)
	}
	for try := 0; ; try++ {
		switch width := 1 << (try / patience); {
		case width >= 2*z.places:
			t.Head, t.Tail = z.anyEntity(), z.anyEntity()
		case !toHub:
			t.Tail = z.follow(t.Head, r, width)
		case try > 0:
			t.Head = z.ring.pick(z.rng)
		}
		if z.fresh(t) {
			return t
		}
	}
}

// tripleOf draws a triple of relation r with the entity e, which has no triple so far.
func (z *zipf) tripleOf(r, e int32) kg.Triple {
	if z.groups[e] == 0 {
		return kg.Triple{Head: z.ring.pick(z.rng), Relation: r, Tail: e}
	}
	t := kg.Triple{Head: e, Relation: r, Tail: z.hubs.pick(z.rng)}
	if !z.toHub() {
		t.Tail = z.follow(e, r, 1)
	}
	for t.Tail == e {
		t.Tail = z.anyEntity()
	}
	return t
}

// toHub decides whether a tail is a hub.
func (z *zipf) toHub() bool { return z.rng.Uint64N(z.allTails) < z.hubTails }

// follow draws the tail of a triple from the ring: from the group to which relation r leads from
// the head's group, and from the width − 1 groups after it.
func (z *zipf) follow(head, r int32, width int) int32 {
	p := int(z.groups[head]) - 1 + z.step[r]
	if width > 1 {
		p += z.rng.IntN(width)
	}
	p %= z.places
	return z.ring.pickFrom(z.rng, z.first[p], z.first[p+1])
}

// anyEntity draws an entity uniformly.
func (z *zipf) anyEntity() int32 { return z.rng.Int32N(int32(len(z.groups))) }

// urn draws entities with probabilities proportional to their weights.
type urn struct {
	entities []int32
	// upTo[i] is the weight of entities[:i+1].
	upTo []uint64
}

func (u *urn) add(e int32, weight uint64) {
	u.entities = append(u.entities, e)
	u.upTo = append(u.upTo, u.total()+weight)
}

func (u *urn) total() uint64 { return u.below(len(u.upTo)) }

// below returns the weight of the first i entities.
func (u *urn) below(i int) uint64 {
	if i == 0 {
		return 0
	}
	return u.upTo[i-1]
}

func (u *urn) pick(rng *rand.Rand) int32 { return u.pickFrom(rng, 0, len(u.entities)) }

// pickFrom draws one of entities[lo:hi].
func (u *urn) pickFrom(rng *rand.Rand, lo, hi int) int32 {
	base := u.below(lo)
	x := base + rng.Uint64N(u.below(hi)-base)
	i := sort.Search(hi-lo, func(i int) bool { return x < u.upTo[lo+i] })
	return u.entities[lo+i]
}
