package metrics

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/mquine/mquine/internal/input"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/zpattern"
	"github.com/mquine/mquine/rank"
)

// Key divides queries into groups for a report. Every query belongs to exactly one group.
type Key struct {
	Name string
	// Labels names all groups, including groups without queries.
	Labels []string
	// Ordered keeps the groups in the order of Labels. Otherwise a report lists the largest groups
	// first.
	Ordered bool
	// Convention is the convention of groups by Z-case. It is empty for other keys.
	Convention string
	// Group returns the index in Labels of a query's group.
	Group func(r *rank.Rank) int
}

// These keys have a group for each relation or entity, named by its identifier.
const (
	relationName = "relation"
	entityName   = "entity"
)

// keys lists the keys of reports. The argument g of make is the graph whose queries are ranked.
var keys = []struct {
	name     string
	make     func(ctx context.Context, g *kg.Graph, o KeyOptions) (Key, error)
	entities bool // only for queries whose answers are entities
}{
	{relationName, relationKey, false},
	{entityName, entityKey, true},
	{"category", categoryKey, false},
	{zCaseName, zCaseKey, true},
	{"degree", degreeKey, true},
}

// KeyOptions holds the inputs of keys besides the graph.
type KeyOptions struct {
	// Triples and Sides determine the ranked queries. The key z-case covers only these queries.
	Triples []kg.Triple
	Sides   rank.Sides
	// Index has the known answers of the graph. If it is nil, the keys category and degree build it.
	Index *kg.Index
	// Convention is the convention of the key z-case.
	Convention zpattern.Convention
	// Threads bounds the number of threads; 0 means GOMAXPROCS.
	Threads int
}

// KeyNames returns the names of all keys.
func KeyNames() []string {
	var names []string
	for _, k := range keys {
		names = append(names, k.name)
	}
	return names
}

// NewKeys returns the keys with the given names for queries of g.
func NewKeys(ctx context.Context, g *kg.Graph, names []string, o KeyOptions) ([]Key, error) {
	var made []Key
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return nil, fmt.Errorf("the key %s occurs twice: name it once", name)
		}
		at := slices.Index(KeyNames(), name)
		if at < 0 {
			return nil, fmt.Errorf("there are no groups by %q: choose from %s", name, strings.Join(KeyNames(), ", "))
		}
		if o.Sides == rank.RelationSide && keys[at].entities {
			return nil, fmt.Errorf("groups by %s need an entity as the answer, but relations are ranked: "+
				"choose relation or category", name)
		}
		key, err := input.Await(ctx, func() (Key, error) { return keys[at].make(ctx, g, o) })
		if err != nil {
			return nil, fmt.Errorf("groups by %s: %w", name, err)
		}
		key.Name = name
		made = append(made, key)
	}
	return made, nil
}

// relationKey groups queries by relation.
func relationKey(_ context.Context, g *kg.Graph, _ KeyOptions) (Key, error) {
	return Key{
		Labels: g.Relations.Labels(),
		Group:  func(r *rank.Rank) int { return int(r.Triple.Relation) },
	}, nil
}

// entityKey groups queries by their target.
func entityKey(_ context.Context, g *kg.Graph, _ KeyOptions) (Key, error) {
	return Key{
		Labels: g.Entities.Labels(),
		Group: func(r *rank.Rank) int {
			_, answer := r.Triple.Query(r.Side)
			return int(answer)
		},
	}, nil
}

// categoryKey groups queries by the category of their relation.
func categoryKey(ctx context.Context, g *kg.Graph, o KeyOptions) (Key, error) {
	x, err := o.trainingIndex(ctx, g) // without training triples, every relation would count as 1-1
	if err != nil {
		return Key{}, err
	}
	var labels []string
	for c := range kg.NumCategories {
		labels = append(labels, c.String())
	}
	of := x.Categories()
	return Key{
		Labels:  labels,
		Ordered: true,
		Group:   func(r *rank.Rank) int { return int(of[r.Triple.Relation]) },
	}, nil
}

// zConvention returns the convention of the key z-case, if it is among keys.
func zConvention(keys []Key) string {
	for _, k := range keys {
		if k.Convention != "" {
			return k.Convention
		}
	}
	return ""
}

// groupName names a group of a key. It is empty for the group of all queries.
type groupName struct{ by, group string }

// groupsOf returns the group of all ranks, and then the groups of each key in the order of a report,
// without groups that have no queries.
func groupsOf(ranks []rank.Rank, keys []Key) (groups []members, names []groupName) {
	groups, names = []members{allOf(ranks)}, []groupName{{}}
	for _, key := range keys {
		split := key.split(ranks)
		for _, g := range key.order(split) {
			if split[g].len() == 0 {
				continue
			}
			groups = append(groups, split[g])
			names = append(names, groupName{key.Name, key.Labels[g]})
		}
	}
	return groups, names
}

// split returns the members of each group of k.
func (k Key) split(ranks []rank.Rank) []members {
	groups := make([]members, len(k.Labels))
	for i := range ranks {
		groups[k.Group(&ranks[i])].add(ranks, i)
	}
	return groups
}

// order returns the groups in the order of the report.
func (k Key) order(split []members) []int {
	order := make([]int, len(split))
	for g := range order {
		order[g] = g
	}
	if !k.Ordered {
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(split[b].len(), split[a].len()) })
	}
	return order
}

// trainingIndex returns the index of the graph's known answers, after checking that the graph has training triples.
func (o KeyOptions) trainingIndex(ctx context.Context, g *kg.Graph) (*kg.Index, error) {
	if _, err := g.Triples(kg.Train); err != nil || o.Index != nil {
		return o.Index, err
	}
	return kg.NewIndex(ctx, g)
}
