package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/ceiling"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/train"
	"github.com/mquine/mquine/train/recipe"
)

// trainingSteps measures training steps on a random graph with the 14,541 entities and 237
// relations of FB15k-237. A step has 1,024 positives from both sides and 1,024 shared negatives for
// each side. With Z-samples, the graph is FB15k-237 itself, because a random graph has no
// Z-patterns. MQuinE has d = 38; the vector models have 400 values per entity.
//
// cpu-ms/step is the median processor time of a step on all threads. pct-peak is the share of this
// time that the step's terms would need at the ceilings of their operations on all threads. The
// ceilings are measured between the steps. The terms are the multiply-adds of the three products,
// B·C·F for each product and side (batch size, negatives, features), or the terms of a distance's
// scores and gradients. Sampling, features, queries, their gradients and Adam count as lost time.
// The share is called pct-fma if the products do not use float32 multiply-adds. pct-clock is the
// same share of the median wall-clock time, which idle threads and other programs lengthen. GFLOP/s
// counts the products alone.
func trainingSteps(s *suite) []Benchmark {
	shapes := map[string]*kg.Graph{}
	backend := s.backends[0]
	step := func(x stepShape, quick bool, family string, path ...any) Benchmark {
		data := ""
		if x.config.ZSamples > 0 {
			data = "fb15k-237"
		}
		return Benchmark{
			Name:  name(family, append([]any{"tier", backend.Tier}, path...)...),
			Quick: quick,
			data:  data,
			run: func(ctx context.Context, b *testing.B) (err error) {
				if shapes[data] == nil {
					g := skewedGraph(14541, 237, 16*1024)
					if data != "" {
						if g, err = kg.Open(ctx, data); err != nil {
							return err
						}
					}
					shapes[data] = g
				}
				return x.measure(ctx, b, backend, shapes[data])
			},
		}
	}
	z := newStepShape("mquine", 38)
	z.config.ZSamples, z.config.Filter = 32, true
	list := []Benchmark{
		step(newStepShape("mquine", 38), true, "TrainStep", "zsamples", 0),
		step(z, false, "TrainStep", "zsamples", 32),
		step(newStepShape("transe-l1", 400), false, "TrainStep", "model", "transe-l1"),
		step(newStepShape("rotate", 200), false, "TrainStep", "model", "rotate"),
		step(newStepShape("complex", 200), false, "TrainStep", "model", "complex"),
	}
	if backend.Features.Has(kernel.FeatureAVX512BF16) {
		x := newStepShape("mquine", 38)
		x.config.Products = recipe.BF16
		list = append(list, step(x, true, "BFloat16TrainStep", "zsamples", 0))
	}
	if backend.Features.Has(kernel.FeatureAMXBF16 | kernel.FeatureAVX512BF16) {
		x := newStepShape("mquine", 38)
		x.config.Products = recipe.TileBF16
		list = append(list, step(x, true, "TileTrainStep", "zsamples", 0))
	}
	if backend.Features.Has(kernel.FeatureAMXBF16) {
		x := newStepShape("mquine", 38)
		x.config.Products = recipe.SplitBF16
		list = append(list, step(x, true, "SplitTrainStep", "zsamples", 0))
	}
	return list
}

// stepShape is the recipe whose steps are measured.
type stepShape struct{ config recipe.Recipe }

func newStepShape(name string, dim int) stepShape {
	c := recipe.Default()
	c.Model, c.Dim = name, dim
	c.Batch = 1024
	c.Negatives, c.NegativeCount = recipe.SharedNegatives, 1024
	c.Dropout = 0
	return stepShape{c}
}

// work is a number of terms in a step, with the ceiling of their rate.
type work struct {
	terms float64
	limit threadsLimit
}

// pairs returns the numbers of pairs of a query and a candidate, and of a target and a predicted
// relation, in a step on a graph.
func (x stepShape) pairs(g *kg.Graph) (candidates, relations float64) {
	triples := g.Splits[kg.Train]
	queries, each := 2*float64(x.config.Batch), float64(x.config.NegativeCount)
	targets := queries
	switch x.config.Negatives {
	case recipe.OneVsAll:
		each = float64(g.Entities.Len())
	case recipe.KvsAll:
		queries, each = float64(x.config.Batch), float64(g.Entities.Len())
		answers := map[kg.Query]int{}
		for _, t := range triples {
			for _, side := range []kg.Side{kg.Tail, kg.Head} {
				q, _ := t.Query(side)
				answers[q]++
			}
		}
		parts := len(answers)
		if most := x.config.MaxAnswers; most > 0 {
			parts = 0
			for _, n := range answers {
				parts += (n + most - 1) / most
			}
		}
		targets = queries * 2 * float64(len(triples)) / float64(parts)
	}
	if x.config.AnchorNegatives {
		each = meanNegatives(triples, x.config.Batch, x.config.NegativeCount, g.Entities.Len())
	}
	if x.config.RelationWeight > 0 {
		relations = targets * float64(g.Relations.Len())
		if x.config.Reciprocal {
			relations *= 2
		}
	}
	return queries * each, relations
}

