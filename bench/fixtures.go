package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/synth"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/checkpoint"
	"github.com/mquine/mquine/train"
	"github.com/mquine/mquine/train/clustered"
)

// shape is the size of a graph to measure on. The graph is made by synth.Zipf, which gives it the
// skew of a real one, unless real names a data set of kg.DataDir.
type shape struct {
	name string
	size synth.Config
	real bool
}

// shapes are a small one for the quick subset and those of the paper's data sets, with fewer
// triples to rank.
var shapes = []shape{
	{name: "small", size: synth.Config{Entities: 2000, Relations: 20, Train: 20_000, Valid: 500, Test: 500, Seed: 1}},
	{name: "fb15k-237-like", size: synth.Config{Entities: 14_541, Relations: 237, Train: 272_115, Valid: 17_535, Test: 500, Seed: 1}},
	{name: "wn18rr-like", size: synth.Config{Entities: 40_943, Relations: 11, Train: 86_835, Valid: 3034, Test: 500, Seed: 1}},
	{name: "yago3-10-like", size: synth.Config{Entities: 123_182, Relations: 37, Train: 1_079_040, Valid: 5000, Test: 500, Seed: 1}},
}

// realShapes lists those of the paper's data sets that are installed, training split included.
func realShapes() []shape {
	var list []shape
	dir, err := kg.DataDir()
	if err != nil {
		return nil // no data is no reason not to measure the rest
	}
	for _, n := range []string{"fb15k-237", "wn18rr", "yago3-10"} {
		if train, _ := filepath.Glob(filepath.Join(dir, n, "train.*")); len(train) > 0 {
			list = append(list, shape{name: n, real: true})
		}
	}
	return list
}

// ranked is the number of test triples that an evaluation ranks.
const ranked = 500

// subject is a data set and a checkpoint of it.
type subject struct {
	graph      *kg.Graph
	index      *kg.Index
	triples    []kg.Triple
	checkpoint *checkpoint.Checkpoint
}

// fixtures keeps the last graph and the last subject, since benchmarks of one stand together.
type fixtures struct {
	shape   string
	graph   *kg.Graph
	key     string
	subject *subject
}

// open returns the graph of a shape.
func (f *fixtures) open(ctx context.Context, s shape) (g *kg.Graph, err error) {
	if f.graph != nil && f.shape == s.name {
		return f.graph, nil
	}
	if s.real {
		g, err = kg.Open(ctx, s.name)
	} else {
		g, _, err = synth.Zipf(ctx, s.size)
	}
	if err != nil {
		return nil, fmt.Errorf("benchmark data %s: %w", s.name, err)
	}
	f.shape, f.graph = s.name, g
	return g, nil
}

// with returns the graph of a shape and a clustered checkpoint of it.
func (f *fixtures) with(ctx context.Context, s shape, m string, dim int) (*subject, error) {
	key := fmt.Sprintf("%s-%s-%d", s.name, m, dim)
	if f.subject != nil && f.key == key {
		return f.subject, nil
	}
	if f.subject != nil {
		f.subject.checkpoint.Close()
		f.subject = nil
	}
	g, err := f.open(ctx, s)
	if err != nil {
		return nil, err
	}
	dir, err := keptCheckpoint(ctx, g, key, model.Config{Model: m, Dim: dim, Entities: g.Entities.Len(), Relations: g.Relations.Len()})
	if err != nil {
		return nil, fmt.Errorf("checkpoint to measure on (%s): %w", key, err)
	}
	c, err := checkpoint.Open(ctx, dir)
	if err != nil {
		return nil, err
	}
	if g, err = g.Relabel(c.Entities, c.Relations); err != nil {
		c.Close()
		return nil, fmt.Errorf("%w; remove %s to have it made anew", err, dir)
	}
	triples, err := g.Triples(kg.Test)
	if err != nil {
		c.Close()
		return nil, err
	}
	f.key, f.subject = key, &subject{g, kg.NewIndex(g), triples[:min(len(triples), ranked)], c}
	return f.subject, nil
}

// keptCheckpoint returns the folder of a checkpoint in the user's cache, where it is made if it is not
// there: that takes seconds, and two revisions that are compared should have the same. Its bytes depend on
// the tier and on clustered.Version, which are in its name.
func keptCheckpoint(ctx context.Context, g *kg.Graph, key string, cfg model.Config) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	backends, err := kernel.Available()
	if err != nil {
		return "", err
	}
	name := fmt.Sprintf("%s-%v-v%d", key, backends[0].Tier, clustered.Version)
	dir := filepath.Join(cache, "mquine", "bench", name)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	m, err := clustered.New(ctx, cfg, g, 1, train.Machine{Backend: backends[0], Threads: threads()})
	if err != nil {
		return "", err
	}
	if err := checkpoint.Save(ctx, dir, m, g.Entities, g.Relations, map[string]string{"dataset": g.Name}); err != nil {
		if _, other := os.Stat(dir); other == nil {
			return dir, nil // another process was faster
		}
		return "", err
	}
	return dir, nil
}
