package model

import (
	"math"

	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model/initial"
)

// In ExpressivE (Pavlović and Sallinger, 2023; docs/models/expressive.md), a relation is a
// parallelogram in each coordinate, in the plane of the head's and the tail's number. The score is
// minus a distance of the pair of entities from the parallelograms. The functional variant has
// parallelograms of width 0.
//
// The reference score is computed in float64. Every operation is rounded, and tanh is fmath.Tanh. h
// and t are tanh of the entities' rows. A relation has the rows d_h, d_t, c_h, c_t, s_h, s_t; the
// functional variant lacks d_h and d_t. Widths are δ = tanh|d|, and centres are tanh of the stored
// c. The slope s_t is the stored slope plus 1e-4 if the stored slope is at least 0, and minus 1e-4
// otherwise. With Δ = 1 − s_h s_t and σ = 1 if Δ ≥ 0, else −1, the slope s_h becomes s_h + (Δ −
// σm)/s_t if |Δ| < m = min_denom. The functional variant leaves the slopes unchanged. For each
// coordinate
//
//	x₁ = |(h − c_h) − s_t t|   of width δ_h,    x₂ = |(t − c_t) − s_h h|   of width δ_t,
//	ω = 2δ + 1,   k = (½(ω − 1)) (ω − 1/ω).
//
// A pair is inside if x ≤ δ for every x. The reference score is minus a chain from 0 over the
// coordinates, x₁ before x₂. The chain adds (x/ω)² if the pair is inside and (ωx − k)² otherwise.
// In the functional variant, it adds x². The printed score includes the root: −√Σ.
//
// Towers: for a given anchor, x₁ and x₂ are |a − s φ| with φ = tanh of the candidate's row. The
// pairs (a, s) are (h − c_h, s_t) and (c_t + s_h h, 1) for tails, (c_h + s_t t, 1) and (t − c_t,
// s_h) for heads. The comparison Expressive needs these numbers in units of the width
// (expressiveTerm). For the functional variant, Σ(a − sφ)² is a dot product with φ and φ², plus a
// constant of the query.

var (
	expressive = &Spec{
		Name: "expressive", Title: "ExpressivE", Score: "−‖(h, t) to a parallelogram‖", MaxDim: maxVectorDim,
		Hyper:   []*HyperParameter{minDenominator},
		Tensors: expressiveTensors(6),
		Recipe:  expressiveRecipe,
		Build:   func(t Tables) Model { return &expressiveModel{t, false} },
	}
	expressiveFunctional = &Spec{
		Name: "expressive-functional", Title: "Functional ExpressivE",
		Score: "−‖(h, t) to a line‖", MaxDim: maxVectorDim,
		Tensors: expressiveTensors(4),
		Recipe:  expressiveRecipe,
		Build:   func(t Tables) Model { return &expressiveModel{t, true} },
	}
	expressiveRecipe = commonRecipe(map[string]string{"dim": "64", "gamma": "4", "learning_rate": "0.05"})
)

// minDenominator is the authors' min_denom.
var minDenominator = &HyperParameter{
	Key: "min_denom", Help: "least absolute value of 1 − s_h s_t, which keeps a parallelogram from degenerating",
	Default: 0.5, Least: 0, Most: 1e3,
}

// expressiveTensors returns a Spec.Tensors function for relations of the given number of rows. The
// initial entries are PyKEEN's, which the authors use.
func expressiveTensors(rows int) func(Config) []Parameter {
	return func(c Config) []Parameter {
		return []Parameter{
			{Name: "entity", Axis: PerEntity, Row: []int{c.Dim}, Initial: initial.Normal(1)},
			{Name: "relation", Axis: PerRelation, Row: []int{rows * c.Dim}, Initial: initial.Normal(1)},
		}
	}
}

type expressiveModel struct {
	Tables
	functional bool
}

func (m *expressiveModel) Tower(kg.Side) Tower {
	d := m.config.Dim
	if m.functional {
		return Tower{Compare: Dot, Psi: 2 * d, Phi: 2 * d}
	}
	psi, phi := Expressive.Words()
	return Tower{Compare: Expressive, Psi: psi * d, Phi: phi * d}
}

// Score returns minus the distance.
func (m *expressiveModel) Score(reference float64) float64 { return -math.Sqrt(-reference) }

// parallelogram holds the widths, centres and slopes of a relation for each coordinate, in the
// direction of the head (H) and of the tail (T).
type parallelogram struct {
	widthH, widthT, centreH, centreT, slopeH, slopeT []float64
	kept                                             bool
	relation                                         int32
}

