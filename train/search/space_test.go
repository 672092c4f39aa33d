package search

import (
	"context"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/proc"
	"github.com/mquine/mquine/internal/proc/proctest"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/train"
	"github.com/mquine/mquine/train/internal/traintest"
	"github.com/mquine/mquine/train/recipe"
)

func space(t testing.TB, text string) *Space {
	t.Helper()
	s, err := ReadSpace(strings.NewReader(text), "x.yaml", recipe.Default())
	require.NoError(t, err)
	return s
}

// The draws from each kind of range stay within the range and are distributed according to its
// scale.
func TestSpaceDraws(t *testing.T) {
	s := space(t, `
dim: {min: 3, max: 6}
batch: {min: 1, max: 1024, scale: log}
loss: {choice: [nssa, softmax]}
dropout: {min: 0.1, max: 0.5}
learning_rate: {min: 1e-4, max: 1, scale: log}
`)
	assert.Equal(t, []string{"dim", "batch", "loss", "dropout", "learning_rate"}, s.Open())
	const n = 20_000
	dims, losses := map[int]int{}, map[recipe.Loss]int{}
	small, low, tenth := 0, 0, 0
	for trial := range n {
		c := s.draw(1, trial, 0)
		require.NoError(t, c.Check())
		dims[c.Dim]++
		losses[c.Loss]++
		require.True(t, c.Batch >= 1 && c.Batch <= 1024)
		require.True(t, c.Dropout >= 0.1 && c.Dropout <= 0.5)
		require.True(t, c.LearningRate >= 1e-4 && c.LearningRate <= 1)
		if c.Batch < 32 {
			small++
		}
		if c.Dropout < 0.2 {
			low++
		}
		if c.LearningRate < 1e-3 {
			tenth++
		}
	}
	near := func(want float64, got int) { assert.InDelta(t, want, float64(got)/n, 0.015) }
	assert.Len(t, dims, 4)
	for _, count := range dims {
		near(0.25, count)
	}
	near(0.5, losses[recipe.NSSA])
	near(math.Log(32)/math.Log(1025), small)
	near(0.25, low)
	near(0.25, tenth)
	whole, seen := dimension{min: 1000, max: 1003, whole: true}, map[string]bool{}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 100 {
		seen[whole.draw(rng)] = true
	}
	assert.Equal(t, map[string]bool{"1000": true, "1001": true, "1002": true, "1003": true}, seen, "all digits count")
	assert.Regexp(t, `^0\.\d{1,3}$`, (&dimension{min: 0.1, max: 0.5}).draw(rand.New(rand.NewPCG(1, 1))))
}

