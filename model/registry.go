package model

import (
	"fmt"
	"slices"
	"strings"
)

// architecture is what a model's file registers.
type architecture struct {
	name string
	// shapes lists the tensors of a model of the given size.
	shapes func(Config) []Shape
	// build makes the model from its tensors, whose lengths are already checked.
	build func(Config, [][]float32) Model
}

var architectures = []architecture{mquine, mquade}

// Names returns the names of the models, in the order of registration.
func Names() []string {
	names := make([]string, len(architectures))
	for i, a := range architectures {
		names[i] = a.name
	}
	return names
}

func lookup(c Config) (architecture, error) {
	i := slices.IndexFunc(architectures, func(a architecture) bool { return a.name == c.Model })
	if i < 0 {
		return architecture{}, fmt.Errorf("unknown model %q: the models are %s", c.Model, strings.Join(Names(), ", "))
	}
	if c.Dim < 1 || c.Dim > maxDim || c.Entities < 0 || c.Relations < 0 {
		return architecture{}, fmt.Errorf("model %s: dimension %d (1 to %d), %d entities, %d relations: out of range",
			c.Model, c.Dim, maxDim, c.Entities, c.Relations)
	}
	return architectures[i], nil
}

// Shapes returns the names and shapes of the tensors of a model.
func Shapes(c Config) ([]Shape, error) {
	a, err := lookup(c)
	if err != nil {
		return nil, err
	}
	return a.shapes(c), nil
}

// New builds a model on the tensors, given in the order of Shapes. The model keeps the slices and
// never writes to them.
func New(c Config, tensors [][]float32) (Model, error) {
	a, err := lookup(c)
	if err != nil {
		return nil, err
	}
	shapes := a.shapes(c)
	if len(tensors) != len(shapes) {
		return nil, fmt.Errorf("model %s has %d tensors, not %d", c.Model, len(shapes), len(tensors))
	}
	for i, s := range shapes {
		if len(tensors[i]) != s.Len() {
			return nil, fmt.Errorf("model %s: tensor %s must have %d elements (%v), not %d", c.Model, s.Name, s.Len(), s.Dims, len(tensors[i]))
		}
	}
	return a.build(c, tensors), nil
}