func newParallelogram(d int) parallelogram {
	f := func() []float64 { return make([]float64, d) }
	return parallelogram{widthH: f(), widthT: f(), centreH: f(), centreT: f(), slopeH: f(), slopeT: f()}
}

// set computes the numbers of relation r unless p holds them.
func (p *parallelogram) set(m *expressiveModel, r int32) {
	if p.kept && p.relation == r {
		return
	}
	p.kept, p.relation = true, r
	p.compute(m, m.Row(relationTable, r))
}

// compute computes the numbers of a relation from its row.
func (p *parallelogram) compute(m *expressiveModel, row []float32) {
	d, least := m.config.Dim, minDenominator.Of(m.config)
	if !m.functional {
		for i := range d {
			p.widthH[i] = math.Abs(fmath.Tanh(float64(row[i])))
			p.widthT[i] = math.Abs(fmath.Tanh(float64(row[d+i])))
		}
		row = row[2*d:]
	}
	for i := range d {
		p.centreH[i], p.centreT[i] = fmath.Tanh(float64(row[i])), fmath.Tanh(float64(row[d+i]))
		p.slopeH[i], p.slopeT[i] = float64(row[2*d+i]), float64(row[3*d+i])
		if m.functional {
			continue
		}
		p.slopeT[i] += sign1(p.slopeT[i]) * 1e-4
		if delta := 1 - float64(p.slopeH[i]*p.slopeT[i]); math.Abs(delta) < least {
			p.slopeH[i] += (delta - float64(sign1(delta)*least)) / p.slopeT[i]
		}
	}
}

// sign1 returns −1 for negative x and 1 otherwise.
func sign1(x float64) float64 {
	if x < 0 {
		return -1
	}
	return 1
}

// terms returns a and s of x₁ and x₂ in coordinate i, given tanh of the anchor.
func (p *parallelogram) terms(side kg.Side, anchor float64, i int) (a1, s1, a2, s2 float64) {
	if side == kg.Tail {
		return anchor - p.centreH[i], p.slopeT[i], p.centreT[i] + float64(p.slopeH[i]*anchor), 1
	}
	return p.centreH[i] + float64(p.slopeT[i]*anchor), 1, anchor - p.centreT[i], p.slopeH[i]
}

// stretch returns ω and k of a width.
func stretch(width float64) (omega, k float64) {
	omega = 2*width + 1
	return omega, float64(float64(0.5*(omega-1)) * (omega - 1/omega)) // an inlined product could be fused
}

func (m *expressiveModel) NewWorker(*kernel.Backend) Worker {
	d := m.config.Dim
	return OneByOne(&expressiveWorker{
		expressiveModel: m, shape: newParallelogram(d), anchor: make([]float64, d), entity: make([]float64, d),
	})
}

type expressiveWorker struct {
	*expressiveModel
	shape parallelogram // parallelogram of the most recent relation
	// anchor holds tanh of the anchor of the last query of Reference. entity is scratch memory.
	last           lastQuery
	anchor, entity []float64
}

// tanhs writes the hyperbolic tangents of the entries of row to the slice to.
func tanhs(to []float64, row []float32) {
	for i, v := range row {
		to[i] = fmath.Tanh(float64(v))
	}
}

// Feature writes tanh of the row, and its squares in the functional variant. The size is 0, because
// no entry exceeds 1.
func (w *expressiveWorker) Feature(_ kg.Side, _, e int32, phi []float32) (size float64) {
	for i, v := range w.Row(entityTable, e) {
		t := fmath.Tanh(float64(v))
		phi[i] = float32(t)
		if w.functional {
			phi[w.config.Dim+i] = float32(t * t)
		}
	}
	return 0
}

func (w *expressiveWorker) Query(q kg.Query, psi []float32) Slack {
	w.shape.set(w.expressiveModel, q.Relation)
	d := w.config.Dim
	term := len(psi) / (2 * d) // numbers of a term
	var squares float64        // squared bounds on the terms
	for i, v := range w.Row(entityTable, q.Anchor) {
		a1, s1, a2, s2 := w.shape.terms(q.Side, fmath.Tanh(float64(v)), i)
		if w.functional {
			psi[i] = float32(2 * (float64(a1*s1) + float64(a2*s2)))
			psi[d+i] = float32(-(float64(s1*s1) + float64(s2*s2)))
			z1, z2 := math.Abs(a1)+math.Abs(s1), math.Abs(a2)+math.Abs(s2)
			squares += z1*z1 + z2*z2
			continue
		}
		z1 := expressiveTerm(psi[2*term*i:][:term], a1, s1, w.shape.widthH[i])
		z2 := expressiveTerm(psi[2*term*i+term:][:term], a2, s2, w.shape.widthT[i])
		squares += z1*z1 + z2*z2
	}
	// See docs/models/expressive.md, "Slack".
	kappa := gamma(4*d + 40)
	if w.functional {
		return Slack{kappa * squares, 0, 0}
	}
	return Slack{(6.25*kernel.U32+kappa)*squares + float64(d)*0x1p-137, 0, 0}
}

