package recipe

import (
	"math"

	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/train/internal/setting"
)

// declarations lists the options, in the order in which files list them. Each option is declared
// only here and as a field of Recipe. Defaults, ranges, flags, files and the table in
// docs/training.md follow from this list.
var declarations = []declaration{
	declare("model", func(r *Recipe) *string { return &r.Model }, "mquine", oneOf(model.Names),
		"model, by its name in mquine predict --help (mquade is mquine without the cross matrix)"),
	declare("dim", func(r *Recipe) *int { return &r.Dim }, 20, whole(1, 1<<15),
		"dimension d: entities are symmetric d × d matrices in mquine and mquade, d complex numbers in complex, "+
			"rotate and rotate-l2, and d real numbers in most other models (docs/models/README.md lists the others)"),
	declare("reciprocal", func(r *Recipe) *bool { return &r.Reciprocal }, false, setting.Bool,
		"give every relation an inverse with separate parameters, which answers the head queries"),
	declare("inverse_weight", func(r *Recipe) *float64 { return &r.InverseWeight }, 0, number(0, 1),
		"with reciprocal relations, weight w of the inverse triple in the score of the trained model, "+
			"(1 − w) s(h, r, t) + w s(t, r⁻¹, h) for tail queries; it does not change the training"),
	declare("hyper", func(r *Recipe) *Hyper { return &r.Hyper }, "", hyper,
		"values of the model's hyper-parameters, such as relation_dim=30,max_norm=1; none for the values of a new "+
			"model"),
	declare("seed", func(r *Recipe) *uint64 { return &r.Seed }, 1, setting.Seed,
		"seed of all random choices"),
	declare("epochs", func(r *Recipe) *int { return &r.Epochs }, 30, whole(1, 1_000_000),
		"number of passes over the training triples"),
	declare("batch", func(r *Recipe) *int { return &r.Batch }, 1024, whole(1, 1<<20),
		"number of triples per step, each used as a tail query and a head query; with kvsall, number of queries or "+
			"parts of queries"),

	declare("negatives", func(r *Recipe) *Negatives { return &r.Negatives }, OneVsAll,
		among(OneVsAll, KvsAll, SharedNegatives, IndependentNegatives),
		"candidates of a query: all entities, with one target at a time (1vsall) or with all training answers at "+
			"once (kvsall), or samples for each batch and side (shared) or for each query (independent)"),
	declare("negative_count", func(r *Recipe) *int { return &r.NegativeCount }, 1024, whole(1, 1<<24),
		"number of negative samples: for each batch and side if shared, for each query if independent"),
	declare("anchor_negatives", func(r *Recipe) *bool { return &r.AnchorNegatives }, false, setting.Bool,
		"with shared negatives, also use the known entities of the batch's queries on that side"),
	declare("distribution", func(r *Recipe) *Distribution { return &r.Distribution }, Uniform,
		among(Uniform, Degree, Bernoulli),
		"distribution of negative samples: uniform, degree (proportional to the 3/4 power of the degree), or "+
			"bernoulli (uniform, on one random side of each triple, as in TransH)"),
	declare("filter", func(r *Recipe) *bool { return &r.Filter }, false, setting.Bool,
		"do not use known training answers as negatives"),

	declare("loss", func(r *Recipe) *Loss { return &r.Loss }, Softmax, among(Softmax, NSSA, BCE, Margin),
		"loss: softmax (cross-entropy), nssa (self-adversarial log-sigmoid), bce (binary cross-entropy) or margin "+
			"(margin ranking)"),
	declare("gamma", func(r *Recipe) *float64 { return &r.Gamma }, 12, number(0, 1e6),
		"margin γ of the losses nssa, bce and margin, and of Z-samples"),
	declare("lambda_neg", func(r *Recipe) *float64 { return &r.LambdaNeg }, 1, number(0, 1e6),
		"weight λ_neg of the negatives in the losses nssa and bce"),
	declare("adversarial", func(r *Recipe) *float64 { return &r.Adversarial }, 0, number(0, 1e3),
		"self-adversarial temperature α of the losses nssa and margin; 0 weights all negatives equally"),
	declare("smoothing", func(r *Recipe) *float64 { return &r.Smoothing }, 0, number(0, 0.999),
		"label smoothing ε of the losses softmax and bce"),
	declare("subsampling", func(r *Recipe) *bool { return &r.Subsampling }, false, setting.Bool,
		"weight triples by 1/√(count of (h, r) + count of (r, t)), as in the RotatE code"),
	declare("answer_weights", func(r *Recipe) *bool { return &r.AnswerWeights }, false, setting.Bool,
		"with kvsall, weight a query by its number of training answers, so all triples count equally"),
	declare("max_answers", func(r *Recipe) *int { return &r.MaxAnswers }, 0, whole(0, 1<<24),
		"with kvsall and softmax, divide queries into parts with at most this number of training answers, at "+
			"random in every epoch; 0 for no limit"),
	declare("degree_weights", func(r *Recipe) *bool { return &r.DegreeWeights }, false, setting.Bool,
		"weight a query by 0.1 + 0.9·(degree of its target)/(largest degree), as in the DURA code"),
	declare("block_losses", func(r *Recipe) *bool { return &r.BlockLosses }, false, setting.Bool,
		"with several blocks, compute the loss of each block's score, and not of their sum, so the blocks train as "+
			"an ensemble; with softmax"),
	declare("unsquared", func(r *Recipe) *bool { return &r.Unsquared }, false, setting.Bool,
		"in mquine and mquade, compute the losses of queries and Z-samples from the norm instead of its square"),

	declare("z_samples", func(r *Recipe) *int { return &r.ZSamples }, 0, whole(0, 1<<20),
		"number of Z-samples per query, from the Z-patterns of its negatives except training answers; 0 for none"),
	declare("lambda_z", func(r *Recipe) *float64 { return &r.LambdaZ }, 1, number(0, 1e6),
		"weight λ_Z of the Z-samples"),

	declare("relation_weight", func(r *Recipe) *float64 { return &r.RelationWeight }, 0, number(0, 1e6),
		"weight λ_rel of relation prediction, a softmax over all relations given the two entities of a triple; "+
			"0 for none"),
	declare("relation_negatives", func(r *Recipe) *int { return &r.RelationNegatives }, 0, whole(0, 1<<24),
		"number of relations, sampled for each batch, that relation prediction contrasts with the relation of a "+
			"triple; 0 for all relations"),

	declare("regulariser", func(r *Recipe) *model.Penalty { return &r.Regulariser }, model.NoPenalty,
		among(model.NoPenalty, model.Frobenius, model.N3, model.Dura, model.Dura3),
		"regulariser: none, frobenius, n3, dura or, in mquine and mquade, dura3"),
	declare("lambda_reg", func(r *Recipe) *float64 { return &r.LambdaReg }, 0.01, number(0, 1e6),
		"weight λ_reg of the regulariser"),
	declare("reg_warmup", func(r *Recipe) *int { return &r.RegWarmup }, 0, whole(0, 1_000_000),
		"epochs of linear warm-up of λ_reg; 0 for none"),
	declare("dura_products", func(r *Recipe) *float64 { return &r.DuraProducts }, 1, number(0, 1e6),
		"weight of the products, such as ‖h∘r‖², in the regularisers dura and dura3, whose entities have weight 1"),
	declare("dura_pair", func(r *Recipe) *float64 { return &r.DuraPair }, 0, number(0, 1e6),
		"weight of the third pair in the regulariser dura: the relation, and the product of head and tail, as in "+
			"IVR; 0 for none"),
	declare("orthogonality", func(r *Recipe) *float64 { return &r.Orthogonality }, 0, number(0, 1e6),
		"weight λ_ortho of soft orthogonality, ‖MᵀM − I‖² of the relation's matrices, as in MEIM; 0 for none"),
	declare("dropout", func(r *Recipe) *float64 { return &r.Dropout }, 0.2, number(0, 0.99),
		"probability of dropping an entry of a query vector ψ"),
	declare("entity_dropout", func(r *Recipe) *float64 { return &r.EntityDropout }, 0, number(0, 0.99),
		"probability of dropping an entry of the embedding of a query's known entity"),
	declare("relation_dropout", func(r *Recipe) *float64 { return &r.RelationDropout }, 0, number(0, 0.99),
		"probability of dropping an entry of the parameters of a query's relation"),
	declare("input_dropout", func(r *Recipe) *float64 { return &r.InputDropout }, 0, number(0, 0.99),
		"probability of dropping an entry of the normalised input of tucker or conve"),
	declare("feature_map_dropout", func(r *Recipe) *float64 { return &r.FeatureMapDropout }, 0, number(0, 0.99),
		"probability of dropping a whole feature map of conve"),
	declare("hidden_dropout", func(r *Recipe) *float64 { return &r.HiddenDropout }, 0, number(0, 0.99),
		"probability of dropping an entry of the relation's matrix of tucker, or an output of the fully connected "+
			"layer of conve"),

	declare("optimiser", func(r *Recipe) *Optimiser { return &r.Optimiser }, Adam, among(Adam, Adagrad, SGD),
		"optimiser: adam, adagrad or sgd"),
	declare("learning_rate", func(r *Recipe) *float64 { return &r.LearningRate }, 3e-3, number(0, 1e3),
		"learning rate η"),
	declare("beta1", func(r *Recipe) *float64 { return &r.Beta1 }, 0.9, number(0, 0.99999),
		"Adam's decay of the first moment"),
	declare("beta2", func(r *Recipe) *float64 { return &r.Beta2 }, 0.999, number(0, 0.9999999),
		"Adam's decay of the second moment"),
	declare("epsilon", func(r *Recipe) *float64 { return &r.Epsilon }, 1e-8, number(1e-30, 1),
		"number ε that adam and adagrad add to the root of the second moment"),
	declare("warmup", func(r *Recipe) *float64 { return &r.Warmup }, 0, number(0, 1e6),
		"epochs of linear warm-up of the learning rate; 0 for none"),
	declare("decay", func(r *Recipe) *Decay { return &r.Decay }, NoDecay, among(NoDecay, LinearDecay, CosineDecay),
		"schedule of the learning rate after warm-up: none, or linear or cosine to 0 at the last epoch"),
	declare("clip", func(r *Recipe) *float64 { return &r.Clip }, 0, number(0, math.Inf(1)),
		"largest Euclidean norm of a step's gradient; 0 for no limit"),

	declare("init_std", func(r *Recipe) *float64 { return &r.InitStd }, model.EntityDeviation, number(0, 1e3),
		"initial standard deviation of entity parameters (in mquine and mquade, the packed entries of A in "+
			"E = A + Aᵀ) and, except in mquine, mquade and dihedral, of relation parameters"),
	declare("init_cross", func(r *Recipe) *Cross { return &r.InitCross }, ZeroCross, among(IdentityCross, ZeroCross),
		"initial matrix Rᶜ of mquine: identity or zero; Rʰ and Rᵗ start as the identity"),

	declare("products", func(r *Recipe) *Products { return &r.Products }, Float32,
		among(Float32, BF16, TileBF16, SplitBF16),
		"arithmetic of the matrix products of queries and candidates, and of relation prediction: float32; bf16, "+
			"which rounds each float32 to bfloat16, on processors with AVX-512 BF16; bf16-amx, the same with sums in "+
			"another order, on processors with AMX; or bf16x2, which splits each float32 into two bfloat16 values, on "+
			"processors with AMX"),

	declare("valid_every", func(r *Recipe) *int { return &r.ValidEvery }, 1, whole(0, 1_000_000),
		"epochs from one validation to the next; 0 for no validation, otherwise the last epoch is always validated"),
	declare("valid_metric", func(r *Recipe) *Metric { return &r.ValidMetric }, defaultMetric, metric,
		"metric that selects the best epoch: measure, side and filter, such as mrr/both/all or hits@10/tail/train"),
	declare("patience", func(r *Recipe) *int { return &r.Patience }, 0, whole(0, 1_000_000),
		"stop early after this number of validations without a better metric; 0 for never"),
	declare("ema", func(r *Recipe) *float64 { return &r.EMA }, 0, number(0, 0.99999),
		"decay a of the exponential moving average of the parameters over epochs, w ← a w + (1 − a) θ, which is "+
			"validated and saved in their place; 0 for none"),
}

