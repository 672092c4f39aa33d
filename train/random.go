package train

import (
	"context"

	"github.com/mquine/mquine/model"
)

// initialGamma is the margin that the RotatE code takes if it is told none.
const initialGamma = 12

// Random returns the parameters with which a training begins.
//
// MQuinE and MQuadE: independent N(0, 0.1²) entries in the packed triangles of the entities, and
// identity matrices for the relations.
//
// The models of the RotatE code: as it does, independent entries that are uniform up to ±(γ + 2)/d, or
// up to cfg.EmbeddingRange if that is given, with γ = 12 unless cfg gives another, and for pRotatE a
// modulus of half of that. The model's configuration tells which they were.
//
// A model without entities or without relations is an error, and so are one for which the memory does not suffice,
// and a cancelled context.
func Random(ctx context.Context, cfg model.Config, seed uint64) (model.Model, error) {
	needs, err := randomMemory(withRange(cfg))
	if err != nil {
		return nil, err
	}
	if err := checkInitial(cfg, needs); err != nil {
		return nil, err
	}
	return random(ctx, cfg, seed)
}

// random is Random for callers who know that there is enough memory.
func random(ctx context.Context, cfg model.Config, seed uint64) (model.Model, error) {
	return model.Random(ctx, withRange(cfg), seed)
}

// withRange fills in what the configuration of a model of the RotatE code leaves open.
func withRange(cfg model.Config) model.Config {
	if isMatrixModel(cfg.Model) {
		return cfg
	}
	if cfg.EmbeddingRange == 0 && cfg.Dim > 0 {
		if cfg.Gamma == 0 {
			cfg.Gamma = initialGamma
		}
		cfg.EmbeddingRange = model.DefaultRange(cfg.Gamma, cfg.Dim)
	}
	if cfg.Model == "protate" && cfg.Modulus == 0 {
		cfg.Modulus = 0.5 * cfg.EmbeddingRange
	}
	return cfg
}

// isMatrixModel tells the models whose relations are matrices.
func isMatrixModel(name string) bool { return name == "mquine" || name == "mquade" }
