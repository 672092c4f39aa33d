package train

import "github.com/mquine/mquine/model"

// initialDeviation is the standard deviation of the entries of A in E = A + Aᵀ. The paper gives
// N(0, 0.01), read here as a variance.
const initialDeviation = 0.1

// Random returns the parameters with which a training begins: independent N(0, 0.1²) entries in
// the packed triangles of the entities, and identity matrices for the relations.
func Random(cfg model.Config, seed uint64) (model.Model, error) {
	shapes, err := model.Shapes(cfg)
	if err != nil {
		return nil, err
	}
	tensors := make([][]float32, len(shapes))
	for i, s := range shapes {
		tensors[i] = make([]float32, s.Len())
	}
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
	return model.New(cfg, tensors)
}
