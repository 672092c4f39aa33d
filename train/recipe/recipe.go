// Package recipe defines the options of a training run, with their ranges, defaults and
// descriptions, and reads and writes them as YAML.
//
// A Recipe holds all options of a run. Begin with DefaultFor or Preset, change fields, and call
// Recipe.Check. The list in options.go declares the options.
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

// Recipe holds all options of a training run. Together with the data set and the tier of the
// kernels, it determines the result. The declarations in options.go describe the fields. The zero
// Recipe is not valid.
type Recipe struct {
	Model      string
	Dim        int
	Reciprocal bool
	// InverseWeight is used only by the trained model, not in training.
	InverseWeight float64
	Hyper         Hyper
	Seed          uint64

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
	MaxAnswers    int
	DegreeWeights bool
	BlockLosses   bool
	Unsquared     bool

	ZSamples int
	LambdaZ  float64

	RelationWeight    float64
	RelationNegatives int

	Regulariser     model.Penalty
	LambdaReg       float64
	RegWarmup       int
	DuraProducts    float64
	DuraPair        float64
	Orthogonality   float64
	Dropout         float64
	EntityDropout   float64
	RelationDropout float64
	// These dropouts apply inside a model.Network.
	InputDropout, FeatureMapDropout, HiddenDropout float64

	Optimiser    Optimiser
	LearningRate float64
	Beta1, Beta2 float64
	Epsilon      float64
	Warmup       float64
	Decay        Decay
	Clip         float64

	InitStd   float64
	InitCross Cross

	Products Products

	ValidEvery  int
	ValidMetric Metric
	Patience    int
	EMA         float64
}

// Negatives selects the candidates that a loss contrasts with the target of a query.
type Negatives string

// The kinds of negatives.
const (
	// OneVsAll contrasts one target at a time with all entities.
	OneVsAll Negatives = "1vsall"
	// KvsAll contrasts all training answers to a query at once with all entities.
	KvsAll Negatives = "kvsall"
	// SharedNegatives are sampled once for all queries of a batch on one side.
	SharedNegatives Negatives = "shared"
	// IndependentNegatives are sampled for each query.
	IndependentNegatives Negatives = "independent"
)

// Sampled reports whether the negatives are samples and not all entities.
func (n Negatives) Sampled() bool { return n == SharedNegatives || n == IndependentNegatives }

// Distribution is the distribution of negative samples.
type Distribution string

// The distributions.
const (
	Uniform Distribution = "uniform"
	// Degree samples entities in proportion to a power of their degree.
	Degree Distribution = "degree"
	// Bernoulli samples uniformly, on one random side of each triple (TransH; Wang et al., 2014).
	Bernoulli Distribution = "bernoulli"
)

// Loss is the loss of a query.
type Loss string

// The losses. For the formulas, see docs/training.md, "Losses".
const (
	// Softmax is the cross-entropy over the target and the negatives.
	Softmax Loss = "softmax"
	// NSSA is the log-sigmoid loss with a margin and self-adversarial weights of the negatives
	// (RotatE; Sun et al., 2019), which the paper of MQuinE uses.
	NSSA Loss = "nssa"
	// BCE is the binary cross-entropy of each candidate.
	BCE Loss = "bce"
	// Margin is the margin ranking loss.
	Margin Loss = "margin"
)

// Optimiser is the rule that updates the parameters.
type Optimiser string

// The optimisers.
const (
	Adam    Optimiser = "adam"
	Adagrad Optimiser = "adagrad"
	SGD     Optimiser = "sgd"
)

// Decay is the schedule of the learning rate after warm-up.
type Decay string

// The schedules. LinearDecay and CosineDecay reach 0 at the end of the last epoch.
const (
	NoDecay     Decay = "none"
	LinearDecay Decay = "linear"
	CosineDecay Decay = "cosine"
)

// Cross is the initial value of a cross matrix.
type Cross string

// The initial cross matrices.
const (
	IdentityCross Cross = "identity"
	ZeroCross     Cross = "zero"
)

// Products is the arithmetic of matrix products.
type Products string

// The kinds of arithmetic.
const (
	Float32 Products = "float32"
	// BF16 rounds each float32 to bfloat16.
	BF16 Products = "bf16"
	// TileBF16 rounds as BF16 does, and adds in another order.
	TileBF16 Products = "bf16-amx"
	// SplitBF16 splits each float32 into two bfloat16 values.
	SplitBF16 Products = "bf16x2"
)

