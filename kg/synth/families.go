package synth

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
)

// Every graph of families and films contains these relations.
const (
	hasParent      int32 = iota // N-N
	hasChild                    // N-N, inverse of has_parent
	hasSpouse                   // 1-1, symmetric
	hasSibling                  // N-N, symmetric
	hasGrandparent              // N-N, composed
	livesIn                     // N-1, the same country for a whole family
	directedBy                  // N-1
	directed                    // 1-N, inverse of directed_by
	hasActor                    // N-N, from the director's troupe
	hasGenre                    // N-N, with the planted Z-patterns
	core
)

// A graph with fewer than 17 relations omits relations from the end of this list.
const (
	actedIn        = core + iota // inverse of has_actor
	producedIn                   // N-1, composed: the director's country
	hasAuntOrUncle               // N-N, composed
	hasGrandchild                // N-N, inverse of has_grandparent
	actedFor                     // N-1, composed: actor to director
	sequelOf                     // 1-1, the director's previous film
	followedBy                   // 1-1, inverse of sequel_of
	numRelations
)

var relationNames = [numRelations]string{
	hasParent:      "has_parent",
	hasChild:       "has_child",
	hasSpouse:      "has_spouse",
	hasSibling:     "has_sibling",
	hasGrandparent: "has_grandparent",
	livesIn:        "lives_in",
	directedBy:     "directed_by",
	directed:       "directed",
	hasActor:       "has_actor",
	hasGenre:       "has_genre",
	actedIn:        "acted_in",
	producedIn:     "produced_in",
	hasAuntOrUncle: "has_aunt_or_uncle",
	hasGrandchild:  "has_grandchild",
	actedFor:       "acted_for",
	sequelOf:       "sequel_of",
	followedBy:     "followed_by",
}

const (
	familiesEntities    = 400
	familiesMinEntities = 40
	familiesMaxEntities = 1_000_000
)

// Families generates a small graph of families and films, with regularities that a model can learn.
// Families have three generations and a country. Films have directors with a style and a troupe.
// The graph has relations of all categories. Its symmetric, inverse and composed relations have no
// exceptions if all splits are taken together.
//
// The relation has_genre has Z-patterns (Liu et al., "MQuinE: a cure for Z-paradox in knowledge
// graph embedding models"): (e1, r, e2), (e3, r, e2) and (e3, r, e4) are facts, and (e1, r, e4) is
// false. The Z-patterns arise because half of the directors of a style make films of one genre, and
// the others make films of that genre and two more.
//
// By default, a graph has 400 entities and 17 relations. It can have 40 to 1,000,000 entities and
// 10 to 17 relations. By default, a twentieth of the facts is for validation, a twentieth is for
// test, and the others are for training. About nine in ten test triples then follow from training
// triples in one step ([Planted]). With fewer triples, Families drops facts at random, which leaves
// gaps in the regularities.
func Families(ctx context.Context, cfg Config) (*kg.Graph, *Planted, error) {
	cfg, err := familiesSizes(cfg)
	if err != nil {
		return nil, nil, err
	}
	if err := checkMemory("a families graph", cfg, familiesMemory(cfg)); err != nil {
		return nil, nil, err
	}
	w := newWorld(cfg)
	if err := w.populate(ctx); err != nil {
		return nil, nil, err
	}
	splits, err := w.split(cfg)
	if err != nil {
		return nil, nil, err
	}
	relations := kg.NewVocabulary(relationNames[:cfg.Relations]...)
	g := &kg.Graph{Name: "families", Entities: kg.NewVocabulary(), Relations: relations, Splits: splits}
	width := digits(cfg.Entities)
	for _, kind := range []struct {
		label string
		n     int
	}{{"person", w.people}, {"film", w.films}, {"genre", genresOfStyle * w.styles}, {"country", w.countries}} {
		err := name(ctx, g.Entities, kind.n, func(i int) string { return fmt.Sprintf("%s_%0*d", kind.label, width, i) })
		if err != nil {
			return nil, nil, err
		}
	}
	planted, err := findPlanted(ctx, g)
	if err != nil {
		return nil, nil, err
	}
	return g, planted, nil
}

