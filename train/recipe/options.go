package recipe

import (
	"math"

	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/train/internal/setting"
)

// declarations are the options, in the order of files. An option is declared here and as a field of Recipe, and nowhere
// else: defaults, ranges, flags and files follow.
var declarations = []declaration{
	declare("model", func(r *Recipe) *string { return &r.Model }, "mquine", oneOf(model.Names),
		"`model`: mquine; mquade, its case without the cross matrix; or one of vectors"),
	declare("dim", func(r *Recipe) *int { return &r.Dim }, 20, whole(1, 1<<15),
		"`dimension` d: an entity of mquine or mquade is a symmetric d × d matrix, "+
			"of complex and rotate d complex numbers, else d numbers"),
	declare("seed", func(r *Recipe) *uint64 { return &r.Seed }, 1, setting.Seed,
		"`seed` of all random choices"),
	declare("epochs", func(r *Recipe) *int { return &r.Epochs }, 30, whole(1, 1_000_000),
		"`number` of passes over the training triples"),
	declare("batch", func(r *Recipe) *int { return &r.Batch }, 1024, whole(1, 1<<20),
		"`number` of positives in a step, each asked from both sides, or of queries with kvsall"),

	declare("negatives", func(r *Recipe) *Negatives { return &r.Negatives }, AllNegatives,
		among(AllNegatives, KvsAll, SharedNegatives, IndependentNegatives),
		"`candidates` of a query: all entities, with one answer (all) or with all its training answers at once "+
			"(kvsall), some shared by a batch and side, or independent ones"),
	declare("negative_count", func(r *Recipe) *int { return &r.NegativeCount }, 1024, whole(1, 1<<24),
		"`number` of drawn negatives, for a batch and side or for a positive and side"),
	declare("anchor_negatives", func(r *Recipe) *bool { return &r.AnchorNegatives }, false, setting.Bool,
		"with shared negatives, the anchors of the batch's queries on that side too"),
	declare("distribution", func(r *Recipe) *Distribution { return &r.Distribution }, Uniform,
		among(Uniform, Degree, Bernoulli),
		"`distribution` of drawn negatives: uniform, degree (to the power of 3/4), or bernoulli (uniform, "+
			"on one drawn side of each positive, as TransH has it)"),
	declare("filter", func(r *Recipe) *bool { return &r.Filter }, false, setting.Bool,
		"leave known training answers out of the negatives"),

	declare("loss", func(r *Recipe) *Loss { return &r.Loss }, Softmax, among(Softmax, Paper, BCE, Margin),
		"`loss`: softmax (cross-entropy over the candidates), paper (log-sigmoid with margin), bce, or margin (ranking)"),
	declare("gamma", func(r *Recipe) *float64 { return &r.Gamma }, 12, number(0, 1e6),
		"`margin` γ of all losses but softmax, and of Z-samples"),
	declare("lambda_neg", func(r *Recipe) *float64 { return &r.LambdaNeg }, 1, number(0, 1e6),
		"`weight` λ_neg of the negatives in the losses paper and bce"),
	declare("adversarial", func(r *Recipe) *float64 { return &r.Adversarial }, 0, number(0, 1e3),
		"self-adversarial `temperature` α of the losses paper and margin; 0 weighs all negatives alike"),
	declare("smoothing", func(r *Recipe) *float64 { return &r.Smoothing }, 0, number(0, 0.999),
		"label smoothing `ε` of the losses softmax and bce"),
	declare("subsampling", func(r *Recipe) *bool { return &r.Subsampling }, false, setting.Bool,
		"weigh positives by 1/√(count of (h, r) + count of (r, t)), as the RotatE code does"),
	declare("answer_weights", func(r *Recipe) *bool { return &r.AnswerWeights }, false, setting.Bool,
		"weigh each query of kvsall by the number of its training answers, so that all triples weigh alike"),

	declare("z_samples", func(r *Recipe) *int { return &r.ZSamples }, 0, whole(0, 1<<20),
		"`number` k of Z-samples of a positive and side, from the Z-patterns of those of its negatives "+
			"that train does not know; 0 for none"),
	declare("lambda_z", func(r *Recipe) *float64 { return &r.LambdaZ }, 1, number(0, 1e6),
		"`weight` λ_Z of the Z-samples"),

	declare("regulariser", func(r *Recipe) *model.Penalty { return &r.Regulariser }, model.NoPenalty,
		among(model.NoPenalty, model.Frobenius, model.N3, model.Dura),
		"`regulariser`: none, frobenius, n3 or dura"),
	declare("lambda_reg", func(r *Recipe) *float64 { return &r.LambdaReg }, 0.01, number(0, 1e6),
		"`weight` λ_reg of the regulariser"),
	declare("reg_warmup", func(r *Recipe) *int { return &r.RegWarmup }, 0, whole(0, 1_000_000),
		"number of `epochs` in which λ_reg rises from 0 to its value, by as much in each; 0 for none"),
	declare("dropout", func(r *Recipe) *float64 { return &r.Dropout }, 0.2, number(0, 0.99),
		"`probability` of dropping an entry of a query's ψ"),
	declare("entity_dropout", func(r *Recipe) *float64 { return &r.EntityDropout }, 0, number(0, 0.99),
		"`probability` of dropping an entry of a query's anchor"),

	declare("optimiser", func(r *Recipe) *Optimiser { return &r.Optimiser }, Adam, among(Adam, Adagrad, SGD),
		"`optimiser`: adam, adagrad or sgd"),
	declare("learning_rate", func(r *Recipe) *float64 { return &r.LearningRate }, 3e-3, number(0, 1e3),
		"learning `rate` η"),
	declare("beta1", func(r *Recipe) *float64 { return &r.Beta1 }, 0.9, number(0, 0.99999),
		"Adam's `decay` of the first moment"),
	declare("beta2", func(r *Recipe) *float64 { return &r.Beta2 }, 0.999, number(0, 0.9999999),
		"Adam's `decay` of the second moment"),
	declare("epsilon", func(r *Recipe) *float64 { return &r.Epsilon }, 1e-8, number(1e-30, 1),
		"`number` added to the root of the second moment by adam and adagrad"),
	declare("warmup", func(r *Recipe) *float64 { return &r.Warmup }, 0, number(0, 1e6),
		"`epochs` in which the learning rate rises from 0"),
	declare("decay", func(r *Recipe) *Decay { return &r.Decay }, NoDecay, among(NoDecay, LinearDecay, CosineDecay),
		"`course` of the learning rate after that: none, or linear or cosine to 0 at the last epoch"),
	declare("clip", func(r *Recipe) *float64 { return &r.Clip }, 0, number(0, math.Inf(1)),
		"largest Euclidean `norm` of a step's gradient; 0 for no limit"),

	declare("init_deviation", func(r *Recipe) *float64 { return &r.InitDeviation }, model.EntityDeviation,
		number(0, 1e3),
		"standard `deviation` of the entities' numbers at the start (of mquine and mquade the packed entries of A in "+
			"E = A + Aᵀ), and of the relations' in models of vectors"),
	declare("init_cross", func(r *Recipe) *Cross { return &r.InitCross }, ZeroCross, among(IdentityCross, ZeroCross),
		"`matrix` Rᶜ of mquine at the start: identity or zero; Rʰ and Rᵗ begin as the identity"),

	declare("products", func(r *Recipe) *Products { return &r.Products }, Float32, among(Float32, SplitBF16),
		"`arithmetic` of the products of queries with candidates and of their gradients: float32, or bf16x2, "+
			"two bfloat16 for each number and two to three times as fast, on processors with AMX"),

	declare("valid_every", func(r *Recipe) *int { return &r.ValidEvery }, 1, whole(0, 1_000_000),
		"rank the validation split every so many `epochs`, and after the last; 0 for never"),
	declare("stop_metric", func(r *Recipe) *Metric { return &r.StopMetric }, defaultMetric, metric,
		"`metric` that names the best epoch: mrr or hits@10, side, filter, such as mrr/both/all"),
	declare("patience", func(r *Recipe) *int { return &r.Patience }, 0, whole(0, 1_000_000),
		"stop after so many `validations` without a better metric; 0 for never"),
	declare("average", func(r *Recipe) *float64 { return &r.Average }, 0, number(0, 0.99999),
		"`decay` a of the average over epochs that is validated and kept, w ← a w + (1 − a) θ; "+
			"0 for the last parameters alone"),
}

// declaration is an option of every recipe.
type declaration struct {
	key, help string
	value     func(*Recipe) setting.Value
	reset     func(*Recipe) // to the default
}

func declare[T any](
	key string, field func(*Recipe) *T, byDefault T, kind func(*T) setting.Value, help string,
) declaration {
	return declaration{
		key: key, help: help,
		value: func(r *Recipe) setting.Value { return kind(field(r)) },
		reset: func(r *Recipe) { *field(r) = byDefault },
	}
}

// The kinds of options, beside those of package setting.

func whole(least, most int) func(*int) setting.Value {
	return func(v *int) setting.Value { return setting.Whole(v, least, most) }
}

func number(least, most float64) func(*float64) setting.Value {
	return func(v *float64) setting.Value { return setting.Real(v, least, most) }
}

func among[T ~string](from ...T) func(*T) setting.Value {
	return func(v *T) setting.Value { return setting.Choice(v, from...) }
}

// oneOf is among words that are not known when the program starts, because packages may register more.
func oneOf(words func() []string) func(*string) setting.Value {
	return func(v *string) setting.Value { return setting.Choice(v, words()...) }
}

func metric(m *Metric) setting.Value { return m }
