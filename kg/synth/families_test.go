package synth

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/kgtest"
)

func TestFamiliesHonoursSizes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{
			Entities:  rapid.IntRange(40, 300).Draw(t, "entities"),
			Relations: rapid.IntRange(10, 17).Draw(t, "relations"),
			Seed:      rapid.Uint64().Draw(t, "seed"),
		}
		whole, _, err := Families(context.Background(), cfg)
		require.NoError(t, err)
		requireContract(t, cfg, whole)
		facts := 0
		for _, triples := range whole.Splits {
			facts += len(triples)
		}

		cfg.Train = rapid.IntRange(1, facts).Draw(t, "train")
		cfg.Valid = rapid.IntRange(1, facts/5).Draw(t, "valid")
		cfg.Test = rapid.IntRange(1, facts/5).Draw(t, "test")
		g, _, err := Families(context.Background(), cfg)
		switch {
		case cfg.Train+cfg.Valid+cfg.Test > facts:
			require.Error(t, err)
			requireSentence(t, "families", err)
		case err != nil:
			requireSentence(t, "families", err)
			require.Contains(t, err.Error(), "too few for all entities and relations")
			require.Less(t, cfg.Train, cfg.Entities+cfg.Relations)
		default:
			requireContract(t, cfg, g)
		}
	})
}

func TestFamiliesRefusesSizes(t *testing.T) {
	for _, cfg := range []Config{
		{Entities: 39}, {Entities: familiesMaxEntities + 1}, {Relations: 9}, {Relations: 18},
		{Train: 100_000}, {Test: 4000},
	} {
		_, _, err := Families(context.Background(), cfg)
		require.Error(t, err, "%+v", cfg)
		requireSentence(t, "families", err)
	}
}

func TestFamiliesCategories(t *testing.T) {
	want := map[string]kg.Category{
		"has_parent":        kg.ManyToMany,
		"has_child":         kg.ManyToMany,
		"has_spouse":        kg.OneToOne,
		"has_sibling":       kg.ManyToMany,
		"has_grandparent":   kg.ManyToMany,
		"lives_in":          kg.ManyToOne,
		"directed_by":       kg.ManyToOne,
		"directed":          kg.OneToMany,
		"has_actor":         kg.ManyToMany,
		"has_genre":         kg.ManyToMany,
		"acted_in":          kg.ManyToMany,
		"produced_in":       kg.ManyToOne,
		"has_aunt_or_uncle": kg.ManyToMany,
		"has_grandchild":    kg.ManyToMany,
		"acted_for":         kg.ManyToOne,
		"sequel_of":         kg.OneToOne,
		"followed_by":       kg.OneToOne,
	}
	for seed := range uint64(10) {
		g, _, err := Families(context.Background(), Config{Seed: seed})
		require.NoError(t, err)
		got := map[string]kg.Category{}
		for r, c := range kgtest.Index(t, g).Categories() {
			got[g.Relations.Label(int32(r))] = c
		}
		assert.Equal(t, want, got, "seed %d", seed)
	}
}

// matrices holds the facts of a graph as a 0/1 matrix for each relation.
type matrices map[string][][]bool

func newMatrices(g *kg.Graph, splits ...kg.Split) matrices {
	m := matrices{}
	n := g.Entities.Len()
	for _, label := range g.Relations.Labels() {
		m[label] = make([][]bool, n)
		for e := range n {
			m[label][e] = make([]bool, n)
		}
	}
	for _, s := range splits {
		for _, x := range g.Splits[s] {
			m[g.Relations.Label(x.Relation)][x.Head][x.Tail] = true
		}
	}
	return m
}

// count finds all instances of the premise of a regularity of the given kind. It returns for how
// many of them the conclusion holds, and for how many it fails.
func (m matrices) count(kind Kind, r []string) (holds, fails int) {
	tally := func(conclusion bool) {
		if conclusion {
			holds++
		} else {
			fails++
		}
	}
	first, last := m[r[0]], m[r[len(r)-1]]
	for a := range first {
		for b := range first {
			if !first[a][b] {
				continue
			}
			switch kind {
			case Symmetric, Inverse:
				tally(last[b][a])
			case Composed:
				for c := range first {
					if m[r[1]][b][c] {
						tally(last[a][c])
					}
				}
			case ZPattern:
				for e3 := range first {
					if e3 == a || !first[e3][b] {
						continue
					}
					for e4 := range first {
						if e4 != b && first[e3][e4] {
							tally(!first[a][e4])
						}
					}
				}
			}
		}
	}
	return holds, fails
}

