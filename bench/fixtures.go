package bench

import (
	"context"
	"fmt"
	"hash/crc32"
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

// shape describes a graph for benchmarks: the installed data set of that name or, if data is "",
// synth.Zipf's graph of the given size, which is as skewed as a real one.
type shape struct {
	name string
	size synth.Config
	data string
}

// shapes lists a small graph for the quick subset, graphs as large as the paper's data sets but with
// fewer test triples, and these data sets themselves.
var shapes = []shape{
	newShape("small", 2000, 20, 20_000, 500),
	newShape("fb15k-237-like", 14_541, 237, 272_115, 17_535),
	newShape("wn18rr-like", 40_943, 11, 86_835, 3034),
	newShape("yago3-10-like", 123_182, 37, 1_079_040, 5000),
	realShape("fb15k-237"), realShape("wn18rr"), realShape("yago3-10"),
}

func newShape(name string, entities, relations, train, valid int) shape {
	return shape{name: name, size: synth.Config{
		Entities: entities, Relations: relations, Train: train, Valid: valid, Test: ranked, Seed: 1,
	}}
}

func realShape(data string) shape { return shape{name: data, data: data} }

// quick reports whether the quick subset includes the graph.
func (s shape) quick() bool { return s.name == "small" }

// ranked is the number of test triples that an evaluation ranks.
const ranked = 500

// subject is a data set with a checkpoint for it.
type subject struct {
	graph      *kg.Graph
	index      *kg.Index
	triples    []kg.Triple
	checkpoint *checkpoint.Checkpoint
}

// fixtures keeps the last graph and the last subject, because benchmarks on the same graph run one
// after another.
type fixtures struct {
	shape   string
	graph   *kg.Graph
	key     string
	subject *subject
}

// open returns a shape's graph.
func (f *fixtures) open(ctx context.Context, s shape) (g *kg.Graph, err error) {
	if f.graph != nil && f.shape == s.name {
		return f.graph, nil
	}
	if s.data != "" {
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

// with returns a shape's graph and a clustered checkpoint for it.
func (f *fixtures) with(ctx context.Context, s shape, m string, dim int) (*subject, error) {
	return f.withKind(ctx, s, m, dim, clusteredKind)
}

// withKind is like with, but returns a checkpoint of the given kind.
func (f *fixtures) withKind(ctx context.Context, s shape, m string, dim int, kind string) (*subject, error) {
	key := fmt.Sprintf("%s-%s-%d", s.name, m, dim)
	if kind != clusteredKind {
		key += "-" + kind
	}
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
	cfg := model.Config{Model: m, Dim: dim, Entities: g.Entities.Len(), Relations: g.Relations.Len()}
	dir, err := cachedCheckpoint(ctx, g, key, kind, cfg)
	if err != nil {
		return nil, fmt.Errorf("benchmark checkpoint %s: %w", key, err)
	}
	c, err := checkpoint.Open(ctx, dir)
	if err != nil {
		return nil, err
	}
	if g, err = g.Relabel(c.Entities, c.Relations); err != nil {
		c.Close()
		return nil, fmt.Errorf("%w; remove %s and run again", err, dir)
	}
	triples, err := g.Triples(kg.Test)
	if err != nil {
		c.Close()
		return nil, err
	}
	index, err := kg.NewIndex(ctx, g)
	if err != nil {
		c.Close()
		return nil, err
	}
	f.key, f.subject = key, &subject{g, index, triples[:min(len(triples), ranked)], c}
	return f.subject, nil
}

// These are the kinds of checkpoints: with initial parameters, trained for one epoch, trained for a
// few epochs, and clustered.
const (
	randomKind    = "random"
	earlyKind     = "early"
	trainedKind   = "trained"
	clusteredKind = "clustered"
)

// newModel creates the model of a checkpoint of the given kind.
func newModel(ctx context.Context, kind string, cfg model.Config, g *kg.Graph, m train.Machine) (model.Model, error) {
	epochs := 1
	switch kind {
	case randomKind:
		return train.Random(ctx, cfg, 1)
	case clusteredKind:
		return clustered.New(ctx, cfg, g, 1, m)
	case trainedKind:
		epochs = 3
	}
	t, err := train.NewTrainer(ctx, newStepShape(cfg.Model, cfg.Dim).config, g, m)
	for range epochs {
		if err == nil {
			_, err = t.Epoch(ctx)
		}
	}
	if err != nil {
		return nil, err
	}
	return t.Model(), nil
}

// cachedCheckpoint returns the folder of a checkpoint in the user's cache, and creates the
// checkpoint if it is missing. Fitting takes seconds, and two compared revisions should use the
// same checkpoint. The folder's name contains the tier and the version or, for trained checkpoints,
// a checksum of the recipe, because the bytes depend on them. After a change to the trainer that
// affects the parameters, remove the folders.
func cachedCheckpoint(ctx context.Context, g *kg.Graph, key, kind string, cfg model.Config) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	backend, err := kernel.New()
	if err != nil {
		return "", err
	}
	version := fmt.Sprintf("v%d", clustered.Version)
	if kind == earlyKind || kind == trainedKind {
		c := newStepShape(cfg.Model, cfg.Dim).config
		version = fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(c.Line())))
	}
	name := fmt.Sprintf("%s-%v-%s", key, backend.Tier, version)
	dir := filepath.Join(cache, "mquine", "bench", name)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	m, err := newModel(ctx, kind, cfg, g, train.Machine{Backend: backend, Threads: threads()})
	if err != nil {
		return "", err
	}
	if err := checkpoint.Save(ctx, dir, m, g.Entities, g.Relations, map[string]string{"dataset": g.Name}); err != nil {
		if _, other := os.Stat(dir); other == nil {
			return dir, nil // another process created it first
		}
		return "", err
	}
	return dir, nil
}