// meanNegatives returns the mean number of distinct entities that are anchors of a batch on one side, or
// in a sample of n entities, over 16 random batches and both sides.
func meanNegatives(triples []kg.Triple, batch, n, entities int) float64 {
	const batches = 16
	rng := rand.New(rand.NewPCG(1, 1))
	sum := 0
	for range batches {
		var negatives [2]map[int32]bool
		for side := range negatives {
			negatives[side] = map[int32]bool{}
			for _, e := range rng.Perm(entities)[:min(n, entities)] {
				negatives[side][int32(e)] = true
			}
		}
		for range batch {
			t := triples[rng.IntN(len(triples))]
			negatives[kg.Tail][t.Head] = true
			negatives[kg.Head][t.Tail] = true
		}
		sum += len(negatives[0]) + len(negatives[1])
	}
	return float64(sum) / (2 * batches)
}

// work returns the work in a step on a graph that grows with the number of pairs of a query and a
// candidate or of a target and a relation, and reports whether this work consists of matrix products.
func (x stepShape) work(backend *kernel.Backend, g *kg.Graph) (list []work, ofProducts bool, err error) {
	m, err := model.Random(context.Background(), x.config.ModelConfig(1, 1), 1)
	if err != nil {
		return nil, false, err
	}
	training := m.(model.Trainable).Training()
	pairs, predicted := x.pairs(g)
	if training.Region != nil {
		terms := pairs * float64(training.Region.Width())
		scores, gradients := ceiling.RegionTerms(linalg.New(backend), training.Region.Kind)
		return []work{
			{terms, newThreadsLimit(scores, threads())}, {2 * terms, newThreadsLimit(gradients, threads())},
		}, false, nil
	}
	if training.Distance == nil {
		terms := pairs * float64(training.Width)
		if training.Relations != nil {
			terms += predicted * float64(training.Relations.Width)
		}
		return []work{{3 * terms, newThreadsLimit(ceiling.Terms(backend, kernel.Dot), threads())}}, true, nil
	}
	add := func(kind linalg.DistanceKind, width int) {
		terms := pairs * float64(width)
		scores, gradients := ceiling.DistanceTerms(linalg.New(backend), kind)
		list = append(list, work{terms, newThreadsLimit(scores, threads())},
			work{2 * terms, newThreadsLimit(gradients, threads())})
	}
	if training.Rest == nil {
		add(*training.Distance, training.Width)
		return list, false, nil
	}
	add(*training.Distance, training.Rest.From)
	add(training.Rest.Distance, training.Width-training.Rest.From)
	return list, false, nil
}

// stepTimes collects the times and shares of a benchmark's steps.
type stepTimes struct {
	work                       []work
	rates                      []float64 // rates of the work, measured before the next step
	times, shares, clockShares []float64
}

func newStepTimes(list []work) *stepTimes {
	t := &stepTimes{work: list}
	for _, w := range list {
		t.rates = append(t.rates, w.limit.sample())
	}
	return t
}

// add records the processor and wall-clock seconds of a step, and then measures the ceilings.
func (t *stepTimes) add(took, elapsed float64) {
	least := 0.0 // seconds that one thread needs at the ceilings
	for i, w := range t.work {
		after := w.limit.sample()
		least += w.terms / ((t.rates[i] + after) / 2)
		t.rates[i] = after
	}
	t.times = append(t.times, took)
	t.shares = append(t.shares, least/took)
	t.clockShares = append(t.clockShares, least/elapsed/float64(threads()))
}

