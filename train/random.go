package train

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/model"
)

const (
	// initialDeviation is the standard deviation of the entries of A in E = A + Aᵀ. The paper gives
	// N(0, 0.01), read here as a variance.
	initialDeviation = 0.1
	// initialGamma is the margin that the RotatE code takes if it is told none.
	initialGamma = 12
)

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
	fill := uniformTables
	if isMatrixModel(cfg.Model) {
		fill = normalMatrices
	}
	cfg = withRange(cfg)
	shapes, err := model.Shapes(cfg)
	if err != nil {
		return nil, err
	}
	if cfg.Entities == 0 || cfg.Relations == 0 {
		return nil, fmt.Errorf("a model needs entities and relations, and there are %d entities and %d relations: take a data set with triples",
			cfg.Entities, cfg.Relations)
	}
	tensors := make([][]float32, len(shapes))
	for i, s := range shapes {
		tensors[i] = kernel.AlignedFloat32(s.Len())
	}
	if err := fill(ctx, cfg, seed, tensors); err != nil {
		return nil, err
	}
	return model.New(cfg, tensors)
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

func normalMatrices(ctx context.Context, cfg model.Config, seed uint64, tensors [][]float32) error {
	n := newNormals(seed, streamInitial)
	if err := draw(ctx, tensors[0], func() float32 { return float32(initialDeviation * n.next()) }); err != nil {
		return err
	}
	d := cfg.Dim
	for _, t := range tensors[1:] {
		for row := range cfg.Relations * d {
			t[row*d+row%d] = 1
		}
	}
	return ctx.Err()
}

func uniformTables(ctx context.Context, cfg model.Config, seed uint64, tensors [][]float32) error {
	rng := rand.New(rand.NewPCG(seed, streamInitial))
	for _, t := range tensors {
		if err := draw(ctx, t, func() float32 { return float32(cfg.EmbeddingRange * uniform(rng)) }); err != nil {
			return err
		}
	}
	return nil
}

// draw fills values with numbers of next, and looks at ctx about every millisecond.
func draw(ctx context.Context, values []float32, next func() float32) error {
	for chunk := range slices.Chunk(values, 1<<16) {
		if err := ctx.Err(); err != nil {
			return err
		}
		for i := range chunk {
			chunk[i] = next()
		}
	}
	return nil
}
