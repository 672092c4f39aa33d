package train

import (
	"context"

	"github.com/mquine/mquine/model"
)

// Random returns the parameters with which a training begins: model.Random, where the memory suffices.
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
