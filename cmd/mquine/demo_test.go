package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kg"
)

func TestDemo(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	kept := filepath.Join(t.TempDir(), "kept")
	o := succeed(t, "demo", "--keep", kept)
	requireFiles(t, temporary)
	requireFiles(t, kept, "checkpoint", "families")

	line := regexp.MustCompile(`(?m)^all +both +[\d,]+ +(\d\.\d+) `).FindStringSubmatch(o.stdout)
	require.Len(t, line, 2, o.stdout)
	mrr := must1(strconv.ParseFloat(line[1], 64))
	chance := chanceMRR(t, filepath.Join(kept, "families"))
	assert.Greater(t, mrr, 0.7, "the training has learnt the rules of the graph")
	assert.InDelta(t, 0.02, chance, 0.01)

	// Other commands can use the kept files and get the same result.
	report := filepath.Join(temporary, "report.json")
	succeed(t, "eval", filepath.Join(kept, "checkpoint"), "--data", filepath.Join(kept, "families"),
		"--json", report)
	for _, m := range readReport(t, must1(os.ReadFile(report))).Results {
		if m.Side == "both" && m.Filter == "all" && m.Ties == "realistic" {
			assert.InDelta(t, mrr, *m.MRR, 0.5e-4)
		}
	}

	// The demo never overwrites files. It names all folders that are in the way before it begins.
	o = mquine(t, "demo", "--keep", kept)
	o.requireSentence(t, exitFailed, filepath.Join(kept, "families")+" already exists: remove it or choose another "+
		"folder; "+filepath.Join(kept, "checkpoint")+" already exists: remove it or choose another folder")
	require.NoError(t, os.RemoveAll(filepath.Join(kept, "families")))
	o = mquine(t, "demo", "--keep", kept)
	o.requireSentence(t, exitFailed, filepath.Join(kept, "checkpoint")+" already exists: remove it")
	assert.NotContains(t, o.stderr, "made families")
	requireFiles(t, kept, "checkpoint")
}

// chanceMRR returns the expected MRR of the test split (both sides, filter all) for a random order
// of the candidates: the mean of H_c/c for c candidates, where H_c is the harmonic number.
func chanceMRR(t *testing.T, data string) float64 {
	t.Helper()
	g, err := kg.Open(t.Context(), data)
	require.NoError(t, err)
	type query struct {
		side         kg.Side
		anchor, name int32
	}
	answers := map[query]map[int32]bool{}
	each := func(triple kg.Triple, f func(q query, answer int32)) {
		f(query{kg.Tail, triple.Head, triple.Relation}, triple.Tail)
		f(query{kg.Head, triple.Tail, triple.Relation}, triple.Head)
	}
	for _, split := range g.Splits {
		for _, triple := range split {
			each(triple, func(q query, answer int32) {
				if answers[q] == nil {
					answers[q] = map[int32]bool{}
				}
				answers[q][answer] = true
			})
		}
	}
	sum, n := 0.0, 0
	for _, triple := range g.Splits[kg.Test] {
		each(triple, func(q query, _ int32) {
			candidates := g.Entities.Len() - len(answers[q]) + 1
			harmonic := 0.0
			for rank := 1; rank <= candidates; rank++ {
				harmonic += 1 / float64(rank)
			}
			sum += harmonic / float64(candidates)
			n++
		})
	}
	return sum / float64(n)
}

func TestDemoLeavesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("the demo takes seconds")
	}
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	succeed(t, "demo")
	requireFiles(t, temporary)
}
