package rank

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model/checkpoint"
)

// TestRotateFixtures ranks with the checkpoints that the code of the RotatE repository wrote, under
// its protocol, and compares the ranks with the ranks that the code printed. That code computes in
// float32, so a rank may differ by the number of candidates whose exact scores float32 cannot
// distinguish from the target's.
func TestRotateFixtures(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	for _, name := range []string{"distmult", "complex", "transe", "rotate"} {
		t.Run(name, func(t *testing.T) {
			dir := fixture(t, "rotate-repo-"+name+"-umls")
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
			printed := readRotateRanks(t, filepath.Join(dir, "ranks.tsv"), g)

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

// readRotateRanks returns the number of better candidates that the tool printed for each query.
func readRotateRanks(t *testing.T, path string, g *kg.Graph) map[sidedTriple]int32 {
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	printed := map[sidedTriple]int32{}
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		fields := strings.Split(line, "\t")
		if i == 0 {
			require.Equal(t, []string{"side", "head", "relation", "tail", "rank", "better", "equal_or_filled"}, fields)
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
		rank, err := strconv.Atoi(fields[4])
		require.NoError(t, err)
		require.Equal(t, []string{fmt.Sprint(rank - 1), "0"}, fields[5:], "no ties")
		printed[sidedTriple{kg.Triple{Head: head, Relation: relation, Tail: tail}, side}] = int32(rank - 1)
	}
	return printed
}
