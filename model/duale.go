package model

import (
	"math"

	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
)

// DualE (Cao et al., 2021; docs/models/duale.md) has the score Σ ⟨h_i ⊗ ρ_i, t_i⟩ over k dual
// quaternions a + εb. ρ_i is a normalised dual quaternion of the relation. The rows of entities and
// relations hold the k quaternions a and then the k quaternions b. Each of the two parts has the
// layout of a row of QuatE.
//
// The reference score is computed in float64, and every operation is rounded. The parts of ρ are c
// = r_a/|r_a| (quaternion.unit) and d = r_b − κr_a with κ = ⟨r_b, r_a⟩/⟨r_a, r_a⟩. If r_a = 0, they
// are c = 0 and d = r_b. The product with h has the parts x = h_a ⊗ c and y = h_a ⊗ d + h_b ⊗ c
// (hamilton). The score is the chain over i from 0 of ⟨x, t_a⟩ + ⟨y, t_b⟩ (quaternion.dot).
//
// Towers: ψ is [x, y] for tails and [t_a ⊗ conj(c) + t_b ⊗ conj(d), t_b ⊗ conj(c)] for heads. φ is
// the entity's row.

var dualE = &Spec{
	Name: "duale", Title: "DualE",
	Score: "Σ ⟨h_i ⊗ r_i/|r_i|, t_i⟩ over dual quaternions", MaxDim: maxVectorDim / 4,
	Tensors: func(c Config) []Parameter {
		return []Parameter{
			{Name: "entity", Axis: PerEntity, Row: []int{8 * c.Dim}, Initial: quaternions(2)},
			{Name: "relation", Axis: PerRelation, Row: []int{8 * c.Dim}, Initial: quaternions(2)},
		}
	},
	Recipe: productRecipe("32"),
	Build:  func(t Tables) Model { return &dualEModel{t} },
}

// dual is a dual quaternion a + εb.
type dual struct{ a, b quaternion }

// dualAt returns number i of a row of dual quaternions.
func dualAt(row []float32, i int) dual {
	first, second := halves(row)
	return dual{quaternionAt(first, i), quaternionAt(second, i)}
}

// put writes x to number i of a row of dual quaternions.
func (x dual) put(row []float32, i int) {
	first, second := halves(row)
	x.a.put(first, i)
	x.b.put(second, i)
}

// add returns x + y.
func (x dual) add(y dual) dual { return dual{x.a.plus(1, y.a), x.b.plus(1, y.b)} }

// times returns x ⊗ r. With x = a + εb and r = c + εd, its parts are a ⊗ c and a ⊗ d + b ⊗ c.
func (x dual) times(r dual) dual {
	return dual{hamilton(x.a, r.a), hamilton(x.a, r.b).plus(1, hamilton(x.b, r.a))}
}

// back is the adjoint of times: ⟨h.times(r), x⟩ = ⟨h, x.back(r)⟩.
func (x dual) back(r dual) dual {
	c, d := r.a.conj(), r.b.conj()
	return dual{hamilton(x.a, c).plus(1, hamilton(x.b, d)), hamilton(x.b, c)}
}

// dualRelation is a normalised relation with the numbers that its gradient needs.
type dualRelation struct {
	dual           // c and d
	modulus, kappa float64
}

// normaliseDual returns the normalised dual quaternion of a relation.
func normaliseDual(r dual) (n dualRelation) {
	n.a, n.modulus = r.a.unit()
	n.b = r.b
	if n.modulus != 0 {
		n.kappa = r.b.dot(r.a) / r.a.dot(r.a)
		n.b = r.b.plus(-n.kappa, r.a)
	}
	return n
}

// gradient returns ∂r, given the stored r and the gradients of c and d.
func (n dualRelation) gradient(r, g dual) dual {
	if n.modulus == 0 {
		return dual{b: g.b}
	}
	square := r.a.dot(r.a)
	along := g.b.dot(r.a) / square
	da := unitGradient(g.a, n.a, n.modulus).plus(-n.kappa, g.b).plus(-along, r.b.plus(-2*n.kappa, r.a))
	return dual{da, g.b.plus(-along, r.a)}
}

type dualEModel struct{ Tables }

func (m *dualEModel) Tower(kg.Side) Tower {
	return Tower{Compare: Dot, Psi: 8 * m.config.Dim, Phi: 8 * m.config.Dim}
}

