package recipe

import (
	"fmt"

	"github.com/mquine/mquine/model"
)

// Unused returns the keys of options whose values have no effect on a run with r, each with the reason, such as
// "loss softmax". The key gamma is never among them, because initial parameters may depend on it.
func (r *Recipe) Unused() map[string]string {
	unused := map[string]string{}
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
		{r.Loss == NSSA || r.Loss == Margin, fmt.Sprintf("loss %s", r.Loss), []string{"adversarial"}},
		{r.Loss == NSSA || r.Loss == BCE, fmt.Sprintf("loss %s", r.Loss), []string{"lambda_neg"}},
		{r.Loss == Softmax || r.Loss == BCE, fmt.Sprintf("loss %s", r.Loss), []string{"smoothing"}},
		{r.ZSamples > 0, "z_samples 0", []string{"lambda_z"}},
		{r.Regulariser != model.NoPenalty, "regulariser none", []string{"lambda_reg", "reg_warmup"}},
		{r.Optimiser == Adam, fmt.Sprintf("optimiser %s", r.Optimiser), []string{"beta1", "beta2"}},
		{r.Optimiser != SGD, "optimiser sgd", []string{"epsilon"}},
		{r.ValidEvery > 0, "valid_every 0", []string{"valid_metric", "patience"}},
		// The scores of independent negatives are no matrix products.
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

// Effective returns r with the default values of the options in Unused. Runs with r and with the result
// have the same parameters.
func (r Recipe) Effective() Recipe {
	unused := r.Unused()
	for _, d := range declarations {
		if _, found := unused[d.key]; found {
			d.reset(&r)
		}
	}
	return r
}
