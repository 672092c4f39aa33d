// Package clustered creates synthetic models for benchmarks. They rank targets about as well as a
// trained model does, among many close candidates. Their metrics say nothing about the quality of a
// model, because New fits the models to all splits, including the test split.
package clustered

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strconv"

	"github.com/mquine/mquine/internal/proc"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/initial"
	"github.com/mquine/mquine/train"
	"github.com/mquine/mquine/train/recipe"
)

// Version changes when New returns different bytes for the same arguments. Names of stored
// checkpoints should contain it.
const Version = 2

// These constants control the training of the cluster centres, for all graphs and models. The
// training takes only seconds, because there are few clusters.
//
// Training consists of rounds of one epoch, each on the next part of the shuffled triples. In an
// epoch, a trainer uses repeated triples only once, and most triples between clusters are repeats.
// Rounds repeat such triples, so pairs of clusters with many triples are trained often.
const (
	rounds    = 50
	roundSize = 1024 // triples
	batch     = 256
	beta2     = 0.99
	// relativeRate is the learning rate of the first round, relative to the initial standard
	// deviation of the entities' parameters. The right rate is proportional to this deviation,
	// which is proportional to 1/d in distance models.
	relativeRate = 0.3
)

// The streams of random numbers for one seed.
const (
	_ uint64 = iota << 32 // model.Random
	streamRoles
	streamTriples
	streamEntities // plus the entity
)

// New returns a model for g. It divides the N entities into about √N clusters: the planted clusters
// of a synth.Zipf graph or, in other graphs, clusters of entities with similar relations and
// neighbours. A short training run on the triples between clusters finds the centre of each
// cluster. Parameter.Scatter places the entities around the centres.
//
// The same seed and kernel tier give the same bytes, for any number of threads. New returns an
// error if the model does not fit into memory, or if g does not have the numbers of entities and
// relations in cfg.
func New(ctx context.Context, cfg model.Config, g *kg.Graph, seed uint64, m train.Machine) (model.Model, error) {
	cfg, err := model.InitialConfig(cfg)
	if err != nil {
		return nil, err
	}
	if n, r := g.Entities.Len(), g.Relations.Len(); cfg.Entities != n || cfg.Relations != r {
		return nil, fmt.Errorf("a model with %d entities and %d relations cannot be fitted to %s, "+
			"which has %d and %d", cfg.Entities, cfg.Relations, text.DataSet(g.Name), n, r)
	}
	if err := train.CheckParameters(cfg); err != nil {
		return nil, err
	}
	clusters, count, err := clusterEntities(ctx, g, seed)
	if err != nil {
		return nil, err
	}
	coarse, err := coarseGraph(ctx, g, clusters, count, seed)
	if err != nil {
		return nil, err
	}
	centres, err := fit(ctx, cfg, coarse, seed, m)
	if err != nil {
		return nil, err
	}
	return scatter(ctx, cfg, clusters, centres, seed, m.Threads)
}

// coarseGraph returns the graph whose entities are the clusters. Its training split contains the
// triples of all splits, shuffled, with repeats.
func coarseGraph(ctx context.Context, g *kg.Graph, clusters []int32, count int, seed uint64) (*kg.Graph, error) {
	coarse := &kg.Graph{Name: g.Name, Entities: kg.NewVocabulary(), Relations: g.Relations}
	for i := range count {
		coarse.Entities.Add(strconv.Itoa(i))
	}
	var triples []kg.Triple
	err := eachTriple(ctx, g, func(t kg.Triple) {
		triples = append(triples, kg.Triple{Head: clusters[t.Head], Relation: t.Relation, Tail: clusters[t.Tail]})
	})
	rng := rand.New(rand.NewPCG(seed, streamTriples))
	rng.Shuffle(len(triples), func(i, j int) { triples[i], triples[j] = triples[j], triples[i] })
	coarse.Splits[kg.Train] = triples
	return coarse, err
}

