package train

import (
	"context"
	"fmt"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
)

// demoSchedule is enough for a few thousand triples.
var demoSchedule = schedule{steps: 60, batch: 512, rate: 0.05}

// Demo fits MQuinE or MQuadE to the training split of a small graph by a few steps of a plain optimiser, full
// softmax over all entities on both sides. It takes seconds for hundreds of entities; its time and
// memory grow with their number.
func Demo(ctx context.Context, cfg model.Config, g *kg.Graph, o Options) (model.Model, error) {
	if err := o.check(cfg, g); err != nil {
		return nil, err
	}
	if !isMatrixModel(cfg.Model) {
		return nil, fmt.Errorf("train: Demo cannot fit model %s, only mquine and mquade", cfg.Model)
	}
	triples, err := g.Triples(kg.Train)
	if err != nil {
		return nil, err
	}
	m, err := Random(ctx, cfg, o.Seed)
	if err != nil {
		return nil, err
	}
	if err := fit(ctx, m, triples, demoSchedule, o); err != nil {
		return nil, err
	}
	return m, nil
}
