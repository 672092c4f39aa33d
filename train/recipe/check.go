package recipe

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
)

// Check says what is wrong with the options, one by one and together.
func (r *Recipe) Check() error {
	for _, o := range r.Options() {
		if err := o.Value.Set(o.Value.String()); err != nil {
			return fmt.Errorf("%s is %v: %w", o.Key, o.Value, err)
		}
	}
	if err := r.checkModel(); err != nil {
		return err
	}
	switch {
	case r.Optimiser == Adam && r.Beta1 >= math.Sqrt(r.Beta2):
		return fmt.Errorf("beta1: %v is not below the square root of beta2, %.4g, and Adam would move rows without "+
			"a gradient faster and faster: lower beta1, or raise beta2", r.Beta1, math.Sqrt(r.Beta2))
	case r.ZSamples > 0 && r.Negatives == IndependentNegatives && !r.Filter:
		return fmt.Errorf("z_samples: %d needs negatives that are no training triples, whose Z-patterns are sampled: "+
			"set filter to true", r.ZSamples)
	case r.AnchorNegatives && r.Negatives != SharedNegatives:
		return fmt.Errorf("anchor_negatives adds to the negatives that a batch shares, and negatives is %s: "+
			"set one or the other", r.Negatives)
	case r.Regulariser == model.Dura && r.Distribution == Bernoulli:
		return errors.New("regulariser: dura takes both queries of a positive, and distribution bernoulli draws one: " +
			"choose another of either")
	}
	return r.checkKvsAll()
}

// checkModel says which options the model does not have.
func (r *Recipe) checkModel() error {
	spec, err := model.Lookup(r.Model)
	if err != nil {
		return err
	}
	config, err := model.StartConfig(r.ModelConfig(1, 1), r.Start())
	if err != nil {
		return err
	}
	m, err := model.Unfilled(config)
	if err != nil {
		return err
	}
	t := m.Training()
	if !slices.Contains(t.Penalties, r.Regulariser) {
		return fmt.Errorf("regulariser: model %s has no penalty %s: set one of %v", r.Model, r.Regulariser, t.Penalties)
	}
	switch start := spec.Start; {
	case r.InitCross != ZeroCross && start.Cross == "":
		return fmt.Errorf("init_cross: model %s has no cross matrix: set it to %s", r.Model, ZeroCross)
	case r.InitDeviation != model.EntityDeviation && !start.Deviates():
		return fmt.Errorf("init_deviation: model %s begins with numbers of a deviation of its own: leave it at %v",
			r.Model, model.EntityDeviation)
	case r.InitDeviation == 0 && start.Scaled == "":
		return fmt.Errorf("init_deviation: model %s never leaves zero: set a positive deviation", r.Model)
	case r.Products != Float32 && t.Distance != nil:
		return fmt.Errorf("products: model %s compares by a distance: set it to %s", r.Model, Float32)
	}
	return nil
}

// checkKvsAll says which options need single positives, where there are queries.
func (r *Recipe) checkKvsAll() error {
	if r.Negatives != KvsAll {
		if r.AnswerWeights {
			return fmt.Errorf("answer_weights weighs queries with several answers, and negatives is %s: "+
				"set answer_weights to false, or negatives to kvsall", r.Negatives)
		}
		return nil
	}
	switch {
	case r.Loss != Softmax && r.Loss != BCE:
		return fmt.Errorf("loss: %s takes one answer at a time: with negatives kvsall, set loss to softmax or bce",
			r.Loss)
	case r.Distribution == Bernoulli:
		return errors.New("distribution: bernoulli draws a side of each positive: with negatives kvsall, " +
			"set it to uniform")
	case r.Subsampling:
		return errors.New("subsampling weighs positives, and negatives kvsall has queries: set subsampling to false")
	}
	return nil
}

// CheckData is Check, and says what the options need and the data set lacks.
func (r *Recipe) CheckData(g *kg.Graph) error {
	if err := r.Check(); err != nil {
		return err
	}
	if triples, err := g.Triples(kg.Train); err != nil {
		return err
	} else if len(triples) == 0 {
		return fmt.Errorf("data set %s has no training triples", g.Name)
	}
	if r.ValidEvery > 0 && len(g.Splits[kg.Valid]) == 0 {
		return fmt.Errorf("data set %s has no validation triples: set valid_every to 0", g.Name)
	}
	return nil
}

// CheckBackend says which options the kernels of this machine cannot do.
func (r *Recipe) CheckBackend(b *kernel.Backend) error {
	if r.Products == SplitBF16 && !b.Features.Has(kernel.FeatureBF16) {
		return fmt.Errorf("products: bf16x2 needs AMX for bfloat16 (Intel Sapphire Rapids and later, feature bf16), "+
			"and these kernels use %s: train with products float32, or on such a processor", b.Features)
	}
	return nil
}