// familiesSizes sets the default sizes, except the sizes of splits, and rejects impossible sizes.
func familiesSizes(cfg Config) (Config, error) {
	if err := cfg.check(); err != nil {
		return cfg, err
	}
	setDefault(&cfg.Entities, familiesEntities)
	setDefault(&cfg.Relations, int(numRelations))
	if cfg.Entities < familiesMinEntities {
		return cfg, fmt.Errorf("%s too few for families, films, genres and countries: ask for at least %d",
			text.Count(cfg.Entities, "entity is", "entities are"), familiesMinEntities)
	}
	if cfg.Entities > familiesMaxEntities {
		return cfg, fmt.Errorf("%d entities are too many: ask for at most %d", cfg.Entities, familiesMaxEntities)
	}
	if cfg.Relations < int(core) || cfg.Relations > int(numRelations) {
		return cfg, fmt.Errorf("cannot make %s: ask for %d to %d",
			text.Plural(cfg.Relations, "relation"), core, numRelations)
	}
	return cfg, nil
}

// world holds the population and the facts about it. People have the first identifiers, then films,
// genres and countries.
type world struct {
	rng                              *rand.Rand
	people, films, styles, countries int
	directors                        int
	relations                        int32
	facts                            []kg.Triple
	known                            map[kg.Triple]struct{}
}

// genresOfStyle is the number of genres of a style. Styles do not share genres.
const genresOfStyle = 3

func newWorld(cfg Config) *world {
	n := cfg.Entities
	w := &world{
		rng:       random(cfg.Seed, 0x66616d696c696573),
		films:     n / 4,
		countries: max(2, n/40),
		relations: int32(cfg.Relations),
		known:     map[kg.Triple]struct{}{},
	}
	w.directors = w.films / 4
	w.styles = max(1, w.directors/4)
	w.people = n - w.films - genresOfStyle*w.styles - w.countries
	return w
}

func (w *world) film(i int) int32    { return int32(w.people + i) }
func (w *world) genre(i int) int32   { return int32(w.people + w.films + i) }
func (w *world) country(i int) int32 { return int32(w.people + w.films + genresOfStyle*w.styles + i) }

// state adds a fact, unless the graph lacks the relation or already contains the fact.
func (w *world) state(head, relation, tail int32) {
	t := kg.Triple{Head: head, Relation: relation, Tail: tail}
	if _, known := w.known[t]; known || relation >= w.relations {
		return
	}
	w.known[t] = struct{}{}
	w.facts = append(w.facts, t)
}

// both adds the facts (head, relation, tail) and (tail, inverse, head).
func (w *world) both(head, relation, inverse, tail int32) {
	w.state(head, relation, tail)
	w.state(tail, inverse, head)
}

// A family has two couples of grandparents, and each couple has two children. The first children of
// the two couples are the parents of at least three children.
const (
	leastChildren = 3
	leastFamily   = 8 + leastChildren
	averageFamily = 12
)

func (w *world) populate(ctx context.Context) error {
	check := pulse(ctx)
	families := w.people / averageFamily
	children := make([]int, families)
	for i := range children {
		children[i] = leastChildren
	}
	for range w.people - families*leastFamily {
		children[w.rng.IntN(families)]++
	}

	people := permutation(w.rng, w.people)
	home := make([]int32, w.people)
	var candidates []int32 // people, some of whom direct films
	for i, n := range children {
		if err := check(); err != nil {
			return err
		}
		size := leastFamily - leastChildren + n
		family := people[:size]
		people = people[size:]
		w.family(family)
		country := w.country(i % w.countries)
		for _, p := range family {
			home[p] = country
			w.state(p, livesIn, country)
		}
		candidates = append(candidates, family[4:8]...)
	}

	shuffle(w.rng, candidates)
	films := permutation(w.rng, w.films)
	// Every director has at least two films. The other films go to random directors.
	oeuvre := make([][]int32, w.directors)
	for i, f := range films {
		d := i % w.directors
		if i >= 2*w.directors {
			d = w.rng.IntN(w.directors)
		}
		oeuvre[d] = append(oeuvre[d], w.film(int(f)))
	}
	for d, films := range oeuvre {
		if err := check(); err != nil {
			return err
		}
		w.direct(candidates[d], home[candidates[d]], d, films)
	}
	return nil
}

