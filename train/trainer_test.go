package train

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/fault"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/synth"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank"
	"github.com/mquine/mquine/train/internal/traintest"
	"github.com/mquine/mquine/train/recipe"
)

func machineOf(t testing.TB, threads int) Machine {
	return Machine{Backend: traintest.Backend(t), Threads: threads}
}

// The parameters of an open checkpoint are in a mapped file, where a step would fault.
func TestMappedParametersRefused(t *testing.T) {
	g := traintest.RandomGraph(8, 3, 40, 3)
	c := recipe.Default()
	c.Dim = 3
	m, err := model.Random(t.Context(), c.ModelConfig(8, 3), 1)
	require.NoError(t, err)
	start := m.(model.Trainable)
	tensors := start.Tensors()
	last := tensors[len(tensors)-1]
	forget := fault.Watch(unsafe.Slice((*byte)(unsafe.Pointer(&last[0])), 4*len(last)), func() error { return nil })
	_, err = NewTrainerFrom(t.Context(), c, g, machineOf(t, 1), start)
	require.EqualError(t, err, "train: the parameters of the model are in a read-only mapped file: "+
		"pass a model with a copy of its tensors (model.New)")
	forget()
	_, err = NewTrainerFrom(t.Context(), c, g, machineOf(t, 1), start)
	require.NoError(t, err)
}

// A machine without a backend or threads is an error, not a panic.
func TestEmptyMachineRefused(t *testing.T) {
	g := traintest.RandomGraph(8, 3, 40, 3)
	const want = "train: Machine needs a backend and at least one thread"
	for _, m := range []Machine{{}, {Threads: 1}, {Backend: traintest.Backend(t)}} {
		require.EqualError(t, CheckMemory(t.Context(), g, m, recipe.Default()), want)
		_, err := NewTrainer(t.Context(), recipe.Default(), g, m)
		require.EqualError(t, err, want)
	}
}

// A graph with a training triple beyond its vocabularies, or without vocabularies, is an error, not a panic.
// So are a nil graph and a nil model.
func TestUnsuitableGraphRefused(t *testing.T) {
	m, c := machineOf(t, 1), recipe.Default()
	c.Dim, c.Batch = 2, 1
	graph := func(split kg.Split, triple kg.Triple) *kg.Graph {
		g := &kg.Graph{Entities: kg.NewVocabulary("a", "b"), Relations: kg.NewVocabulary("r")}
		g.Splits[kg.Train] = []kg.Triple{{Head: 1}}
		g.Splits[split] = append(g.Splits[split], triple)
		return g
	}
	start, err := model.Random(t.Context(), c.ModelConfig(2, 1), 1)
	require.NoError(t, err)
	refuse := func(g *kg.Graph, want string) {
		t.Helper()
		assert.ErrorContains(t, CheckMemory(t.Context(), g, m, c), want)
		_, err := Memory(t.Context(), &c, c.ModelConfig(2, 1), g, m)
		assert.ErrorContains(t, err, want)
		_, err = NewTrainer(t.Context(), c, g, m)
		assert.ErrorContains(t, err, want)
		_, err = NewTrainerFrom(t.Context(), c, g, m, start.(model.Trainable))
		assert.ErrorContains(t, err, want)
	}
	for _, triple := range []kg.Triple{{Tail: 5}, {Tail: -1}, {Head: 2}, {Relation: 1}} {
		refuse(graph(kg.Train, triple), "has 2 entities and 1 relation, but triple 1 of its train split is (")
	}
	refuse(&kg.Graph{}, "the data set needs a vocabulary of entities and one of relations")
	refuse(nil, "the graph is nil: read one with kg.Open")
	_, err = NewTrainer(t.Context(), c, graph(kg.Test, kg.Triple{Tail: 5}), m)
	assert.ErrorContains(t, err, "triple 0 of its test split is (0, 0, 5)")
	_, err = NewTrainerFrom(t.Context(), c, graph(kg.Train, kg.Triple{}), m, nil)
	assert.EqualError(t, err, "train: the model to start from is nil: give one, or call NewTrainer")
}

