package train

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
)

// Config is everything that decides what a training computes, except for the tier of the kernels.
// Options describes its fields.
type Config struct {
	Model string
	Dim   int
	Seed  uint64

	Epochs, Batch int

	Negatives       string
	NegativeCount   int
	AnchorNegatives bool
	Distribution    string
	Filter          bool

	Loss          string
	Gamma         float64
	LambdaNeg     float64
	Adversarial   float64
	Smoothing     float64
	Subsampling   bool
	AnswerWeights bool

	ZSamples int
	LambdaZ  float64

	Regulariser   string
	LambdaReg     float64
	RegWarmup     int
	Dropout       float64
	EntityDropout float64

	Optimiser    string
	LearningRate float64
	Beta1, Beta2 float64
	Epsilon      float64
	Warmup       float64
	Decay        string
	Clip         float64

	InitDeviation float64
	InitCross     string

	Products string

	ValidEvery int
	StopMetric string
	Patience   int
	Average    float64
}

// The choices of the options that have some.
const (
	allNegatives         = "all"
	kvsAllNegatives      = "kvsall"
	sharedNegatives      = "shared"
	independentNegatives = "independent"

	uniformDistribution   = "uniform"
	degreeDistribution    = "degree"
	bernoulliDistribution = "bernoulli"

	softmaxLoss = "softmax"
	paperLoss   = "paper"
	bceLoss     = "bce"
	marginLoss  = "margin"

	noRegulariser        = "none"
	frobeniusRegulariser = "frobenius"
	n3Regulariser        = "n3"
	duraRegulariser      = "dura"

	adamOptimiser    = "adam"
	adagradOptimiser = "adagrad"
	sgdOptimiser     = "sgd"

	noDecay     = "none"
	linearDecay = "linear"
	cosineDecay = "cosine"

	identityCross = "identity"
	zeroCross     = "zero"

	floatProducts = "float32"
	splitProducts = "bf16x2"
)

// Default returns the options of a training without a preset: full softmax on both sides, with known
// answers among the candidates, and a cross matrix that begins at zero.
func Default() Config {
	return Config{
		Model: "mquine", Dim: 20, Seed: 1,
		Epochs: 30, Batch: 1024,
		Negatives: allNegatives, NegativeCount: 1024, Distribution: uniformDistribution,
		Loss: softmaxLoss, Gamma: 12, LambdaNeg: 1,
		LambdaZ:     1,
		Regulariser: noRegulariser, LambdaReg: 0.01, Dropout: 0.2,
		Optimiser: adamOptimiser, LearningRate: 3e-3, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8, Decay: noDecay,
		InitDeviation: model.EntityDeviation, InitCross: zeroCross, Products: floatProducts,
		ValidEvery: 1, StopMetric: "mrr/both/all",
	}
}

// Check says what is wrong with the options, each in its own range by now, as a whole.
func (c *Config) Check() error {
	if err := c.checkModel(); err != nil {
		return err
	}
	for _, o := range c.Options() {
		number, ok := o.Value.(*real)
		if ok && !(*number.value >= number.least && *number.value <= number.most) {
			return fmt.Errorf("%s is %v: it must be from %v to %v", o.Key, *number.value, number.least, number.most)
		}
	}
	if c.Optimiser == adamOptimiser && c.Beta1 >= math.Sqrt(c.Beta2) {
		return fmt.Errorf("beta1: %v is not below the square root of beta2, %.4g, and Adam would move rows without a gradient faster and faster: lower beta1, or raise beta2",
			c.Beta1, math.Sqrt(c.Beta2))
	}
	if c.ZSamples > 0 && c.Negatives == independentNegatives && !c.Filter {
		return fmt.Errorf("z_samples: %d needs negatives that are no training triples, whose Z-patterns are sampled: set filter to true", c.ZSamples)
	}
	if c.AnchorNegatives && c.Negatives != sharedNegatives {
		return fmt.Errorf("anchor_negatives adds to the negatives that a batch shares, and negatives is %s: set one or the other", c.Negatives)
	}
	if c.Regulariser == duraRegulariser && c.Distribution == bernoulliDistribution {
		return errors.New("regulariser: dura takes both queries of a positive, and distribution bernoulli draws one: choose another of either")
	}
	if err := c.checkKvsAll(); err != nil {
		return err
	}
	if _, err := parseMetric(c.StopMetric); err != nil {
		return err
	}
	return nil
}

