package model

import (
	"context"
	"math"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model/initial"
)

// OTE (Tang et al., 2020; docs/models/ote.md) applies orthogonal transforms to groups of s
// coordinates. With an orthogonal matrix U and scales σ in every group, the score is γ − Σ‖(σ∘h) U
// − t‖ for tail queries and γ − Σ‖(t∘ρ) Uᵀ − h‖ for head queries, where ρ stands for 1/σ. With
// scales, the two sides score a triple differently, so the model is sided.
//
// The row of an entity has d coordinates. The row of a relation has, for each group, s rows of a
// matrix V. A scale follows each of them if the model has scales. The Gram–Schmidt process turns V
// into U.
//
// The reference score is computed in float64, and every operation is rounded. For each group:
//
//   - For i from 0: u_i = V_i; for j from 0 to i − 1, u_i = u_i − (u_i·u_j) u_j; then u_i is divided
//     by √(u_i·u_i), unless the root is 0.
//   - σ_i = |s_i| and ρ_i = 1/(|s_i| + 10⁻⁹), or σ_i = exp(s_i) and ρ_i = exp(−s_i) by scaleExp,
//     with s_i limited to ±30.
//   - x_i = a_i σ_i or a_i ρ_i for the anchor a, and q is the vector of the chains Σ_i x_i U_ij for
//     tails or Σ_j x_j U_ij for heads, in ascending order.
//
// The score is minus the distance between q and e (groupModel.distance).
//
// Towers: ψ = q and φ = e.

var ote = &Spec{
	Name: "ote", Title: "OTE", Score: "γ − Σ‖(σ∘h) U − t‖ over groups", MaxDim: maxVectorDim,
	Hyper: []*HyperParameter{margin, groupSize, oteScale},
	Tensors: func(c Config) []Parameter {
		s := int(groupSize.Of(c))
		row := []int{c.Dim / s, s, s}
		if oteScale.Of(c) != NoScale {
			row[2]++
		}
		first := orthogonal(s, row[2], oteScale.Of(c))
		return []Parameter{
			{Name: "entity", Axis: PerEntity, Row: []int{c.Dim}, Initial: initial.Uniform(0.01)},
			{Name: "relation", Axis: PerRelation, Row: row, Initial: first},
		}
	},
	Recipe: commonRecipe(map[string]string{"dim": "128"}),
	Build:  func(t Tables) Model { return &oteModel{newGroupModel(t)} },
	Sided:  func(Config) bool { return true },
	Start:  marginStart,
}

// Scale is the key of OTE's hyper-parameter for the kind of its scales.
const Scale = "scale"

// The kinds of scales.
const (
	NoScale          = 0 // σ = 1
	AbsoluteScale    = 1 // σ = |s|
	ExponentialScale = 2 // σ = exp(s)
)

var oteScale = &HyperParameter{
	Key: Scale, Help: "scales of a relation: 0 none, 1 absolute values, 2 exponentials",
	Initial: func(Config) float64 { return ExponentialScale }, Least: NoScale, Most: ExponentialScale,
	Whole: true,
}

const (
	// leastScale is added to a scale before a division, as in the authors' code.
	leastScale = 1e-9
	// mostExponent limits the exponent of a scale.
	mostExponent = 30
)

// orthogonal returns the distribution of rows that hold orthonormal s × s matrices. Each matrix is
// the result of the Gram–Schmidt process for a matrix with entries uniform in [0, 1), as in the
// authors' code. A row holds the s rows of each matrix, with the given number of columns. If
// columns > s, the last column holds scales of the given kind, which are 1.
func orthogonal(s, columns int, kind float64) initial.Distribution {
	return func(ctx context.Context, source *initial.Source, _ []int, values []float32) error {
		u, norms := make([]float64, s*s), make([]float64, s)
		v := make([]float32, s*columns)
		for ; len(values) > 0; values = values[s*columns:] {
			if err := ctx.Err(); err != nil {
				return err
			}
			for i := range s {
				for j := range s {
					v[i*columns+j] = float32((1 + source.Uniform()) / 2)
				}
			}
			orthonormalise(u, norms, v, columns)
			for i := range s {
				row := values[i*columns:][:columns]
				for j := range s {
					row[j] = float32(u[i*s+j])
				}
				if kind == AbsoluteScale {
					row[s] = 1
				}
			}
		}
		return nil
	}
}