// expressiveTerm writes the numbers of a term |a − s φ| with the given width to ψ, and returns a
// bound on ωx + k. The boundary of the region is uncertain by e, because a, s and φ are rounded to
// float32 and the panels round x. See docs/models/expressive.md, "Inside and outside".
func expressiveTerm(psi []float32, a, s, width float64) (most float64) {
	omega, k := stretch(width)
	largest := math.Abs(a) + math.Abs(s)
	e := 0x1p-21*largest + 0x1p-90
	unit := width + e
	psi[0], psi[1] = float32(a/unit), float32(s/unit)
	psi[2], psi[3] = float32(omega*unit), float32(k)
	psi[4], psi[5] = kernel.RoundDown32((width-e)/unit), float32(unit/omega)
	return omega*largest + k
}

func (w *expressiveWorker) Reference(q kg.Query, e int32) float64 {
	w.shape.set(w.expressiveModel, q.Relation)
	if !w.last.keep(q) {
		tanhs(w.anchor, w.Row(entityTable, q.Anchor))
	}
	tanhs(w.entity, w.Row(entityTable, e))
	h, t := w.anchor, w.entity
	if q.Side == kg.Head {
		h, t = t, h
	}
	p := &w.shape
	var inside, outside float64
	within := true
	add := func(x, width float64) {
		omega, k := stretch(width)
		in, out := x/omega, float64(omega*x)-k
		inside += float64(in * in)
		outside += float64(out * out)
		within = within && x <= width
	}
	for i := range h {
		add(math.Abs((h[i]-p.centreH[i])-float64(p.slopeT[i]*t[i])), p.widthH[i])
		add(math.Abs((t[i]-p.centreT[i])-float64(p.slopeH[i]*h[i])), p.widthT[i])
	}
	if within {
		return -inside
	}
	return -outside
}

// Training uses the printed score −√Σ. For the parallelograms (linalg.RegionParallelogram), φ is
// tanh of the row, twice. ψ holds all a, then all s and then all widths 2δ, each for x₁ in all
// coordinates and then for x₂. In the functional variant, φ has the pairs (1, tanh), (1, tanh) for
// each coordinate and ψ the pairs (a, −s) of x₁ and of x₂, so the score is minus the norm of their
// products. The penalty frobenius of a triple is ‖h‖² + ‖r‖² + ‖t‖² of the rows, and n3 is the same
// with Σ|x|³ in place of ‖·‖².

func (m *expressiveModel) Training() Training {
	if m.functional {
		return distanceTraining(linalg.DistanceProductNorm, 4*m.config.Dim, NoPenalty, Frobenius, N3)
	}
	return regionTraining(linalg.Region{Kind: linalg.RegionParallelogram, Coordinates: 2 * m.config.Dim})
}

func (m *expressiveModel) NewTrainingWorker(b *linalg.Backend, p Penalty) TrainingWorker {
	d := m.config.Dim
	return &expressiveTraining{
		tableTraining: newTableTraining(&m.Tables, b, p), model: m, shape: newParallelogram(d),
		dAnchor: make([]float32, d),
	}
}

// expressiveTraining adds up the gradients of the numbers in shape. Their sums lie in w.sum, in the
// order of the relation's rows.
type expressiveTraining struct {
	tableTraining
	model   *expressiveModel
	shape   parallelogram
	dAnchor []float32 // scratch, because dAnchor may overlap dPsi
}

func (w *expressiveTraining) Features(phi []float32, e int32) {
	clear(phi)
	d := w.config.Dim
	for i, v := range w.Row(entityTable, e) {
		t := float32(fmath.Tanh(float64(v)))
		if w.model.functional {
			p := phi[4*i:][:4]
			p[0], p[1], p[2], p[3] = 1, t, 1, t
			continue
		}
		phi[i], phi[d+i] = t, t
	}
}

