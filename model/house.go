package model

import (
	"math"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model/initial"
)

// HousE (Li et al., 2022; docs/models/house.md) applies Householder reflections and projections to
// groups of s coordinates. In every group a relation has n unit vectors u_i. With R(x; u, κ) = x −
// κ(u·x)u, the score is
//
//	γ − Σ‖H(P_h h + w) − P_t t‖
//
// over the groups, where, with m = projections,
//
//   - P_h applies R with u_{n−1−i} and κ = k_head,i for i from 0 to m − 1;
//   - P_t applies R with u_i and κ = k_tail,i for i from 0 to m − 1;
//   - H applies reflections, R with κ = 2, with u_i for i from n − 1 − m down to m;
//   - w is a translation.
//
// The paper's four models are HousE_r (m = 0, no translation), HousE_r+ (m = 0), HousE (no
// translation) and HousE+.
//
// The row of an entity has d coordinates. A relation's row of the tensor "relation" has, for each
// group, n vectors v_i with u_i = v_i/‖v_i‖. A coefficient is k = min(direction · |scale|, limit).
//
// The reference score is computed in float64, group by group, and every operation is rounded. u_i
// is v_i divided by √(v_i·v_i), or 0 if the root is 0. R computes c = κ(u·x) and x_j = x_j − c u_j,
// where u·x is a chain in ascending order. The score is minus the distance between H(P_h h + w) and
// P_t t (groupModel.distance).
//
// Towers: tail queries have ψ = H(P_h h + w) and φ = P_t e. Head queries have ψ = H⁻¹(P_t t) − w
// and φ = P_h e, where H⁻¹ applies the reflections of H in the opposite order.

var house = &Spec{
	Name: "house", Title: "HousE", Score: "γ − Σ‖H(P_h h + w) − P_t t‖ over groups", MaxDim: maxVectorDim,
	Hyper:   []*HyperParameter{margin, groupSize, projections, reflections, translates, projectionLimit},
	Tensors: houseTensors,
	Recipe:  commonRecipe(map[string]string{"dim": "128"}),
	Build:   func(t Tables) Model { return newHousE(t) },
	Start:   marginStart,
}

// The keys of HousE's hyper-parameters.
const (
	Projections     = "projections"
	Reflections     = "reflections"
	Translation     = "translation"
	ProjectionLimit = "projection_limit"
)

var (
	projections = &HyperParameter{
		Key: Projections, Help: "number of projections of each entity (m); 0 means HousE_r and HousE_r+",
		Least: 0, Most: maxVectorDim, Whole: true,
	}
	reflections = &HyperParameter{
		Key: Reflections, Help: "number of reflections of a head",
		Initial: func(c Config) float64 { // an even number, which makes H a rotation, or 1 for s = 1
			s := groupSize.Of(c)
			return max(1, s-math.Mod(s, 2))
		},
		Least: 1, Most: maxVectorDim, Whole: true,
	}
	translates = &HyperParameter{
		Key: Translation, Help: "whether a head is also translated (0 or 1): HousE_r+ and HousE+",
		Least: 0, Most: 1, Whole: true,
	}
	projectionLimit = &HyperParameter{
		Key: ProjectionLimit, Help: "largest coefficient of a projection",
		Initial: func(Config) float64 { return 0.5 }, Default: math.MaxFloat64,
		Least: -math.MaxFloat64, Most: math.MaxFloat64,
	}
)

// houseTensors lists the parameters of HousE.
func houseTensors(c Config) []Parameter {
	s := int(groupSize.Of(c))
	groups, m := c.Dim/s, int(projections.Of(c))
	n := int(reflections.Of(c)) + 2*m
	bound := initial.Uniform((margin.Of(c) + 2) / (float64(groups) * math.Sqrt(float64(s))))
	perRelation := func(name string, d initial.Distribution, row ...int) Parameter {
		return Parameter{Name: name, Axis: PerRelation, Row: row, Initial: d}
	}
	list := []Parameter{
		{Name: "entity", Axis: PerEntity, Row: []int{c.Dim}, Initial: bound},
		perRelation("relation", bound, groups, s*n),
	}
	if translates.Of(c) != 0 {
		list = append(list, perRelation("translation", bound, c.Dim))
	}
	if m > 0 {
		for _, side := range []string{"head", "tail"} {
			list = append(list, perRelation(side+"_direction", initial.Uniform(0.01), m),
				perRelation(side+"_scale", initial.Uniform(1), groups, m))
		}
	}
	return list
}