// Option is one option of a recipe, read and written as text. Its key names it in files and, with
// dashes instead of underscores, on the command line. Its fields and its most useful methods are
//
//	Key         string            // the name in a file
//	Help        string            // one line that describes the option
//	Value       Value             // with methods String, Set, Type and Range
//	FormerKey   string            // the key in earlier versions, or ""
//	Synonyms    []string          // names in other tools
//	FormerWords map[string]string // from values of earlier versions to current ones
//
//	func (Option) Flag() string          // the name on the command line, without leading dashes
//	func (Option) Set(text string) error // sets the value
type Option = setting.Setting

// Options returns the options of r, in the order in which files list them. Setting an option
// changes r.
func (r *Recipe) Options() []Option {
	options := make([]Option, len(declarations))
	for i, d := range declarations {
		options[i] = d.option(r)
	}
	return options
}

// Option returns the option with the given key. It panics if there is none.
func (r *Recipe) Option(key string) Option {
	i := slices.IndexFunc(declarations, func(d declaration) bool { return d.key == key })
	return declarations[i].option(r)
}

// Default returns the general options that presets and files start from: softmax over all entities on
// both sides, with known answers among the candidates, and a zero initial cross matrix. Use DefaultFor for
// the defaults of a model: MQuinE's differ, too.
func Default() Recipe {
	var r Recipe
	for _, d := range declarations {
		d.reset(&r)
	}
	return r
}

// Read sets the options that a YAML file contains. The file maps keys to values. It may also
// contain the keys in others, whose values Read returns. In errors, name is the name of the file.
func (r *Recipe) Read(file io.Reader, name string, others ...string) (map[string]string, error) {
	options, values := r.Options(), map[string]string{}
	root, err := setting.ReadMapping(file, name, options...)
	if err != nil {
		return nil, err
	}
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

// YAML returns a file with all options, each below a comment that describes it.
func (r *Recipe) YAML() []byte {
	return setting.YAML(r.Options(), func(o Option) string { return o.Value.String() })
}

// Line returns all options as one line, for the metadata of checkpoints and states. It uses the
// original names of options and values, and omits options of later versions at their defaults, so the
// bytes of a checkpoint do not depend on the version.
func (r *Recipe) Line() string {
	var parts []string
	for _, o := range r.Options() {
		key, value := o.Original()
		if initial, later := laterKeys[key]; later && value == initial {
			continue
		}
		parts = append(parts, key+"="+value)
	}
	return strings.Join(parts, " ")
}

// ParseLine returns the recipe that Line wrote. Newer options, which the line lacks, have their
// default values.
func ParseLine(line string) (Recipe, error) {
	r := Default()
	options := r.Options()
	for part := range strings.FieldsSeq(line) {
		key, value, _ := strings.Cut(part, "=")
		i := slices.IndexFunc(options, func(o Option) bool { return key != "" && (o.Key == key || o.FormerKey == key) })
		if i < 0 {
			return r, fmt.Errorf("there is no option %.80q in this version of mquine", key)
		}
		if err := options[i].Set(value); err != nil {
			return r, fmt.Errorf("%s %.80q: %w", key, value, err)
		}
	}
	return r, nil
}

// Differences lists the options in which r differs from an earlier recipe, with both values. It
// returns "" if there are none.
func (r *Recipe) Differences(earlier Recipe) string {
	var differences []string
	was := earlier.Options()
	for i, o := range r.Options() {
		if now, before := o.Value.String(), was[i].Value.String(); now != before {
			differences = append(differences, fmt.Sprintf("%s is %s but was %s", o.Key, now, before))
		}
	}
	return strings.Join(differences, ", ")
}

// ModelConfig returns the configuration of the model for a data set with the given numbers of
// entities and relations. It contains only the hyper-parameters in Hyper. Start determines others.
func (r *Recipe) ModelConfig(entities, relations int) model.Config {
	return model.Config{
		Model: r.Model, Dim: r.Dim, Entities: entities, Relations: relations, Reciprocal: r.Reciprocal,
		InverseWeight: r.InverseWeight, Hyper: r.Hyper.Values(),
	}
}

// Penalised reports whether the loss contains penalties on parameters.
func (r *Recipe) Penalised() bool { return r.Regulariser != model.NoPenalty || r.Orthogonality > 0 }

// LayerDropout returns the dropouts inside a model.Network.
func (r *Recipe) LayerDropout() [model.Layers]float64 {
	return [...]float64{
		model.InputLayer: r.InputDropout, model.FeatureMaps: r.FeatureMapDropout, model.HiddenLayer: r.HiddenDropout,
	}
}

// Start returns the options that determine the initial parameters.
func (r *Recipe) Start() model.Start {
	return model.Start{Gamma: r.Gamma, Deviation: r.InitStd, Cross: r.InitCross == IdentityCross}
}
