package recipe

import (
	"fmt"
	"maps"
	"slices"

	"github.com/mquine/mquine/model"
)

// DefaultFor returns the default options for a model: the options from Default, with the changes
// that the model declares.
func DefaultFor(name string) (Recipe, error) {
	c := Default()
	s, err := model.Lookup(name)
	if err != nil {
		return c, err
	}
	c.Model = name
	options := c.Options()
	for _, key := range slices.Sorted(maps.Keys(s.Recipe)) {
		i := slices.IndexFunc(options, func(o Option) bool { return o.Key == key })
		if i < 0 {
			return c, fmt.Errorf("the recipe of model %s sets %q, which is not a training option", name, key)
		}
		if err := options[i].Set(s.Recipe[key]); err != nil {
			return c, fmt.Errorf("the recipe of model %s sets %s to %q: %w", name, key, s.Recipe[key], err)
		}
	}
	return c, c.Check()
}

// Fit returns r with answer_weights and max_answers turned off if the negatives of c are not kvsall,
// with max_answers turned off if the loss of c is bce, and with block_losses turned off if the loss of c
// is not softmax. So a user who changes only the negatives or the loss of a default recipe need not
// change these options.
func (r Recipe) Fit(c Recipe) Recipe {
	if c.Negatives != KvsAll {
		r.AnswerWeights, r.MaxAnswers = false, 0
	}
	if c.Loss == BCE {
		r.MaxAnswers = 0
	}
	if c.Loss != Softmax {
		r.BlockLosses = false
	}
	return r
}