func TestReadSpace(t *testing.T) {
	s := space(t, "dim: 7\nbatch: {choice: [64, 128]}\nlearning_rate: {min: 1e-4, max: 1e-2, scale: log}\n"+
		"dropout: {min: 0, max: 0.5, scale: linear}\n")
	assert.Equal(t, 7, s.fixed.Dim)
	assert.Equal(t, s, space(t, string(s.YAML())), "ReadSpace reads what YAML writes")

	large := space(t, "negative_count: {min: 1000, max: 2000000}\nepsilon: {min: 1e-30, max: 1}\n")
	assert.Equal(t, large, space(t, string(large.YAML())), "ReadSpace reads what YAML writes")
	assert.Equal(t, "{min: 1000, max: 2000000}", large.open[0].String())

	hyper := space(t, "model: transr-l2\nhyper: {choice: [\"max_norm=1,relation_dim=3\", none, relation_dim=3]}\n")
	assert.Equal(t, []string{"max_norm=1,relation_dim=3", "none", "relation_dim=3"}, hyper.open[0].choices)
	assert.Equal(t, hyper, space(t, string(hyper.YAML())), "ReadSpace reads what YAML writes")

	former := space(t, "negatives: {choice: [all, shared]}\naverage: {min: 0, max: 0.5}\nloss: paper\n")
	assert.Equal(t, []string{"negatives", "ema"}, former.Open(), "names of earlier versions")
	assert.Equal(t, recipe.NSSA, former.fixed.Loss)
	assert.Equal(t, former, space(t, "loss: nssa\nema: {min: 0, max: 0.5}\nnegatives: {choice: [1vsall, shared]}\n"))

	for text, want := range map[string]string{
		"negatives: {choice: [all, 1vsall]}":         "x.yaml:1: negatives: choice 1vsall is given twice",
		"average: {min: 0, max: 0.5}\nema: 0.5":      "x.yaml:2: duplicate key ema, first on line 1",
		"dim: 7\nlerning_rate: {min: 1, max: 2}":     `x.yaml:2: unknown option "lerning_rate": the nearest is`,
		"dim: {min: 3, max: 5}\n\ndim: 8":            "x.yaml:3: duplicate key dim, first on line 1",
		"clip: {min: 1, max: Inf}":                   "x.yaml:1: clip: max must be finite",
		"clip: {min: Inf, max: Inf}":                 "x.yaml:1: clip: min must be finite",
		"dropout:\n  min: 0\n  mx: 1":                `x.yaml:3: dropout: unknown key "mx": the nearest is max`,
		"dropout:\n  min: 0\n  min: 1":               "x.yaml:3: duplicate key min, first on line 2",
		"dropout: {min: 0, max: 2}":                  `x.yaml:1: dropout "2": must be a number from 0 to 0.99`,
		"dim: {min: 3, max: 5.5}":                    `x.yaml:1: dim "5.5": must be a whole number`,
		"dropout: {min: 0.5, max: 0.5}":              "x.yaml:1: dropout: min 0.5 must be less than max 0.5",
		"batch: {min: 1000000, max: 1000000}":        "x.yaml:1: batch: min 1000000 must be less than max 1000000",
		"dropout: {min: 0}":                          "x.yaml:1: dropout: needs a choice, or min and max",
		"dropout: {}":                                "x.yaml:1: dropout: needs a choice, or min and max",
		"dropout: {min: 0, max: 0.5, scale: log}":    "x.yaml:1: dropout: a log scale needs a min above 0, but min is",
		"dropout: {min: 0, max: 0.5, scale: exp}":    `x.yaml:1: dropout: scale "exp": choose from linear and log`,
		"dropout: {min: 0, max: 0.5, choice: [0.1]}": "x.yaml:1: dropout: choice cannot be combined with min",
		"dropout: {min: [0], max: 0.5}":              "x.yaml:1: dropout: min needs a single value",
		"dropout: {choice: 0.1}":                     "x.yaml:1: dropout: choice needs a list of values",
		"dropout: {choice: []}":                      "x.yaml:1: dropout: choice needs a list of values",
		"dropout: {choice: [0.1, [0.2]]}":            "x.yaml:1: dropout: every choice must be a single value",
		"dropout: {choice: [0.1, 0.10]}":             "x.yaml:1: dropout: choice 0.1 is given twice",
		"loss: {choice: [softmax, hinge]}":           `x.yaml:1: loss "hinge": choose from softmax, nssa, bce and`,
		"filter: {min: false, max: true}":            "x.yaml:1: filter: this option has no range: give a list",
		"batch: [64, 128]":                           "x.yaml:1: batch needs a value, {choice: [a, b]} or",
		"epochs: {choice: [3, 4]}":                   "x.yaml:1: epochs needs a single value: it must be the same",
		"stop_metric: {choice: [mrr/both/all]}":      "x.yaml:1: valid_metric needs a single value",
		"dim: 7\n---\ndim: {min: 3, max: 5}":         "x.yaml:2: a second YAML document begins here: keep one",
		"dim: 7":                                     "x.yaml: every option has a single value, so there is",
		"":                                           "x.yaml: every option has a single value",
		"- dim":                                      "x.yaml:1: this file must be a list of keys and values",
	} {
		_, err := ReadSpace(strings.NewReader(text), "x.yaml", recipe.Default())
		assert.ErrorContains(t, err, want, text)
	}
}

// Reading any file yields a space or a one-line error.
func FuzzReadSpace(f *testing.F) {
	f.Add("dim: 7\nloss: {choice: [paper]}\n")
	f.Add("dropout: {min: 0, max: 0.5, scale: log}\n")
	f.Add("batch: {min: 1, max: 1048576}\n")
	f.Add("clip: {choice: [inf, 1]}\na: &a {min: 1, max: 2}\ndim: *a\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ReadSpace(strings.NewReader(text), "x.yaml", recipe.Default())
		if err != nil {
			if strings.Contains(err.Error(), "\n") || !strings.HasPrefix(err.Error(), "x.yaml") {
				t.Errorf("%q", err)
			}
			return
		}
		again, err := ReadSpace(strings.NewReader(string(s.YAML())), "y.yaml", recipe.Default())
		if err != nil {
			t.Fatalf("%v, of %s", err, s.YAML())
		}
		if s.draw(1, 1, 0) != again.draw(1, 1, 0) {
			t.Errorf("%q draws different recipes when it is read again", text)
		}
	})
}

