package recipe

import (
	"io/fs"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank"
)

// Every field has one option, and all defaults are valid.
func TestOptions(t *testing.T) {
	changed := map[string]string{} // option by field
	for i := range reflect.TypeFor[Recipe]().NumField() {
		r := Default()
		field := reflect.ValueOf(&r).Elem().Field(i)
		switch value := field.Addr().Interface().(type) {
		case *int:
			*value = 12345
		case *uint64:
			*value = 12345
		case *float64:
			*value = 12345
		case *bool:
			*value = !*value
		case *Metric:
			value.Name = "hits@1"
		default:
			field.SetString("changed")
		}
		usual := Default()
		key, _, _ := strings.Cut(r.Differences(usual), " is ")
		assert.NotContains(t, changed, key)
		changed[key] = reflect.TypeFor[Recipe]().Field(i).Name
		assert.Equal(t, strings.ToLower(changed[key]), strings.ReplaceAll(key, "_", ""))
	}
	assert.Len(t, declarations, len(changed))

	r := Default()
	require.NoError(t, r.Check())
	for _, o := range r.Options() {
		assert.NotEmpty(t, o.Help)
		assert.NotContains(t, o.Flag(), "_")
		assert.Equal(t, o.Value.String(), r.Option(o.Key).Value.String())
	}
}

