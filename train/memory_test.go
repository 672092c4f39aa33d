package train

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/proc"
	"github.com/mquine/mquine/internal/proc/proctest"
	"github.com/mquine/mquine/kernel/kerneltest"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/train/recipe"
)

// graphSize holds the numbers of entities, relations and triples of a graph.
type graphSize struct{ entities, relations, triples int }

// scattered returns a graph with few triples. Training on it takes little time but much memory.
func scattered(n graphSize) *kg.Graph {
	g := &kg.Graph{Name: "scattered", Entities: kg.NewVocabulary(), Relations: kg.NewVocabulary()}
	for e := range n.entities {
		g.Entities.Add(strconv.Itoa(e))
	}
	for r := range n.relations {
		g.Relations.Add(strconv.Itoa(r))
	}
	for i := range n.triples {
		head, tail := int32(i*7919%n.entities), int32((i*104729+1)%n.entities)
		t := kg.Triple{Head: head, Relation: int32(i % n.relations), Tail: tail}
		g.Splits[kg.Train] = append(g.Splits[kg.Train], t)
	}
	g.Splits[kg.Valid] = g.Splits[kg.Train][:64]
	g.Splits[kg.Test] = g.Splits[kg.Train][:64]
	return g
}

// job is the estimate and the work of one epoch.
func job(name string, n graphSize, threads int, change func(*recipe.Recipe)) proctest.Job {
	return proctest.Job{Name: name, Prepare: func(t *testing.T) ([]proc.Need, func() error) {
		c, g, m := recipe.Default(), scattered(n), Machine{Backend: kerneltest.Best(t), Threads: threads}
		c.Epochs, c.Dropout, c.ValidEvery = 1, 0, 0
		change(&c)
		needs, err := memoryOf(t.Context(), &c, newCensus(g), m)
		require.NoError(t, err)
		return needs, func() error {
			trainer, err := NewTrainer(t.Context(), c, g, m)
			if err != nil {
				return err
			}
			if _, err = trainer.Epoch(t.Context()); err == nil && c.ValidEvery > 0 {
				proctest.Leave(t, 80<<20) // about the least memory that Validate needs
				_, err = trainer.Validate(t.Context())
			}
			return err
		}
	}}
}