type houseModel struct {
	groupModel
	projections int    // m
	vectors     int    // n
	translation int    // the index of the tensor, or 0 if there is none
	directions  [2]int // by side of an entity: index of the tensor of directions, which the scales follow

	// project lists the indices of the vectors of P_h and P_t, by side of an entity. turn and
	// turnBack list the indices for H and H⁻¹.
	project        [2][]int
	turn, turnBack []int
}

func newHousE(t Tables) *houseModel {
	m := &houseModel{groupModel: newGroupModel(t), projections: int(projections.Of(t.config))}
	m.vectors = int(reflections.Of(t.config)) + 2*m.projections
	next := relationTable + 1
	if translates.Of(t.config) != 0 {
		m.translation = next
		next++
	}
	m.directions = [2]int{kg.Head: next, kg.Tail: next + 2}
	for i := range m.vectors {
		last := m.vectors - 1 - i
		if i < m.projections {
			m.project[kg.Head] = append(m.project[kg.Head], last)
			m.project[kg.Tail] = append(m.project[kg.Tail], i)
		} else if last >= m.projections {
			m.turn, m.turnBack = append(m.turn, last), append(m.turnBack, i)
		}
	}
	return m
}

func (m *houseModel) Tower(kg.Side) Tower {
	if m.projections > 0 {
		return m.tower(OnRelationSide)
	}
	return m.tower(OnEntity)
}

// houseRelation holds the reflections and projections of a relation.
type houseRelation struct {
	model    *houseModel
	relation int32        // or −1
	u, norms []float64    // by group: unit vectors; ‖v_i‖
	k        [2][]float64 // by side of an entity and group: coefficients of the projections
	w        []float64    // the translation, or empty
}

func newHousERelation(m *houseModel) houseRelation {
	d := m.config.Dim
	r := houseRelation{
		model: m, relation: -1, u: make([]float64, d*m.vectors), norms: make([]float64, d/m.size*m.vectors),
	}
	for side := range r.k {
		r.k[side] = make([]float64, d/m.size*m.projections)
	}
	if m.translation != 0 {
		r.w = make([]float64, d)
	}
	return r
}

// set computes the unit vectors and coefficients of a relation.
func (r *houseRelation) set(relation int32) {
	m := r.model
	r.relation = relation
	widen(r.u, m.Row(relationTable, relation))
	for i := range r.norms {
		u := r.u[i*m.size:][:m.size]
		r.norms[i] = math.Sqrt(dot(u, u))
		if r.norms[i] > 0 {
			for k := range u {
				u[k] /= r.norms[i]
			}
		}
	}
	if m.translation != 0 {
		widen(r.w, m.Row(m.translation, relation))
	}
	if m.projections == 0 {
		return
	}
	limit := projectionLimit.Of(m.config)
	for side, k := range r.k {
		directions, scales := m.Row(m.directions[side], relation), m.Row(m.directions[side]+1, relation)
		for i := range k {
			k[i] = min(float64(directions[i%m.projections])*math.Abs(float64(scales[i])), limit)
		}
	}
}

// reflect replaces x with R(x; u, κ).
func reflect(x, u []float64, kappa float64) { addScaled(x, -float64(kappa*dot(u, x)), u) }

// apply replaces every group of x with R(x; u_i, κ) for the listed vectors i, one after another. The
// κ of a group are the next len(vectors) entries of k, or 2 if k is nil.
func (r *houseRelation) apply(x []float64, vectors []int, k []float64) {
	s, n := r.model.size, r.model.vectors
	for g := range len(x) / s {
		group, u := x[g*s:][:s], r.u[g*n*s:]
		for i, v := range vectors {
			kappa := 2.0
			if k != nil {
				kappa = k[g*len(vectors)+i]
			}
			reflect(group, u[v*s:][:s], kappa)
		}
	}
}

// project replaces x, the vector of the entity on a side, with P_h x or P_t x.
func (r *houseRelation) project(side kg.Side, x []float64) {
	r.apply(x, r.model.project[side], r.k[side])
}

// turn replaces x = P_h h with H(x + w).
func (r *houseRelation) turn(x []float64) {
	for i, w := range r.w {
		x[i] += w
	}
	r.apply(x, r.model.turn, nil)
}

// turnBack replaces y = P_t t with H⁻¹y − w.
func (r *houseRelation) turnBack(y []float64) {
	r.apply(y, r.model.turnBack, nil)
	for i, w := range r.w {
		y[i] -= w
	}
}

func (m *houseModel) NewWorker(*kernel.Backend) Worker {
	d := m.config.Dim
	return OneByOne(&houseWorker{
		houseModel: m, transform: newHousERelation(m), anchor: make([]float64, d), entity: make([]float64, d),
	})
}

