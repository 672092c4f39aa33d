package train_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/train"
	"github.com/mquine/mquine/train/internal/traintest"
	"github.com/mquine/mquine/train/recipe"
)

// optionValues lists values of each option that a random recipe may have. The options of validation do
// not affect the epochs of a Trainer.
var optionValues = map[string][]string{
	"dim":                 {"1", "2", "3", "5", "8", "17"},
	"reciprocal":          {"true", "false"},
	"inverse_weight":      {"0", "0.3", "1"},
	"hyper":               {"none", "blocks=2", "blocks=3"},
	"seed":                {"1", "18446744073709551615"},
	"epochs":              {"1", "2"},
	"batch":               {"1", "7", "1000"},
	"negatives":           {"1vsall", "kvsall", "shared", "independent"},
	"negative_count":      {"1", "5", "100"},
	"anchor_negatives":    {"true", "false"},
	"distribution":        {"uniform", "degree", "bernoulli"},
	"filter":              {"true", "false"},
	"loss":                {"softmax", "nssa", "bce", "margin"},
	"gamma":               {"0", "1", "12"},
	"lambda_neg":          {"0", "0.5", "1"},
	"adversarial":         {"0", "1", "1000"},
	"smoothing":           {"0", "0.1", "0.999"},
	"subsampling":         {"true", "false"},
	"answer_weights":      {"true", "false"},
	"max_answers":         {"0", "1", "3"},
	"degree_weights":      {"true", "false"},
	"block_losses":        {"true", "false"},
	"unsquared":           {"true", "false"},
	"z_samples":           {"0", "1", "40"},
	"lambda_z":            {"0", "1"},
	"relation_weight":     {"0", "0.5"},
	"relation_negatives":  {"0", "1", "9"},
	"regulariser":         {"none", "frobenius", "n3", "dura", "dura3"},
	"lambda_reg":          {"0", "0.01", "1"},
	"reg_warmup":          {"0", "2"},
	"dura_products":       {"0", "0.25", "1"},
	"dura_pair":           {"0", "1"},
	"orthogonality":       {"0", "0.1"},
	"dropout":             {"0", "0.5", "0.99"},
	"entity_dropout":      {"0", "0.5", "0.99"},
	"relation_dropout":    {"0", "0.5", "0.99"},
	"input_dropout":       {"0", "0.5"},
	"feature_map_dropout": {"0", "0.5"},
	"hidden_dropout":      {"0", "0.5"},
	"optimiser":           {"adam", "adagrad", "sgd"},
	"learning_rate":       {"0", "0.003", "1"},
	"beta1":               {"0", "0.9"},
	"beta2":               {"0.5", "0.999"},
	"epsilon":             {"1e-30", "1e-8", "1"},
	"warmup":              {"0", "0.5", "3"},
	"decay":               {"none", "linear", "cosine"},
	"clip":                {"0", "0.1"},
	"init_std":            {"0", "0.1", "2"},
	"init_cross":          {"identity", "zero"},
	"products":            {"float32", "bf16", "bf16-amx", "bf16x2"},
	"ema":                 {"0", "0.9"},
	"valid_every":         {"0"},
	"valid_metric":        {"mrr/both/all"},
	"patience":            {"0"},
}

// A recipe that is accepted trains, with the same result for any number of threads, or diverges with one
// sentence. A recipe that is refused gets one sentence, too. The flag -rapid.checks draws more recipes.
func TestAnyRecipe(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	g := traintest.RandomGraph(12, 3, 40, 3)
	rapid.Check(t, func(t *rapid.T) {
		c := anyRecipe(t)
		b := rapid.SampledFrom(backends).Draw(t, "backend")
		result := trainedOrRefused(t, c, g, train.Machine{Backend: b, Threads: 1})
		require.Equal(t, result, trainedOrRefused(t, c, g, train.Machine{Backend: b, Threads: 4}))
	})
}

// The effective recipe and a different value of an unused option give the same result, unless the value makes the
// recipe invalid or has an effect, as bernoulli has with negatives 1vsall.
func TestUnusedOptions(t *testing.T) {
	g := traintest.RandomGraph(12, 3, 40, 3)
	m := train.Machine{Backend: traintest.Backend(t), Threads: 1}
	rapid.Check(t, func(t *rapid.T) {
		c := anyRecipe(t)
		other, unused := c, c.Unused()
		for _, o := range other.Options() {
			if _, found := unused[o.Key]; found {
				require.NoError(t, o.Set(rapid.SampledFrom(optionValues[o.Key]).Draw(t, "other "+o.Key)))
			}
		}
		if effective := c.Effective(); c.Check() == nil && effective.Check() == nil {
			require.Equal(t, trainedOrRefused(t, c, g, m), trainedOrRefused(t, effective, g, m))
		}
		stillUnused := slices.Equal(slices.Sorted(maps.Keys(unused)), slices.Sorted(maps.Keys(other.Unused())))
		if stillUnused && c.Check() == nil && other.Check() == nil {
			require.Equal(t, trainedOrRefused(t, c, g, m), trainedOrRefused(t, other, g, m))
		}
	})
}

// anyRecipe draws the defaults of a model with changes to at most six options.
func anyRecipe(t *rapid.T) recipe.Recipe {
	c, err := recipe.DefaultFor(rapid.SampledFrom(model.Names()).Draw(t, "model"))
	require.NoError(t, err)
	c.Dim, c.Epochs = 5, 2
	options := slices.DeleteFunc(c.Options(), func(o recipe.Option) bool { return o.Key == "model" })
	changed := rapid.SliceOfNDistinct(rapid.IntRange(0, len(options)-1), 0, 6, rapid.ID).Draw(t, "options")
	for _, i := range changed {
		key := options[i].Key
		require.Contains(t, optionValues, key)
		require.NoError(t, options[i].Set(rapid.SampledFrom(optionValues[key]).Draw(t, key)))
	}
	return c
}

// trainedOrRefused returns the parameters after all epochs of a recipe, or the error.
func trainedOrRefused(t *rapid.T, c recipe.Recipe, g *kg.Graph, m train.Machine) string {
	tr, err := train.NewTrainer(t.Context(), c, g, m)
	for i := 0; i < c.Epochs && err == nil; i++ {
		_, err = tr.Epoch(t.Context())
	}
	if err != nil {
		require.NotContains(t, err.Error(), "\n")
		return err.Error()
	}
	parameters := fmt.Sprint(tr.Model().Tensors())
	require.NotContains(t, parameters, "NaN")
	return parameters
}