// Scores have a value for each metric that a recipe accepts, but not for other names.
func TestScoresOf(t *testing.T) {
	s := Scores{{Side: rank.BothSides, Filter: rank.All, MRR: 0.25, MR: 17, Hits1: 0.125, Hits3: 0.375, Hits10: 0.5}}
	for _, c := range []struct {
		name  string
		value float64
		valid bool
	}{
		{"mrr", 0.25, true}, {"hits@1", 0.125, true}, {"hits@3", 0.375, true}, {"hits@10", 0.5, true},
		{"mr", 0, false}, {"hits@5", 0, false}, {"", 0, false},
	} {
		r := recipe.Default()
		r.ValidMetric.Name = c.name
		assert.Equal(t, c.valid, r.Check() == nil, c.name)
		assert.Equal(t, c.value, s.Of(r.ValidMetric), c.name)
	}
	assert.Zero(t, s.Of(recipe.Metric{Name: "mrr", Side: rank.TailSide, Filter: rank.All}))
}

// The validation and test splits do not influence the parameters.
func TestHeldOutIsNotUsed(t *testing.T) {
	for name, change := range traintest.Recipes() {
		c := traintest.Recipe(change)
		g, _, err := synth.Families(t.Context(), synth.Config{Seed: 1, Entities: 120, Train: 500, Valid: 20, Test: 20})
		require.NoError(t, err)
		train := func() string {
			tr, err := NewTrainer(t.Context(), c, g, machineOf(t, 2))
			require.NoError(t, err)
			_, err = tr.Epoch(t.Context())
			require.NoError(t, err)
			return fmt.Sprint(tr.Model().Tensors())
		}
		with := train()
		g.Splits[kg.Valid], g.Splits[kg.Test] = nil, nil
		assert.Equal(t, with, train(), name)
	}
}

// At first, the EMA is the mean over the epochs so far. Then it follows w ← a w + (1 − a) θ. The
// EMA does not affect training.
func TestAverage(t *testing.T) {
	g := traintest.OpenGraph(t, traintest.FamiliesFolder(t))
	trainer := func(average float64) *Trainer {
		c := traintest.Recipe(func(c *recipe.Recipe) { c.EMA = average })
		tr, err := NewTrainer(t.Context(), c, g, machineOf(t, 2))
		require.NoError(t, err)
		return tr
	}
	plain, averaged := trainer(0), trainer(0.6)
	assert.Equal(t, plain.Model().Tensors(), averaged.Model().Tensors(), "before the first epoch")
	// With a = 0.6, the EMA is the plain mean after two epochs. The parameters after the third
	// epoch have the weight 1 − a, and one epoch later a(1 − a).
	weights := [][]float64{{1}, {0.5, 0.5}, {0.3, 0.3, 0.4}, {0.18, 0.18, 0.24, 0.4}}
	var epochs [][][]float32 // parameters after each epoch
	for n := range weights {
		for _, tr := range []*Trainer{plain, averaged} {
			_, err := tr.Epoch(t.Context())
			require.NoError(t, err)
		}
		var copies [][]float32
		for _, tensor := range plain.Model().Tensors() {
			copies = append(copies, slices.Clone(tensor))
		}
		epochs = append(epochs, copies)
		for i, tensor := range averaged.Model().Tensors() {
			for k, got := range tensor {
				want := 0.0
				for e, w := range weights[n] {
					want += w * float64(epochs[e][i][k])
				}
				if math.Abs(float64(got)-want) > 1e-6*(1+math.Abs(want)) {
					t.Fatalf("after epoch %d, tensor %d, entry %d is %v, not %v", n+1, i, k, got, want)
				}
			}
		}
	}
}

