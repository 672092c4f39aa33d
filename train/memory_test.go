package train

import (
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/proc"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
)

// measured is work in a process of its own, whose memory is measured.
type measured struct {
	name     string
	estimate func() []proc.Need
	work     func() error
}

// measuredJob names the environment variable that makes the test do one job and print its figures.
const measuredJob = "MQUINE_TEST_MEMORY_JOB"

// requireEstimates compares each estimate with what a process takes for the work.
func requireEstimates(t *testing.T, jobs []measured) {
	if job, err := strconv.Atoi(os.Getenv(measuredJob)); err == nil {
		needs := jobs[job].estimate()
		debug.FreeOSMemory()
		before := proc.PeakRSS()
		require.NoError(t, jobs[job].work())
		fmt.Printf("took %d of %d\n%v\n", proc.PeakRSS()-before, proc.Total(needs), needs)
		return
	}
	if proc.PeakRSS() == 0 {
		t.Skip("the peak memory is not known on this system")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	for i, job := range jobs {
		t.Run(job.name, func(t *testing.T) {
			cmd := exec.Command(self, "-test.run=^"+t.Name()[:len(t.Name())-len(job.name)-1]+"$")
			cmd.Env = append(os.Environ(), measuredJob+"="+strconv.Itoa(i))
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			t.Logf("%s", out)
			var took, estimate float64
			_, err = fmt.Sscanf(string(out), "took %f of %f", &took, &estimate)
			require.NoError(t, err, "%s", out)
			// Never more than it takes, but for what the process had and reuses; and not much less.
			assert.Less(t, estimate, 1.02*took, "%s", out)
			assert.Greater(t, estimate, 0.8*took, "%s", out)
		})
	}
}

// leave makes the system leave the process so much memory, until the test ends.
func leave(t *testing.T, room proc.Room) {
	before := proc.AvailableMemory
	t.Cleanup(func() { proc.AvailableMemory = before })
	proc.AvailableMemory = func() proc.Room { return room }
}

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
	if testing.Short() && os.Getenv(measuredJob) == "" {
		t.Skip("takes a gigabyte of memory")
	}
	m := Machine{Backend: bestBackend(t), Threads: 2}
	job := func(name string, n graphSize, threads int, change func(*Config)) measured {
		c := Default()
		c.Epochs, c.Dropout, c.ValidEvery = 1, 0, 0
		change(&c)
		m := m
		m.Threads = threads
		var g *kg.Graph
		return measured{
			name: name,
			estimate: func() []proc.Need {
				g = scattered(n)
				needs, err := c.memory(newCensus(g), m)
				require.NoError(t, err)
				return needs
			},
			work: func() error {
				trainer, err := NewTrainer(t.Context(), c, g, m)
				if err != nil {
					return err
				}
				if _, err = trainer.Epoch(t.Context()); err == nil && c.ValidEvery > 0 {
					leave(t, proc.Room{Bytes: 80 << 20}) // so that it takes no more than it must
					_, err = trainer.Validate(t.Context())
				}
				return err
			},
		}
	}
	requireEstimates(t, []measured{
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