// orthonormalise applies the Gram–Schmidt process to the rows of v. Row i begins at entry
// i·columns. It writes the result to u, and the norm of each row before its division to norms. u is
// s × s for s = len(norms).
func orthonormalise(u, norms []float64, v []float32, columns int) {
	s := len(norms)
	for i := range s {
		row := u[i*s:][:s]
		widen(row, v[i*columns:][:s])
		for j := range i {
			other := u[j*s:][:s]
			addScaled(row, -dot(row, other), other)
		}
		norms[i] = math.Sqrt(dot(row, row))
		if norms[i] > 0 {
			for j := range row {
				row[j] /= norms[i]
			}
		}
	}
}

// scaleExp returns exp(x), with x limited to ±mostExponent.
func scaleExp(x float64) float64 {
	return exp(max(-mostExponent, min(x, mostExponent)))
}

type oteModel struct{ groupModel }

func (m *oteModel) Tower(kg.Side) Tower { return m.tower(OnEntity) }

// oteRelation holds the transform of a relation for one side.
type oteRelation struct {
	model    *oteModel
	side     kg.Side
	relation int32     // or −1
	u, norms []float64 // by group: U, and the norms that orthonormalise writes
	scales   []float64 // σ or ρ
	x        []float64 // a group of the anchor times its scales
}

func newOTERelation(m *oteModel) oteRelation {
	d := m.config.Dim
	return oteRelation{
		model: m, relation: -1, u: make([]float64, d*m.size), norms: make([]float64, d), scales: make([]float64, d),
		x: make([]float64, m.size),
	}
}

// set computes the transform of a relation.
func (r *oteRelation) set(side kg.Side, relation int32) {
	r.side, r.relation = side, relation
	s, row := r.model.size, r.model.Row(relationTable, relation)
	kind := oteScale.Of(r.model.config)
	columns := len(row) / len(r.scales)
	for at := 0; at < len(r.scales); at += s {
		group := row[at*columns:]
		orthonormalise(r.u[at*s:][:s*s], r.norms[at:at+s], group, columns)
		for i := range s {
			r.scales[at+i] = 1
			if kind == NoScale {
				continue
			}
			v := float64(group[i*columns+s])
			switch {
			case kind == ExponentialScale && side == kg.Tail:
				v = scaleExp(v)
			case kind == ExponentialScale:
				v = scaleExp(-v)
			case side == kg.Tail:
				v = math.Abs(v)
			default:
				v = 1 / (math.Abs(v) + leastScale)
			}
			r.scales[at+i] = v
		}
	}
}

// query writes the vector q of an anchor's row.
func (r *oteRelation) query(q []float64, anchor []float32) {
	s := r.model.size
	for at := 0; at < len(q); at += s {
		for i := range s {
			r.x[i] = float64(float64(anchor[at+i]) * r.scales[at+i])
		}
		out, u := q[at:at+s], r.u[at*s:][:s*s]
		if r.side == kg.Tail {
			clear(out)
			for i, x := range r.x {
				addScaled(out, x, u[i*s:][:s])
			}
			continue
		}
		for i := range out {
			out[i] = dot(r.x, u[i*s:][:s])
		}
	}
}

func (m *oteModel) NewWorker(*kernel.Backend) Worker {
	d := m.config.Dim
	return OneByOne(&oteWorker{
		oteModel: m, transform: newOTERelation(m), q: make([]float64, d), entity: make([]float64, d),
	})
}

type oteWorker struct {
	*oteModel
	transform oteRelation
	last      lastQuery
	q         []float64 // q of the last query
	entity    []float64 // scratch
}

// kappa bounds the relative error of the reference distance between q and e.
func (m *oteModel) kappa() float64 { return gamma(m.config.Dim/m.size + m.size + 10) }

// Feature copies the entity's row. The size is the candidate's share of the slack.
func (w *oteWorker) Feature(_ kg.Side, _, e int32, phi []float32) (size float64) {
	widen(w.entity, w.Row(entityTable, e))
	_, norms := w.round(phi, w.entity)
	return w.kappa() * norms
}

func (w *oteWorker) compute(q kg.Query) {
	if w.last.keep(q) {
		return
	}
	if w.transform.relation != q.Relation || w.transform.side != q.Side {
		w.transform.set(q.Side, q.Relation)
	}
	w.transform.query(w.q, w.Row(entityTable, q.Anchor))
}

func (w *oteWorker) Query(q kg.Query, psi []float32) Slack {
	w.compute(q)
	changes, norms := w.round(psi, w.q)
	// See docs/models/ote.md, "Slack".
	return Slack{changes + w.kappa()*norms + underflow, 1, 0}
}

func (w *oteWorker) Reference(q kg.Query, e int32) float64 {
	w.compute(q)
	widen(w.entity, w.Row(entityTable, e))
	return w.distance(w.q, w.entity)
}

