package metrics

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/zpattern"
	"github.com/mquine/mquine/rank"
)

// Key divides queries into groups for a report: every query belongs to one group, so that the
// groups' queries add up to all queries.
type Key struct {
	Name string
	// Labels names all groups, those without queries included.
	Labels []string
	// Ordered says that the order of Labels means something; otherwise a report lists the
	// groups from the most queries to the fewest.
	Ordered bool
	// Convention names the convention of groups by z-case, and is empty for other groups.
	Convention string
	// Group returns the position in Labels of a query's group.
	Group func(r *rank.Rank) int
}

// keys makes each key that reports know from the graph that is ranked.
var keys = []struct {
	name string
	make func(ctx context.Context, g *kg.Graph, o KeyOptions) (Key, error)
}{
	{"relation", relationKey},
	{"category", categoryKey},
	{zCaseName, zCaseKey},
	{"degree", degreeKey},
}

// KeyOptions holds what some keys need besides the graph.
type KeyOptions struct {
	// Triples and Sides are what is ranked: z-case has groups for these queries only.
	Triples []kg.Triple
	Sides   rank.Sides
	// Convention divides the cases of z-case.
	Convention zpattern.Convention
	// Threads bounds the threads; 0 takes one for each processor.
	Threads int
}

// KeyNames returns the names that NewKeys knows.
func KeyNames() []string {
	var names []string
	for _, k := range keys {
		names = append(names, k.name)
	}
	return names
}

// NewKeys returns the keys of the given names for queries of g.
func NewKeys(ctx context.Context, g *kg.Graph, names []string, o KeyOptions) ([]Key, error) {
	var made []Key
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return nil, fmt.Errorf("groups by %s are asked for twice", name)
		}
		at := slices.Index(KeyNames(), name)
		if at < 0 {
			return nil, fmt.Errorf("there are no groups by %q: choose from %s", name, strings.Join(KeyNames(), ", "))
		}
		key, err := keys[at].make(ctx, g, o)
		if err != nil {
			return nil, fmt.Errorf("groups by %s: %w", name, err)
		}
		key.Name = name
		made = append(made, key)
	}
	return made, nil
}

// relationKey groups by the relation of the query.
func relationKey(_ context.Context, g *kg.Graph, _ KeyOptions) (Key, error) {
	return Key{
		Labels: g.Relations.Labels(),
		Group:  func(r *rank.Rank) int { return int(r.Triple.Relation) },
	}, nil
}

// categoryKey groups by the category of the query's relation.
func categoryKey(_ context.Context, g *kg.Graph, _ KeyOptions) (Key, error) {
	// Without training triples every relation would be 1-1.
	if _, err := g.Triples(kg.Train); err != nil {
		return Key{}, err
	}
	var labels []string
	for c := range kg.NumCategories {
		labels = append(labels, c.String())
	}
	of := kg.Categories(g)
	return Key{
		Labels:  labels,
		Ordered: true,
		Group:   func(r *rank.Rank) int { return int(of[r.Triple.Relation]) },
	}, nil
}

// zConvention returns the convention of the groups by z-case, if there are any among keys.
func zConvention(keys []Key) string {
	for _, k := range keys {
		if k.Convention != "" {
			return k.Convention
		}
	}
	return ""
}

// groupName names a group of a key; it is empty for all ranks.
type groupName struct{ by, group string }

// groupsOf returns all ranks as the first group, followed by the groups of each key in the order of a report.
func groupsOf(ranks []rank.Rank, keys []Key) (groups []members, names []groupName) {
	groups, names = []members{allOf(ranks)}, []groupName{{}}
	for _, key := range keys {
		split := key.split(ranks)
		for _, g := range key.order(split) {
			groups = append(groups, split[g])
			names = append(names, groupName{key.Name, key.Labels[g]})
		}
	}
	return groups, names
}

// split returns the members of each group.
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