// declaration is an option of every recipe.
type declaration struct {
	key, help string
	value     func(*Recipe) setting.Value
	reset     func(*Recipe) // sets the default
}

// option returns the option of r.
func (d *declaration) option(r *Recipe) Option {
	return Option{
		Key: d.key, Help: d.help, Value: d.value(r), FormerKey: formerKeys[d.key], FormerWords: formerWords[d.key],
		Synonyms: synonyms[d.key],
	}
}

func declare[T any](
	key string, field func(*Recipe) *T, initial T, kind func(*T) setting.Value, help string,
) declaration {
	return declaration{
		key: key, help: help,
		value: func(r *Recipe) setting.Value { return kind(field(r)) },
		reset: func(r *Recipe) { *field(r) = initial },
	}
}

// layerKeys holds the keys of the dropouts in LayerDropout.
var layerKeys = [model.Layers]string{
	model.InputLayer: "input_dropout", model.FeatureMaps: "feature_map_dropout", model.HiddenLayer: "hidden_dropout",
}

// The functions below provide constructors of option values for declare.

func whole(least, most int) func(*int) setting.Value {
	return func(v *int) setting.Value { return setting.Whole(v, least, most) }
}

func number(least, most float64) func(*float64) setting.Value {
	return func(v *float64) setting.Value { return setting.Real(v, least, most) }
}

func among[T ~string](from ...T) func(*T) setting.Value {
	return func(v *T) setting.Value { return setting.Choice(v, from...) }
}

// oneOf is like among but accepts words that packages register during program initialisation.
func oneOf(words func() []string) func(*string) setting.Value {
	return func(v *string) setting.Value { return setting.Choice(v, words()...) }
}

func metric(m *Metric) setting.Value { return m }