// derives reports whether x follows from the facts by the regularity.
func (m matrices) derives(p Pattern, r []string, label string, x kg.Triple) bool {
	switch {
	case p.Kind == Symmetric && label == r[0]:
		return m[label][x.Tail][x.Head]
	case p.Kind == Inverse && label == r[0]:
		return m[r[1]][x.Tail][x.Head]
	case p.Kind == Inverse && label == r[1]:
		return m[r[0]][x.Tail][x.Head]
	case p.Kind == Composed && label == r[2]:
		for b := range m[label] {
			if m[r[0]][x.Head][b] && m[r[1]][b][x.Tail] {
				return true
			}
		}
	}
	return false
}

func relationLabels(g *kg.Graph, p Pattern) (labels []string) {
	for _, r := range p.Relations {
		labels = append(labels, g.Relations.Label(r))
	}
	return labels
}

func TestFamiliesPlanted(t *testing.T) {
	want := []string{
		"symmetric has_spouse",
		"symmetric has_sibling",
		"inverse has_parent has_child",
		"inverse directed_by directed",
		"inverse has_actor acted_in",
		"inverse has_grandparent has_grandchild",
		"inverse sequel_of followed_by",
		"composed has_parent has_parent has_grandparent",
		"composed has_parent has_sibling has_aunt_or_uncle",
		"composed has_parent lives_in lives_in",
		"composed has_child lives_in lives_in",
		"composed directed_by lives_in produced_in",
		"composed acted_in directed_by acted_for",
		"composed sequel_of has_genre has_genre",
		"composed followed_by has_genre has_genre",
		"Z-pattern has_genre",
	}
	for _, cfg := range []Config{
		{Seed: 1}, {Entities: 40, Seed: 2},
		{Entities: 250, Relations: 14, Seed: 3}, {Entities: 300, Train: 1000, Seed: 4},
	} {
		g, planted, err := Families(context.Background(), cfg)
		require.NoError(t, err)
		all, train := newMatrices(g, kg.Train, kg.Valid, kg.Test), newMatrices(g, kg.Train)

		var got []string
		for _, p := range planted.Patterns {
			labels := relationLabels(g, p)
			name := string(p.Kind) + " " + strings.Join(labels, " ")
			got = append(got, name)
			holds, fails := all.count(p.Kind, labels)
			assert.Equal(t, holds, p.Count, "%+v: %s", cfg, name)
			assert.Positive(t, holds, "%+v: %s", cfg, name)
			if cfg.Train == 0 && p.Kind != ZPattern {
				assert.Zero(t, fails, "%+v: exceptions to %s", cfg, name)
			}
		}
		if cfg.Relations == 0 {
			assert.Equal(t, want, got)
		}

		implied := 0
		for _, x := range g.Splits[kg.Test] {
			label := g.Relations.Label(x.Relation)
			derives := func(p Pattern) bool { return train.derives(p, relationLabels(g, p), label, x) }
			if slices.ContainsFunc(planted.Patterns, derives) {
				implied++
			}
		}
		assert.Equal(t, implied, planted.Implied, "%+v", cfg)
		if cfg.Train == 0 && cfg.Relations == 0 {
			assert.Greater(t, float64(implied), 0.8*float64(len(g.Splits[kg.Test])),
				"%+v: test triples that can be predicted", cfg)
		}
	}
}

// Every planted Z-pattern of has_genre involves a film of one genre and a film of three genres of
// the same style. Every such pair of films has two patterns.
func TestFamiliesZPatterns(t *testing.T) {
	g, planted, err := Families(context.Background(), Config{Seed: 5})
	require.NoError(t, err)
	genres := map[int32][]int32{}
	for _, triples := range g.Splits {
		for _, x := range triples {
			if g.Relations.Label(x.Relation) == "has_genre" {
				genres[x.Head] = append(genres[x.Head], x.Tail)
			}
		}
	}
	pairs := 0
	for _, plain := range genres {
		for _, crossover := range genres {
			if len(plain) == 1 && len(crossover) == 3 && slices.Contains(crossover, plain[0]) {
				pairs++
			}
		}
	}
	last := planted.Patterns[len(planted.Patterns)-1]
	require.Equal(t, ZPattern, last.Kind)
	assert.Positive(t, pairs)
	assert.Equal(t, 2*pairs, last.Count)
}
