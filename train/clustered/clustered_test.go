package clustered

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/proc"
	"github.com/mquine/mquine/internal/proc/proctest"
	"github.com/mquine/mquine/kernel/kerneltest"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/kgtest"
	"github.com/mquine/mquine/kg/synth"
	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank"
	"github.com/mquine/mquine/train"
)

func machine(t testing.TB, threads int) train.Machine {
	return train.Machine{Backend: kerneltest.Best(t), Threads: threads}
}

func config(g *kg.Graph, name string, d int) model.Config {
	c := model.Config{Model: name, Dim: d, Entities: g.Entities.Len(), Relations: g.Relations.Len()}
	if spec, err := model.Lookup(name); err == nil {
		c.Reciprocal = spec.TrainReciprocal
	}
	return c
}

func zipf(t testing.TB, entities int) *kg.Graph {
	g, _, err := synth.Zipf(t.Context(), synth.Config{Entities: entities, Seed: 5})
	require.NoError(t, err)
	return g
}

// Every model ranks the targets far better than chance.
func TestRanks(t *testing.T) {
	g := zipf(t, 1000)
	m := machine(t, 2)
	for _, name := range model.Names() {
		made, err := New(t.Context(), config(g, name, 12), g, 1, m)
		require.NoError(t, err)
		options := rank.Options{Backend: m.Backend, Threads: 2}
		ranking, err := rank.Run(t.Context(), made, kgtest.Index(t, g), g.Splits[kg.Test], options)
		require.NoError(t, err)
		result := metrics.Measure(ranking.Ranks, rank.BothSides, rank.All, rank.Realistic, nil)
		t.Logf("%s: MRR %.4f, median %v", name, result.MRR, result.Median)
		chance := (math.Log(1000) + 0.58) / 1000
		assert.Greater(t, result.MRR, 3*chance, name)
	}
}

// Every model has the same bytes for any number of threads, and different bytes for a different
// seed.
func TestSameBytesForAnyThreads(t *testing.T) {
	g := zipf(t, 300)
	configs := []model.Config{config(g, "house", 6)}
	configs[0].Hyper = map[string]float64{"projections": 1} // features depend on the relation
	for i, name := range model.Names() {
		if !testing.Short() || i%15 == 0 {
			configs = append(configs, config(g, name, 5))
		}
	}
	others := []int{2, 3, 4}
	if testing.Short() {
		others = []int{3}
	}
	for _, cfg := range configs {
		name := cfg.Model
		made := func(seed uint64, threads int) [][]float32 {
			m, err := New(t.Context(), cfg, g, seed, machine(t, threads))
			require.NoError(t, err)
			return m.Tensors()
		}
		want := made(1, 1)
		for _, threads := range others {
			require.Equal(t, want, made(1, threads), "%s, %d threads", name, threads)
		}
		assert.NotEqual(t, want, made(2, 1), name)
	}
}

// Every entity is near the centre of its cluster, and all other parameters are copied from the
// model with the centres.
func TestScatter(t *testing.T) {
	const d, clusters = 24, 3
	for _, name := range model.Names() {
		cfg, err := model.InitialConfig(model.Config{Model: name, Dim: d, Entities: clusters, Relations: 2})
		require.NoError(t, err)
		centres, err := model.Random(t.Context(), cfg, 1)
		require.NoError(t, err)
		of := []int32{2, 0, 1, 2, 2}
		cfg.Entities = len(of)
		m, err := scatter(t.Context(), cfg, of, centres, 1, 2)
		require.NoError(t, err)
		parameters, err := model.Parameters(cfg)
		require.NoError(t, err)
		for i, p := range parameters {
			got, from := m.Tensors()[i], centres.Tensors()[i]
			if p.Axis != model.PerEntity {
				assert.Equal(t, from, got, "%s of %s", p.Name, name)
				continue
			}
			w := p.Width()
			for e, cluster := range of {
				var near, norm float64
				for k, x := range got[e*w:][:w] {
					centre := float64(from[int(cluster)*w+k])
					near += (float64(x) - centre) * (float64(x) - centre)
					norm += centre * centre
				}
				ratio := math.Sqrt(near / norm)
				assert.True(t, ratio > 0.1 && ratio < 0.6,
					"%s of %s, entity %d: %v of the norm", p.Name, name, e, ratio)
			}
			assert.NotEqual(t, got[:w], got[3*w:4*w], "two entities of cluster 2")
		}
	}
}

func TestProgressAndCancel(t *testing.T) {
	g := zipf(t, 300)
	ctx, cancel := context.WithCancel(t.Context())
	m := machine(t, 2)
	last := 0
	m.Progress = func(p train.Progress) {
		assert.Equal(t, rounds, p.Epochs)
		assert.True(t, p.Epoch == last || p.Epoch == last+1, "round %d after %d", p.Epoch, last)
		if last = p.Epoch; last == 3 {
			cancel()
		}
	}
	made, err := New(ctx, config(g, "mquine", 3), g, 1, m)
	assert.ErrorIs(t, err, context.Canceled)
	assert.Nil(t, made)
	assert.Equal(t, 3, last)
}

