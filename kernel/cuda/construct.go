package cuda

import "github.com/mquine/mquine/kernel/cuda/internal/shape"

// Construct is the argument of the kernel that computes φ of MQuinE and MQuadE.
type Construct struct {
	// Entities has rows of Dim (Dim+1)/2 float32 parameters. Entity (int32) contains the entity of
	// each row of Out.
	Entities, Entity Pointer
	// Out receives N rows of K float32 entries. Norms and Sizes receive upper bounds (float64) on
	// ‖φ‖ and ‖E‖.
	Out, Norms, Sizes Pointer
	N, Dim, K         int32
	_                 int32
}

// Query is a query with a known entity, Anchor. Side is 0 if the query asks for tails and 1 if it
// asks for heads.
type Query struct {
	Anchor, Relation, Side int32
}

// ConstructQueries is the argument of the kernel that computes ψ of MQuinE and MQuadE.
type ConstructQueries struct {
	// Entities is as in Construct. Head, Tail and Cross have Dim × Dim float32 parameters for every
	// relation; Cross is 0 for MQuadE.
	Entities, Head, Tail, Cross Pointer
	// Queries has N Queries. Out receives N rows of K float32 entries, and Rows receives N
	// PairRows.
	Queries, Out, Rows Pointer
	// Kappa is the κ of the slack κ(a₀ + a₁n)² (docs/models/mquine.md, "Slack").
	Kappa     float64
	N, Dim, K int32
	_         int32
}

// MaxTowerDim is the largest dimension whose matrices fit in the shared memory of a thread block on
// all cards: 99 KiB on cards of compute capability 8.6 or 8.9, of which the kernels use up to 128
// bytes for sums.
const MaxTowerDim = 60

// Towers holds the kernels that compute φ and ψ of MQuinE and MQuadE.
type Towers struct {
	features, queries *function
}

// NewTowers compiles the kernels for a device and for a dimension of at most MaxTowerDim.
func NewTowers(d *Device, dim int) (*Towers, error) {
	m, err := d.load("construct")
	if err != nil {
		return nil, err
	}
	t := &Towers{}
	features, queries := shape.Towers(dim)
	if t.features, err = m.function("construct_features", shape.Threads, features); err != nil {
		return nil, err
	}
	if t.queries, err = m.function("construct_queries", shape.Threads, queries); err != nil {
		return nil, err
	}
	return t, nil
}

// Features computes φ.
func (t *Towers) Features(s *Stream, a Construct) {
	launch(s, t.features, int(a.N), 1, a)
}

// Queries computes ψ.
func (t *Towers) Queries(s *Stream, a ConstructQueries) {
	launch(s, t.queries, int(a.N), 1, a)
}
