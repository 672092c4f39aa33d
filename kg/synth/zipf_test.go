package synth

import (
	"bufio"
	"compress/gzip"
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mquine/mquine/kg"
)

func TestZipfHonoursSizes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{
			Entities:  rapid.IntRange(1, 60).Draw(t, "entities"),
			Relations: rapid.IntRange(1, 20).Draw(t, "relations"),
			Train:     rapid.OneOf(rapid.IntRange(1, 60), rapid.IntRange(1, 5000)).Draw(t, "train"),
			Valid:     rapid.IntRange(1, 50).Draw(t, "valid"),
			Test:      rapid.IntRange(1, 50).Draw(t, "test"),
			Seed:      rapid.Uint64().Draw(t, "seed"),
		}
		n, r := cfg.Entities, cfg.Relations
		possible := n >= 2 && 2*cfg.Train >= n && cfg.Train >= r && 2*(cfg.Train+cfg.Valid+cfg.Test) <= r*n*(n-1)
		g, groups, err := Zipf(context.Background(), cfg)
		if !possible {
			require.Error(t, err)
			requireSentence(t, "zipf", err)
			return
		}
		require.NoError(t, err)
		requireContract(t, cfg, g)
		requireGroups(t, g, groups)
	})
}

// Zipf refuses sizes just beyond its limits, and generates graphs at the limits, where few choices
// are left.
func TestZipfAtItsLimits(t *testing.T) {
	for _, cfg := range []Config{
		{Entities: 2, Relations: 3, Train: 2, Valid: 1, Test: 1},
		{Entities: 2, Relations: 1, Train: 1, Valid: 1, Test: 1},
		{Entities: 101, Relations: 1, Train: 50},
		{Entities: 100, Relations: 51, Train: 50},
		{Entities: 30, Relations: 4, Train: 4*30*29/2 - 1, Valid: 1, Test: 1},
	} {
		_, _, err := Zipf(context.Background(), cfg)
		require.Error(t, err, "%+v", cfg)
		requireSentence(t, "zipf", err)
	}
	for _, cfg := range []Config{
		{Entities: 3, Relations: 2, Train: 2, Valid: 1, Test: 1},
		{Entities: 101, Relations: 1, Train: 51},
		{Entities: 100, Relations: 50, Train: 50},
		{Entities: 30, Relations: 4, Train: 4*30*29/2 - 2, Valid: 1, Test: 1},
		{Entities: 50},
	} {
		g, groups, err := Zipf(context.Background(), cfg)
		require.NoError(t, err, "%+v", cfg)
		requireContract(t, cfg, g)
		requireGroups(t, g, groups)
	}
}

// The messages are grammatical for one entity, relation or triple, and do not blame sizes that the user
// did not ask for.
func TestZipfMessages(t *testing.T) {
	for want, cfg := range map[string]Config{
		"1 entity is too few for three splits: ask for at least 3":    {Entities: 1},
		"2 entities are too few for three splits: ask for at least 3": {Entities: 2},
		"1 training triple is too few for 3 entities and 1 relation: ask for at least 2": {
			Entities: 3, Relations: 1, Train: 1},
		"4 triples are too many for 3 entities and 1 relation: ask for at most 3 for each relation, " +
			"which is half of all pairs": {Entities: 3, Relations: 1, Train: 2, Valid: 1, Test: 1},
	} {
		_, _, err := Zipf(t.Context(), cfg)
		assert.EqualError(t, err, want)
	}
	_, _, err := Zipf(t.Context(), Config{Entities: 3})
	assert.NoError(t, err)
	_, _, err = Families(t.Context(), Config{Relations: 1})
	assert.EqualError(t, err, "cannot make 1 relation: ask for 10 to 17")
	_, _, err = Families(t.Context(), Config{Train: 1})
	assert.ErrorContains(t, err, "1 training triple is too few for all entities and relations: ask for at least ")
}

// requireGroups checks that there are about √N groups, all with members, and that labels contain
// the groups.
func requireGroups(t require.TestingT, g *kg.Graph, groups []int32) {
	n := g.Entities.Len()
	require.Len(t, groups, n)
	sizes := map[int32]int{}
	for e, group := range groups {
		sizes[group]++
		fromLabel, ok := Group(g.Entities.Label(int32(e)))
		require.True(t, ok)
		require.Equal(t, int(group), fromLabel)
	}
	require.InDelta(t, math.Sqrt(float64(n)), len(sizes), 1)
	for group := range int32(len(sizes)) {
		require.Positive(t, sizes[group], "group %d", group)
	}
}

