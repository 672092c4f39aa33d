package rank

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model/checkpoint"
)

// foreignFixtures lists the checkpoints that other tools wrote, of the models that mquine has.
var foreignFixtures = []string{
	"rotate-repo-distmult-umls", "rotate-repo-complex-umls", "rotate-repo-transe-umls", "rotate-repo-rotate-umls",
	"ote-rotate-umls",
	"kbc-complex-umls", "kbc-transe-umls", "dura-complex-umls",
	"libkge-complex-umls", "libkge-distmult-umls", "libkge-transe-umls", "libkge-rotate-umls",
	"libkge-reciprocal-complex-umls",
	"dglke-complex-umls", "dglke-distmult-umls", "dglke-rotate-umls", "dglke-transe-l1-umls", "dglke-transe-l2-umls",
	"pykeen-complex-umls", "pykeen-complex-inverse-umls", "pykeen-distmult-umls", "pykeen-distmult-inverse-umls",
	"pykeen-transe-umls", "pykeen-transe-l2-umls",
	"openke-complex-umls", "openke-transe-umls",
	"hake-umls",
	"expressive-umls", "expressive-functional-umls", "pykeen-boxe-umls",
}

// TestForeignFixtures ranks with the checkpoints that other tools wrote, under the filter all, and
// compares the ranks with the ranks that the tools computed. The tools compute in float32, so a rank
// may differ by the number of candidates whose exact scores float32 cannot distinguish from the
// target's.
func TestForeignFixtures(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	for _, name := range foreignFixtures {
		t.Run(name, func(t *testing.T) {
			dir := fixture(t, name)
			c, err := checkpoint.Open(t.Context(), dir)
			require.NoError(t, err)
			defer c.Close()
			g, err := kg.Open(t.Context(), "umls")
			if err != nil {
				t.Skipf("MQUINE_DATA: %v", err)
			}
			g, err = g.Relabel(c.Entities, c.Relations)
			require.NoError(t, err)
			index := kg.NewIndex(g)
			printed := readForeignRanks(t, filepath.Join(dir, "ranks.tsv"), g)

			for _, b := range backends {
				ranking, err := Run(t.Context(), c.Model, index, g.Splits[kg.Test], Options{Backend: b, Threads: 2})
				require.NoError(t, err)
				require.Len(t, ranking.Ranks, len(printed))
				worker := c.Model.NewWorker(b)
				differ := 0
				for _, r := range ranking.Ranks {
					better, ok := printed[sidedTriple{r.Triple, r.Side}]
					require.True(t, ok, "%v %v", r.Side, r.Triple)
					if r.Better[All] == better {
						continue
					}
					differ++
					q, answer := r.Triple.Query(r.Side)
					target := c.Model.Score(worker.Reference(q, answer))
					near := int32(0)
					for e := range int32(c.Entities.Len()) {
						score := c.Model.Score(worker.Reference(q, e))
						if e != answer && math.Abs(score-target) < 4e-6 {
							near++
						}
					}
					assert.LessOrEqual(t, max(r.Better[All]-better, better-r.Better[All]), near,
						"%v %v: %d are better, but the tool counts %d", r.Side, r.Triple, r.Better[All], better)
				}
				t.Logf("%v: %d of %d ranks differ", b.Tier, differ, len(printed))
			}
		})
	}
}

// fixture returns the folder of a checkpoint with ranks that another program computed.
func fixture(t *testing.T, name string) string {
	t.Helper()
	root := os.Getenv("MQUINE_FIXTURES")
	if root == "" {
		t.Skip("MQUINE_FIXTURES does not name the folder of the reference checkpoints")
	}
	dir := filepath.Join(root, name)
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("MQUINE_FIXTURES: %v", err)
	}
	return dir
}

type sidedTriple struct {
	kg.Triple
	kg.Side
}

// readForeignRanks returns the number of better candidates of each query under the filter all, from
// the column in which the tool's ranks have it.
func readForeignRanks(t *testing.T, path string, g *kg.Graph) map[sidedTriple]int32 {
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	printed := map[sidedTriple]int32{}
	column, first := 0, 0 // the column of the number, and the number that means none
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		fields := strings.Split(line, "\t")
		if i == 0 {
			require.Equal(t, []string{"side", "head", "relation", "tail"}, fields[:4])
			for _, name := range []string{"better_filtered", "better", "rank_filtered_optimistic", "rank_filtered"} {
				if column = slices.Index(fields, name); column >= 0 {
					if strings.HasPrefix(name, "rank") {
						first = 1
					}
					break
				}
			}
			require.Positive(t, column, "no column of ranks in %v", fields)
			continue
		}
		head, known := g.Entities.ID(fields[1])
		require.True(t, known)
		relation, known := g.Relations.ID(fields[2])
		require.True(t, known)
		tail, known := g.Entities.ID(fields[3])
		require.True(t, known)
		side := kg.Tail
		if fields[0] == "head" {
			side = kg.Head
		}
		number, err := strconv.Atoi(fields[column])
		require.NoError(t, err)
		printed[sidedTriple{kg.Triple{Head: head, Relation: relation, Tail: tail}, side}] = int32(number - first)
	}
	return printed
}
