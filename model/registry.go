package model

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// architecture is what a model's file registers.
type architecture struct {
	name string
	// maxDim is the largest d.
	maxDim int
	// phases says that parameters are phases, scaled by Config.EmbeddingRange.
	phases bool
	// parameters lists the tensors of a model of the given size, but for their numbers of rows.
	parameters func(Config) []Parameter
	// build makes the model from its tensors, whose lengths are already checked.
	build func(Config, [][]float32) Model
}

var architectures = []architecture{mquine, mquade, transeL1, transeL2, distMult, complEx, rotatE, pRotatE}

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
	a := architectures[i]
	if c.Dim < 1 || c.Dim > a.maxDim || c.Entities < 0 || c.Relations < 0 {
		return a, fmt.Errorf("model %s: dimension %d (1 to %d), %d entities, %d relations: out of range",
			c.Model, c.Dim, a.maxDim, c.Entities, c.Relations)
	}
	if !(math.Abs(c.Gamma) <= math.MaxFloat64) {
		return a, fmt.Errorf("model %s: γ = %v is not a number", c.Model, c.Gamma)
	}
	if !(c.Modulus >= 0 && c.Modulus <= math.MaxFloat64) {
		return a, fmt.Errorf("model %s: the modulus %v is not a positive number, or 0 where it is not known", c.Model, c.Modulus)
	}
	if a.phases && !(c.EmbeddingRange >= minRange && c.EmbeddingRange <= 1/minRange) {
		return a, fmt.Errorf("model %s: the embedding range %v is not from %g to %g: without it, the parameters are no phases",
			c.Model, c.EmbeddingRange, minRange, 1/minRange)
	}
	return a, nil
}

const (
	// maxMatrixDim keeps one call of a d × d kernel short.
	maxMatrixDim = 512
	// maxVectorDim is far more than any model has, and little enough for the sums of the bounds.
	maxVectorDim = 1 << 15
	// minRange keeps the phases of all float32 parameters, and products of their sines, within
	// the range of float64.
	minRange = 1e-30
)

// Parameters describes the tensors of a model, in their order.
func Parameters(c Config) ([]Parameter, error) {
	a, err := lookup(c)
	if err != nil {
		return nil, err
	}
	list := a.parameters(c)
	for i := range list {
		list[i].Rows = [...]int{PerEntity: c.Entities, PerRelation: c.Relations, Global: 1}[list[i].Axis]
	}
	return list, nil
}

// New builds a model on the tensors, given in the order of Parameters. The model keeps the slices and
// never writes to them.
func New(c Config, tensors [][]float32) (Model, error) {
	a, err := lookup(c)
	if err != nil {
		return nil, err
	}
	parameters, err := Parameters(c)
	if err != nil {
		return nil, err
	}
	if len(tensors) != len(parameters) {
		return nil, fmt.Errorf("model %s has %d tensors, not %d", c.Model, len(parameters), len(tensors))
	}
	for i, p := range parameters {
		if len(tensors[i]) != p.Len() {
			return nil, fmt.Errorf("model %s: tensor %s must have %d elements (%v), not %d",
				c.Model, p.Name, p.Len(), p.Dims(), len(tensors[i]))
		}
	}
	return a.build(c, tensors), nil
}
