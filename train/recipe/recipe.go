// Package recipe has the options of a training: their ranges, defaults and descriptions, the YAML files that hold
// them, and presets, which are such files.
package recipe

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/train/internal/setting"
)

// Recipe is everything that decides what a training computes, except for the data set and the tier of the kernels.
// The declarations in options.go describe the fields.
type Recipe struct {
	Model string
	Dim   int
	Seed  uint64

	Epochs, Batch int

	Negatives       Negatives
	NegativeCount   int
	AnchorNegatives bool
	Distribution    Distribution
	Filter          bool

	Loss          Loss
	Gamma         float64
	LambdaNeg     float64
	Adversarial   float64
	Smoothing     float64
	Subsampling   bool
	AnswerWeights bool

	ZSamples int
	LambdaZ  float64

	Regulariser   model.Penalty
	LambdaReg     float64
	RegWarmup     int
	Dropout       float64
	EntityDropout float64

	Optimiser    Optimiser
	LearningRate float64
	Beta1, Beta2 float64
	Epsilon      float64
	Warmup       float64
	Decay        Decay
	Clip         float64

	InitDeviation float64
	InitCross     Cross

	Products Products

	ValidEvery int
	StopMetric Metric
	Patience   int
	Average    float64
}

// Negatives says which entities a query's answers are compared with.
type Negatives string

// The negatives.
const (
	// AllNegatives are all entities, for each answer of a query by itself.
	AllNegatives Negatives = "all"
	// KvsAll compares all training answers of a query at once with all entities.
	KvsAll Negatives = "kvsall"
	// SharedNegatives are drawn for all queries of a batch and side.
	SharedNegatives Negatives = "shared"
	// IndependentNegatives are drawn for each query.
	IndependentNegatives Negatives = "independent"
)

// Drawn tells whether negatives are drawn, rather than all entities.
func (n Negatives) Drawn() bool { return n == SharedNegatives || n == IndependentNegatives }

// Distribution is that of drawn negatives.
type Distribution string

// The distributions.
const (
	Uniform Distribution = "uniform"
	// Degree draws entities by a power of their degree.
	Degree Distribution = "degree"
	// Bernoulli is uniform, on one drawn side of each positive (Wang et al., 2014, TransH).
	Bernoulli Distribution = "bernoulli"
)

// Loss is the loss of a query.
type Loss string

// The losses.
const (
	// Softmax is the cross-entropy over the candidates.
	Softmax Loss = "softmax"
	// Paper is the log-sigmoid loss with a margin and self-adversarial weights.
	Paper Loss = "paper"
	// BCE is the binary cross-entropy of each candidate.
	BCE Loss = "bce"
	// Margin is the ranking loss.
	Margin Loss = "margin"
)

// Optimiser moves parameters against their gradients.
type Optimiser string

// The optimisers.
const (
	Adam    Optimiser = "adam"
	Adagrad Optimiser = "adagrad"
	SGD     Optimiser = "sgd"
)

// Decay is the course of the learning rate.
type Decay string

// The courses. All but NoDecay end at 0.
const (
	NoDecay     Decay = "none"
	LinearDecay Decay = "linear"
	CosineDecay Decay = "cosine"
)

// Cross is the matrix with which a cross matrix begins.
type Cross string

// The first cross matrices.
const (
	IdentityCross Cross = "identity"
	ZeroCross     Cross = "zero"
)

// Products is the arithmetic of products of matrices.
type Products string

// The products.
const (
	Float32 Products = "float32"
	// SplitBF16 takes two bfloat16 for each number.
	SplitBF16 Products = "bf16x2"
)

// Option is an option of a recipe, by which it is read and written as text. It is a key of a file and, with dashes, a
// flag of the command line.
type Option = setting.Setting

// Options returns the options of r, in the order of files. Setting one changes r.
func (r *Recipe) Options() []Option {
	options := make([]Option, len(declarations))
	for i, d := range declarations {
		options[i] = Option{Key: d.key, Help: d.help, Value: d.value(r)}
	}
	return options
}

// Option returns the option of a key. It panics if there is none.
func (r *Recipe) Option(key string) Option {
	i := slices.IndexFunc(declarations, func(d declaration) bool { return d.key == key })
	return Option{Key: key, Help: declarations[i].help, Value: declarations[i].value(r)}
}

// Default returns the options of a training without a preset: full softmax on both sides, with known answers among the
// candidates, and a cross matrix that begins at zero.
func Default() Recipe {
	var r Recipe
	for _, d := range declarations {
		d.reset(&r)
	}
	return r
}

// Read sets the options that a YAML file has: a mapping of keys to values. name is the file's, for messages. others are
// keys that are allowed beside the options; their values are returned.
func (r *Recipe) Read(file io.Reader, name string, others ...string) (map[string]string, error) {
	root, err := setting.ReadMapping(file, name)
	if err != nil {
		return nil, err
	}
	options, values := r.Options(), map[string]string{}
	return values, setting.EachPair(root, name, func(key, value *yaml.Node) error {
		if value.Kind != yaml.ScalarNode {
			return fmt.Errorf("%s:%d: %.80s needs a single value", name, value.Line, key.Value)
		}
		if slices.Contains(others, key.Value) {
			values[key.Value] = value.Value
			return nil
		}
		option, err := setting.Find(options, key, name, others...)
		if err != nil {
			return err
		}
		return option.Read(value, name)
	})
}

// YAML writes all options, each under the sentence that explains it.
func (r *Recipe) YAML() []byte {
	return setting.YAML(r.Options(), func(o Option) string { return o.Value.String() })
}

// Line writes all options in one line, as checkpoints and states record them.
func (r *Recipe) Line() string {
	var parts []string
	for _, o := range r.Options() {
		parts = append(parts, o.Key+"="+o.Value.String())
	}
	return strings.Join(parts, " ")
}

// ParseLine reads what Line wrote. An option that is not there, because it is newer, has its default.
func ParseLine(line string) (Recipe, error) {
	r := Default()
	options := r.Options()
	for part := range strings.FieldsSeq(line) {
		key, value, _ := strings.Cut(part, "=")
		i := slices.IndexFunc(options, func(o Option) bool { return o.Key == key })
		if i < 0 {
			return r, fmt.Errorf("there is no option %.80q in this version of mquine", key)
		}
		if err := options[i].Value.Set(value); err != nil {
			return r, fmt.Errorf("%s %.80q: %w", key, value, err)
		}
	}
	return r, nil
}

// Differences names the options in which r differs from an earlier recipe, with both values.
func (r *Recipe) Differences(earlier Recipe) string {
	var differences []string
	was := earlier.Options()
	for i, o := range r.Options() {
		if now, before := o.Value.String(), was[i].Value.String(); now != before {
			differences = append(differences, fmt.Sprintf("%s is %s and was %s", o.Key, now, before))
		}
	}
	return strings.Join(differences, ", ")
}

// ModelConfig returns the configuration of the model for a data set of the given sizes, but for its hyper-parameters,
// which follow from Start.
func (r *Recipe) ModelConfig(entities, relations int) model.Config {
	return model.Config{Model: r.Model, Dim: r.Dim, Entities: entities, Relations: relations}
}

// Start returns what the options choose about the parameters with which the training begins.
func (r *Recipe) Start() model.Start {
	return model.Start{Gamma: r.Gamma, Deviation: r.InitDeviation, Cross: r.InitCross == IdentityCross}
}
