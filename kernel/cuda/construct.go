package cuda

import "github.com/mquine/mquine/kernel/cuda/internal/shape"

// Construct is the argument of the kernel that makes φ of MQuinE and MQuadE.
type Construct struct {
	// Entities has rows of Dim (Dim+1)/2 float32 parameters, Entity (int32) the entity of each row of Out.
	Entities, Entity Pointer
	// Out gets N rows of K float32 entries, Norms and Sizes (float64) upper bounds of ‖φ‖ and ‖E‖.
	Out, Norms, Sizes Pointer
	N, Dim, K         int32
	_                 int32
}

// Query is a known side, Side 0 where it is the head and tails are asked for, 1 where it is the tail.
type Query struct {
	Anchor, Relation, Side int32
}

// ConstructQueries is the argument of the kernel that makes ψ of MQuinE and MQuadE.
type ConstructQueries struct {
	// Head, Tail and Cross have Dim × Dim float32 parameters of every relation; Cross is 0 for MQuadE.
	Entities, Head, Tail, Cross Pointer
	// Queries has a Query for each of the N rows of K float32 entries of Out, and of the PairRows of Rows.
	Queries, Out, Rows Pointer
	// Kappa is the κ of the slack κ(a₀ + a₁n)² (docs/models/mquine.md, "Slack").
	Kappa     float64
	N, Dim, K int32
	_         int32
}

// MaxTowerDim is the largest dimension whose matrices fit in the shared memory of a block.
const MaxTowerDim = 58

// Towers are the kernels that make φ and ψ of MQuinE and MQuadE.
type Towers struct {
	features, queries *Kernel
}

// NewTowers compiles them for a device and a dimension of at most MaxTowerDim.
func NewTowers(d *Device, dim int) (*Towers, error) {
	m, err := d.Load("construct")
	if err != nil {
		return nil, err
	}
	t := &Towers{}
	features, queries := shape.Towers(dim)
	if t.features, err = m.Kernel("construct_features", shape.Threads, features); err != nil {
		return nil, err
	}
	if t.queries, err = m.Kernel("construct_queries", shape.Threads, queries); err != nil {
		return nil, err
	}
	return t, nil
}

// Features makes φ.
func (t *Towers) Features(s *Stream, a Construct) error {
	return launch(s, t.features, int(a.N), 1, &a)
}

// Queries makes ψ.
func (t *Towers) Queries(s *Stream, a ConstructQueries) error {
	return launch(s, t.queries, int(a.N), 1, &a)
}
