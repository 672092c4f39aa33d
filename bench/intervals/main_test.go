package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/rank"
)

// writeHubs writes the ranks of 200 queries (?, r, t) with 1 to 9 triples each. All ranks of a
// query are equal.
func writeHubs(t *testing.T) (file string) {
	rng := rand.New(rand.NewPCG(1, 1))
	var tails, heads strings.Builder
	for q := range 200 {
		better := rng.IntN(4)
		for i := range 1 + rng.IntN(9) {
			fmt.Fprintf(&tails, "tail\t%d of %d\tr\thub %[2]d\t%d\t0\n", i, q, better)
			fmt.Fprintf(&heads, "head\t%d of %d\tr\thub %[2]d\t%d\t0\n", i, q, better)
		}
	}
	file = filepath.Join(t.TempDir(), "ranks.tsv")
	text := "side\thead\trelation\ttail\tall_better\tall_equal\n" + tails.String() + heads.String()
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func TestIntervals(t *testing.T) {
	var out strings.Builder
	o := options{filter: rank.All, size: 100, samples: 60, seed: 1}
	require.NoError(t, run(t.Context(), &out, writeHubs(t), o))
	var lines [][]string
	for line := range strings.Lines(out.String()) {
		lines = append(lines, strings.Fields(line))
	}
	// side, MRR, by, clusters, effective, low, high, relative to triple, design effect
	require.Equal(t, []string{"tail", "triple"}, []string{lines[1][0], lines[1][2]})
	require.Equal(t, []string{"tail", "query", "200"}, []string{lines[4][0], lines[4][2], lines[4][3]})
	assert.Greater(t, number(t, lines[4][7]), 1.8, "the ranks of a query are equal")
	assert.Less(t, number(t, lines[4][7]), 3., "and a query has five triples on average")

	drawn := map[string][]string{}
	for _, line := range lines[13:] {
		if n := len(line); n > 5 && line[n-5] == "both" {
			drawn[strings.Join(line[:n-6], " ")] = line[n-4:]
		}
	}
	assert.Len(t, drawn, 7)
	hubs := drawn["queries (?, r, t)"]
	assert.Less(t, number(t, hubs[0]), number(t, hubs[1]), "by triple, by query")
	assert.Equal(t, "–", hubs[3], "a single relation gives no interval")
}

// number returns the number before "±" in a cell, or the whole cell.
func number(t *testing.T, cell string) float64 {
	t.Helper()
	cell, _, _ = strings.Cut(cell, "±")
	v, err := strconv.ParseFloat(cell, 64)
	require.NoError(t, err)
	return v
}

func TestFew(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run(t.Context(), &out, "", options{samples: 60, seed: 1, few: true}))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 1+5*4)
	assert.Equal(t, []string{"10", "equal", "10", "60"}, strings.Fields(lines[1])[:4])
	rare := strings.Fields(lines[17])
	assert.Less(t, number(t, rare[len(rare)-1]), 60.0, "too few good ranks for an interval")
}

func TestBadFiles(t *testing.T) {
	file := writeHubs(t)
	err := run(t.Context(), new(strings.Builder), file, options{filter: rank.None})
	assert.EqualError(t, err, file+": no ranks under filter none")
	err = run(t.Context(), new(strings.Builder), file, options{filter: rank.All, size: 900, samples: 1})
	assert.ErrorContains(t, err, "samples of 900 triples are too large for a population of ")
	assert.Error(t, run(t.Context(), new(strings.Builder), file+"x", options{}))
}