// Fit turns off the defaults that any trial's negatives or loss rule out.
func TestSpaceFit(t *testing.T) {
	base, err := recipe.DefaultFor("mquine")
	require.NoError(t, err)
	require.True(t, base.AnswerWeights)
	require.Positive(t, base.MaxAnswers)
	for text, want := range map[string]struct{ answerWeights, parts bool }{
		"dim: {choice: [2, 3]}\n":                              {true, true},
		"dim: {choice: [2, 3]}\nnegatives: shared\n":           {false, false},
		"negatives: {choice: [kvsall, 1vsall]}\n":              {false, false},
		"dim: {choice: [2, 3]}\nloss: bce\n":                   {true, false},
		"loss: {choice: [softmax, bce]}\n":                     {true, false},
		"loss: {choice: [softmax, nssa]}\nnegatives: kvsall\n": {true, true},
	} {
		s, err := ReadSpace(strings.NewReader(text), "space.yaml", base)
		require.NoError(t, err)
		fitted := s.Fit(base)
		assert.Equal(t, want.answerWeights, fitted.AnswerWeights, text)
		assert.Equal(t, want.parts, fitted.MaxAnswers > 0, text)
	}

	base, err = recipe.Base("best", "codex-m", "mquine")
	require.NoError(t, err)
	require.True(t, base.BlockLosses)
	for text, want := range map[string]bool{
		"negatives: {choice: [kvsall, 1vsall]}\n":    true,
		"loss: {choice: [softmax, bce]}\n":           false,
		"lambda_reg: {choice: [0.01, 0.03, 0.1]}\n":  true,
		"negatives: shared\ndim: {choice: [2, 3]}\n": true,
	} {
		s, err := ReadSpace(strings.NewReader(text), "space.yaml", base)
		require.NoError(t, err)
		assert.Equal(t, want, s.Fit(base).BlockLosses, text)
	}
}

// An open option is unused if no combination of the others gives it an effect.
func TestSpaceUnused(t *testing.T) {
	counts := "negative_count: {choice: [16, 64]}\n"
	for text, want := range map[string][]string{
		counts + "negatives: 1vsall\n":                                             {"negative_count"},
		counts + "negatives: {choice: [1vsall, shared]}\n":                         {},
		"z_samples: {choice: [0, 4]}\nlambda_z: {min: 0, max: 1}\n":                {},
		"z_samples: 0\nlambda_z: {min: 0, max: 1}\nepsilon: {choice: [1e-8, 1]}\n": {"lambda_z"},
		"optimiser: {choice: [adagrad, sgd]}\nbeta1: {min: 0, max: 0.9}\nbeta2: {min: 0.9, max: 0.99}\n": {
			"beta1", "beta2",
		},
		"gamma: {choice: [1, 2]}\nmodel: {choice: [mquine, complex]}\n":                        {"gamma"},
		"gamma: {choice: [1, 2]}\nmodel: {choice: [mquine, rotate]}\n":                         {},
		"epochs: 3\nwarmup: 3\ndecay: {choice: [none, linear]}\n":                              {"decay"},
		"epochs: 3\nwarmup: {choice: [2, 3]}\ndecay: {choice: [none, linear]}\n":               {},
		"epochs: 9\nvalid_every: 5\npatience: {choice: [0, 5]}\ndim: {choice: [3, 4]}\n":       {"patience"},
		"epochs: 9\nvalid_every: 1\npatience: {choice: [1, 50]}\n":                             {},
		"reg_warmup: {choice: [1, 2]}\nlambda_reg: 0\n":                                        {"reg_warmup"},
		"reg_warmup: {choice: [1, 2]}\nlambda_reg: {choice: [0, 1]}\nregulariser: frobenius\n": {},
	} {
		assert.Equal(t, want, space(t, text).Unused(), text)
	}
}

// A backend must support the products of every trial that has any.
func TestSpaceBackend(t *testing.T) {
	generic := &kernel.Backend{Tier: kernel.Generic}
	assert.NoError(t, space(t, "products: bf16\ndim: {choice: [2, 3]}\nnegatives: independent\n").CheckBackend(generic))
	for _, negatives := range []string{"shared", "{choice: [independent, 1vsall]}", "{choice: [1vsall, independent]}"} {
		text := "products: bf16\ndim: {choice: [2, 3]}\nnegatives: " + negatives + "\n"
		assert.ErrorContains(t, space(t, text).CheckBackend(generic), "products: bf16 needs AVX-512 BF16", negatives)
	}
}

