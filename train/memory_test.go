package train

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/proc"
	"github.com/mquine/mquine/internal/proc/proctest"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
)

// graphSize is that of a graph.
type graphSize struct{ entities, relations, triples int }

// scattered returns a graph in which the triples are few, so that a training is short and yet large.
func scattered(n graphSize) *kg.Graph {
	g := &kg.Graph{Name: "scattered", Entities: kg.NewVocabulary(), Relations: kg.NewVocabulary()}
	for e := range n.entities {
		g.Entities.Add(strconv.Itoa(e))
	}
	for r := range n.relations {
		g.Relations.Add(strconv.Itoa(r))
	}
	for i := range n.triples {
		t := kg.Triple{Head: int32(i * 7919 % n.entities), Relation: int32(i % n.relations), Tail: int32((i*104729 + 1) % n.entities)}
		g.Splits[kg.Train] = append(g.Splits[kg.Train], t)
	}
	g.Splits[kg.Valid] = g.Splits[kg.Train][:64]
	g.Splits[kg.Test] = g.Splits[kg.Train][:64]
	return g
}

func TestTrainingMemory(t *testing.T) {
	job := func(name string, n graphSize, threads int, change func(*Config)) proctest.Job {
		return proctest.Job{Name: name, Prepare: func(t *testing.T) ([]proc.Need, func() error) {
			c, g, m := Default(), scattered(n), Machine{Backend: bestBackend(t), Threads: threads}
			c.Epochs, c.Dropout, c.ValidEvery = 1, 0, 0
			change(&c)
			needs, err := c.memory(newCensus(g), m)
			require.NoError(t, err)
			return needs, func() error {
				trainer, err := NewTrainer(t.Context(), c, g, m)
				if err != nil {
					return err
				}
				if _, err = trainer.Epoch(t.Context()); err == nil && c.ValidEvery > 0 {
					proctest.Leave(t, 80<<20) // so that it takes no more than it must
					_, err = trainer.Validate(t.Context())
				}
				return err
			}
		}}
	}
	proctest.CompareEstimates(t, []proctest.Job{
		job("adam, averaged", graphSize{5003, 101, 64}, 2, func(c *Config) { c.Dim, c.Batch, c.Average = 64, 64, 0.9 }),
		job("adagrad, mquade", graphSize{5003, 11, 64}, 1, func(c *Config) {
			c.Model, c.Optimiser, c.Dim, c.Batch = "mquade", adagradOptimiser, 64, 64
		}),
		job("sgd, clipped", graphSize{5003, 11, 64}, 1, func(c *Config) { c.Optimiser, c.Dim, c.Batch, c.Clip = sgdOptimiser, 64, 64, 1 }),
		job("all", graphSize{30_011, 11, 1024}, 2, func(c *Config) { c.Dim, c.Batch = 8, 1024 }),
		job("k-vs-all", graphSize{30_011, 11, 2048}, 2, func(c *Config) { c.Negatives, c.Dim, c.Batch = kvsAllNegatives, 8, 2048 }),
		job("shared", graphSize{30_011, 53, 2048}, 2, func(c *Config) {
			c.Negatives, c.NegativeCount, c.Dim, c.Batch = sharedNegatives, 8192, 24, 2048
		}),
		job("shared, one thread, clipped", graphSize{30_011, 53, 2048}, 1, func(c *Config) {
			c.Negatives, c.NegativeCount, c.Dim, c.Batch, c.Clip = sharedNegatives, 16_384, 24, 2048, 1
		}),
		job("independent", graphSize{4003, 53, 2048}, 2, func(c *Config) {
			c.Negatives, c.NegativeCount, c.Dim, c.Batch, c.Filter = independentNegatives, 4096, 4, 2048, true
		}),
		job("independent, bernoulli", graphSize{4003, 53, 2048}, 2, func(c *Config) {
			c.Negatives, c.NegativeCount, c.Dim, c.Batch, c.Distribution = independentNegatives, 8192, 4, 2048, bernoulliDistribution
		}),
		job("independent, by degree", graphSize{20_011, 53, 1024}, 2, func(c *Config) {
			c.Negatives, c.NegativeCount, c.Dim, c.Batch, c.Distribution = independentNegatives, 64, 48, 1024, degreeDistribution
		}),
		job("relations", graphSize{499, 401, 2048}, 2, func(c *Config) { c.Dim, c.Batch = 80, 2048 }),
		job("validation", graphSize{20_011, 11, 64}, 2, func(c *Config) { c.Dim, c.Batch, c.ValidEvery = 32, 64, 1 }),
	})
}

func bestBackend(t *testing.T) *kernel.Backend {
	backends, err := kernel.Available()
	require.NoError(t, err)
	return backends[0]
}