// checkModel says which options the model does not have.
func (c *Config) checkModel() error {
	if _, err := model.Parameters(c.modelConfig(1, 1)); err != nil {
		return err
	}
	m, err := unfilledModel(c.modelConfig(1, 1))
	if err != nil {
		return err
	}
	t := m.Training()
	if !slices.Contains(t.Penalties, model.Penalty(c.Regulariser)) {
		return fmt.Errorf("regulariser: model %s has no penalty %s: set one of %v", c.Model, c.Regulariser, t.Penalties)
	}
	switch matrices := isMatrixModel(c.Model); {
	case c.InitCross != zeroCross && !matrices:
		return fmt.Errorf("init_cross: model %s has no cross matrix: set it to %s", c.Model, zeroCross)
	case c.InitDeviation == 0 && !matrices:
		return fmt.Errorf("init_deviation: model %s never leaves zero: set a positive deviation", c.Model)
	case c.InitDeviation != model.EntityDeviation && t.Distance != nil:
		return fmt.Errorf("init_deviation: model %s begins with uniform numbers up to ±(gamma + 2)/dim: leave it at %v",
			c.Model, model.EntityDeviation)
	case c.Products != floatProducts && t.Distance != nil:
		return fmt.Errorf("products: model %s compares by a distance: set it to %s", c.Model, floatProducts)
	}
	return nil
}

// CheckBackend says which options the kernels of this machine cannot do.
func (c *Config) CheckBackend(b *kernel.Backend) error {
	if c.Products == splitProducts && !b.Features.Has(kernel.FeatureBF16) {
		return fmt.Errorf("products: bf16x2 needs AMX for bfloat16 (Intel Sapphire Rapids and later, feature bf16), "+
			"and these kernels use %s: train with products float32, or on such a processor", b.Features)
	}
	return nil
}

// checkKvsAll says which options need single positives, where there are queries.
func (c *Config) checkKvsAll() error {
	if c.Negatives != kvsAllNegatives {
		if c.AnswerWeights {
			return fmt.Errorf("answer_weights weighs queries with several answers, and negatives is %s: set answer_weights to false, or negatives to kvsall", c.Negatives)
		}
		return nil
	}
	switch {
	case c.Loss != softmaxLoss && c.Loss != bceLoss:
		return fmt.Errorf("loss: %s takes one answer at a time: with negatives kvsall, set loss to softmax or bce", c.Loss)
	case c.Distribution == bernoulliDistribution:
		return errors.New("distribution: bernoulli draws a side of each positive: with negatives kvsall, set it to uniform")
	case c.Subsampling:
		return errors.New("subsampling weighs positives, and negatives kvsall has queries: set subsampling to false")
	}
	return nil
}

// oneBlock tells whether all queries are scored against all entities.
func (c *Config) oneBlock() bool {
	return c.Negatives == allNegatives || c.Negatives == kvsAllNegatives
}

// checkOn is Check, and says what the options need and the data set lacks.
func (c *Config) checkOn(g *kg.Graph) error {
	if err := c.Check(); err != nil {
		return err
	}
	if triples, err := g.Triples(kg.Train); err != nil {
		return err
	} else if len(triples) == 0 {
		return fmt.Errorf("data set %s has no training triples", g.Name)
	}
	if c.ValidEvery > 0 && len(g.Splits[kg.Valid]) == 0 {
		return fmt.Errorf("data set %s has no validation triples: set valid_every to 0", g.Name)
	}
	return nil
}

// Option is one field of a Config: a key of the YAML file and, with dashes, a flag.
type Option struct {
	Key, Help string
	Value     Value
}

// Flag returns the name of the option on the command line, without the leading dashes.
func (o Option) Flag() string { return strings.ReplaceAll(o.Key, "_", "-") }

// Value reads and writes a field as text. Its methods are those of pflag.Value.
type Value interface {
	String() string
	Set(text string) error
	Type() string
}

