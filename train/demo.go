package train

import (
	"context"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
)

// demoSchedule is enough for a few thousand triples.
var demoSchedule = schedule{steps: 60, batch: 512, rate: 0.05}

// Demo fits a model to the training split of a small graph by a few steps of a plain optimiser, full
// softmax over all entities on both sides. It takes seconds for hundreds of entities; its time and
// memory grow with their number.
func Demo(ctx context.Context, cfg model.Config, g *kg.Graph, o Options) (model.Model, error) {
	if err := o.check(cfg, g); err != nil {
		return nil, err
	}
	triples, err := g.Triples(kg.Train)
	if err != nil {
		return nil, err
	}
	m, err := Random(cfg, o.Seed)
	if err != nil {
		return nil, err
	}
	if err := fit(ctx, m, triples, demoSchedule, o); err != nil {
		return nil, err
	}
	return m, nil
}
