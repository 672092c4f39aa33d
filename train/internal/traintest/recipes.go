package traintest

import (
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/train/recipe"
)

// Recipes returns changes to the defaults that cover every source of randomness and every kind of
// state.
func Recipes() map[string]func(*recipe.Recipe) {
	recipes := map[string]func(*recipe.Recipe){
		"softmax over all": func(c *recipe.Recipe) { c.EMA, c.ZSamples = 0.6, 2 },
		"paper": func(c *recipe.Recipe) {
			*c = paper("codex-s")
			c.NegativeCount, c.ZSamples = 20, 6
		},
		"shared": func(c *recipe.Recipe) {
			c.Negatives, c.NegativeCount, c.AnchorNegatives = recipe.SharedNegatives, 30, true
			c.Distribution, c.Filter, c.Subsampling, c.ZSamples = recipe.Degree, true, true, 3
			c.Optimiser, c.LearningRate, c.Clip = recipe.Adagrad, 0.05, 0.5
			c.Warmup, c.Decay = 1, recipe.CosineDecay
			c.Regulariser, c.RegWarmup = model.N3, 2
		},
		"shared, fused": func(c *recipe.Recipe) {
			c.Negatives, c.NegativeCount, c.ZSamples, c.AnchorNegatives = recipe.SharedNegatives, 30, 3, true
			c.Regulariser, c.EntityDropout = model.Dura, 0.1
		},
		"kvsall": func(c *recipe.Recipe) {
			c.Negatives, c.Loss, c.Gamma, c.Smoothing, c.ZSamples = recipe.KvsAll, recipe.BCE, 4, 0.1, 2
			c.AnswerWeights, c.EntityDropout = true, 0.1
		},
		"kvsall in parts": func(c *recipe.Recipe) {
			c.Negatives, c.AnswerWeights, c.MaxAnswers, c.ZSamples = recipe.KvsAll, true, 2, 2
		},
		"unsquared": func(c *recipe.Recipe) {
			*c = paper("codex-s")
			c.Unsquared, c.NegativeCount, c.ZSamples = true, 20, 6
		},
		"block losses": func(c *recipe.Recipe) {
			c.Hyper, c.BlockLosses, c.Negatives, c.MaxAnswers = "blocks=3", true, recipe.KvsAll, 2
			c.Regulariser, c.EntityDropout = model.Dura, 0.1
		},
		"block losses, shared": func(c *recipe.Recipe) {
			c.Hyper, c.BlockLosses, c.Negatives, c.NegativeCount = "blocks=2", true, recipe.SharedNegatives, 30
			c.Regulariser, c.EntityDropout = model.Dura, 0.1
		},
		"bernoulli": func(c *recipe.Recipe) {
			c.Model, c.Loss = "mquade", recipe.Margin
			c.Negatives, c.NegativeCount, c.Distribution = recipe.IndependentNegatives, 9, recipe.Bernoulli
			c.Optimiser, c.LearningRate, c.Decay = recipe.SGD, 0.1, recipe.LinearDecay
		},
	}
	for _, spec := range model.Specs() {
		recipes[spec.Name] = func(c *recipe.Recipe) {
			c.Model, c.Negatives, c.NegativeCount, c.ZSamples = spec.Name, recipe.SharedNegatives, 30, 3
			c.Reciprocal = spec.TrainReciprocal
		}
	}
	recipes["relation dropout"] = func(c *recipe.Recipe) {
		c.Negatives, c.NegativeCount, c.ZSamples, c.RelationDropout = recipe.SharedNegatives, 30, 3, 0.2
		c.Orthogonality = 0.1
	}
	recipes["relation prediction"] = func(c *recipe.Recipe) {
		c.Model, c.Reciprocal, c.RelationWeight, c.DegreeWeights, c.Clip = "complex", true, 0.5, true, 0.5
	}
	recipes["relation prediction by queries"] = func(c *recipe.Recipe) {
		c.RelationWeight, c.RelationNegatives, c.EntityDropout, c.ZSamples = 0.5, 3, 0.1, 2
	}
	recipes["relation prediction by queries, kvsall"] = func(c *recipe.Recipe) {
		c.Reciprocal, c.Negatives, c.RelationWeight, c.Clip, c.Regulariser = true, recipe.KvsAll, 2, 0.5, model.Dura
	}
	recipes["relation prediction, kvsall"] = func(c *recipe.Recipe) {
		c.Model, c.Negatives, c.RelationWeight, c.Optimiser = "rescal", recipe.KvsAll, 2, recipe.Adagrad
	}
	recipes["table of entities, kvsall"] = func(c *recipe.Recipe) {
		c.Model, c.Negatives, c.MaxAnswers, c.ZSamples = "complex", recipe.KvsAll, 2, 2
	}
	recipes["table of entities, relation prediction by queries"] = func(c *recipe.Recipe) {
		c.Model, c.RelationWeight, c.RelationNegatives, c.ZSamples = "quate", 0.5, 2, 2
	}
	recipes["dura, weighted"] = func(c *recipe.Recipe) {
		c.RelationDropout = 0.1
		c.Model, c.Regulariser, c.DuraProducts, c.DuraPair, c.Reciprocal = "complex", model.Dura, 3, 0.5, true
	}
	recipes["tucker, dropout"] = func(c *recipe.Recipe) {
		c.Model, c.Reciprocal, c.Negatives, c.EMA, c.Clip = "tucker", true, recipe.KvsAll, 0.6, 0.5
		c.EntityDropout, c.InputDropout, c.HiddenDropout = 0.1, 0.2, 0.3
	}
	recipes["conve, dropout"] = func(c *recipe.Recipe) {
		c.Model, c.Reciprocal, c.Negatives, c.Loss, c.Gamma = "conve", true, recipe.KvsAll, recipe.BCE, 0
		c.InputDropout, c.FeatureMapDropout, c.HiddenDropout = 0.2, 0.2, 0.3
	}
	backends, err := kernel.Available()
	if err == nil && backends[0].Features.Has(kernel.FeatureAVX512BF16) {
		recipes["bf16"] = func(c *recipe.Recipe) {
			c.Negatives, c.NegativeCount, c.Products = recipe.SharedNegatives, 30, recipe.BF16
		}
	}
	if err == nil && backends[0].Features.Has(kernel.FeatureAMXBF16|kernel.FeatureAVX512BF16) {
		recipes["bf16-amx"] = func(c *recipe.Recipe) {
			c.Negatives, c.NegativeCount, c.Products = recipe.SharedNegatives, 30, recipe.TileBF16
		}
	}
	if err == nil && backends[0].Features.Has(kernel.FeatureAMXBF16) {
		recipes["bf16x2"] = func(c *recipe.Recipe) {
			c.Negatives, c.NegativeCount, c.Products = recipe.SharedNegatives, 30, recipe.SplitBF16
		}
	}
	return recipes
}

// paper returns the paper's preset for a data set.
func paper(dataset string) recipe.Recipe {
	r, err := recipe.Preset("paper", dataset)
	if err != nil {
		panic(err)
	}
	return r
}

// Recipe returns a small recipe for a short run, with one of the changes from Recipes.
func Recipe(change func(*recipe.Recipe)) recipe.Recipe {
	c := recipe.Default()
	change(&c)
	c.Dim, c.Batch, c.Epochs = 9, 128, 3
	return c
}