// Check finds options that are out of range, even if a program set them.
func TestCheckRanges(t *testing.T) {
	for want, change := range map[string]func(*Recipe){
		"dim is 0: must be a whole number from 1 to 32768":         func(r *Recipe) { r.Dim = 0 },
		"clip is -1: must be a number of at least 0":               func(r *Recipe) { r.Clip = -1 },
		"loss is hinge: choose from softmax, nssa, bce and margin": func(r *Recipe) { r.Loss = "hinge" },
		"regulariser: model transe-l1 does not support dura: set it to none, frobenius or n3": func(r *Recipe) {
			r.Model, r.Regulariser = "transe-l1", model.Dura
		},
		"regulariser: model hake does not support n3: set it to none": func(r *Recipe) {
			r.Model, r.Regulariser = "hake", model.N3
		},
		"init_cross: model rotate has no cross matrix: set it to zero": func(r *Recipe) {
			r.Model, r.InitCross = "rotate", IdentityCross
		},
		"model protate has a fixed initial distribution": func(r *Recipe) {
			r.Model, r.InitStd = "protate", 0
		},
		"with zero entities, model complex has zero gradients": func(r *Recipe) {
			r.Model, r.InitStd = "complex", 0
		},
		"with zero entities, model mquine has zero gradients": func(r *Recipe) {
			r.Model, r.InitStd, r.InitCross = "mquine", 0, IdentityCross
		},
		"with zero entities, model dihedral has zero gradients": func(r *Recipe) {
			r.Model, r.InitStd = "dihedral", 0
		},
		"model tucker can be trained only with reciprocal relations": func(r *Recipe) { r.Model = "tucker" },
		"feature_map_dropout: model tucker has no such layer: set it to 0": func(r *Recipe) {
			r.Model, r.Reciprocal, r.FeatureMapDropout = "tucker", true, 0.1
		},
		"relation_dropout: model tucker is a network: set it to 0": func(r *Recipe) {
			r.Model, r.Reciprocal, r.RelationDropout = "tucker", true, 0.1
		},
		"relation_dropout: the relation of model transr-l1 also transforms the candidates": func(r *Recipe) {
			r.Model, r.RelationDropout = "transr-l1", 0.1
		},
		"orthogonality: model complex does not support it: set it to 0": func(r *Recipe) {
			r.Model, r.Orthogonality = "complex", 1
		},
		"dura_products needs regulariser dura or dura3, but regulariser is n3: change one of them": func(r *Recipe) {
			r.Regulariser, r.DuraProducts = model.N3, 2
		},
		"regulariser: model complex does not support dura3": func(r *Recipe) {
			r.Model, r.Regulariser = "complex", model.Dura3
		},
		"dura_pair needs regulariser dura, but regulariser is none: change one of them": func(r *Recipe) {
			r.Model, r.DuraPair = "complex", 1
		},
		"dura_pair: the score of model mquine is not linear in the relation's parameters": func(r *Recipe) {
			r.Regulariser, r.DuraPair = model.Dura, 1
		},
		"relation_weight: model conve is a network: set it to 0": func(r *Recipe) {
			r.Model, r.Reciprocal, r.RelationWeight = "conve", true, 1
		},
		"relation_weight: the features of model transh-l2 depend on more than the entity": func(r *Recipe) {
			r.Model, r.RelationWeight = "transh-l2", 1
		},
		"relation_negatives needs relation prediction, but relation_weight is 0": func(r *Recipe) {
			r.RelationNegatives = 64
		},
		"block_losses: model mquine does not have several blocks": func(r *Recipe) { r.BlockLosses = true },
		"block_losses: model complex does not have several blocks": func(r *Recipe) {
			r.Model, r.BlockLosses = "complex", true
		},
		"block_losses needs loss softmax, but loss is bce: set block_losses to false": func(r *Recipe) {
			r.BlockLosses, r.Hyper, r.Loss = true, "blocks=2", BCE
		},
		"block_losses: the loss of Z-samples uses the sum of the blocks' scores": func(r *Recipe) {
			r.BlockLosses, r.Hyper, r.ZSamples = true, "blocks=2", 3
		},
		"block_losses: relation prediction uses the sum of the blocks' scores": func(r *Recipe) {
			r.BlockLosses, r.Hyper, r.RelationWeight = true, "blocks=2", 1
		},
		"block_losses: the blocks have no separate norms: set unsquared or block_losses to false": func(r *Recipe) {
			r.BlockLosses, r.Hyper, r.Unsquared = true, "blocks=2", true
		},
		"unsquared: relation prediction uses squared norms: set relation_weight to 0": func(r *Recipe) {
			r.Unsquared, r.RelationWeight = true, 1
		},
		"unsquared: the score of model transe-l2 is not a squared norm": func(r *Recipe) {
			r.Model, r.Unsquared = "transe-l2", true
		},
		"products: model transe-l2 computes distances": func(r *Recipe) {
			r.Model, r.Products = "transe-l2", SplitBF16
		},
		"products: model boxe computes distances": func(r *Recipe) {
			r.Model, r.Products = "boxe", BF16
		},
		"beta1 is 0.5 and must be less than the square root of beta2, 0.5": func(r *Recipe) {
			r.Beta1, r.Beta2 = 0.5, 0.25
		},
		"z_samples: 1 needs filtered negatives: set filter to true": func(r *Recipe) {
			r.ZSamples, r.Negatives, r.Filter = 1, IndependentNegatives, false
		},
		"dura needs both queries of a triple, but distribution bernoulli uses one": func(r *Recipe) {
			r.Regulariser, r.Distribution = model.Dura, Bernoulli
		},
		"max_answers: bce would label the answers in other parts of a query as wrong": func(r *Recipe) {
			r.Negatives, r.Loss, r.MaxAnswers = KvsAll, BCE, 1
		},
		"max_answers needs negatives kvsall, but negatives is shared": func(r *Recipe) {
			r.Negatives, r.MaxAnswers = SharedNegatives, 1
		},
		"loss: nssa has one target at a time": func(r *Recipe) { r.Negatives, r.Loss = KvsAll, NSSA },
		"distribution: bernoulli chooses a side of each triple: with negatives kvsall": func(r *Recipe) {
			r.Negatives, r.Distribution = KvsAll, Bernoulli
		},
		"batch: model conve normalises each step, and so needs at least two queries": func(r *Recipe) {
			r.Model, r.Reciprocal, r.Batch, r.Negatives = "conve", true, 1, KvsAll
		},
	} {
		r := Default()
		change(&r)
		assert.ErrorContains(t, r.Check(), want)
	}
	for text, change := range map[string]func(*Recipe){
		"beta1 below the square root of beta2": func(r *Recipe) { r.Beta1, r.Beta2 = 0.499, 0.25 },
		"beta1 without Adam":                   func(r *Recipe) { r.Optimiser, r.Beta1, r.Beta2 = SGD, 0.9, 0.25 },
		"no Z-samples":                         func(r *Recipe) { r.Negatives, r.Filter = IndependentNegatives, false },
		"Z-samples and shared negatives": func(r *Recipe) {
			r.ZSamples, r.Negatives, r.Filter = 1, SharedNegatives, false
		},
		"bce with all answers":        func(r *Recipe) { r.Negatives, r.Loss = KvsAll, BCE },
		"softmax and part of answers": func(r *Recipe) { r.Negatives, r.MaxAnswers = KvsAll, 1 },
		"two queries in a batch of one": func(r *Recipe) {
			r.Model, r.Reciprocal, r.Batch, r.Negatives = "conve", true, 1, SharedNegatives
		},
	} {
		r := Default()
		r.Loss = Softmax
		change(&r)
		assert.NoError(t, r.Check(), text)
	}
	r := Default()
	r.Model, r.InitCross = "mquade", IdentityCross
	require.NoError(t, r.Check(), "MQuadE accepts MQuinE's options")
}

