package train

import (
	"context"

	"github.com/mquine/mquine/model"
)

// Random is like model.Random but returns an error if the parameters do not fit into memory.
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