func (m *dualEModel) NewWorker(*kernel.Backend) Worker {
	return OneByOne(&dualEWorker{m, -1, make([]dualRelation, m.config.Dim)})
}

// dualEWorker caches the normalised dual quaternions of a relation.
type dualEWorker struct {
	*dualEModel
	relation   int32
	normalised []dualRelation
}

func (w *dualEWorker) read(relation int32) {
	if w.relation == relation {
		return
	}
	w.relation = relation
	row := w.Row(relationTable, relation)
	for i := range w.normalised {
		w.normalised[i] = normaliseDual(dualAt(row, i))
	}
}

// Feature copies the entity's row. The size is the norm of the row.
func (w *dualEWorker) Feature(_ kg.Side, _, e int32, phi []float32) (size float64) {
	row := w.Row(entityTable, e)
	copy(phi, row)
	return fmath.Norm(row)
}

func (w *dualEWorker) Query(q kg.Query, psi []float32) Slack {
	w.read(q.Relation)
	anchor := w.Row(entityTable, q.Anchor)
	var squares float64
	for i, r := range w.normalised {
		x := dualAt(anchor, i)
		factor := math.Sqrt(r.a.dot(r.a)) + math.Sqrt(r.b.dot(r.b))
		squares += (x.a.dot(x.a) + x.b.dot(x.b)) * factor * factor
		if q.Side == kg.Tail {
			x = x.times(r.dual)
		} else {
			x = x.back(r.dual)
		}
		x.put(psi, i)
	}
	// See docs/models/duale.md, "Slack".
	return Slack{0, gamma(w.config.Dim+40) * math.Sqrt(squares) * fmath.NormSlack, 0}
}

func (w *dualEWorker) Reference(q kg.Query, e int32) float64 {
	w.read(q.Relation)
	h, _, t := w.rows(q, e)
	var sum float64
	for i, r := range w.normalised {
		x, y := dualAt(h, i).times(r.dual), dualAt(t, i)
		sum += x.a.dot(y.a) + x.b.dot(y.b)
	}
	return sum
}

// The penalty frobenius of a triple is ‖h‖² + ‖r‖² + ‖t‖² with the stored rows.

func (m *dualEModel) Training() Training {
	return Training{Width: 8 * m.config.Dim, EntityRows: true, Penalties: []Penalty{NoPenalty, Frobenius}}
}

func (m *dualEModel) NewTrainingWorker(b *linalg.Backend, p Penalty) TrainingWorker {
	k := m.config.Dim
	return &dualETraining{newTableTraining(&m.Tables, b, p), make([]dualRelation, k), make([]dual, k)}
}

type dualETraining struct {
	tableTraining
	normalised []dualRelation
	sums       []dual // sums of the gradients of the normalised relation
}

func (w *dualETraining) Begin(side kg.Side, relation int32) {
	w.tableTraining.Begin(side, relation)
	for i := range w.normalised {
		w.normalised[i] = normaliseDual(dualAt(w.r, i))
	}
	clear(w.sums)
}

func (w *dualETraining) Query(psi, anchor []float32) (c, penalty float64) {
	for i, r := range w.normalised {
		x := dualAt(anchor, i)
		if w.side == kg.Tail {
			x = x.times(r.dual)
		} else {
			x = x.back(r.dual)
		}
		x.put(psi, i)
	}
	return 0, 0
}

// QueryGradient uses the gradients of the score ⟨h ⊗ r, t⟩, with the gradient of ψ in place of the
// candidate: ∂c = conj(h_a) ⊗ t_a + conj(h_b) ⊗ t_b and ∂d = conj(h_a) ⊗ t_b.
func (w *dualETraining) QueryGradient(dAnchor, dPsi, anchor []float32, _, _ float64) {
	for i, r := range w.normalised {
		h, t := dualAt(anchor, i), dualAt(dPsi, i)
		var dAnchorAt dual
		if w.side == kg.Tail {
			dAnchorAt = t.back(r.dual)
		} else {
			h, t = t, h
			dAnchorAt = h.times(r.dual)
		}
		first := h.a.conj()
		dc := hamilton(first, t.a).plus(1, hamilton(h.b.conj(), t.b))
		w.sums[i] = w.sums[i].add(dual{dc, hamilton(first, t.b)})
		dAnchorAt.put(dAnchor, i)
	}
}

func (w *dualETraining) End(dRelation []float32) {
	for i, g := range w.sums {
		w.normalised[i].gradient(dualAt(w.r, i), g).put(dRelation, i)
	}
}