func TestTrainingMemory(t *testing.T) {
	proctest.CompareEstimates(t, []proctest.Job{
		job("adam, averaged", graphSize{5003, 101, 64}, 2, func(c *recipe.Recipe) {
			c.Dim, c.Batch, c.EMA = 64, 64, 0.9
		}),
		job("adagrad, mquade", graphSize{5003, 11, 64}, 1, func(c *recipe.Recipe) {
			c.Model, c.Optimiser, c.Dim, c.Batch = "mquade", recipe.Adagrad, 64, 64
		}),
		job("sgd, clipped", graphSize{5003, 11, 64}, 1, func(c *recipe.Recipe) {
			c.Optimiser, c.Dim, c.Batch, c.Clip = recipe.SGD, 64, 64, 1
		}),
		job("all", graphSize{30_011, 11, 1024}, 2, func(c *recipe.Recipe) { c.Dim, c.Batch = 8, 1024 }),
		job("k-vs-all", graphSize{30_011, 11, 2048}, 2, func(c *recipe.Recipe) {
			c.Negatives, c.Dim, c.Batch = recipe.KvsAll, 8, 2048
		}),
		job("k-vs-all in parts", graphSize{997, 211, 200_000}, 2, func(c *recipe.Recipe) {
			c.Negatives, c.MaxAnswers, c.Dim, c.Batch = recipe.KvsAll, 1, 8, 32_768
		}),
		job("shared", graphSize{30_011, 53, 2048}, 2, func(c *recipe.Recipe) {
			c.Negatives, c.NegativeCount, c.Dim, c.Batch = recipe.SharedNegatives, 8192, 24, 2048
		}),
		job("shared, one thread, clipped", graphSize{30_011, 53, 2048}, 1, func(c *recipe.Recipe) {
			c.Negatives, c.NegativeCount, c.Dim, c.Batch, c.Clip = recipe.SharedNegatives, 16_384, 24, 2048, 1
		}),
		job("independent", graphSize{4003, 53, 2048}, 2, func(c *recipe.Recipe) {
			c.Negatives, c.NegativeCount, c.Dim, c.Batch, c.Filter = recipe.IndependentNegatives, 4096, 4, 2048, true
		}),
		job("independent, bernoulli", graphSize{4003, 53, 2048}, 2, func(c *recipe.Recipe) {
			c.Negatives, c.NegativeCount, c.Distribution = recipe.IndependentNegatives, 8192, recipe.Bernoulli
			c.Dim, c.Batch = 4, 2048
		}),
		job("independent, by degree", graphSize{20_011, 53, 1024}, 2, func(c *recipe.Recipe) {
			c.Negatives, c.NegativeCount, c.Distribution = recipe.IndependentNegatives, 64, recipe.Degree
			c.Dim, c.Batch = 48, 1024
		}),
		job("independent, losses of blocks", graphSize{4003, 53, 2048}, 2, func(c *recipe.Recipe) {
			c.Negatives, c.NegativeCount, c.Dim, c.Batch = recipe.IndependentNegatives, 4096, 2, 2048
			c.Hyper, c.BlockLosses = "blocks=8", true
		}),
		job("a root", graphSize{30_011, 11, 1024}, 2, func(c *recipe.Recipe) {
			c.Model, c.Dim, c.Batch = "transe-l2", 8, 512
		}),
		job("a root and a second distance", graphSize{30_011, 11, 1024}, 2, func(c *recipe.Recipe) {
			c.Model, c.Dim, c.Batch = "hake", 8, 512
		}),
		job("groups of coordinates", graphSize{30_011, 11, 1024}, 2, func(c *recipe.Recipe) {
			c.Model, c.Dim, c.Batch = "house", 8, 512
		}),
		job("features of relations", graphSize{5003, 23, 1024}, 2, func(c *recipe.Recipe) {
			c.Model, c.Dim, c.Batch = "transr-l1", 16, 256
		}),
		job("boxes", graphSize{30_011, 11, 1024}, 2, func(c *recipe.Recipe) {
			c.Model, c.Dim, c.Batch = "boxe", 16, 512
		}),
		job("parallelograms", graphSize{5003, 11, 1024}, 1, func(c *recipe.Recipe) {
			c.Negatives, c.NegativeCount = recipe.SharedNegatives, 4096
			c.Model, c.Dim, c.Batch = "expressive", 256, 1024
		}),
		job("relations", graphSize{499, 401, 2048}, 2, func(c *recipe.Recipe) { c.Dim, c.Batch = 80, 2048 }),
		job("relation prediction", graphSize{499, 1009, 2048}, 2, func(c *recipe.Recipe) {
			c.Model, c.Dim, c.Batch, c.RelationWeight = "rescal", 48, 2048, 1
		}),
		job("relation prediction by queries", graphSize{2003, 401, 2048}, 2, func(c *recipe.Recipe) {
			c.Dim, c.Batch, c.RelationWeight, c.RelationNegatives = 40, 1024, 1, 200
		}),
		job("clipped, reciprocal", graphSize{499, 1009, 4096}, 1, func(c *recipe.Recipe) {
			c.Model, c.Optimiser, c.Dim, c.Batch, c.Reciprocal, c.Clip = "rescal", recipe.SGD, 64, 4096, true, 1
		}),
		job("conve", graphSize{499, 11, 4096}, 2, func(c *recipe.Recipe) {
			c.Model, c.Dim, c.Batch, c.Reciprocal = "conve", 200, 1024, true
			c.Negatives, c.NegativeCount = recipe.SharedNegatives, 64
		}),
		job("tucker", graphSize{499, 401, 8192}, 2, func(c *recipe.Recipe) {
			c.Model, c.Dim, c.Batch, c.Reciprocal = "tucker", 96, 4096, true
			c.Negatives, c.NegativeCount = recipe.SharedNegatives, 64
		}),
		job("tucker, k-vs-all", graphSize{499, 401, 8192}, 2, func(c *recipe.Recipe) {
			c.Model, c.Dim, c.Batch, c.Reciprocal, c.Negatives = "tucker", 128, 1024, true, recipe.KvsAll
		}),
		job("validation", graphSize{20_011, 11, 64}, 2, func(c *recipe.Recipe) {
			c.Dim, c.Batch, c.ValidEvery = 32, 64, 1
		}),
	})
}

// The table of entities needs no memory for features. They would be more than a tenth of this run.
func TestTrainingMemoryWithoutFeatures(t *testing.T) {
	proctest.CompareEstimates(t, []proctest.Job{
		job("k-vs-all", graphSize{30_011, 11, 64}, 2, func(c *recipe.Recipe) {
			c.Negatives, c.Model, c.Dim, c.Batch = recipe.KvsAll, "complex", 256, 64
		}),
	})
}

