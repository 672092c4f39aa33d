package train

import (
	"context"

	"github.com/mquine/mquine/model"
)

// Random returns a model with initial parameters, as model.Random. It is an error if they do not
// fit into the memory.
func Random(ctx context.Context, cfg model.Config, seed uint64) (model.Model, error) {
	cfg, err := model.InitialConfig(cfg)
	if err != nil {
		return nil, err
	}
	if err := CheckParameters(cfg); err != nil {
		return nil, err
	}
	return model.Random(ctx, cfg, seed)
}
