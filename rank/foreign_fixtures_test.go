package rank

import (
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/fixture"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/kerneltest"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/kgtest"
	"github.com/mquine/mquine/model/checkpoint"
)

// foreignFixtures lists the checkpoints of mquine's models that other tools wrote.
var foreignFixtures = []string{
	"rotate-repo-distmult-umls", "rotate-repo-complex-umls", "rotate-repo-transe-umls", "rotate-repo-rotate-umls",
	"ote-rotate-umls", "ote-abs-umls", "ote-exp-umls",
	"house-r-umls", "house-r-plus-umls", "house-umls", "house-plus-umls",
	"kbc-complex-umls", "kbc-transe-umls", "dura-complex-umls",
	"libkge-complex-umls", "libkge-distmult-umls", "libkge-transe-umls", "libkge-rotate-umls",
	"libkge-reciprocal-complex-umls",
	"dglke-complex-umls", "dglke-distmult-umls", "dglke-rotate-umls", "dglke-transe-l1-umls", "dglke-transe-l2-umls",
	"pykeen-complex-umls", "pykeen-complex-inverse-umls", "pykeen-distmult-umls", "pykeen-distmult-inverse-umls",
	"pykeen-transe-umls", "pykeen-transe-l2-umls", "pykeen-rotate-umls",
	"pykeen-transh-umls", "pykeen-transr-umls", "pykeen-transd-umls", "dglke-transr-umls",
	"openke-complex-umls", "openke-transe-umls",
	"kbc-rescal-umls", "dura-rescal-umls", "libkge-rescal-umls", "dglke-rescal-umls", "pykeen-rescal-umls",
	"kbc-cp-umls", "dura-cp-umls", "pykeen-cp-umls",
	"simple-umls", "dglke-simple-umls", "pykeen-simple-umls",
	"quate-umls", "pykeen-quate-umls",
	"tucker-umls", "kbc-tucker-umls", "pykeen-tucker-umls",
	"conve-umls", "pykeen-conve-umls", "libkge-reciprocal-conve-umls",
	"hake-umls", "mode-umls",
	"expressive-umls", "expressive-functional-umls", "pykeen-boxe-umls",
}

// scoredFixtures lists the fixtures for which mquine and the tool print the same scores, apart from
// rounding.
var scoredFixtures = []string{
	"kbc-rescal-umls", "dura-rescal-umls", "libkge-rescal-umls", "dglke-rescal-umls", "pykeen-rescal-umls",
	"kbc-cp-umls", "dura-cp-umls", "pykeen-cp-umls",
	"simple-umls", "dglke-simple-umls", "pykeen-simple-umls",
	"quate-umls", "pykeen-quate-umls",
	"expressive-umls", "expressive-functional-umls", "pykeen-boxe-umls",
}

// foreignCandidates holds the number of candidates that a tool has besides the entities: for ConvE,
// one for the empty word. A rank may differ by this number.
var foreignCandidates = map[string]int32{"conve-umls": 1}

