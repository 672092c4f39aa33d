package model

import (
	"context"
	"fmt"
	"maps"
	"math"
)

// Start has what a training chooses about the parameters with which it begins. A model's Starting says what each
// choice means for it.
type Start struct {
	// Gamma is the margin γ.
	Gamma float64
	// Deviation is the standard deviation of the first numbers.
	Deviation float64
	// Cross makes a cross matrix begin as the identity; otherwise it begins as zeros.
	Cross bool
}

// Starting declares what the choices of a Start mean for a model. The zero value ignores them: training begins with
// the Initial distributions of the parameters.
type Starting struct {
	// Hyper returns the hyper-parameters that follow from a Start; nil for none.
	Hyper func(Start) map[string]float64
	// SpreadByHyper tells whether Hyper gives all first numbers the deviation.
	SpreadByHyper bool
	// Scaled names the parameter whose first numbers, drawn with EntityDeviation, are scaled to the deviation, while
	// the others begin elsewhere than at zero; empty for none.
	Scaled string
	// Cross names the cross matrix; empty for a model to which the choice means nothing.
	Cross string
}

// Deviates tells whether the deviation of a Start changes where training begins.
func (s Starting) Deviates() bool { return s.SpreadByHyper || s.Scaled != "" }

// marginStart is for distances, which begin as in the RotatE code.
var marginStart = Starting{Hyper: func(s Start) map[string]float64 { return map[string]float64{Gamma: s.Gamma} }}

// uniformStart is for dot products of vectors: uniform numbers of the deviation, and no margin.
var uniformStart = Starting{
	Hyper: func(s Start) map[string]float64 {
		return map[string]float64{Gamma: 0, EmbeddingRange: math.Sqrt(3) * s.Deviation}
	},
	SpreadByHyper: true,
}

// StartConfig is InitialConfig with the hyper-parameters that follow from s in the place of c's.
func StartConfig(c Config, s Start) (Config, error) {
	spec, err := Lookup(c.Model)
	if err != nil {
		return c, err
	}
	if spec.Start.Hyper != nil {
		hyper := map[string]float64{}
		maps.Copy(hyper, c.Hyper)
		maps.Copy(hyper, spec.Start.Hyper(s))
		c.Hyper = hyper
	}
	return InitialConfig(c)
}

// Begin is Random with the choices of a training.
func Begin(ctx context.Context, c Config, s Start, seed uint64) (Trainable, error) {
	c, err := StartConfig(c, s)
	if err != nil {
		return nil, err
	}
	m, err := Random(ctx, c, seed)
	if err != nil {
		return nil, err
	}
	trainable, err := asTrainable(m)
	if err != nil {
		return nil, err
	}
	spec, err := Lookup(c.Model)
	if err != nil {
		return nil, err
	}
	parameters, err := Parameters(m.Config())
	if err != nil {
		return nil, err
	}
	for i, p := range parameters {
		tensor := m.Tensors()[i]
		switch p.Name {
		case spec.Start.Scaled:
			factor := float32(s.Deviation / EntityDeviation)
			for k := range tensor {
				tensor[k] *= factor
			}
		case spec.Start.Cross:
			if !s.Cross {
				clear(tensor)
			}
		}
	}
	return trainable, nil
}

func asTrainable(m Model) (Trainable, error) {
	t, ok := m.(Trainable)
	if !ok {
		return nil, fmt.Errorf("model %s cannot be trained", m.Config().Model)
	}
	return t, nil
}

// Unfilled returns a model without parameters, for the sake of its sizes and of its Training. It must not compute.
func Unfilled(c Config) (Trainable, error) {
	empty := c
	empty.Entities, empty.Relations = 0, 0
	parameters, err := Parameters(empty)
	if err != nil {
		return nil, err
	}
	tensors := make([][]float32, len(parameters))
	for i, p := range parameters {
		tensors[i] = make([]float32, p.Len()) // global ones alone have a length
	}
	m, err := New(empty, tensors)
	if err != nil {
		return nil, err
	}
	t, err := asTrainable(m)
	return unfilled{t, c}, err
}

// unfilled is a model of no entities and relations that says it has some.
type unfilled struct {
	Trainable
	config Config
}

func (u unfilled) Config() Config { return u.config }