// family states the facts about the members of a family: two couples of grandparents, the two
// children of each couple, and at least three grandchildren. The grandchildren's parents are the
// first children of the two couples.
func (w *world) family(members []int32) {
	couples := [2][]int32{members[0:2], members[2:4]}
	middle := [2][]int32{members[4:6], members[6:8]}
	parents, relatives := []int32{middle[0][0], middle[1][0]}, []int32{middle[0][1], middle[1][1]}
	young := members[8:]

	for i, couple := range couples {
		w.household(couple, middle[i])
	}
	w.household(parents, young)
	for _, child := range young {
		for _, grandparent := range members[0:4] {
			w.both(child, hasGrandparent, hasGrandchild, grandparent)
		}
		for _, relative := range relatives {
			w.state(child, hasAuntOrUncle, relative)
		}
	}
}

func (w *world) household(couple, children []int32) {
	w.both(couple[0], hasSpouse, hasSpouse, couple[1])
	for i, child := range children {
		for _, parent := range couple {
			w.both(child, hasParent, hasChild, parent)
		}
		for _, sibling := range children[:i] {
			w.both(child, hasSibling, hasSibling, sibling)
		}
	}
}

// direct states the facts about the films of the d-th director, who lives in home.
func (w *world) direct(director, home int32, d int, films []int32) {
	style := d / 2 % w.styles
	genres := 1
	if d%2 == 1 {
		genres = genresOfStyle
	}
	troupe := w.troupe(director)
	for i, film := range films {
		w.both(film, directedBy, directed, director)
		w.state(film, producedIn, home)
		for g := range genres {
			w.state(film, hasGenre, w.genre(genresOfStyle*style+g))
		}
		if i > 0 {
			w.both(film, sequelOf, followedBy, films[i-1])
		}
		shuffle(w.rng, troupe)
		for _, actor := range troupe[:3] {
			w.both(film, hasActor, actedIn, actor)
			w.state(actor, actedFor, director)
		}
	}
}

// troupe chooses the five people who act for a director.
func (w *world) troupe(director int32) []int32 {
	members := []int32{director}
	for len(members) < 6 {
		if p := w.rng.Int32N(int32(w.people)); !slices.Contains(members, p) {
			members = append(members, p)
		}
	}
	return members[1:]
}

// split divides the facts into splits. It keeps at least one fact about every entity and every
// relation for training.
func (w *world) split(cfg Config) (splits [kg.NumSplits][]kg.Triple, err error) {
	facts := w.facts
	setDefault(&cfg.Valid, max(1, len(facts)/20))
	setDefault(&cfg.Test, max(1, len(facts)/20))
	heldOut := cfg.Valid + cfg.Test
	setDefault(&cfg.Train, max(1, len(facts)-heldOut))
	if cfg.Train+heldOut > len(facts) {
		return splits, fmt.Errorf("%d entities have only %d facts, too few for %d training, %d validation and "+
			"%d test triples: ask for more entities or fewer triples",
			cfg.Entities, len(facts), cfg.Train, cfg.Valid, cfg.Test)
	}

	shuffle(w.rng, facts)
	entities, relations := make([]bool, cfg.Entities), make([]bool, cfg.Relations)
	var kept, free []kg.Triple
	for _, t := range facts {
		if entities[t.Head] && entities[t.Tail] && relations[t.Relation] {
			free = append(free, t)
			continue
		}
		entities[t.Head], entities[t.Tail], relations[t.Relation] = true, true, true
		kept = append(kept, t)
	}
	if cfg.Train < len(kept) {
		return splits, fmt.Errorf("%s too few for all entities and relations: ask for at least %d",
			text.Count(cfg.Train, "training triple is", "training triples are"), len(kept))
	}
	splits[kg.Valid], free = slices.Clip(free[:cfg.Valid]), free[cfg.Valid:]
	splits[kg.Test], free = slices.Clip(free[:cfg.Test]), free[cfg.Test:]
	train := append(kept, free[:cfg.Train-len(kept)]...)
	shuffle(w.rng, train)
	splits[kg.Train] = train
	return splits, nil
}