type houseWorker struct {
	*houseModel
	transform houseRelation
	last      lastQuery
	anchor    []float64 // H(P_h h + w) or P_t t of the last query's anchor
	entity    []float64 // scratch
}

// kappa bounds two errors relative to the norms of the vectors: the error of a distance, and the
// error of applying H⁻¹ to the tail in place of H to the head (docs/models/house.md, "Slack").
func (m *houseModel) kappa() float64 {
	return gamma(m.config.Dim/m.size + m.size + 10 + len(m.turn)*(20*m.size+50))
}

// read prepares the worker for a relation.
func (w *houseWorker) read(relation int32) {
	if w.transform.relation != relation {
		w.transform.set(relation)
		w.last.kept = false
	}
}

// compute sets w.anchor for the anchor of q.
func (w *houseWorker) compute(q kg.Query) {
	w.read(q.Relation)
	if w.last.keep(q) {
		return
	}
	widen(w.anchor, w.Row(entityTable, q.Anchor))
	if q.Side == kg.Tail {
		w.transform.project(kg.Head, w.anchor)
		w.transform.turn(w.anchor)
	} else {
		w.transform.project(kg.Tail, w.anchor)
	}
}

// Feature writes P_h e or P_t e. The size is the candidate's share of the slack.
func (w *houseWorker) Feature(side kg.Side, relation, e int32, phi []float32) (size float64) {
	widen(w.entity, w.Row(entityTable, e))
	if w.projections > 0 {
		w.read(relation)
		w.transform.project(side, w.entity)
	}
	changes, norms := w.round(phi, w.entity)
	return changes + w.kappa()*norms
}

func (w *houseWorker) Query(q kg.Query, psi []float32) Slack {
	w.compute(q)
	copy(w.entity, w.anchor)
	known := 0.0
	if q.Side == kg.Head {
		w.transform.turnBack(w.entity)
		known = w.norms(w.anchor) + w.norms(w.transform.w)
	}
	changes, norms := w.round(psi, w.entity)
	// See docs/models/house.md, "Slack".
	return Slack{changes + w.kappa()*(known+norms) + underflow, 1, 0}
}

func (w *houseWorker) Reference(q kg.Query, e int32) float64 {
	w.compute(q)
	widen(w.entity, w.Row(entityTable, e))
	if q.Side == kg.Tail {
		w.transform.project(kg.Tail, w.entity)
	} else {
		w.transform.project(kg.Head, w.entity)
		w.transform.turn(w.entity)
	}
	return w.distance(w.anchor, w.entity)
}

// Training uses the same ψ and φ as ranking. The penalties of a triple are sums over its entities
// only: frobenius is ‖h‖² + ‖t‖², and n3 is Σ|h_i|³ + Σ|t_i|³.

func (m *houseModel) Training() Training {
	return distanceTraining(linalg.DistanceGroupNormOf(m.size), m.config.Dim, NoPenalty, Frobenius, N3)
}

func (m *houseModel) NewTrainingWorker(b *linalg.Backend, p Penalty) TrainingWorker {
	d := m.config.Dim
	w := &houseTraining{
		tableTraining: newTableTraining(&m.Tables, b, p), transform: newHousERelation(m),
		x: make([]float64, d), turned: make([]float64, d), dX: make([]float64, d),
		inputs: make([]float64, m.size*max(m.projections, len(m.turn))),
		dU:     make([]float64, d*m.vectors), dW: make([]float64, d),
	}
	for side, k := range w.transform.k {
		w.dK[side] = make([]float64, len(k))
	}
	return w
}

type houseTraining struct {
	tableTraining
	transform     houseRelation
	x, turned, dX []float64 // scratch: an entity, the input of H or H⁻¹, a gradient
	inputs        []float64 // scratch: a group before each of its reflections or projections
	// Sums since Begin. The index of dK is the side of an entity.
	dU, dW []float64
	dK     [2][]float64
}

func (w *houseTraining) Begin(side kg.Side, relation int32) {
	w.side = side
	w.transform.set(relation)
	clear(w.dU)
	clear(w.dW)
	for _, k := range w.dK {
		clear(k)
	}
}

func (w *houseTraining) Features(phi []float32, e int32) {
	widen(w.x, w.Row(entityTable, e))
	w.transform.project(w.side, w.x)
	narrow(phi, w.x)
}

func (w *houseTraining) FeatureGradient(dEntity, dPhi, _ []float32, e int32) {
	widen(w.x, w.Row(entityTable, e))
	widen(w.dX, dPhi)
	w.projectBack(w.side)
	narrow(dEntity, w.dX)
}

