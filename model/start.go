package model

import (
	"context"
	"fmt"
	"maps"
	"math"
)

// Start holds the options of a training run that affect the initial parameters. The model's
// Starting says what each option means for this model.
type Start struct {
	// Gamma is the margin γ.
	Gamma float64
	// Deviation is the standard deviation of the initial parameters.
	Deviation float64
	// Cross makes cross matrices begin as identity matrices instead of zeros.
	Cross bool
}

// Starting declares what the options of a Start mean for a model. The zero value ignores the
// options: training begins with the Initial distributions of the parameters.
type Starting struct {
	// Hyper returns the hyper-parameters that a Start determines. Nil means none.
	Hyper func(Start) map[string]float64
	// SpreadByHyper reports whether the hyper-parameters of Hyper give all parameters the deviation
	// of the Start.
	SpreadByHyper bool
	// Scaled names the parameter that is drawn with EntityDeviation and then scaled to the
	// deviation of the Start. It is empty if there is none.
	Scaled string
	// Cross names the cross matrix. It is empty for models without one.
	Cross string
}

// Deviates reports whether Start.Deviation has an effect.
func (s Starting) Deviates() bool { return s.SpreadByHyper || s.Scaled != "" }

// marginStart is the Starting of distance models: a Start determines the margin γ and nothing else.
var marginStart = Starting{Hyper: func(s Start) map[string]float64 { return map[string]float64{Gamma: s.Gamma} }}

// uniformStart is the Starting of ComplEx and DistMult: uniform parameters of the given deviation,
// and the margin 0.
var uniformStart = Starting{
	Hyper: func(s Start) map[string]float64 {
		return map[string]float64{Gamma: 0, EmbeddingRange: math.Sqrt(3) * s.Deviation}
	},
	SpreadByHyper: true,
}

// rangeStart is uniformStart for models without the hyper-parameter γ.
var rangeStart = Starting{
	Hyper: func(s Start) map[string]float64 {
		return map[string]float64{EmbeddingRange: math.Sqrt(3) * s.Deviation}
	},
	SpreadByHyper: true,
}

// StartConfig returns c with the hyper-parameters that s determines, completed by InitialConfig.
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

// Begin returns a model with the initial parameters of a training run.
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
	parameters, err := spec.Parameters(c)
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

// Unfilled returns a model without parameters that reports the sizes of c. All its tensors are empty,
// so it needs little memory for any sizes, and only methods that need no parameters may be used, such
// as Config, Tower and Training.
func Unfilled(c Config) (Trainable, error) {
	empty := c
	empty.Entities, empty.Relations = 0, 0
	spec, err := Lookup(c.Model)
	if err != nil {
		return nil, err
	}
	parameters, err := spec.Parameters(empty)
	if err != nil {
		return nil, err
	}
	m, err := spec.build(empty, parameters, make([][]float32, len(parameters)))
	if err != nil {
		return nil, err
	}
	t, err := asTrainable(m)
	if n, ok := t.(Network); ok {
		return unfilledNetwork{n, c}, nil
	}
	return unfilled{t, c}, err
}

// unfilled is an empty model that reports the sizes of the configuration it was made for.
type unfilled struct {
	Trainable
	config Config
}

func (u unfilled) Config() Config { return u.config }

// unfilledNetwork is unfilled for a Network.
type unfilledNetwork struct {
	Network
	config Config
}

func (u unfilledNetwork) Config() Config { return u.config }