// The memory of a run depends only on memoryKeys, as far as single switches are concerned.
func TestMemoryKeys(t *testing.T) {
	g, m := traintest.RandomGraph(12, 3, 40, 3), machineOf(t, 1)
	memory := func(c recipe.Recipe) int64 {
		config, err := model.StartConfig(c.ModelConfig(g.Entities.Len(), g.Relations.Len()), c.Start())
		require.NoError(t, err)
		needs, err := train.Memory(t.Context(), &c, config, g, m)
		require.NoError(t, err)
		return proc.Total(needs)
	}
	for _, negatives := range []recipe.Negatives{recipe.OneVsAll, recipe.KvsAll, recipe.SharedNegatives} {
		base := recipe.Default()
		base.Negatives = negatives
		for _, o := range base.Options() {
			changed := base
			if v := changed.Option(o.Key).Value; v.Set("true") != nil || v.Set("false") != nil {
				continue // not a switch
			} else if was := o.Value.String(); was == "false" {
				require.NoError(t, v.Set("true"))
			}
			if memory(changed) != memory(base) {
				assert.Contains(t, memoryKeys, o.Key)
			}
		}
	}
}

// A search is refused if its largest run does not fit into memory.
func TestSpaceRefused(t *testing.T) {
	g := &kg.Graph{Name: "scattered", Entities: kg.NewVocabulary(), Relations: kg.NewVocabulary()}
	for e := range 5003 {
		g.Entities.Add(strconv.Itoa(e))
	}
	for r := range 11 {
		g.Relations.Add(strconv.Itoa(r))
	}
	for i := range int32(64) {
		triple := kg.Triple{Head: i * 7919 % 5003, Relation: i % 11, Tail: (i*104729 + 1) % 5003}
		for s := range kg.NumSplits {
			g.Splits[s] = append(g.Splits[s], triple)
		}
	}
	m := machineOf(t, 2)
	check := func(text string) error { return space(t, text).CheckMemory(t.Context(), g, m) }
	proctest.Leave(t, 1<<30)
	assert.NoError(t, check("dim: {min: 8, max: 64}\ndropout: {min: 0, max: 0.5}"))
	assert.NoError(t, check("negative_count: {min: 8, max: 16777216, scale: log}"), "negative_count is not used")
	assert.ErrorContains(t, check("dim: {choice: [32, 256, 64]}"),
		"the space contains recipes that do not fit into memory: training mquine, d = 256, on scattered needs about ")
	blocks := "model: mquine\ndim: 32\nhyper: {choice: [none, blocks=64]}"
	assert.ErrorContains(t, check(blocks), "training mquine, d = 32, on scattered needs about ")
	assert.ErrorContains(t, check("dim: {min: 8, max: 256}\nema: {min: 0, max: 0.9}"), " average 6")
	assert.ErrorContains(t,
		check("model: {choice: [mquine, distmult]}\ndura_pair: {choice: [0, 1]}\nregulariser: dura\ndim: 256"),
		"training mquine, d = 256, on scattered needs about ", "only distmult has dura_pair: 1")
	assert.ErrorContains(t,
		check("negatives: {choice: [1vsall, shared, independent]}\nnegative_count: {min: 8, max: 16777214}"),
		"negatives of a step 40 GiB")
	assert.NoError(t, check("batch: {choice: [8, 128]}\n"+
		"negatives: independent\nanswer_weights: false\nmax_answers: 0\nnegative_count: {choice: [8, 16777216]}"),
		"a step with 128 positives would have too many pairs")

	// All kinds of models and four more options have tens of thousands of combinations.
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	large := space(t, "model: {choice: ["+strings.Join(model.Names(), ", ")+"]}\nreciprocal: {choice: [true, false]}\n"+
		"negatives: {choice: [1vsall, kvsall, shared, independent]}\noptimiser: {choice: [sgd, adam, adagrad]}\n"+
		"regulariser: {choice: [none, frobenius, n3, dura, dura3]}\nclip: {min: 0, max: 1}\nema: {min: 0, max: 0.9}\n"+
		"batch: {min: 8, max: 64}\nblock_losses: {choice: [true, false]}\nrelation_weight: {min: 0, max: 1}")
	assert.ErrorIs(t, large.CheckMemory(cancelled, g, m), context.Canceled)
}