func (w *houseTraining) Query(psi, anchor []float32) (c, penalty float64) {
	widen(w.x, anchor)
	w.transform.project(w.side.Opposite(), w.x)
	if w.side == kg.Tail {
		w.transform.turn(w.x)
	} else {
		w.transform.turnBack(w.x)
	}
	narrow(psi, w.x)
	return 0, 0
}

func (w *houseTraining) QueryGradient(dAnchor, dPsi, anchor []float32, _, _ float64) {
	r := &w.transform
	widen(w.x, anchor)
	copy(w.turned, w.x)
	r.project(w.side.Opposite(), w.turned)
	widen(w.dX, dPsi)
	if w.side == kg.Tail {
		for i, v := range r.w {
			w.turned[i] += v
		}
		w.back(w.turned, r.model.turn, nil, nil)
		addScaled(w.dW, 1, w.dX)
	} else {
		addScaled(w.dW, -1, w.dX)
		w.back(w.turned, r.model.turnBack, nil, nil)
	}
	w.projectBack(w.side.Opposite())
	narrow(dAnchor, w.dX)
}

// projectBack replaces dX, the gradient of P_h x or P_t x, with the gradient of x.
func (w *houseTraining) projectBack(side kg.Side) {
	w.back(w.x, w.transform.model.project[side], w.transform.k[side], w.dK[side])
}

// back propagates gradients through houseRelation.apply: it replaces dX, the gradient of the
// result, with the gradient of x, and adds to dU and dK. For y = R(x; u, κ), ∂x = ∂y − κ(u·∂y)u, ∂u
// = −κ((u·x)∂y + (u·∂y)x) and ∂κ = −(u·x)(u·∂y).
func (w *houseTraining) back(x []float64, vectors []int, k, dK []float64) {
	m := w.transform.model
	s := m.size
	for g := range len(x) / s {
		group, dX := x[g*s:][:s], w.dX[g*s:][:s]
		u, dU := w.transform.u[g*m.vectors*s:], w.dU[g*m.vectors*s:]
		kappa := func(i int) float64 {
			if k == nil {
				return 2
			}
			return k[g*len(vectors)+i]
		}
		for i, v := range vectors {
			copy(w.inputs[i*s:], group)
			reflect(group, u[v*s:][:s], kappa(i))
		}
		for i := len(vectors) - 1; i >= 0; i-- {
			at := vectors[i] * s
			ui, dUi, input := u[at:][:s], dU[at:][:s], w.inputs[i*s:][:s]
			along, dAlong := dot(ui, input), dot(ui, dX)
			addScaled(dUi, -float64(kappa(i)*along), dX)
			addScaled(dUi, -float64(kappa(i)*dAlong), input)
			addScaled(dX, -float64(kappa(i)*dAlong), ui)
			if k != nil {
				dK[g*len(vectors)+i] -= float64(along * dAlong)
			}
		}
	}
}

// End writes the gradients of the vectors, ∂v = (∂u − (u·∂u)u)/‖v‖, of the translation, and of the
// directions and scales. It overwrites dU.
func (w *houseTraining) End(dRelation []float32) {
	r := &w.transform
	m := r.model
	for i, norm := range r.norms {
		u, dU, out := r.u[i*m.size:][:m.size], w.dU[i*m.size:][:m.size], dRelation[i*m.size:][:m.size]
		if norm == 0 {
			clear(out)
			continue
		}
		addScaled(dU, -dot(u, dU), u)
		for k, v := range dU {
			out[k] = float32(v / norm)
		}
	}
	rest := dRelation[len(r.u):]
	if m.translation != 0 {
		narrow(rest, w.dW)
		rest = rest[len(w.dW):]
	}
	if m.projections == 0 {
		return
	}
	limit := projectionLimit.Of(m.config)
	for _, side := range []kg.Side{kg.Head, kg.Tail} {
		directions, scales := m.Row(m.directions[side], r.relation), m.Row(m.directions[side]+1, r.relation)
		dDirections, dScales := rest[:len(directions)], rest[len(directions):][:len(scales)]
		rest = rest[len(directions)+len(scales):]
		for i, direction := range directions {
			var sum float64
			for at := i; at < len(scales); at += m.projections {
				dK, d, scale := w.dK[side][at], float64(direction), float64(scales[at])
				if !(d*math.Abs(scale) < limit) {
					dK = 0
				}
				sum += float64(dK * math.Abs(scale))
				slope := math.Copysign(d, d*scale)
				if scale == 0 {
					slope = 0
				}
				dScales[at] = float32(dK * slope)
			}
			dDirections[i] = float32(sum)
		}
	}
}

// RelationPenalty returns 0, because relations have no penalty.
func (w *houseTraining) RelationPenalty([]float32, int32, float64) float64 { return 0 }