func TestGroup(t *testing.T) {
	for label, want := range map[string]int{"g0_e0": 0, "g012_e000345": 12, "g2147483647_e1": math.MaxInt32} {
		group, ok := Group(label)
		assert.True(t, ok, label)
		assert.Equal(t, want, group, label)
	}
	for _, label := range []string{
		"", "g", "g1", "g_e1", "g1_e", "g1_e1x", "g-1_e1", "g+1_e1", "x1_e1", "g2147483648_e1", "person_1",
	} {
		_, ok := Group(label)
		assert.False(t, ok, label)
	}
}

func FuzzGroup(f *testing.F) {
	f.Add("g012_e000345")
	f.Fuzz(func(t *testing.T, label string) {
		group, ok := Group(label)
		if ok {
			require.GreaterOrEqual(t, group, 0)
			require.Contains(t, label, strconv.Itoa(group))
		}
	})
}

// If the tail of a triple is not a hub, the relation and the group of the head nearly always
// determine the group of the tail.
func TestZipfStructure(t *testing.T) {
	g, groups, err := Zipf(context.Background(), Config{Entities: 10_000, Seed: 1})
	require.NoError(t, err)
	for s, triples := range g.Splits {
		type source struct{ relation, group int32 }
		targets := map[source]map[int32]int{}
		ends := 0
		for _, x := range triples {
			if groups[x.Tail] == 0 {
				continue
			}
			ends++
			from := source{x.Relation, groups[x.Head]}
			if targets[from] == nil {
				targets[from] = map[int32]int{}
			}
			targets[from][groups[x.Tail]]++
		}
		main := 0
		for _, counts := range targets {
			largest := 0
			for _, n := range counts {
				largest = max(largest, n)
			}
			main += largest
		}
		assert.Greater(t, float64(main)/float64(ends), 0.95, kg.Split(s))
		assert.Greater(t, float64(ends)/float64(len(triples)), 0.7, "%v: share of tails that are not hubs", kg.Split(s))
	}
}

// The default graph has the sizes and the skew of YAGO3-10. The test compares it with published
// figures and, if the data set is installed, with the data set itself.
func TestZipfSkew(t *testing.T) {
	g, groups, err := Zipf(context.Background(), Config{Seed: 1})
	require.NoError(t, err)
	requireContract(t, Config{Entities: 123_182, Relations: 37, Train: 1_079_040, Valid: 5_000, Test: 5_000}, g)
	requireGroups(t, g, groups)

	degrees, counts := make([]int, g.Entities.Len()), make([]int, g.Relations.Len())
	for _, x := range g.Splits[kg.Train] {
		degrees[x.Head]++
		degrees[x.Tail]++
		counts[x.Relation]++
	}
	entityShares, relationShares := cumulated(degrees), cumulated(counts)
	assert.InDelta(t, 0.42, entityShares[len(degrees)/20-1], 0.01, "share of the top 5%")
	assert.InDelta(t, 61_044./2_158_080, entityShares[0], 0.0006, "share of the largest entity")

	dir := os.Getenv("MQUINE_DATA")
	if dir == "" {
		t.Skip("MQUINE_DATA is not set: YAGO3-10's tables are not compared")
	}
	dir = filepath.Join(dir, "yago3-10")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("YAGO3-10's tables are not compared: %v", err)
	}
	published := func(file string) []float64 { return cumulated(readCounts(t, filepath.Join(dir, file))) }
	assert.Less(t, largestGap(entityShares, published("train_entity_degree.tsv.gz")), 0.025)
	assert.Less(t, largestGap(relationShares, published("train_relation_count.tsv.gz")), 0.016)
}

// cumulated returns the cumulative shares of the largest 1, 2, 3, … counts.
func cumulated(counts []int) []float64 {
	counts = slices.Clone(counts)
	slices.Sort(counts)
	slices.Reverse(counts)
	sum := 0
	shares := make([]float64, len(counts))
	for i, n := range counts {
		sum += n
		shares[i] = float64(sum)
	}
	for i := range shares {
		shares[i] /= float64(sum)
	}
	return shares
}

func largestGap(a, b []float64) float64 {
	gap := math.Abs(float64(len(a) - len(b)))
	for i := range min(len(a), len(b)) {
		gap = max(gap, math.Abs(a[i]-b[i]))
	}
	return gap
}

func readCounts(t *testing.T, path string) (counts []int) {
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	lines := bufio.NewScanner(z)
	for lines.Scan() {
		_, count, _ := strings.Cut(lines.Text(), "\t")
		n, err := strconv.Atoi(count)
		require.NoError(t, err)
		counts = append(counts, n)
	}
	require.NoError(t, lines.Err())
	return counts
}

func BenchmarkZipf(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_, _, err := Zipf(context.Background(), Config{Seed: 1})
		require.NoError(b, err)
	}
}
