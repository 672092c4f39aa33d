package recipe

import (
	"errors"
	"fmt"
	"math"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
)

// Check returns an error if an option is out of range or two options contradict each other.
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
		return fmt.Errorf("beta1 is %v and must be less than the square root of beta2, %.4g, or the updates of rows "+
			"without a gradient would grow from step to step: lower beta1, or raise beta2", r.Beta1, math.Sqrt(r.Beta2))
	case r.ZSamples > 0 && r.Negatives == IndependentNegatives && !r.Filter:
		return fmt.Errorf("z_samples: %d needs filtered negatives: set filter to true", r.ZSamples)
	case r.AnchorNegatives && r.Negatives != SharedNegatives:
		return fmt.Errorf("anchor_negatives needs shared negatives, but negatives is %s: change one of them",
			r.Negatives)
	case r.DuraProducts != 1 && !r.Regulariser.IsDura():
		return fmt.Errorf("dura_products needs regulariser dura or dura3, but regulariser is %s: change one of them",
			r.Regulariser)
	case r.DuraPair > 0 && r.Regulariser != model.Dura:
		return fmt.Errorf("dura_pair needs regulariser dura, but regulariser is %s: change one of them", r.Regulariser)
	case r.RelationNegatives > 0 && r.RelationWeight == 0:
		return errors.New("relation_negatives needs relation prediction, but relation_weight is 0: change one of them")
	case r.Regulariser.IsDura() && r.Distribution == Bernoulli:
		return fmt.Errorf("regulariser %s needs both queries of a triple, but distribution bernoulli uses one: "+
			"change one of them", r.Regulariser)
	}
	if err := r.checkBlockLosses(); err != nil {
		return err
	}
	if r.Unsquared && r.RelationWeight > 0 {
		return errors.New("unsquared: relation prediction uses squared norms: set relation_weight to 0, or unsquared " +
			"to false")
	}
	return r.checkKvsAll()
}

// checkBlockLosses returns an error if an option contradicts block_losses. checkModel checks the number
// of blocks.
func (r *Recipe) checkBlockLosses() error {
	switch {
	case !r.BlockLosses:
		return nil
	case r.Loss != Softmax:
		return fmt.Errorf("block_losses needs loss softmax, but loss is %s: set block_losses to false, "+
			"or loss to softmax", r.Loss)
	case r.Unsquared:
		return errors.New("block_losses: the blocks have no separate norms: set unsquared or block_losses to false")
	case r.ZSamples > 0:
		return errors.New("block_losses: the loss of Z-samples uses the sum of the blocks' scores: " +
			"set z_samples to 0, or block_losses to false")
	case r.RelationWeight > 0:
		return errors.New("block_losses: relation prediction uses the sum of the blocks' scores: " +
			"set relation_weight to 0, or block_losses to false")
	}
	return nil
}

// checkKvsAll returns an error if negatives is kvsall but an option needs single targets, or if an
// option needs kvsall but negatives has another value.
func (r *Recipe) checkKvsAll() error {
	if r.Negatives != KvsAll {
		if r.AnswerWeights {
			return fmt.Errorf("answer_weights needs negatives kvsall, but negatives is %s: "+
				"set answer_weights to false, or negatives to kvsall", r.Negatives)
		}
		if r.MaxAnswers > 0 {
			return fmt.Errorf("max_answers needs negatives kvsall, but negatives is %s: "+
				"set max_answers to 0, or negatives to kvsall", r.Negatives)
		}
		return nil
	}
	switch {
	case r.MaxAnswers > 0 && r.Loss == BCE:
		return errors.New("max_answers: bce would label the answers in other parts of a query as wrong: " +
			"set max_answers to 0, or loss to softmax")
	case r.Loss != Softmax && r.Loss != BCE:
		return fmt.Errorf("loss: %s has one target at a time: set negatives to 1vsall, shared or independent, or loss "+
			"to softmax or bce", r.Loss)
	case r.Distribution == Bernoulli:
		return errors.New("distribution: bernoulli chooses a side of each triple: with negatives kvsall, " +
			"set it to uniform")
	case r.Subsampling:
		return errors.New("subsampling weights single triples: with negatives kvsall, set it to false")
	case r.DegreeWeights:
		return errors.New("degree_weights weights single targets: with negatives kvsall, set it to false")
	}
	return nil
}

// CheckData is like Check and CheckPairs but also returns an error if the data set lacks a split that the
// options need.
func (r *Recipe) CheckData(g *kg.Graph) error {
	if err := r.Check(); err != nil {
		return err
	}
	if triples, err := g.Triples(kg.Train); err != nil {
		return err
	} else if len(triples) == 0 {
		return fmt.Errorf("%s has no training triples", text.DataSet(g.Name))
	} else if err := r.CheckPairs(len(triples)); err != nil {
		return err
	}
	if r.ValidEvery > 0 && len(g.Splits[kg.Valid]) == 0 {
		return fmt.Errorf("%s has no validation triples: set valid_every (--valid-every) to 0", text.DataSet(g.Name))
	}
	return nil
}

// CheckPairs returns an error if a step on a data set with the given number of training triples could have
// more pairs of queries and independent negatives than 32 bits can count.
func (r *Recipe) CheckPairs(triples int) error {
	batch := min(r.Batch, triples)
	pairs := 2 * int64(batch) * int64(r.NegativeCount+1)
	if r.Distribution == Bernoulli { // a positive has one query
		pairs /= 2
	}
	if r.Negatives == IndependentNegatives && pairs > math.MaxInt32 {
		return fmt.Errorf("batches of %d triples with %d independent negatives have %d pairs, more than %d: "+
			"lower batch or negative_count", batch, r.NegativeCount, pairs, math.MaxInt32)
	}
	return nil
}

// AvailableProducts returns the kinds of arithmetic of matrix products that the backend supports.
func AvailableProducts(b *kernel.Backend) (list []Products) {
	for _, p := range []Products{Float32, BF16, TileBF16, SplitBF16} {
		if r := (Recipe{Products: p}); r.CheckBackend(b) == nil {
			list = append(list, p)
		}
	}
	return list
}

// CheckBackend returns an error if the backend does not support an option that has an effect.
func (r *Recipe) CheckBackend(b *kernel.Backend) error {
	const amx = "AMX for bfloat16 (feature amxbf16: Intel Xeon from Sapphire Rapids on)"
	var feature kernel.Features
	var needs string
	switch r.Effective().Products {
	case BF16:
		feature, needs = kernel.FeatureAVX512BF16,
			"AVX-512 BF16 (feature avx512bf16: AMD Zen 4 and later, Intel Xeon from Cooper Lake or Sapphire Rapids on)"
	case TileBF16:
		feature, needs = kernel.FeatureAMXBF16|kernel.FeatureAVX512BF16, amx+" and AVX-512 BF16 (feature avx512bf16)"
	case SplitBF16:
		feature, needs = kernel.FeatureAMXBF16, amx
	}
	if !b.Features.Has(feature) {
		return fmt.Errorf("products: %s needs %s, but these kernels use %s: use such a processor, "+
			"or start with products float32", r.Products, needs, b.Features)
	}
	return nil
}