func (x stepShape) measure(ctx context.Context, b *testing.B, backend *kernel.Backend, g *kg.Graph) error {
	const steps = 16 // per round
	list, ofProducts, err := x.work(backend, g)
	if err != nil {
		return err
	}
	seen := newStepTimes(list)
	var stop context.CancelFunc
	var start time.Duration
	var clock time.Time
	m := train.Machine{Backend: backend, Threads: threads(), Progress: func(train.Progress) {
		took, elapsed := (processTime() - start).Seconds(), time.Since(clock).Seconds()
		b.StopTimer()
		seen.add(took, elapsed)
		if len(seen.times)%steps == 0 {
			stop()
		}
		b.StartTimer()
		start, clock = processTime(), time.Now()
	}}
	for b.Loop() {
		b.StopTimer()
		t, err := train.NewTrainer(ctx, x.config, g, m)
		if err != nil {
			return err
		}
		var some context.Context
		some, stop = context.WithCancel(ctx)
		runtime.GC() // collects the previous trainer
		b.StartTimer()
		start, clock = processTime(), time.Now()
		_, err = t.Epoch(some)
		stop()
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	perStep := b.Elapsed().Seconds() / float64(len(seen.times))
	if ofProducts {
		b.ReportMetric(2*list[0].terms/perStep/1e9, "GFLOP/s")
	}
	unit := "pct-peak"
	if x.config.Products != recipe.Float32 {
		unit = "pct-fma"
	}
	b.ReportMetric(100*median(seen.shares), unit)
	b.ReportMetric(100*median(seen.clockShares), "pct-clock")
	b.ReportMetric(1e3*median(seen.times), "cpu-ms/step")
	if x.config.Negatives != recipe.KvsAll { // its batches count queries
		b.ReportMetric(float64(x.config.Batch)/perStep, "triples/s")
	}
	b.ReportMetric(1e3*perStep, "ms/step")
	return nil
}

// threadsLimit samples a ceiling on several threads at once.
type threadsLimit []*limit

func newThreadsLimit(c ceiling.Ceiling, threads int) threadsLimit {
	var l threadsLimit
	for range threads {
		l = append(l, newLimit(c))
	}
	return l
}

// sample returns the mean rate of the threads, per second of one thread's processor time.
func (l threadsLimit) sample() float64 {
	rates := make([]float64, len(l))
	var wg sync.WaitGroup
	for i := range l {
		wg.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			samples := make([]float64, 9)
			for k := range samples {
				samples[k] = l[i].sample()
			}
			rates[i] = median(samples)
		})
	}
	wg.Wait()
	sum := 0.0
	for _, r := range rates {
		sum += r
	}
	return sum / float64(len(l))
}

// presetSteps measures the first 16 steps of the best presets on their data sets, with the metrics of
// trainingSteps and with each arithmetic that the backend offers. The terms include relation
// prediction. In these steps, Adam has few skipped steps to catch up with.
func presetSteps(s *suite) []Benchmark {
	const kind = "best"
	backend := s.backends[0]
	own := recipe.ModelPresets(kind)
	var list []Benchmark
	for _, preset := range recipe.Presets() {
		_, data, named := strings.Cut(preset, kind+":")
		if !named {
			continue
		}
		models := []string{"mquine"}
		for _, m := range slices.Sorted(maps.Keys(own)) {
			if m != "mquine" && slices.Contains(own[m], data) {
				models = append(models, m)
			}
		}
		for _, m := range models {
			for _, products := range recipe.AvailableProducts(backend) {
				list = append(list, Benchmark{
					Name: name("PresetStep", "tier", backend.Tier, "data", data, "model", m, "products", products),
					data: data,
					run: func(ctx context.Context, b *testing.B) error {
						c, err := recipe.Base(kind, data, m)
						if err != nil {
							return err
						}
						c.Products = products
						g, err := kg.Open(ctx, data)
						if err != nil {
							return err
						}
						return stepShape{c}.measure(ctx, b, backend, g)
					},
				})
			}
		}
	}
	return list
}

// skewedGraph returns a graph of random training triples, in which entities and relations with
// smaller identifiers occur more often.
func skewedGraph(entities, relations, triples int) *kg.Graph {
	rng := rand.New(rand.NewPCG(1, 1))
	g := &kg.Graph{Name: "skewed", Entities: kg.NewVocabulary(), Relations: kg.NewVocabulary()}
	for e := range entities {
		g.Entities.Add(fmt.Sprint("e", e))
	}
	for r := range relations {
		g.Relations.Add(fmt.Sprint("r", r))
	}
	skewed := func(n int) int32 {
		x := rng.Float64()
		return int32(x * x * float64(n))
	}
	for range triples {
		t := kg.Triple{Head: skewed(entities), Relation: skewed(relations), Tail: skewed(entities)}
		g.Splits[kg.Train] = append(g.Splits[kg.Train], t)
	}
	return g
}