// TestUnused checks whether options are listed as unused that have an effect only with some values of
// others.
func TestUnused(t *testing.T) {
	for _, c := range []struct{ options, key, reason string }{
		{"model=mquine loss=softmax z_samples=0", "gamma", "loss softmax"},
		{"model=complex loss=softmax z_samples=0", "gamma", "loss softmax"},
		{"model=mquine loss=softmax z_samples=4", "gamma", ""},
		{"model=mquine loss=bce z_samples=0", "gamma", ""},
		{"model=rotate loss=softmax z_samples=0", "gamma", ""}, // initial parameters depend on it
		{"model=mquade", "init_cross", "model mquade"},
		{"model=mquine", "init_cross", ""},
		{"regulariser=dura lambda_reg=0", "dura_products", "lambda_reg 0"},
		{"regulariser=dura lambda_reg=0", "reg_warmup", "lambda_reg 0"},
		{"regulariser=dura lambda_reg=0", "regulariser", "lambda_reg 0"},
		{"regulariser=dura lambda_reg=0", "lambda_reg", ""},
		{"regulariser=dura lambda_reg=0.1", "dura_products", ""},
		{"regulariser=none lambda_reg=0.1", "lambda_reg", "regulariser none"},
		{"decay=linear warmup=2.5 epochs=3", "decay", ""},
		{"decay=linear warmup=3 epochs=3", "decay", "warmup 3 of 3 epochs"},
		{"decay=cosine warmup=5 epochs=1", "decay", "warmup 5 of 1 epoch"},
		{"patience=1 valid_every=5 epochs=11", "patience", ""},
		{"patience=2 valid_every=5 epochs=11", "patience", "3 validations"},
		{"patience=5 valid_every=5 epochs=3", "patience", "1 validation"},
		{"patience=5 valid_every=0 epochs=3", "patience", "valid_every 0"},
		{"negatives=1vsall", "distribution", "negatives 1vsall"},
		{"negatives=1vsall distribution=bernoulli", "distribution", ""}, // one query of each triple
		{"negatives=shared", "distribution", ""},
		{"negatives=kvsall", "filter", "negatives kvsall"},
		{"negatives=shared", "filter", ""},
		{"loss=nssa", "adversarial", ""},
		{"loss=margin", "adversarial", ""},
		{"loss=bce", "adversarial", "loss bce"},
		{"loss=nssa", "lambda_neg", ""},
		{"loss=bce", "lambda_neg", ""},
		{"loss=margin", "lambda_neg", "loss margin"},
		{"loss=softmax", "smoothing", ""},
		{"loss=bce", "smoothing", ""},
		{"loss=nssa", "smoothing", "loss nssa"},
		{"z_samples=0", "lambda_z", "z_samples 0"},
		{"z_samples=1", "lambda_z", ""},
		{"optimiser=adam", "beta1", ""},
		{"optimiser=adagrad", "beta1", "optimiser adagrad"},
		{"optimiser=adagrad", "epsilon", ""},
		{"optimiser=sgd", "epsilon", "optimiser sgd"},
	} {
		r, err := ParseLine(c.options)
		require.NoError(t, err)
		assert.Equal(t, c.reason, r.Unused()[c.key], "%s: %s", c.options, c.key)
	}
}