// If features depend on the relation, each side of each relation in a step has separate rows.
func TestTrainingMemoryOfRelations(t *testing.T) {
	proctest.CompareEstimates(t, []proctest.Job{
		job("k-vs-all", graphSize{2003, 42, 512}, 1, func(c *recipe.Recipe) {
			c.Model, c.Dim, c.Batch, c.Negatives = "transr-l1", 32, 1024, recipe.KvsAll
		}),
		job("k-vs-all in parts", graphSize{997, 211, 1024}, 2, func(c *recipe.Recipe) {
			c.Model, c.Dim, c.Batch, c.Negatives, c.MaxAnswers = "mode", 32, 2048, recipe.KvsAll, 1
		}),
		job("independent", graphSize{2003, 42, 512}, 1, func(c *recipe.Recipe) {
			c.Model, c.Dim, c.Batch = "transr-l1", 32, 512
			c.Negatives, c.NegativeCount = recipe.IndependentNegatives, 256
		}),
		job("bernoulli", graphSize{2003, 211, 1024}, 2, func(c *recipe.Recipe) {
			c.Model, c.Dim, c.Batch, c.Distribution = "transh-l1", 32, 1024, recipe.Bernoulli
			c.Negatives, c.NegativeCount = recipe.IndependentNegatives, 512
		}),
		job("by degree", graphSize{2003, 211, 1024}, 2, func(c *recipe.Recipe) {
			c.Model, c.Dim, c.Batch, c.Distribution = "transd-l1", 32, 1024, recipe.Degree
			c.Negatives, c.NegativeCount = recipe.IndependentNegatives, 256
		}),
	})
}

// The estimate for training triples counts the slices that a trainer holds.
func TestMemoryOfTriples(t *testing.T) {
	for name, change := range map[string]func(*recipe.Recipe){
		"1vsall":      func(c *recipe.Recipe) { c.Negatives = recipe.OneVsAll },
		"subsampling": func(c *recipe.Recipe) { c.Negatives, c.Subsampling = recipe.OneVsAll, true },
		"kvsall":      func(c *recipe.Recipe) { c.Negatives, c.MaxAnswers = recipe.KvsAll, 0 },
	} {
		c, g := recipe.Default(), scattered(graphSize{499, 7, 1000})
		m := Machine{Backend: kerneltest.Best(t), Threads: 1}
		c.Dim, c.AnswerWeights, c.MaxAnswers = 2, false, 0
		change(&c)
		tr, err := NewTrainer(t.Context(), c, g, m)
		require.NoError(t, err)
		tr.shuffle()
		require.Same(t, &g.Splits[kg.Train][0], &tr.triples[0], "not a copy")
		want := 2 * int64(len(tr.triples)) * 5 // the index
		want += int64(len(tr.preparer.subsampling)) * 8
		if tr.queries == nil {
			want += int64(len(tr.order)) * 4
		}
		needs, err := memoryOf(t.Context(), &c, newCensus(g), m)
		require.NoError(t, err)
		i := slices.IndexFunc(needs, func(n proc.Need) bool { return n.For == "training triples and their index" })
		require.Equal(t, 1000, len(tr.triples), "the triples are distinct")
		assert.Equal(t, want, needs[i].Bytes, name)
	}
}

// The queries are counted for each relation and side, repeated triples once.
func TestCountQueries(t *testing.T) {
	g := scattered(graphSize{499, 7, 64})
	g.Splits[kg.Train] = nil
	rng := rand.New(rand.NewPCG(1, 2))
	distinct := map[kg.Query]bool{}
	for i := range 5000 {
		t := kg.Triple{Head: rng.Int32N(20) * rng.Int32N(20), Relation: rng.Int32N(6), Tail: rng.Int32N(499)}
		if i%5 == 0 {
			t.Head, t.Tail = t.Tail, t.Head
		}
		g.Splits[kg.Train] = append(g.Splits[kg.Train], t)
		for _, side := range []kg.Side{kg.Tail, kg.Head} {
			q, _ := t.Query(side)
			distinct[q] = true
		}
	}
	want := make([]int, 14)
	for q := range distinct {
		want[7*int(q.Side)+int(q.Relation)]++
	}
	s := newCensus(g)
	require.NoError(t, s.countQueries(t.Context()))
	assert.Equal(t, want, s.queries)
	assert.Zero(t, s.queries[6], "relation 6 has no triples")
	assert.Equal(t, len(distinct), s.queryParts(0))
	assert.Equal(t, 10_000, s.queryParts(1))
}

// On a large graph, counting the queries takes long, so a cancelled context stops the estimate.
func TestMemoryStopsWithItsContext(t *testing.T) {
	c, g := recipe.Default(), scattered(graphSize{499, 7, 1000})
	m := Machine{Backend: kerneltest.Best(t), Threads: 1}
	c.Negatives = recipe.KvsAll
	config, err := model.StartConfig(c.ModelConfig(499, 7), c.Start())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Memory(ctx, &c, config, g, m)
	assert.ErrorIs(t, err, context.Canceled)
	assert.ErrorIs(t, CheckMemory(ctx, g, m, c), context.Canceled)
}

