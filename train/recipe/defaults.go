package recipe

import (
	"fmt"
	"maps"
	"slices"

	"github.com/mquine/mquine/model"
)

// DefaultFor returns the options of a training of a model without a preset: Default, changed by the model's own recipe.
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
			return c, fmt.Errorf("model %s: its recipe has %q, which is not a training option", name, key)
		}
		if err := options[i].Value.Set(s.Recipe[key]); err != nil {
			return c, fmt.Errorf("model %s: its recipe has %s: %q, and it %w", name, key, s.Recipe[key], err)
		}
	}
	return c, c.Check()
}