// fit trains a model on the coarse graph.
func fit(ctx context.Context, cfg model.Config, coarse *kg.Graph, seed uint64, m train.Machine) (model.Model, error) {
	cfg.Entities = coarse.Entities.Len()
	parameters, err := model.Parameters(cfg)
	if err != nil {
		return nil, err
	}
	start, err := model.Random(ctx, cfg, seed)
	if err != nil {
		return nil, err
	}
	centres, ok := start.(model.Trainable)
	if !ok {
		return nil, fmt.Errorf("model %s cannot be trained", cfg.Model)
	}
	c, part := plainRecipe(cfg), *coarse
	c.Seed = seed
	rate, rest := relativeRate*deviation(start, parameters), coarse.Splits[kg.Train]
	for i := range rounds {
		if len(rest) == 0 {
			rest = coarse.Splits[kg.Train]
		}
		n := min(len(rest), roundSize)
		part.Splits[kg.Train], rest = rest[:n], rest[n:]
		c.LearningRate = rate * float64(rounds-i) / rounds
		if err := trainRound(ctx, i, c, &part, centres, m); err != nil {
			return nil, err
		}
	}
	return centres, nil
}

// plainRecipe returns the options of a round: Adam and a softmax over all entities.
func plainRecipe(cfg model.Config) recipe.Recipe {
	c := recipe.Default()
	c.Model, c.Dim, c.Reciprocal = cfg.Model, cfg.Dim, cfg.Reciprocal
	c.Epochs, c.Batch, c.ValidEvery = 1, batch, 0
	c.Beta2 = beta2
	return c
}

// trainRound trains the centres in place for one round.
func trainRound(
	ctx context.Context, round int, c recipe.Recipe, g *kg.Graph, centres model.Trainable, m train.Machine,
) error {
	runtime.GC() // the garbage of the previous round takes as much memory as this round
	needs, err := train.Memory(ctx, &c, centres.Config(), g, m)
	if err != nil {
		return err
	}
	needs = needs[1:] // the centres have their parameters
	work := fmt.Sprintf("fitting %s, d = %d, to %d clusters of entities", c.Model, c.Dim, g.Entities.Len())
	if err := proc.CheckMemory(work, "lower its dimension, or make more memory available", needs...); err != nil {
		return err
	}
	if report := m.Progress; report != nil {
		m.Progress = func(p train.Progress) {
			p.Epoch, p.Epochs = round+1, rounds
			report(p)
		}
	}
	t, err := train.NewTrainerFrom(ctx, c, g, m, centres)
	if err != nil {
		return err
	}
	_, err = t.Epoch(ctx)
	return err
}

// deviation returns the root mean square of the entities' parameters.
func deviation(m model.Model, parameters []model.Parameter) float64 {
	var squares float64
	n := 0
	for i, p := range parameters {
		if p.Axis != model.PerEntity {
			continue
		}
		n += len(m.Tensors()[i])
		for _, x := range m.Tensors()[i] {
			squares += float64(float64(x) * float64(x))
		}
	}
	return math.Sqrt(squares / float64(n))
}

// scatter returns a model with the entities around the centres of their clusters. It copies all
// other parameters from the model centres.
func scatter(
	ctx context.Context, cfg model.Config, clusters []int32, centres model.Model, seed uint64, threads int,
) (model.Model, error) {
	parameters, err := model.Parameters(cfg)
	if err != nil {
		return nil, err
	}
	tensors := make([][]float32, len(parameters))
	for i, p := range parameters {
		tensors[i] = centres.Tensors()[i]
		if p.Axis == model.PerEntity {
			tensors[i] = kernel.AlignedFloat32(p.Len())
		}
	}
	err = kernel.Parallel(ctx, threads, cfg.Entities, func(_, e int) {
		source := initial.NewSource(seed, streamEntities+uint64(e))
		for i, p := range parameters {
			if p.Axis != model.PerEntity {
				continue
			}
			width := p.Width()
			row := tensors[i][e*width:][:width]
			centre := centres.Tensors()[i][int(clusters[e])*width:][:width]
			if p.Scatter != nil {
				p.Scatter(source, row, centre)
			} else {
				initial.Nearby(source, row, centre)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return model.New(cfg, tensors)
}