func TestEffective(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{
			"model=mquade gamma=3 init_cross=identity regulariser=dura lambda_reg=0 dura_products=9 reg_warmup=2",
			"model=mquade gamma=4 init_cross=zero regulariser=none lambda_reg=1", true,
		},
		{"epochs=3 warmup=3 decay=linear", "epochs=3 warmup=3 decay=none", true},
		{"epochs=3 warmup=2 decay=linear", "epochs=3 warmup=2 decay=none", false},
		{"epochs=3 patience=2", "epochs=3 patience=0", true},
		{"epochs=4 patience=2", "epochs=4 patience=0", false},
		// From 1 − 1/epochs on, an EMA is the plain mean of all epochs.
		{"epochs=4 ema=0.75", "epochs=4 ema=0.9", true},
		{"epochs=4 ema=0.74", "epochs=4 ema=0.9", false},
		{"epochs=1 ema=0.2", "epochs=1 ema=0.9", true},
		{"epochs=1 ema=0.2", "epochs=1 ema=0", false},
		{"epochs=4 ema=0.9", "epochs=4 ema=0.5", false},
		// Z-samples without a weight add rows to a step, so they may change the rounding.
		{"z_samples=3 lambda_z=0", "z_samples=0 lambda_z=0", false},
	} {
		a, err := ParseLine(c.a)
		require.NoError(t, err)
		b, err := ParseLine(c.b)
		require.NoError(t, err)
		assert.Equal(t, c.same, a.Effective() == b.Effective(), "%s; %s", c.a, c.b)
		assert.Equal(t, a.Effective(), a.Effective().Effective())
	}
}

// TestUnusedProducts checks that the arithmetic of products is unused with negatives that need none, on
// any backend.
func TestUnusedProducts(t *testing.T) {
	generic := &kernel.Backend{Tier: kernel.Generic}
	for negatives, reason := range map[Negatives]string{
		OneVsAll: "", KvsAll: "", SharedNegatives: "", IndependentNegatives: "negatives independent",
	} {
		r := Default()
		r.Negatives, r.Products = negatives, BF16
		assert.Equal(t, reason, r.Unused()["products"])
		assert.Equal(t, reason == "", r.CheckBackend(generic) != nil, negatives)
	}
}

// TestCheckBackend lists the arithmetic that each set of features supports.
func TestCheckBackend(t *testing.T) {
	for names, want := range map[string][]Products{
		"avx2":                                 {Float32},
		"avx2,avx512,avx512bf16":               {Float32, BF16},
		"avx2,avx512,amx,amxbf16":              {Float32, SplitBF16},
		"avx2,avx512,amx,amxbf16,avx512bf16":   {Float32, BF16, TileBF16, SplitBF16},
		"avx2,avx512,vnni,amx,avxvnni,vbmi":    {Float32},
		"avx2,avx512,vnni,amx,avx512bf16,vbmi": {Float32, BF16},
	} {
		features, err := kernel.ParseFeatures(names)
		require.NoError(t, err)
		assert.Equal(t, want, AvailableProducts(&kernel.Backend{Features: features}), names)
	}
}

func TestHyper(t *testing.T) {
	for text, want := range map[string]string{
		"none":                                "none",
		"relation_dim=3.0, max_norm=1e1":      "max_norm=10,relation_dim=3", // in the order of the keys
		"blocks=x":                            "with numbers X, but contains \"blocks=x\"",
		"blocks=nan":                          "with numbers X, but contains \"blocks=nan\"",
		"blocks=inf":                          "with numbers X, but contains \"blocks=inf\"",
		"max_norm=1,blocks":                   "with numbers X, but contains \"blocks\"",
		"":                                    "with numbers X, but contains \"\"",
		"bloks=2":                             "no model has a hyper-parameter \"bloks\"",
		"blocks=2,max_norm=1,blocks=3":        "sets blocks twice",
		"relation_dim=2,max_norm=1,blocks=03": "blocks=3,max_norm=1,relation_dim=2",
	} {
		r := Default()
		r.Hyper = "blocks=7"
		if err := r.Option("hyper").Set(text); err != nil {
			assert.ErrorContains(t, err, want, text)
			assert.EqualValues(t, "blocks=7", r.Hyper, text)
		} else {
			assert.Equal(t, want, r.Option("hyper").Value.String(), text)
		}
	}
	r := Default()
	r.Model, r.Hyper = "rotate", "gamma=3"
	assert.ErrorContains(t, r.Check(), "hyper: training determines gamma of model rotate from other options")
}

