package synth

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"strconv"
	"strings"

	"github.com/mquine/mquine/kg"
)

// The shape of YAGO3-10, the default.
const (
	yagoEntities  = 123_182
	yagoRelations = 37
	yagoTrain     = 1_079_040
	yagoHeldOut   = 5_000
)

// Zipf makes a graph for measurements of speed, with the skew of YAGO3-10: its few largest
// entities and relations have most of the triples. It also returns the planted group of each
// entity, which an entity's label carries too ([Group] reads it).
//
// There are about √N groups. Group 0 holds the hubs, the largest 0.1% of the entities; they are
// tails of every relation and, but for very sparse or dense graphs, never heads. The other groups
// stand round a ring, and each relation leads from a group to the one that stands a fixed number of
// places further on: a structure that rotations, and so matrix embeddings, can represent. Within a
// group, triples pick entities by the skew alone. Where all triples that such a choice is likely to
// give are taken, as happens in dense graphs, it widens to neighbouring groups and at last to all
// entities.
//
// The default is YAGO3-10's shape: 123,182 entities, 37 relations, and 1,079,040 training, 5,000
// validation and 5,000 test triples; the triples are in proportion to the entities if these are
// given. The skew holds for graphs about as dense as YAGO3-10. In much denser ones, where the
// largest entities are linked with all others, it flattens.
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

// Group returns the planted group that the label of an entity made by [Zipf] carries, and whether
// it is such a label.
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

// zipfSizes fills in the sizes that cfg leaves open and refuses those that cannot be met.
func zipfSizes(cfg Config) (Config, error) {
	if err := cfg.check(); err != nil {
		return cfg, err
	}
	setDefault(&cfg.Entities, yagoEntities)
	if cfg.Entities < 2 {
		return cfg, fmt.Errorf("1 entity is too few, because a triple has two: ask for at least 2")
	}
	perEntity := func(n int64) int { return max(1, int(n*int64(cfg.Entities)/yagoEntities)) }
	setDefault(&cfg.Train, perEntity(yagoTrain))
	setDefault(&cfg.Valid, perEntity(yagoHeldOut))
	setDefault(&cfg.Test, perEntity(yagoHeldOut))
	setDefault(&cfg.Relations, min(yagoRelations, cfg.Train))

	if least := max((cfg.Entities+1)/2, cfg.Relations); cfg.Train < least {
		return cfg, fmt.Errorf("%d training triples cannot hold all of %d entities and %d relations: ask for at least %d",
			cfg.Train, cfg.Entities, cfg.Relations, least)
	}
	total := cfg.Train + cfg.Valid + cfg.Test
	if total > Largest {
		return cfg, fmt.Errorf("%d triples cannot be made: ask for at most %d in all", total, Largest)
	}
	if most := perRelation(cfg.Entities); (total-1)/cfg.Relations >= most {
		return cfg, fmt.Errorf("%d triples are too many for %d entities and %d relations: ask for at most %d for each relation, which is half of all pairs",
			total, cfg.Entities, cfg.Relations, most)
	}
	return cfg, nil
}

// perRelation is the most triples that a relation gets: half of the pairs of different entities,
// so that a uniform choice takes few attempts to find a new one.
func perRelation(entities int) int {
	n := int64(entities)
	return int(min(n*(n-1)/2, Largest))
}

// zipf is the planted structure and the triples drawn so far.
type zipf struct {
	rng    *rand.Rand
	groups []int32
	// places is the number of groups round the ring; the group at place p is p+1.
	places int
	// ring holds all entities but the hubs, place by place; place p holds ring[first[p]:first[p+1]].
	ring  urn
	first []int
	hubs  urn
	// Of all tails, hubTails in allTails are hubs.
	hubTails, allTails uint64
	// step is the number of places that a relation leads on.
	step  []int
	known map[kg.Triple]struct{}
	// bare counts the entities that no triple has yet.
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

	// Dealing the entities by rank gives all places nearly the same weight, so that the weight of
	// the heads at a place fits the weight of the tails where a relation leads.
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

	// Hubs have all their ends as tails, half of which the rest keeps even in the smallest graphs.
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

			// The last training triples go to the entities that have none yet: one each if there
			// are enough triples left, else two.
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

// relations returns the relation of every triple to draw. Each occurs in the training split, because
// the first triples have one each.
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

// next removes entities from the front of list up to the first that has no triple yet, and returns
// that one.
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

// fresh tells whether t may be added: it is not known, and no loop.
func (z *zipf) fresh(t kg.Triple) bool {
	_, known := z.known[t]
	return !known && t.Head != t.Tail
}

// patience is the number of refused choices after which the next are made from twice as many
// groups.
const patience = 8

// triple draws a new triple of relation r. A refused choice keeps the hub, or else the head, and
// changes the other end: to change both would flatten the skew, because the largest entities are
// refused most.
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

// tripleOf draws a triple of relation r with the entity e, which no triple has yet.
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

// follow draws the tail of a triple, no hub, from the width groups to which relation r leads from
// the head's group.
func (z *zipf) follow(head, r int32, width int) int32 {
	p := int(z.groups[head]) - 1 + z.step[r]
	if width > 1 {
		p += z.rng.IntN(width)
	}
	p %= z.places
	return z.ring.pickFrom(z.rng, z.first[p], z.first[p+1])
}

// anyEntity draws one of all entities, regardless of weights.
func (z *zipf) anyEntity() int32 { return z.rng.Int32N(int32(len(z.groups))) }

// urn holds entities to be drawn with probabilities proportional to their weights.
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
