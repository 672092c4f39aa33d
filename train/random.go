package train

import (
	"math/rand/v2"

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
func Random(cfg model.Config, seed uint64) (model.Model, error) {
	fill := uniformTables
	if isMatrixModel(cfg.Model) {
		fill = normalMatrices
	} else {
		cfg = withRange(cfg)
	}
	shapes, err := model.Shapes(cfg)
	if err != nil {
		return nil, err
	}
	tensors := make([][]float32, len(shapes))
	for i, s := range shapes {
		tensors[i] = make([]float32, s.Len())
	}
	fill(cfg, seed, tensors)
	return model.New(cfg, tensors)
}

// withRange fills in what a configuration leaves open.
func withRange(cfg model.Config) model.Config {
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

func normalMatrices(cfg model.Config, seed uint64, tensors [][]float32) {
	n := newNormals(seed, streamInitial)
	for i := range tensors[0] {
		tensors[0][i] = float32(initialDeviation * n.next())
	}
	d := cfg.Dim
	for _, t := range tensors[1:] {
		for row := range cfg.Relations * d {
			t[row*d+row%d] = 1
		}
	}
}

func uniformTables(cfg model.Config, seed uint64, tensors [][]float32) {
	rng := rand.New(rand.NewPCG(seed, streamInitial))
	for _, t := range tensors {
		for i := range t {
			t[i] = float32(cfg.EmbeddingRange * uniform(rng))
		}
	}
}
