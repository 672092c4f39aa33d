package model

import (
	"context"
	"math"

	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model/initial"
)

// QuatE (Zhang et al., 2019; docs/models/quate.md) has the score Σ ⟨h_i ⊗ r_i/|r_i|, t_i⟩ over k
// quaternions. The rows of entities and relations hold k real parts, then the k first, k second and
// k third imaginary parts.
//
// The reference score is computed in float64, and every product and sum is rounded. With ρ = r/|r|
// (quaternion.unit) and p = h ⊗ ρ (hamilton), it is the chain over i from 0 of ((p₀t₀ + p₁t₁) +
// p₂t₂) + p₃t₃.
//
// Towers: ψ is h ⊗ ρ for tails and t ⊗ conj(ρ) for heads. φ is the entity's row.

var quatE = &Spec{
	Name: "quate", Title: "QuatE", Score: "Σ ⟨h_i ⊗ r_i/|r_i|, t_i⟩", MaxDim: maxVectorDim / 2,
	Tensors: func(c Config) []Parameter {
		return []Parameter{
			{Name: "entity", Axis: PerEntity, Row: []int{4 * c.Dim}, Initial: quaternions(1)},
			{Name: "relation", Axis: PerRelation, Row: []int{4 * c.Dim}, Initial: quaternions(1)},
		}
	},
	Recipe: productRecipe("64"),
	Build:  func(t Tables) Model { return &quatEModel{t} },
}

// quaternion holds a real part and three imaginary parts.
type quaternion [4]float64

// quaternionAt returns number i of a row of quaternions.
func quaternionAt(row []float32, i int) quaternion {
	k := len(row) / 4
	return quaternion{float64(row[i]), float64(row[k+i]), float64(row[2*k+i]), float64(row[3*k+i])}
}

// put writes q to number i of a row of quaternions.
func (q quaternion) put(row []float32, i int) {
	k := len(row) / 4
	row[i], row[k+i], row[2*k+i], row[3*k+i] = float32(q[0]), float32(q[1]), float32(q[2]), float32(q[3])
}

// hamilton returns the product a ⊗ b. It rounds every product and adds from left to right.
func hamilton(a, b quaternion) quaternion {
	return quaternion{
		float64(a[0]*b[0]) - float64(a[1]*b[1]) - float64(a[2]*b[2]) - float64(a[3]*b[3]),
		float64(a[0]*b[1]) + float64(a[1]*b[0]) + float64(a[2]*b[3]) - float64(a[3]*b[2]),
		float64(a[0]*b[2]) - float64(a[1]*b[3]) + float64(a[2]*b[0]) + float64(a[3]*b[1]),
		float64(a[0]*b[3]) + float64(a[1]*b[2]) - float64(a[2]*b[1]) + float64(a[3]*b[0]),
	}
}

func (q quaternion) conj() quaternion { return quaternion{q[0], -q[1], -q[2], -q[3]} }

// dot returns ((q₀p₀ + q₁p₁) + q₂p₂) + q₃p₃. It rounds every product and sum.
func (q quaternion) dot(p quaternion) float64 {
	return float64(q[0]*p[0]) + float64(q[1]*p[1]) + float64(q[2]*p[2]) + float64(q[3]*p[3])
}

// plus returns q + s·p.
func (q quaternion) plus(s float64, p quaternion) quaternion {
	for i, v := range p {
		q[i] += float64(s * v)
	}
	return q
}

// unit returns q/|q| and |q|. |q| is the rounded root of dot(q, q), and unit divides every entry by
// it. The unit of 0 is 0.
func (q quaternion) unit() (unit quaternion, modulus float64) {
	modulus = math.Sqrt(q.dot(q))
	if modulus == 0 {
		return quaternion{}, 0
	}
	for i, v := range q {
		unit[i] = v / modulus
	}
	return unit, modulus
}

// quaternions returns the initial distribution of QuatE and DualE for rows with the given number of
// quaternions, 1 or 2, in each dimension. A first quaternion is m(cos θ + v sin θ). Here m is
// uniform between ±1/√(2n) for n rows, θ is uniform between ±π, and v is an imaginary unit. A
// second quaternion is ½w times the first, with another imaginary unit w.
func quaternions(parts int) initial.Distribution {
	return func(ctx context.Context, s *initial.Source, row []int, values []float32) error {
		width := row[0]
		bound := 1 / math.Sqrt(float64(2*len(values)/width))
		for ; len(values) > 0; values = values[width:] {
			if err := ctx.Err(); err != nil {
				return err
			}
			n := width / parts
			for i := range n / 4 {
				modulus := bound * s.Uniform()
				sin, cos := sinCos(math.Pi * s.Uniform())
				first := quaternion{float64(modulus * cos)}.plus(float64(modulus*sin), imaginary(s))
				first.put(values[:n], i)
				if parts == 2 {
					hamilton(quaternion{}.plus(0.5, imaginary(s)), first).put(values[n:width], i)
				}
			}
		}
		return nil
	}
}