// More pairs in a step than 32 bits can count are refused with one sentence.
func TestTooManyPairs(t *testing.T) {
	c := recipe.Default()
	c.Negatives, c.NegativeCount, c.AnswerWeights, c.MaxAnswers = recipe.IndependentNegatives, 1<<24, false, 0
	_, err := NewTrainer(t.Context(), c, traintest.RandomGraph(12, 3, 64, 3), machineOf(t, 1))
	require.EqualError(t, err, "batches of 64 triples with 16777216 independent negatives have 2147483776 pairs, "+
		"more than 2147483647: lower batch or negative_count")
}

// With distribution bernoulli, a triple has one query, so twice as many negatives fit.
func TestTooManyPairsOfOneQuery(t *testing.T) {
	c, g := recipe.Default(), traintest.RandomGraph(12, 3, 128, 3)
	c.Negatives, c.NegativeCount, c.AnswerWeights, c.MaxAnswers = recipe.IndependentNegatives, 1<<24, false, 0
	c.Distribution, c.Batch = recipe.Bernoulli, 127
	require.NoError(t, checkRun(&c, g, machineOf(t, 1)))
	c.Batch = 128
	require.EqualError(t, checkRun(&c, g, machineOf(t, 1)), "batches of 128 triples with 16777216 independent "+
		"negatives have 2147483776 pairs, more than 2147483647: lower batch or negative_count")
}

// More pairs in a step than 32 bits can count, because of Z-samples, are an error. The test lowers the
// limit.
func TestTooManyZSamples(t *testing.T) {
	c := recipe.Default()
	c.Batch, c.ZSamples = 32, 4
	tr, err := NewTrainer(t.Context(), c, traintest.RandomGraph(12, 3, 64, 3), machineOf(t, 1))
	require.NoError(t, err)
	tr.preparer.maxPairs = 3
	_, err = tr.Epoch(t.Context())
	require.Regexp(t, `^a step with batch 32 and up to 4 Z-samples for each query has \d+ pairs, more than 3: `+
		`lower batch or z_samples$`, err)
}

// After a cancelled epoch, a trainer returns its error again and does not validate, because its parameters
// belong to no epoch.
func TestTrainerStopsAfterError(t *testing.T) {
	g := traintest.RandomGraph(12, 3, 64, 3)
	g.Splits[kg.Valid] = g.Splits[kg.Train][:4]
	c := recipe.Default()
	c.Dim, c.Batch = 2, 8
	ctx, cancel := context.WithCancel(t.Context())
	m := machineOf(t, 1)
	m.Progress = func(p Progress) {
		if p.Epoch == 2 {
			cancel()
		}
	}
	tr, err := NewTrainer(t.Context(), c, g, m)
	require.NoError(t, err)
	_, err = tr.Epoch(ctx)
	require.NoError(t, err)
	_, err = tr.Validate(t.Context())
	require.NoError(t, err)
	_, first := tr.Epoch(ctx)
	require.ErrorIs(t, first, context.Canceled)
	const want = "train: an epoch failed, so the trainer cannot continue: make a new one (context canceled)"
	_, err = tr.Validate(t.Context())
	assert.EqualError(t, err, want)
	for range 2 {
		_, err = tr.Epoch(t.Context())
		assert.EqualError(t, err, want)
		assert.ErrorIs(t, err, first)
	}
	assert.Equal(t, 1, tr.Done())
}

// A clock that measures no time gives the rate 0, which JSON can write.
func TestPerSecond(t *testing.T) {
	assert.Equal(t, 50., perSecond(100, 2))
	assert.Equal(t, 0., perSecond(100, 0))
}

