package recipe

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/model"
)

// Unused returns the keys of options whose values have no effect on a run with r, each with the reason, such as
// "loss softmax".
func (r *Recipe) Unused() map[string]string {
	unused := map[string]string{}
	loss, penalty := fmt.Sprintf("loss %s", r.Loss), "regulariser none"
	if r.Regulariser != model.NoPenalty {
		penalty = "lambda_reg 0"
	}
	for _, o := range []struct {
		used   bool
		reason string
		keys   []string
	}{
		{r.Negatives.Sampled(), fmt.Sprintf("negatives %s", r.Negatives), []string{"negative_count"}},
		{
			r.Negatives.Sampled() || r.Distribution == Bernoulli, fmt.Sprintf("negatives %s", r.Negatives),
			[]string{"distribution"},
		},
		{r.Negatives != KvsAll, "negatives kvsall", []string{"filter"}},
		{r.Loss == NSSA || r.Loss == Margin, loss, []string{"adversarial"}},
		{r.Loss == NSSA || r.Loss == BCE, loss, []string{"lambda_neg"}},
		{r.Loss == Softmax || r.Loss == BCE, loss, []string{"smoothing"}},
		{r.Loss != Softmax || r.ZSamples > 0 || r.startsWithGamma(), loss, []string{"gamma"}},
		{r.ZSamples > 0, "z_samples 0", []string{"lambda_z"}},
		{r.Regulariser != model.NoPenalty, penalty, []string{"lambda_reg"}},
		{r.Regulariser == model.NoPenalty || r.LambdaReg > 0, penalty, []string{"regulariser"}},
		{
			r.Regulariser != model.NoPenalty && r.LambdaReg > 0, penalty,
			[]string{"reg_warmup", "dura_products", "dura_pair"},
		},
		{r.hasCross(), fmt.Sprintf("model %s", r.Model), []string{"init_cross"}},
		{r.Optimiser == Adam, fmt.Sprintf("optimiser %s", r.Optimiser), []string{"beta1", "beta2"}},
		{r.Optimiser != SGD, "optimiser sgd", []string{"epsilon"}},
		{
			r.Warmup < float64(r.Epochs), fmt.Sprintf("warmup %v of %s", r.Warmup, text.Plural(r.Epochs, "epoch")),
			[]string{"decay"},
		},
		{r.ValidEvery > 0, "valid_every 0", []string{"valid_metric", "patience"}},
		// The first validation is the best so far, and nothing stops after the last.
		{
			r.ValidEvery == 0 || r.Patience < r.validations()-1, text.Plural(r.validations(), "validation"),
			[]string{"patience"},
		},
		// Independent negatives are scored without matrix products, and relation prediction then stays in
		// float32.
		{r.Negatives != IndependentNegatives, "negatives independent", []string{"products"}},
	} {
		for _, key := range o.keys {
			if !o.used {
				unused[key] = o.reason
			}
		}
	}
	return unused
}

// validations returns the number of epochs that a run with r validates unless it stops early.
func (r *Recipe) validations() int {
	if r.ValidEvery == 0 {
		return 0
	}
	return (r.Epochs + r.ValidEvery - 1) / r.ValidEvery
}

// startsWithGamma reports whether the model's hyper-parameters contain the margin γ.
func (r *Recipe) startsWithGamma() bool {
	spec, err := model.Lookup(r.Model)
	if err != nil || spec.Start.Hyper == nil {
		return false
	}
	start := r.Start()
	before := spec.Start.Hyper(start)
	start.Gamma++
	return !maps.Equal(before, spec.Start.Hyper(start))
}

// hasCross reports whether the model has a cross matrix.
func (r *Recipe) hasCross() bool {
	spec, err := model.Lookup(r.Model)
	if err != nil || spec.Start.Cross == "" {
		return false
	}
	config, err := model.StartConfig(r.ModelConfig(1, 1), r.Start())
	if err != nil {
		return false
	}
	parameters, err := spec.Parameters(config)
	is := func(p model.Parameter) bool { return p.Name == spec.Start.Cross }
	return err == nil && slices.ContainsFunc(parameters, is)
}

// Effective returns r with the default values of the options in Unused, with no regulariser if its
// weight is 0, and with the smallest EMA that averages all epochs equally if r's EMA does. Runs with r and
// with the result have the same parameters.
func (r Recipe) Effective() Recipe {
	if r.LambdaReg == 0 {
		r.Regulariser = model.NoPenalty
	}
	// Up to epoch 1/(1 − a), the moving average is the plain mean.
	if mean := 1 - 1/float64(r.Epochs); r.EMA > 0 && r.EMA >= mean {
		r.EMA = cmp.Or(mean, 0.5) // any value is the mean of one epoch, but 0 would turn the average off
	}
	unused := r.Unused()
	for _, d := range declarations {
		if _, found := unused[d.key]; found {
			d.reset(&r)
		}
	}
	return r
}