func (w *expressiveTraining) FeatureGradient(dEntity, dPhi, phi []float32, _ int32) {
	d := w.config.Dim
	for i := range dEntity {
		v, g := phi[i], dPhi[i]+dPhi[d+i]
		if w.model.functional {
			v, g = phi[4*i+1], dPhi[4*i+1]+dPhi[4*i+3]
		}
		dEntity[i] = g * (1 - float32(v*v))
	}
}

func (w *expressiveTraining) Begin(side kg.Side, relation int32) {
	w.tableTraining.Begin(side, relation)
	w.shape.compute(w.model, w.r)
}

func (w *expressiveTraining) Query(psi, anchor []float32) (c, penalty float64) {
	clear(psi)
	d := len(anchor)
	as, slopes, widths := regionPart(psi, 0, 1)
	for i, v := range anchor {
		a1, s1, a2, s2 := w.shape.terms(w.side, fmath.Tanh(float64(v)), i)
		if w.model.functional {
			p := psi[4*i:][:4]
			p[0], p[1], p[2], p[3] = float32(a1), float32(-s1), float32(a2), float32(-s2)
			continue
		}
		as[i], slopes[i], widths[i] = float32(a1), float32(s1), float32(2*w.shape.widthH[i])
		as[d+i], slopes[d+i], widths[d+i] = float32(a2), float32(s2), float32(2*w.shape.widthT[i])
	}
	return 0, 0
}

func (w *expressiveTraining) QueryGradient(dAnchor, dPsi, anchor []float32, _, _ float64) {
	d := len(anchor)
	sum := w.sum
	das, dSlopes, dWidths := regionPart(dPsi, 0, 1)
	if !w.model.functional {
		for i, g := range dWidths[:2*d] {
			sum[i] += 2 * g
		}
		sum = sum[2*d:]
	}
	dCentreH, dCentreT, dSlopeH, dSlopeT := sum[:d], sum[d:2*d], sum[2*d:3*d], sum[3*d:4*d]
	for i, v := range anchor {
		x := float32(fmath.Tanh(float64(v)))
		var da1, ds1, da2, ds2 float32
		if w.model.functional {
			p := dPsi[4*i:][:4]
			da1, ds1, da2, ds2 = p[0], -p[1], p[2], -p[3]
		} else {
			da1, ds1, da2, ds2 = das[i], dSlopes[i], das[d+i], dSlopes[d+i]
		}
		var g float32
		if w.side == kg.Tail {
			dCentreH[i] -= da1
			dSlopeT[i] += ds1
			dCentreT[i] += da2
			dSlopeH[i] += float32(da2 * x)
			g = da1 + float32(da2*float32(w.shape.slopeH[i]))
		} else {
			dCentreH[i] += da1
			dSlopeT[i] += float32(da1 * x)
			dCentreT[i] -= da2
			dSlopeH[i] += ds2
			g = float32(da1*float32(w.shape.slopeT[i])) + da2
		}
		w.dAnchor[i] = g * (1 - float32(x*x))
	}
	copy(dAnchor, w.dAnchor)
}

// End propagates the gradients of the numbers in shape to the relation's rows.
func (w *expressiveTraining) End(dRelation []float32) {
	copy(dRelation, w.sum)
	d, row := w.config.Dim, w.r
	if !w.model.functional {
		for i := range d {
			h, t := w.shape.widthH[i], w.shape.widthT[i]
			dRelation[i] *= float32(sign(row[i]) * (1 - float64(h*h)))
			dRelation[d+i] *= float32(sign(row[d+i]) * (1 - float64(t*t)))
		}
		dRelation, row = dRelation[2*d:], row[2*d:]
	}
	least := minDenominator.Of(w.config)
	for i := range d {
		h, t := w.shape.centreH[i], w.shape.centreT[i]
		dRelation[i] *= float32(1 - float64(h*h))
		dRelation[d+i] *= float32(1 - float64(t*t))
		if w.model.functional {
			continue
		}
		// If min_denom changes the slope s_h, the new slope is (1 − σm)/s_t.
		s := w.shape.slopeT[i]
		if delta := 1 - float64(float64(row[2*d+i])*s); math.Abs(delta) < least {
			dSlopeH := float64(dRelation[2*d+i])
			dRelation[2*d+i] = 0
			dRelation[3*d+i] -= float32(dSlopeH * (1 - float64(sign1(delta)*least)) / float64(s*s))
		}
	}
}

// sign returns −1, 0 or 1.
func sign(x float32) float64 {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return 0
}