func TestMetric(t *testing.T) {
	for _, text := range []string{
		"mrr", "mrr/both", "mrr/both/all/all", "mr/both/all", "hits@2/both/all", "mrr/relation/all", "mrr/up/all",
		"mrr/both/some", "/both/all", "mrr//all", "mrr/both/",
	} {
		m := defaultMetric
		require.ErrorContains(t, m.Set(text), "must be a name (mrr, hits@1, hits@3, hits@10), a side", text)
		assert.Equal(t, defaultMetric, m)
	}
	var m Metric
	require.NoError(t, m.Set("hits@3/head/train"))
	assert.Equal(t, Metric{"hits@3", rank.HeadSide, rank.Train}, m)
}

func TestLine(t *testing.T) {
	for _, name := range Presets()[len(presetKinds):] {
		want, err := Preset(name, "")
		require.NoError(t, err)
		got, err := ParseLine(want.Line())
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	got, err := ParseLine("dim=7")
	require.NoError(t, err)
	want := Default()
	want.Dim = 7
	assert.Equal(t, want, got, "a line without newer options")
	assert.Equal(t, "dim is 7 but was 20", got.Differences(Default()))
	r := Default()
	r.Negatives, r.Loss, r.EMA, r.InitStd = OneVsAll, NSSA, 0.5, 0.2
	r.ValidMetric.Name = "hits@1"
	assert.Equal(t, "model=mquine dim=20 seed=1 epochs=30 batch=1024 negatives=all negative_count=1024 "+
		"anchor_negatives=false distribution=uniform filter=false loss=paper gamma=12 lambda_neg=1 adversarial=0 "+
		"smoothing=0 subsampling=false answer_weights=false z_samples=0 lambda_z=1 regulariser=none lambda_reg=0.01 "+
		"reg_warmup=0 dropout=0.2 entity_dropout=0 optimiser=adam learning_rate=0.003 beta1=0.9 beta2=0.999 "+
		"epsilon=1e-08 warmup=0 decay=none clip=0 init_deviation=0.2 init_cross=zero products=float32 valid_every=1 "+
		"stop_metric=hits@1/both/all patience=0 average=0.5", r.Line(), "the same bytes in all versions")
	got, err = ParseLine("ema=0.5 negatives=1vsall loss=nssa valid_metric=hits@1/both/all init_std=0.2")
	require.NoError(t, err)
	assert.Equal(t, r, got)
	_, err = ParseLine("=7")
	require.ErrorContains(t, err, `there is no option ""`)
	_, err = ParseLine("dmi=7")
	assert.ErrorContains(t, err, `there is no option "dmi" in this version of mquine`)
	_, err = ParseLine("dim=0")
	assert.ErrorContains(t, err, `dim "0": must be a whole number from 1 to 32768`)
}

func TestRecipeFile(t *testing.T) {
	read := func(text string) (Recipe, error) {
		c := Default()
		_, err := c.Read(strings.NewReader(text), "x.yaml")
		return c, err
	}
	for _, name := range Presets()[len(presetKinds):] {
		c, err := Preset(name, "")
		require.NoError(t, err)
		got, err := read(string(c.YAML()))
		require.NoError(t, err)
		assert.Equal(t, c, got)
	}
	c, err := read("dim: 7 # small\n\nfilter: true\nlearning_rate: 1e-2\n")
	require.NoError(t, err)
	assert.Equal(t, 7, c.Dim)
	assert.True(t, c.Filter)
	assert.Equal(t, 0.01, c.LearningRate)
	_, err = read("")
	require.NoError(t, err)

	// Names from earlier versions still work.
	former, err := read("negatives: all\nloss: paper\ninit_deviation: 0.2\naverage: 0.5\n" +
		"stop_metric: hits@3/tail/all\n")
	require.NoError(t, err)
	current, err := read("negatives: 1vsall\nloss: nssa\ninit_std: 0.2\nema: 0.5\nvalid_metric: hits@3/tail/all\n")
	require.NoError(t, err)
	assert.Equal(t, current, former)
	assert.NotContains(t, string(former.YAML()), "average:")

	for text, want := range map[string]string{
		"lr: 3\n":                   `x.yaml:1: unknown option "lr": did you mean learning_rate?`,
		"embedding-dim: 3\n":        `x.yaml:1: unknown option "embedding-dim": did you mean dim?`,
		"dim: 7\nlerning_rate: 3\n": `x.yaml:2: unknown option "lerning_rate": the nearest is learning_rate`,
		"dim: 7\n\ndim: 8":          "x.yaml:3: duplicate key dim, first on line 1",
		"ema: 0.5\naverage: 0.5":    "x.yaml:2: duplicate key ema, first on line 1",
		"dim: [7]":                  "x.yaml:1: dim needs a single value",
		"dim: seven":                `x.yaml:1: dim "seven": must be a whole number from 1 to 32768`,
		"loss: hinge":               `x.yaml:1: loss "hinge": choose from softmax, nssa, bce and margin`,
		"filter: maybe":             `x.yaml:1: filter "maybe": must be true or false`,
		"dropout: nan":              `x.yaml:1: dropout "nan": must be a number from 0 to 0.99`,
		"batch: &b 64\ndim: *b":     "x.yaml:2: *b is an alias: write the value itself",
		"? [a, b]\n: 3":             "x.yaml:1: a key must be a single word",
		"valid_metric: mrr":         `x.yaml:1: valid_metric "mrr": must be a name (`,
		"stop_metric: mrr":          `x.yaml:1: valid_metric "mrr": must be a name (`,
		"- dim":                     "x.yaml:1: this file must be a list of keys and values",
		"dim: 7\n\tx: 3":            "x.yaml:2: this is not YAML: found a tab character",
		"dim: \x1b":                 "x.yaml: this is not YAML: control characters are not allowed",
		"clip: -1":                  `x.yaml:1: clip "-1": must be a number of at least 0`,
		"data: [a]":                 "x.yaml:1: data needs a single value",
		"dim:":                      `x.yaml:1: dim "": must be a whole number`,
	} {
		_, err := read(text)
		assert.ErrorContains(t, err, want)
	}
}

// The comments of a file are at most 80 columns wide.
func TestWidthOfFile(t *testing.T) {
	r := Default()
	for line := range strings.Lines(string(r.YAML())) {
		assert.LessOrEqual(t, utf8.RuneCountInString(line), 81, line)
		assert.Regexp(t, `^(# \S|[a-z0-9_]+: )`, line)
	}
}

func TestPresets(t *testing.T) {
	for _, name := range Presets()[len(presetKinds):] {
		r, err := Preset(name, "elsewhere")
		require.NoError(t, err)
		require.NoError(t, r.Check(), name)
	}
	// row is a row of the paper's table "The best hyperparameters of MQuinE".
	type row struct {
		k, d, batch  int
		alpha, gamma float64
		m            int
		lambdaReg    float64
	}
	for dataset, want := range map[string]row{
		"fb15k-237": {32, 38, 1024, 0.5, 12, 256, 0.01},
		"wn18":      {64, 35, 1024, 1, 9, 256, 5e-3},
		"wn18rr":    {64, 35, 1024, 0.5, 12, 512, 0.01},
		"yago3-10":  {64, 18, 4096, 1, 32, 512, 5e-3},
		"codex-s":   {32, 32, 1024, 0.5, 12, 256, 0.01},
		"codex-m":   {32, 32, 1024, 0.5, 12, 256, 0.01},
		"codex-l":   {32, 32, 1024, 0.5, 12, 256, 5e-3},
	} {
		r, err := Preset("paper", dataset)
		require.NoError(t, err)
		assert.Equal(t, want, row{r.ZSamples, r.Dim, r.Batch, r.Adversarial, r.Gamma, r.NegativeCount, r.LambdaReg})
		assert.Equal(t, []any{NSSA, IndependentNegatives, true, model.Frobenius, 1.0, IdentityCross, 0.0},
			[]any{r.Loss, r.Negatives, r.Filter, r.Regulariser, r.LambdaNeg, r.InitCross, r.Dropout})
	}
	named, err := Preset("paper:yago3-10", "fb15k-237")
	require.NoError(t, err)
	assert.Equal(t, 18, named.Dim)

	_, err = Preset("paper", "umls")
	require.ErrorContains(t, err, `preset paper has no recipe for the data set "umls": add the `+
		`name of a data set, as in paper:codex-l; its data sets are codex-l, codex-m, codex-s, fb15k-237, wn18, wn18rr, yago3-10`)
	_, err = Preset("best", "umls")
	require.ErrorContains(t, err, `add the name of a data set, as in best:codex-m`)
	_, err = Preset("best", "./data/wn18")
	require.ErrorContains(t, err, `as in best:wn18;`)
	_, err = Preset("best", "")
	require.ErrorContains(t, err, "preset best needs a data set: add --data NAME, or name it, as in best:codex-m; its "+
		"data sets are codex-m, codex-s, fb15k-237, ")
	_, err = Preset("paper:fb15k237", "umls")
	require.ErrorContains(t, err, `has no recipe for the data set "fb15k237": did you mean paper:fb15k-237?`)
	_, err = Preset("papre", "umls")
	require.ErrorContains(t, err, "the presets are paper and best")
}

// Other models accept MQuinE's presets unless they lack the regulariser. The error then names the option.
func TestPresetsOfOtherModels(t *testing.T) {
	for _, name := range Presets()[len(presetKinds):] {
		for _, m := range model.Names() {
			r, err := Base(name, "elsewhere", m)
			require.NoError(t, err)
			r.Model = m
			if err := r.Check(); err != nil {
				require.ErrorContains(t, err, "regulariser: model "+m+" does not support", name)
			}
			r.Regulariser, r.Orthogonality = model.NoPenalty, 0
			require.NoError(t, r.Check(), "%s, %s", name, m)
		}
	}
	// One error names all options that the model lacks.
	r, err := Base("best", "wn18rr", "hake")
	require.NoError(t, err)
	r.Model = "hake"
	require.EqualError(t, r.Check(), "regulariser: model hake does not support dura3: set it to none; "+
		"orthogonality: model hake does not support it: set it to 0")
	// Nothing but what the model lacks differs.
	r, err = Base("paper", "codex-m", "complex")
	require.NoError(t, err)
	general, err := Preset("paper", "codex-m")
	require.NoError(t, err)
	assert.Equal(t, "init_cross is zero but was identity", r.Differences(general))
}

// With a preset, a run starts from the model's own version of the preset if there is one, and from
// the general version otherwise. Without a preset, it starts from the model's defaults.
func TestBase(t *testing.T) {
	files, err := fs.Glob(presetFiles, "presets/*/*/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		parts := strings.Split(strings.TrimSuffix(file, ".yaml"), "/")
		kind, name, dataset := parts[1], parts[2], parts[3]
		assert.Contains(t, ModelPresets(kind)[name], dataset)
		own, err := Base(kind, dataset, name)
		require.NoError(t, err)
		require.NoError(t, own.Check(), file)
		assert.Equal(t, name, own.Model, file)
		named, err := Base(kind+":"+dataset, "elsewhere", name)
		require.NoError(t, err)
		assert.Equal(t, own, named)
		general, err := Preset(kind, dataset)
		require.NoError(t, err)
		assert.NotEqual(t, general, own)
		other, err := Base(kind, dataset, "mquade")
		require.NoError(t, err)
		assert.Equal(t, general, other)
	}
	got, err := Base("", "codex-s", "complex")
	require.NoError(t, err)
	want, err := DefaultFor("complex")
	require.NoError(t, err)
	assert.Equal(t, want, got)
	_, err = Base("best", "umls", "complex")
	assert.ErrorContains(t, err, "preset best has no recipe for the data set")
}

// Reading any file yields a recipe or a one-line error.
func FuzzRecipeFile(f *testing.F) {
	f.Add("dim: 7\nloss: paper\naverage: 0.5\n")
	f.Add("# nothing\n")
	f.Add("a: &a 1\ndim: *a\n<<: {}\n")
	f.Add(string(new(Recipe).YAML()))
	f.Fuzz(func(t *testing.T, text string) {
		c := Default()
		if _, err := c.Read(strings.NewReader(text), "x.yaml"); err != nil {
			if strings.Contains(err.Error(), "\n") || !strings.HasPrefix(err.Error(), "x.yaml") {
				t.Errorf("%q", err)
			}
			return
		}
		again := Default()
		if _, err := again.Read(strings.NewReader(string(c.YAML())), "y.yaml"); err != nil || again != c {
			t.Errorf("%v: %+v", err, c)
		}
	})
}