// imaginary draws three entries uniformly from [0, 1) and divides them by their norm plus 10⁻⁴, as
// the authors do.
func imaginary(s *initial.Source) (v quaternion) {
	for i := 1; i < len(v); i++ {
		v[i] = (1 + s.Uniform()) / 2
	}
	norm := math.Sqrt(v.dot(v)) + 1e-4
	for i := 1; i < len(v); i++ {
		v[i] /= norm
	}
	return v
}

type quatEModel struct{ Tables }

func (m *quatEModel) Tower(kg.Side) Tower {
	return Tower{Compare: Dot, Psi: 4 * m.config.Dim, Phi: 4 * m.config.Dim}
}

func (m *quatEModel) NewWorker(*kernel.Backend) Worker {
	return OneByOne(&quatEWorker{m, -1, make([]quaternion, m.config.Dim)})
}

// quatEWorker caches the unit quaternions of a relation.
type quatEWorker struct {
	*quatEModel
	relation int32
	units    []quaternion
}

func (w *quatEWorker) read(relation int32) {
	if w.relation == relation {
		return
	}
	w.relation = relation
	row := w.Row(relationTable, relation)
	for i := range w.units {
		w.units[i], _ = quaternionAt(row, i).unit()
	}
}

// Feature copies the entity's row. The size is the norm of the row.
func (w *quatEWorker) Feature(_ kg.Side, _, e int32, phi []float32) (size float64) {
	row := w.Row(entityTable, e)
	copy(phi, row)
	return fmath.Norm(row)
}

func (w *quatEWorker) Query(q kg.Query, psi []float32) Slack {
	w.read(q.Relation)
	anchor := w.Row(entityTable, q.Anchor)
	for i, r := range w.units {
		if q.Side == kg.Head {
			r = r.conj()
		}
		hamilton(quaternionAt(anchor, i), r).put(psi, i)
	}
	// See docs/models/quate.md, "Slack".
	return Slack{0, gamma(w.config.Dim+32) * fmath.Norm(anchor), 0}
}

func (w *quatEWorker) Reference(q kg.Query, e int32) float64 {
	w.read(q.Relation)
	h, _, t := w.rows(q, e)
	var sum float64
	for i, r := range w.units {
		sum += hamilton(quaternionAt(h, i), r).dot(quaternionAt(t, i))
	}
	return sum
}

// The penalty frobenius of a triple is ‖h‖² + ‖r‖² + ‖t‖² with the stored rows.

func (m *quatEModel) Training() Training {
	return Training{Width: 4 * m.config.Dim, EntityRows: true, Penalties: []Penalty{NoPenalty, Frobenius}}
}

func (m *quatEModel) NewTrainingWorker(b *linalg.Backend, p Penalty) TrainingWorker {
	k := m.config.Dim
	return &quatETraining{
		tableTraining: newTableTraining(&m.Tables, b, p),
		units:         make([]quaternion, k), moduli: make([]float64, k), dUnits: make([]quaternion, k),
	}
}

type quatETraining struct {
	tableTraining
	units  []quaternion // ρ of the relation
	moduli []float64    // |r|
	dUnits []quaternion // the sum of the gradients of ρ
}

func (w *quatETraining) Begin(side kg.Side, relation int32) {
	w.tableTraining.Begin(side, relation)
	for i := range w.units {
		w.units[i], w.moduli[i] = quaternionAt(w.r, i).unit()
	}
	clear(w.dUnits)
}

func (w *quatETraining) Query(psi, anchor []float32) (c, penalty float64) {
	for i, r := range w.units {
		if w.side == kg.Head {
			r = r.conj()
		}
		hamilton(quaternionAt(anchor, i), r).put(psi, i)
	}
	return 0, 0
}

// QueryGradient uses ψ = h ⊗ ρ for tails: ∂h = ∂ψ ⊗ conj(ρ) and ∂ρ = conj(h) ⊗ ∂ψ. For heads, ψ = t
// ⊗ conj(ρ): ∂t = ∂ψ ⊗ ρ and ∂ρ = conj(∂ψ) ⊗ t.
func (w *quatETraining) QueryGradient(dAnchor, dPsi, anchor []float32, _, _ float64) {
	for i, r := range w.units {
		a, g := quaternionAt(anchor, i), quaternionAt(dPsi, i)
		if w.side == kg.Tail {
			w.dUnits[i] = w.dUnits[i].plus(1, hamilton(a.conj(), g))
			r = r.conj()
		} else {
			w.dUnits[i] = w.dUnits[i].plus(1, hamilton(g.conj(), a))
		}
		hamilton(g, r).put(dAnchor, i)
	}
}

func (w *quatETraining) End(dRelation []float32) {
	for i, d := range w.dUnits {
		unitGradient(d, w.units[i], w.moduli[i]).put(dRelation, i)
	}
}

// unitGradient returns ∂r = (∂ρ − ⟨∂ρ, ρ⟩ρ)/|r| for ρ = r/|r|, or 0 for r = 0.
func unitGradient(dUnit, unit quaternion, modulus float64) (d quaternion) {
	if modulus == 0 {
		return quaternion{}
	}
	return d.plus(1/modulus, dUnit.plus(-dUnit.dot(unit), unit))
}
