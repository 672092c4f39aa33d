package train

import (
	"fmt"
	"maps"
	"slices"

	"github.com/mquine/mquine/model"
)

// DefaultFor returns the options of a training of a model without a preset: Default, changed by the model's own recipe.
func DefaultFor(name string) (Config, error) {
	c := Default()
	s, err := model.Lookup(name)
	if err != nil {
		return c, err
	}
	c.Model = name
	for _, key := range slices.Sorted(maps.Keys(s.Recipe)) {
		o, found := c.option(key)
		if !found {
			return c, fmt.Errorf("model %s: its recipe has %q, which is no training option", name, key)
		}
		if err := o.Value.Set(s.Recipe[key]); err != nil {
			return c, fmt.Errorf("model %s: its recipe has %s: %q, and it %w", name, key, s.Recipe[key], err)
		}
	}
	return c, c.Check()
}