func TestInitialMemory(t *testing.T) {
	config := func(name string, dim int, g *kg.Graph) model.Config {
		c := model.Config{Model: name, Dim: dim, Entities: g.Entities.Len(), Relations: g.Relations.Len()}
		c, err := model.InitialConfig(c)
		require.NoError(t, err)
		return c
	}
	random := func(name string, dim int, n graphSize) func(*testing.T) ([]proc.Need, func() error) {
		return func(t *testing.T) ([]proc.Need, func() error) {
			c := config(name, dim, scattered(n))
			list, err := model.Parameters(c)
			require.NoError(t, err)
			return []proc.Need{{For: "parameters", Bytes: parameterBytes(list)}}, func() error {
				_, err := Random(t.Context(), c, 1)
				return err
			}
		}
	}
	proctest.CompareEstimates(t, []proctest.Job{
		{Name: "random mquine", Prepare: random("mquine", 64, graphSize{5003, 2003, 64})},
		{Name: "random transe", Prepare: random("transe-l1", 1000, graphSize{20_011, 11, 64})},
	})
}

// A run that does not fit into memory is refused with an error that states the needed and the
// available memory.
func TestTrainingRefused(t *testing.T) {
	g := scattered(graphSize{5003, 11, 64})
	m := Machine{Backend: kerneltest.Best(t), Threads: 2}
	c := recipe.Default()
	c.Dim, c.Batch = 64, 64
	needs, err := memoryOf(t.Context(), &c, newCensus(g), m)
	require.NoError(t, err)

	proctest.Leave(t, proc.Total(needs))
	require.NoError(t, CheckMemory(t.Context(), g, m, c))
	proctest.Leave(t, proc.Total(needs)-1)
	_, err = NewTrainer(t.Context(), c, g, m)
	assert.ErrorContains(t, err, "training mquine, d = 64, on scattered needs about ")
	assert.ErrorContains(t, err, " (parameters 40 MiB, optimiser 80 MiB, "+
		"features, queries and gradients of a step 165 MiB, validation ")
	assert.ErrorContains(t, err, " is available (a limit of the test): lower dim or batch, or make more memory ")

	proctest.Leave(t, 24<<30)
	c.Negatives, c.NegativeCount = recipe.IndependentNegatives, 1<<24
	assert.ErrorContains(t, CheckMemory(t.Context(), g, m, c), "negatives of a step 40 GiB")
	assert.ErrorContains(t, CheckMemory(t.Context(), g, m, c), ": lower dim, batch or negative_count, or")

	c = recipe.Default()
	c.Model, c.Dim, c.Reciprocal, c.Hyper = "tucker", 512, true, "relation_dim=32768"
	assert.ErrorContains(t, CheckMemory(t.Context(), g, m, c), "training tucker, d = 512, on scattered needs about ")

	proctest.Leave(t, 4<<30)
	big := model.Config{Model: "mquine", Dim: 512, Entities: 14_541, Relations: 237}
	_, err = Random(t.Context(), big, 1)
	assert.EqualError(t, err, "creating mquine, d = 512, for 14,541 entities and 237 relations needs about 7.8 GiB of "+
		"memory (parameters 7.8 GiB), but only 4.0 GiB is available (a limit of the test): "+
		"lower its dimension, or make more memory available")
}

// The documented recipes are accepted on the machines on which they ran.
func TestRecipesFit(t *testing.T) {
	const gib = 1 << 30
	for name, least := range map[string]int64{
		"codex-s": gib, "wn18rr": 24 * gib, "fb15k-237": 24 * gib, "codex-m": 24 * gib,
	} {
		t.Run(name, func(t *testing.T) {
			if os.Getenv("MQUINE_DATA") == "" {
				t.Skip("MQUINE_DATA does not name the folder of the data sets")
			}
			g, err := kg.Open(t.Context(), name)
			require.NoError(t, err)
			for _, preset := range []string{"best", "paper"} {
				for _, m := range []string{"mquine", "complex"} {
					c, err := recipe.Base(preset, name, m)
					require.NoError(t, err)
					proctest.Leave(t, least)
					err = CheckMemory(t.Context(), g, Machine{Backend: kerneltest.Best(t), Threads: 2}, c)
					require.NoError(t, err, "%s, %s", preset, m)
				}
			}
		})
	}
}