// Training uses the same ψ and φ as ranking. The norms of the rows of V do not matter, so the
// penalties of a triple are sums over its entities only: frobenius is ‖h‖² + ‖t‖², and n3 is
// Σ|h_i|³ + Σ|t_i|³.

func (m *oteModel) Training() Training {
	training := distanceTraining(linalg.DistanceGroupNormOf(m.size), m.config.Dim, NoPenalty, Frobenius, N3)
	training.EntityRows = true
	return training
}

func (m *oteModel) NewTrainingWorker(b *linalg.Backend, p Penalty) TrainingWorker {
	d := m.config.Dim
	return &oteTraining{
		tableTraining: newTableTraining(&m.Tables, b, p), transform: newOTERelation(m),
		q: make([]float64, d), dU: make([]float64, d*m.size), dScales: make([]float64, d),
		dQ: make([]float64, m.size), dX: make([]float64, m.size), v: make([]float64, m.size),
	}
}

type oteTraining struct {
	tableTraining
	transform   oteRelation
	q           []float64
	dU, dScales []float64 // sums of gradients since Begin
	dQ, dX, v   []float64 // scratch memory for one group
}

func (w *oteTraining) Begin(side kg.Side, relation int32) {
	w.transform.set(side, relation)
	clear(w.dU)
	clear(w.dScales)
}

func (w *oteTraining) Query(psi, anchor []float32) (c, penalty float64) {
	w.transform.query(w.q, anchor)
	narrow(psi, w.q)
	return 0, 0
}

func (w *oteTraining) QueryGradient(dAnchor, dPsi, anchor []float32, _, _ float64) {
	r := &w.transform
	s := r.model.size
	for at := 0; at < len(anchor); at += s {
		widen(w.dQ, dPsi[at:at+s])
		u, dU := r.u[at*s:][:s*s], w.dU[at*s:][:s*s]
		for i := range s {
			r.x[i] = float64(float64(anchor[at+i]) * r.scales[at+i])
		}
		clear(w.dX)
		for i := range s {
			row, dRow := u[i*s:][:s], dU[i*s:][:s]
			if r.side == kg.Tail { // q = x U
				w.dX[i] = dot(w.dQ, row)
				addScaled(dRow, r.x[i], w.dQ)
			} else { // q = x Uᵀ
				addScaled(w.dX, w.dQ[i], row)
				addScaled(dRow, w.dQ[i], r.x)
			}
		}
		for i, g := range w.dX {
			w.dScales[at+i] += float64(g * float64(anchor[at+i]))
			dAnchor[at+i] = float32(g * r.scales[at+i])
		}
	}
}

// End propagates the sums through the Gram–Schmidt process and the scales (docs/models/ote.md,
// "Gradients"). It overwrites the sums.
func (w *oteTraining) End(dRelation []float32) {
	r := &w.transform
	s, row := r.model.size, r.model.Row(relationTable, r.relation)
	kind := oteScale.Of(r.model.config)
	columns := len(row) / len(r.scales)
	for at := 0; at < len(r.scales); at += s {
		raw, out := row[at*columns:], dRelation[at*columns:]
		u, dU := r.u[at*s:][:s*s], w.dU[at*s:][:s*s]
		for i := s - 1; i >= 0; i-- {
			b, ui := dU[i*s:][:s], u[i*s:][:s]
			norm := r.norms[at+i]
			if norm == 0 {
				clear(b)
			} else {
				addScaled(b, -dot(b, ui), ui)
				for k := range b {
					b[k] /= norm
				}
			}
			widen(w.v, raw[i*columns:][:s])
			copy(w.dX, b)
			for j := range i {
				uj := u[j*s:][:s]
				along := dot(b, uj)
				addScaled(w.dX, -along, uj)
				addScaled(dU[j*s:][:s], -dot(w.v, uj), b)
				addScaled(dU[j*s:][:s], -along, w.v)
			}
			narrow(out[i*columns:], w.dX)
			if kind != NoScale {
				out[i*columns+s] = float32(w.dScales[at+i] * r.slope(kind, float64(raw[i*columns+s]), r.scales[at+i]))
			}
		}
	}
}

// slope returns the derivative of a scale, σ or ρ, with respect to the stored number.
func (r *oteRelation) slope(kind, stored, scale float64) float64 {
	switch {
	case kind == ExponentialScale && math.Abs(stored) > mostExponent, kind == AbsoluteScale && stored == 0:
		return 0
	case kind == ExponentialScale:
		return signOf(r.side) * scale
	case r.side == kg.Head:
		return -math.Copysign(scale*scale, stored)
	}
	return math.Copysign(1, stored)
}

// RelationPenalty returns 0, because relations have no penalty.
func (w *oteTraining) RelationPenalty([]float32, int32, float64) float64 { return 0 }
