package synth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mquine/mquine/kg"
)

// requireContract checks the promises of both generators: exact sizes, different triples without
// loops, and a training triple for every entity and relation. It does not check sizes that are 0 in
// cfg.
func requireContract(t require.TestingT, cfg Config, g *kg.Graph) {
	asked := []int{cfg.Entities, cfg.Relations, cfg.Train, cfg.Valid, cfg.Test}
	got := []int{g.Entities.Len(), g.Relations.Len()}
	for _, triples := range g.Splits {
		got = append(got, len(triples))
	}
	for i, n := range asked {
		if n == 0 {
			asked[i] = got[i]
		}
	}
	require.Equal(t, asked, got, "entities, relations, train, valid, test")

	entities, relations := make([]bool, g.Entities.Len()), make([]bool, g.Relations.Len())
	for _, x := range g.Splits[kg.Train] {
		entities[x.Head], entities[x.Tail], relations[x.Relation] = true, true, true
	}
	require.NotContains(t, entities, false, "an entity without training triple")
	require.NotContains(t, relations, false, "a relation without training triple")

	known := map[kg.Triple]bool{}
	for s, triples := range g.Splits {
		require.NotEmpty(t, triples, kg.Split(s))
		for _, x := range triples {
			require.False(t, known[x], "%v occurs twice", x)
			require.NotEqual(t, x.Head, x.Tail, "a loop")
			known[x] = true
		}
	}
}

// requireSentence checks that an error is one line, says what to do and does not name the
// generator.
func requireSentence(t require.TestingT, generator string, err error) {
	require.False(t, strings.HasPrefix(err.Error(), generator), "the caller names the generator: %v", err)
	require.NotContains(t, err.Error(), "\n")
	require.Contains(t, err.Error(), "ask for", "it does not say what to do: %v", err)
}

func digest(g *kg.Graph) string {
	sum := sha256.New()
	for s, triples := range g.Splits {
		fmt.Fprintln(sum, kg.Split(s))
		for _, x := range triples {
			fmt.Fprintf(sum, "%s\t%s\t%s\n",
				g.Entities.Label(x.Head), g.Relations.Label(x.Relation), g.Entities.Label(x.Tail))
		}
	}
	for _, v := range []*kg.Vocabulary{g.Entities, g.Relations} {
		io.WriteString(sum, strings.Join(v.Labels(), "\n"))
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// The checksums of the generated graphs must not change, because a change would invalidate all
// results that were measured on generated graphs.
func TestGolden(t *testing.T) {
	zipf, _, err := Zipf(context.Background(), Config{Entities: 1000, Seed: 7})
	require.NoError(t, err)
	assert.Equal(t, "b4ea4a6d662592fd6b36ea63fa06dc02b62c318d4c9ae2cb2d4f46e6b962f51f", digest(zipf))

	families, _, err := Families(context.Background(), Config{Seed: 7})
	require.NoError(t, err)
	assert.Equal(t, "689812a3ad22501cddeb1fb04f3e2aae7898816e642ac5355a816820334d299c", digest(families))

	other, _, err := Families(context.Background(), Config{Seed: 8})
	require.NoError(t, err)
	assert.NotEqual(t, digest(families), digest(other), "the seed changes nothing")
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, _, err := Zipf(ctx, Config{})
	require.ErrorIs(t, err, context.Canceled)
	_, _, err = Families(ctx, Config{})
	require.ErrorIs(t, err, context.Canceled)
}

func TestImpossibleSizes(t *testing.T) {
	for _, cfg := range []Config{
		{Entities: -1}, {Relations: -1}, {Train: -1}, {Valid: -1}, {Test: -1},
		{Entities: math.MaxInt}, {Relations: math.MaxInt},
		{Train: math.MaxInt}, {Valid: math.MaxInt}, {Test: math.MaxInt},
		{Entities: 1}, {Entities: Largest}, {Train: Largest, Valid: Largest, Test: Largest},
		{Entities: 100, Train: 10}, {Relations: 10, Train: 9},
	} {
		_, _, err := Zipf(context.Background(), cfg)
		require.Error(t, err, "%+v", cfg)
		requireSentence(t, "zipf", err)
		_, _, err = Families(context.Background(), cfg)
		require.Error(t, err, "%+v", cfg)
		requireSentence(t, "families", err)
	}
}

func TestApportion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.Uint64Range(1, 1<<40), 1, 20).Draw(t, "weights")
		n := len(weights)
		limit := rapid.IntRange(1, 1000).Draw(t, "limit")
		total := rapid.IntRange(n, n*limit).Draw(t, "total")
		parts := apportion(total, weights, limit)

		sum, most := 0, 0
		var weight float64
		for i, p := range parts {
			require.True(t, 1 <= p && p <= limit, "%d is not between 1 and %d", p, limit)
			sum += p
			most = max(most, p)
			weight += float64(weights[i])
		}
		require.Equal(t, total, sum)
		if most == limit {
			return
		}
		for i, p := range parts {
			exact := 1 + float64(total-n)*float64(weights[i])/weight
			require.InDelta(t, exact, float64(p), 1.001, "part %d of %v", i, parts)
		}
	})
}