// TestForeignFixtures ranks with the checkpoints that other tools wrote, under the filter all, and
// compares the ranks with the ranks that the tools computed. The tools compute in float32, so a rank
// may differ by the number of candidates whose exact scores float32 cannot distinguish from the
// target's.
func TestForeignFixtures(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	for _, name := range foreignFixtures {
		t.Run(name, func(t *testing.T) {
			c, g, dir := openFixture(t, name)
			index := kgtest.Index(t, g)
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
					near := foreignCandidates[name]
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

// TestForeignScores compares printed scores with the scores that the tools printed in float32.
func TestForeignScores(t *testing.T) {
	// These are the possible columns of the scores for each side. A minus marks scores with the
	// opposite sign.
	columns := [2][]string{
		kg.Tail: {"score_rhs", "score_sp", "score_edge_func", "score_t", "score", "-predict"},
		kg.Head: {"score_lhs", "score_po", "score_edge_func", "score_h", "score", "-predict"},
	}
	for _, name := range scoredFixtures {
		t.Run(name, func(t *testing.T) {
			c, g, dir := openFixture(t, name)
			worker := c.Model.NewWorker(kerneltest.Best(t))
			table := readTable(t, filepath.Join(dir, "scores.tsv"))
			require.Len(t, table.rows, 40)
			for side, names := range columns {
				i := slices.IndexFunc(names, func(name string) bool {
					return slices.Contains(table.header, strings.TrimPrefix(name, "-"))
				})
				require.GreaterOrEqual(t, i, 0, "no scores among %v", table.header)
				column := slices.Index(table.header, strings.TrimPrefix(names[i], "-"))
				for _, fields := range table.rows {
					want, err := strconv.ParseFloat(fields[column], 64)
					require.NoError(t, err)
					if names[i][0] == '-' {
						want = -want
					}
					triple := tripleOf(t, g, fields[1:4])
					q, answer := triple.Query(kg.Side(side))
					score := c.Model.Score(worker.Reference(q, answer))
					assert.InDelta(t, want, score, 1e-5, "%v %v", kg.Side(side), triple)
				}
			}
		})
	}
}

// TestRESCALOfDGLKE ranks as DGL-KE does, which scores the tail candidates of a RESCAL query with
// tᵀRh, but the target with hᵀRt. The tool's ranks follow from both functions: tᵀRh is the score of
// the reversed triple.
func TestRESCALOfDGLKE(t *testing.T) {
	c, g, dir := openFixture(t, "dglke-rescal-umls")
	worker, index := c.Model.NewWorker(kerneltest.Best(t)), kgtest.Index(t, g)
	table := readTable(t, filepath.Join(dir, "ranks.tsv"))
	column, tails, differ := slices.Index(table.header, "better"), 0, 0
	for _, fields := range table.rows {
		triple := tripleOf(t, g, fields[1:4])
		q, answer := triple.Query(kg.Tail)
		if fields[0] == "head" {
			continue
		}
		tails++
		target, better := worker.Reference(q, answer), 0
		known := index.Answers(q)
		for e := range int32(c.Entities.Len()) {
			reversed, head := kg.Triple{Head: e, Relation: triple.Relation, Tail: triple.Head}.Query(kg.Tail)
			if e != answer && !slices.Contains(known.Entities, e) && worker.Reference(reversed, head) > target {
				better++
			}
		}
		if strconv.Itoa(better) != fields[column] {
			differ++
		}
	}
	assert.Equal(t, 661, tails)
	assert.Zero(t, differ, "of %d ranks differ", tails)
}

// openFixture opens a checkpoint, and its data set with the checkpoint's identifiers.
func openFixture(t *testing.T, name string) (c *checkpoint.Checkpoint, g *kg.Graph, dir string) {
	t.Helper()
	dir = fixture.Dir(t, name)
	c, err := checkpoint.Open(t.Context(), dir)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	g, err = kg.Open(t.Context(), "umls")
	if err != nil {
		t.Skipf("MQUINE_DATA: %v", err)
	}
	g, err = g.Relabel(c.Entities, c.Relations)
	require.NoError(t, err)
	return c, g, dir
}

// foreignTable is a table of tab-separated fields.
type foreignTable struct {
	header []string
	rows   [][]string
}

// readTable reads a table whose columns head, relation and tail follow a first column.
func readTable(t *testing.T, path string) (table foreignTable) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		table.rows = append(table.rows, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
	}
	table.header, table.rows = table.rows[0], table.rows[1:]
	require.Equal(t, []string{"head", "relation", "tail"}, table.header[1:4])
	return table
}

// tripleOf returns the triple with the given labels.
func tripleOf(t *testing.T, g *kg.Graph, labels []string) kg.Triple {
	t.Helper()
	var ids [3]int32
	for i, v := range []*kg.Vocabulary{g.Entities, g.Relations, g.Entities} {
		id, known := v.ID(labels[i])
		require.True(t, known, labels[i])
		ids[i] = id
	}
	return kg.Triple{Head: ids[0], Relation: ids[1], Tail: ids[2]}
}

type sidedTriple struct {
	kg.Triple
	kg.Side
}

// readForeignRanks returns the number of better candidates of each query under the filter all, from
// the first of the columns below that the table has. For the column better_edge_func, all
// candidates were scored with the function that scores the target (TestRESCALOfDGLKE).
func readForeignRanks(t *testing.T, path string, g *kg.Graph) map[sidedTriple]int32 {
	table := readTable(t, path)
	printed := map[sidedTriple]int32{}
	column, first := -1, 0 // the name of the column, and the number that means no value
	for _, name := range []string{
		"better_edge_func", "better_filtered", "better", "better_logit", "better_sigmoid",
		"rank_filtered_optimistic", "rank_filtered",
	} {
		if column = slices.Index(table.header, name); column >= 0 {
			if strings.HasPrefix(name, "rank") {
				first = 1
			}
			break
		}
	}
	require.Positive(t, column, "no column of ranks in %v", table.header)
	for _, fields := range table.rows {
		side := kg.Tail
		if fields[0] == "head" {
			side = kg.Head
		}
		number, err := strconv.Atoi(fields[column])
		require.NoError(t, err)
		printed[sidedTriple{tripleOf(t, g, fields[1:4]), side}] = int32(number - first)
	}
	return printed
}

// TestForeignImported checks that a checkpoint that another tool wrote and its conversion to
// mquine/1 give the same counts under every filter.
func TestForeignImported(t *testing.T) {
	root := fixture.Root(t)
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	g, err := kg.Open(t.Context(), "umls")
	if err != nil {
		t.Skipf("MQUINE_DATA: %v", err)
	}
	run := func(c *checkpoint.Checkpoint) []Rank {
		labelled, err := g.Relabel(c.Entities, c.Relations)
		require.NoError(t, err)
		ranking, err := Run(t.Context(), c.Model, kgtest.Index(t, labelled), labelled.Splits[kg.Test], Options{})
		require.NoError(t, err)
		return ranking.Ranks
	}
	read := 0
	for _, e := range entries {
		dir := filepath.Join(root, e.Name())
		c, err := checkpoint.Open(t.Context(), dir)
		if err != nil || c.Format == "mquine/1" {
			continue
		}
		read++
		out := filepath.Join(t.TempDir(), "out")
		metadata := maps.Clone(c.Metadata)
		metadata["dataset"] = c.Dataset
		require.NoError(t, c.Save(t.Context(), out, metadata), dir)
		saved, err := checkpoint.Open(t.Context(), out)
		require.NoError(t, err, dir)
		require.Equal(t, run(c), run(saved), dir)
		require.NoError(t, saved.Close())
		require.NoError(t, c.Close())
	}
	assert.GreaterOrEqual(t, read, len(foreignFixtures))
}
