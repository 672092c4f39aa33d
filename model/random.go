package model

import (
	"context"
	"fmt"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/model/initial"
)

// Random returns a model with randomly initialised parameters, drawn in the order of Parameters. It
// completes the hyper-parameters as InitialConfig does. c must have at least one entity and one
// relation.
func Random(ctx context.Context, c Config, seed uint64) (Model, error) {
	c, err := InitialConfig(c)
	if err != nil {
		return nil, err
	}
	parameters, err := Parameters(c)
	if err != nil {
		return nil, err
	}
	if c.Entities == 0 || c.Relations == 0 {
		return nil, fmt.Errorf("a model needs entities and relations, but there are %d entities and %d relations: "+
			"use a data set with triples", c.Entities, c.Relations)
	}
	source := initial.NewSource(seed, 0)
	tensors := make([][]float32, len(parameters))
	for i, p := range parameters {
		tensors[i] = kernel.AlignedFloat32(p.Len())
		if p.Initial == nil {
			continue
		}
		if err := p.Initial(ctx, source, p.Row, tensors[i]); err != nil {
			return nil, err
		}
		p.ConstrainRows(tensors[i])
	}
	return New(c, tensors)
}