// Options returns the options of c, in the order of the file. Setting one changes c.
func (c *Config) Options() []Option {
	none := math.Inf(1)
	return []Option{
		{"model", "`model`: mquine; mquade, its case without the cross matrix; or one of vectors", choice(&c.Model, model.Names()...)},
		{"dim", "`dimension` d: an entity of mquine or mquade is a symmetric d × d matrix, of complex and rotate d complex numbers, else d numbers", whole(&c.Dim, 1, 1<<15)},
		{"seed", "`seed` of all random choices", (*seed)(&c.Seed)},
		{"epochs", "`number` of passes over the training triples", whole(&c.Epochs, 1, 1_000_000)},
		{"batch", "`number` of positives in a step, each asked from both sides, or of queries with kvsall", whole(&c.Batch, 1, 1<<20)},

		{"negatives", "`candidates` of a query: all entities, with one answer (all) or with all its training answers at once (kvsall), some shared by a batch and side, or independent ones", choice(&c.Negatives, allNegatives, kvsAllNegatives, sharedNegatives, independentNegatives)},
		{"negative_count", "`number` of drawn negatives, for a batch and side or for a positive and side", whole(&c.NegativeCount, 1, 1<<24)},
		{"anchor_negatives", "with shared negatives, the anchors of the batch's queries on that side too", (*truth)(&c.AnchorNegatives)},
		{"distribution", "`distribution` of drawn negatives: uniform, degree (to the power of 3/4), or bernoulli (uniform, on one drawn side of each positive, as TransH has it)", choice(&c.Distribution, uniformDistribution, degreeDistribution, bernoulliDistribution)},
		{"filter", "leave known training answers out of the negatives", (*truth)(&c.Filter)},

		{"loss", "`loss`: softmax (cross-entropy over the candidates), paper (log-sigmoid with margin), bce, or margin (ranking)", choice(&c.Loss, softmaxLoss, paperLoss, bceLoss, marginLoss)},
		{"gamma", "`margin` γ of all losses but softmax, and of Z-samples", number(&c.Gamma, 0, 1e6)},
		{"lambda_neg", "`weight` λ_neg of the negatives in the losses paper and bce", number(&c.LambdaNeg, 0, 1e6)},
		{"adversarial", "self-adversarial `temperature` α of the losses paper and margin; 0 weighs all negatives alike", number(&c.Adversarial, 0, 1e3)},
		{"smoothing", "label smoothing `ε` of the losses softmax and bce", number(&c.Smoothing, 0, 0.999)},
		{"subsampling", "weigh positives by 1/√(count of (h, r) + count of (r, t)), as the RotatE code does", (*truth)(&c.Subsampling)},
		{"answer_weights", "weigh each query of kvsall by the number of its training answers, so that all triples weigh alike", (*truth)(&c.AnswerWeights)},

		{"z_samples", "`number` k of Z-samples of a positive and side, from the Z-patterns of those of its negatives that train does not know; 0 for none", whole(&c.ZSamples, 0, 1<<20)},
		{"lambda_z", "`weight` λ_Z of the Z-samples", number(&c.LambdaZ, 0, 1e6)},

		{"regulariser", "`regulariser`: none, frobenius, n3 or dura", choice(&c.Regulariser, noRegulariser, frobeniusRegulariser, n3Regulariser, duraRegulariser)},
		{"lambda_reg", "`weight` λ_reg of the regulariser", number(&c.LambdaReg, 0, 1e6)},
		{"reg_warmup", "number of `epochs` in which λ_reg rises from 0 to its value, by as much in each; 0 for none", whole(&c.RegWarmup, 0, 1_000_000)},
		{"dropout", "`probability` of dropping an entry of a query's ψ", number(&c.Dropout, 0, 0.99)},
		{"entity_dropout", "`probability` of dropping an entry of a query's anchor", number(&c.EntityDropout, 0, 0.99)},

		{"optimiser", "`optimiser`: adam, adagrad or sgd", choice(&c.Optimiser, adamOptimiser, adagradOptimiser, sgdOptimiser)},
		{"learning_rate", "learning `rate` η", number(&c.LearningRate, 0, 1e3)},
		{"beta1", "Adam's `decay` of the first moment", number(&c.Beta1, 0, 0.99999)},
		{"beta2", "Adam's `decay` of the second moment", number(&c.Beta2, 0, 0.9999999)},
		{"epsilon", "`number` added to the root of the second moment by adam and adagrad", number(&c.Epsilon, 1e-30, 1)},
		{"warmup", "`epochs` in which the learning rate rises from 0", number(&c.Warmup, 0, 1e6)},
		{"decay", "`course` of the learning rate after that: none, or linear or cosine to 0 at the last epoch", choice(&c.Decay, noDecay, linearDecay, cosineDecay)},
		{"clip", "largest Euclidean `norm` of a step's gradient; 0 for no limit", number(&c.Clip, 0, none)},

		{"init_deviation", "standard `deviation` of the entities' numbers at the start (of mquine and mquade the packed entries of A in E = A + Aᵀ), and of the relations' in models of vectors", number(&c.InitDeviation, 0, 1e3)},
		{"init_cross", "`matrix` Rᶜ of mquine at the start: identity or zero; Rʰ and Rᵗ begin as the identity", choice(&c.InitCross, identityCross, zeroCross)},

		{"products", "`arithmetic` of the products of queries with candidates and of their gradients: float32, or bf16x2, two bfloat16 for each number and two to three times as fast, on processors with AMX", choice(&c.Products, floatProducts, splitProducts)},

		{"valid_every", "rank the validation split every so many `epochs`, and after the last; 0 for never", whole(&c.ValidEvery, 0, 1_000_000)},
		{"stop_metric", "`metric` that names the best epoch: mrr or hits@10, side, filter, such as mrr/both/all", (*word)(&c.StopMetric)},
		{"patience", "stop after so many `validations` without a better metric; 0 for never", whole(&c.Patience, 0, 1_000_000)},
		{"average", "`decay` a of the average over epochs that is validated and kept, w ← a w + (1 − a) θ; 0 for the last parameters alone", number(&c.Average, 0, 0.99999)},
	}
}

// keys returns the keys of the options.
func (c *Config) keys() []string {
	var keys []string
	for _, o := range c.Options() {
		keys = append(keys, o.Key)
	}
	return keys
}

// option returns the option of a key.
func (c *Config) option(key string) (Option, bool) {
	options := c.Options()
	i := slices.IndexFunc(options, func(o Option) bool { return o.Key == key })
	if i < 0 {
		return Option{}, false
	}
	return options[i], true
}