// The error of a diverged run names the first NaN of a tensor, or its largest entry.
func TestDivergedParameters(t *testing.T) {
	c := recipe.Default()
	c.Dim = 2
	tr, err := NewTrainer(t.Context(), c, traintest.RandomGraph(12, 3, 64, 3), machineOf(t, 1))
	require.NoError(t, err)
	tensors, width := tr.model.Tensors(), tr.optimiser.tables[0].width
	tensors[0][2*width], tensors[0][3*width], tensors[0][4*width] = 100, float32(math.NaN()), 200
	tensors[1][0] = -50
	message := tr.diverged(0, Loss{Relations: 7}).Error()
	require.Contains(t, message, "NaN in "+tr.optimiser.tables[0].name+", row 3")
	require.Contains(t, message, "50 in "+tr.optimiser.tables[1].name+", row 0")
	require.Contains(t, message, "relations 7,")
}

// The threads that look for NaN after an epoch report the first one, and the threads that update the EMA treat
// every row as one thread does. Both stop with the context.
func TestEndOfEpochInParts(t *testing.T) {
	g := traintest.RandomGraph(12_000, 3, 64, 3)
	c := recipe.Default()
	c.Model, c.Dim, c.Hyper, c.EMA, c.ValidEvery = "transd-l1", 6, "max_norm=0.2", 0.5, 0
	trainer := func(threads int) *Trainer {
		tr, err := NewTrainer(t.Context(), c, g, machineOf(t, threads))
		require.NoError(t, err)
		return tr
	}
	one, several := trainer(1), trainer(4)
	table := &several.optimiser.tables[0]
	require.Equal(t, 12, table.width, "no multiple of it is partSize")
	require.Greater(t, len(table.values), 2*partSize)
	for _, tr := range []*Trainer{one, several} {
		require.NoError(t, tr.checkFinite(t.Context()))
		for range 3 {
			require.NoError(t, tr.updateAverage(t.Context()))
			tr.epoch++
		}
	}
	values := one.average.Tensors()[0]
	require.Equal(t, values, several.average.Tensors()[0])
	checkConstraints(t, several.average, 0.2)
	last := len(values) - 1
	require.InDelta(t, one.model.Tensors()[0][last], values[last], 1e-5, "all rows are updated")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, several.checkFinite(ctx), context.Canceled)
	assert.ErrorIs(t, several.updateAverage(ctx), context.Canceled)

	nan := float32(math.NaN())
	for _, row := range []int{11_000, 8_000, 5_461, 5_460} {
		table.row(row)[3] = nan
		want := fmt.Sprintf(`tensor "entity", row %d, contains NaN`, row)
		for range 10 {
			assert.ErrorContains(t, several.checkFinite(t.Context()), want)
		}
	}
	several.optimiser.tables[1].row(0)[0] = nan
	assert.ErrorContains(t, several.checkFinite(t.Context()), `tensor "entity", row 5460, contains NaN`)
}

// A trainer counts repeated triples once, at their first occurrence, and copies only triples with repeats.
func TestDistinct(t *testing.T) {
	a, b, c := kg.Triple{Head: 1, Tail: 2}, kg.Triple{Head: 2, Tail: 1}, kg.Triple{Head: 0, Tail: 0}
	of := func(ctx context.Context, triples ...kg.Triple) ([]kg.Triple, error) {
		g := &kg.Graph{Entities: kg.NewVocabulary("x", "y", "z"), Relations: kg.NewVocabulary("r")}
		g.Splits[kg.Train], g.Splits[kg.Valid] = triples, []kg.Triple{{Head: 2, Tail: 2}}
		known, err := kg.NewIndex(t.Context(), g)
		require.NoError(t, err)
		return distinct(ctx, g.Splits[kg.Train], known)
	}
	list, err := of(t.Context(), b, a, b, c, a)
	require.NoError(t, err)
	assert.Equal(t, []kg.Triple{b, a, c}, list)
	unique := []kg.Triple{b, a, c}
	list, err = of(t.Context(), unique...)
	require.NoError(t, err)
	assert.Same(t, &unique[0], &list[0])
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = of(ctx, a, a)
	assert.ErrorIs(t, err, context.Canceled)
}