func TestWrongCalls(t *testing.T) {
	g := zipf(t, 300)
	c := config(g, "mquine", 3)
	c.Entities++
	_, err := New(t.Context(), c, g, 1, machine(t, 1))
	assert.ErrorContains(t, err, "a model with 301 entities and 37 relations cannot be fitted to data set ")
	assert.ErrorContains(t, err, ", which has 300 and 37")
	_, err = New(t.Context(), config(g, "transd", 3), g, 1, machine(t, 1))
	assert.ErrorContains(t, err, "unknown model")
	_, err = New(t.Context(), config(g, "mquine", 3), g, 1, train.Machine{Threads: 1})
	assert.ErrorContains(t, err, "backend")
}

// New also accepts graphs that are too small for clusters, and graphs without triples.
func TestTiny(t *testing.T) {
	for n := 1; n < 3; n++ {
		g := &kg.Graph{Name: "tiny", Entities: kg.NewVocabulary(), Relations: kg.NewVocabulary("r")}
		for e := range n {
			g.Entities.Add(strconv.Itoa(e))
			g.Splits[kg.Train] = append(g.Splits[kg.Train], kg.Triple{Tail: int32(e)})
		}
		for _, name := range model.Names() {
			m, err := New(t.Context(), config(g, name, 2), g, 1, machine(t, 2))
			require.NoError(t, err)
			for _, tensor := range m.Tensors() {
				for _, x := range tensor {
					require.False(t, math.IsNaN(float64(x)), name)
				}
			}
		}
	}
}

// sparse returns a graph with few triples.
func sparse(entities, relations, triples int) *kg.Graph {
	g := &kg.Graph{Name: "sparse", Entities: kg.NewVocabulary(), Relations: kg.NewVocabulary()}
	for e := range entities {
		g.Entities.Add(fmt.Sprint(e))
	}
	for r := range relations {
		g.Relations.Add(fmt.Sprint(r))
	}
	for i := range triples {
		head, tail := int32(i*7919%entities), int32((i*104729+1)%entities)
		t := kg.Triple{Head: head, Relation: int32(i % relations), Tail: tail}
		g.Splits[kg.Train] = append(g.Splits[kg.Train], t)
	}
	return g
}

// Most of the memory is for the parameters or, with many relations, for the training of the centres.
func TestMemory(t *testing.T) {
	job := func(name string, d int, g *kg.Graph) proctest.Job {
		title := fmt.Sprintf("%s, d = %d", name, d)
		return proctest.Job{Name: title, Prepare: func(t *testing.T) ([]proc.Need, func() error) {
			cfg, err := model.InitialConfig(config(g, name, d))
			require.NoError(t, err)
			needs := []proc.Need{{For: "parameters"}}
			parameters, err := model.Parameters(cfg)
			require.NoError(t, err)
			for _, p := range parameters {
				needs[0].Bytes += 4 * int64(p.Len())
			}
			m := machine(t, 2)
			clusters, count, err := clusterEntities(t.Context(), g, 1)
			require.NoError(t, err)
			coarse, err := coarseGraph(t.Context(), g, clusters, count, 1)
			require.NoError(t, err)
			coarse.Splits[kg.Train] = coarse.Splits[kg.Train][:min(roundSize, len(coarse.Splits[kg.Train]))]
			c := plainRecipe(cfg)
			centres := cfg
			centres.Entities = count
			fit, err := train.Memory(t.Context(), &c, centres, coarse, m)
			require.NoError(t, err)
			if proc.Total(fit) > proc.Total(needs) {
				needs = fit
			}
			return needs, func() error { _, err := New(t.Context(), cfg, g, 1, m); return err }
		}}
	}
	proctest.CompareEstimates(t, []proctest.Job{
		job("mquine", 32, sparse(40_009, 11, 64)),
		job("mquine", 48, sparse(2003, 2003, 1024)),
		job("rotate", 500, sparse(20_011, 11, 64)),
	})
}

func TestRefused(t *testing.T) {
	g := sparse(5003, 11, 64)
	proctest.Leave(t, 1<<30)
	_, err := New(t.Context(), config(g, "mquine", 512), g, 1, machine(t, 2))
	assert.ErrorContains(t, err,
		"creating mquine, d = 512, for 5,003 entities and 11 relations needs about 2.5 GiB of memory")

	g = sparse(64, 2003, 1024)
	proctest.Leave(t, 100<<20)
	_, err = New(t.Context(), config(g, "mquine", 48), g, 1, machine(t, 2))
	assert.ErrorContains(t, err, "fitting mquine, d = 48, to 8 clusters of entities needs about ")
}
