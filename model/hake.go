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

// HAKE (Zhang et al., "Learning hierarchy-aware knowledge graph embeddings for link prediction",
// 2020; docs/models/hake.md) has the score γ − w_p Σ|sin((θ_h + θ_r − θ_t)/2)| − w_m ‖m_h∘A −
// m_t∘B‖. Here A = |m_r| + b and B = 1 − b, where b is the bias of the relation, clamped to
// [−|m_r|, 1]. The row of an entity holds k phases and then k moduli. The row of a relation holds k
// phases, k moduli and k biases. Phases are scaled so that the embedding range stands for π.
//
// The reference score is computed in float64, and every operation is rounded. Half a phase is value
// · (π / range / 2), with π as mistyped in the authors' code (mistypedPi). c and s are its cosine
// and sine by sinCos. By the addition theorems x = s_h c_r + c_h s_r, y = c_h c_r − s_h s_r and σ =
// x c_t − y s_t. P is the chain over i from 0 of |σ_i|, and Q is the chain of (m_h A − m_t B)². The
// score is −(w_p P + w_m √Q).
//
// Towers: φ holds (τ c_e, τ s_e, m_e) for each coordinate, where τ is a power of two. With w =
// w_p/τ, tail queries have ψ = (w sin α, −w cos α, w_m m_h A, w_m B) with α = (θ_h + θ_r)/2. Head
// queries have ψ = (w sin α, w cos α, w_m m_t B, w_m A) with α = (θ_r − θ_t)/2.

var hake = &Spec{
	Name: "hake", Title: "HAKE",
	Score:  "γ − w_p Σ|sin((θ_h + θ_r − θ_t)/2)| − w_m ‖m_h∘A − m_t∘B‖",
	MaxDim: maxVectorDim,
	Hyper:  []*HyperParameter{margin, phaseRange, phaseWeight, modulusWeight},
	Tensors: func(c Config) []Parameter {
		list := vectors(2, 3)(c)
		list[entityTable].Scatter = hakeNearby(initial.NearbyPhases(phaseRange.Of(c)))
		list[relationTable].Initial = hakeRelations(list[relationTable].Initial)
		return list
	},
	// Training does not change the weights. A larger γ gives a larger phase weight, so the
	// distances of phases differ enough for a softmax.
	Recipe: commonRecipe(map[string]string{"dim": "128", "gamma": "40"}),
	Build:  newHAKE,
	Start:  marginStart,
}

// Keys of the hyper-parameters of HAKE.
const (
	PhaseWeight   = "phase_weight"
	ModulusWeight = "modulus_weight"
)

// The weights w_p and w_m of the two distances.
var (
	phaseWeight = &HyperParameter{
		Key: PhaseWeight, Help: "factor of the distance of phases", Default: 1,
		Initial: func(c Config) float64 { return 0.5 * phaseRange.Of(c) }, Least: 0, Most: 1e30,
	}
	modulusWeight = &HyperParameter{
		Key: ModulusWeight, Help: "factor of the distance of moduli", Default: 1, Least: 0, Most: 1e30,
	}
)

// hakeRelations returns the distribution of relations: phases drawn from d, moduli 1 and biases 0.
func hakeRelations(d initial.Distribution) initial.Distribution {
	return func(ctx context.Context, s *initial.Source, row []int, values []float32) error {
		err := d(ctx, s, row, values)
		for k := row[0] / 3; len(values) > 0; values = values[3*k:] {
			for i := range k {
				values[k+i], values[2*k+i] = 1, 0
			}
		}
		return err
	}
}

// hakeNearby returns a Scatter that applies phases to the phases of an entity and initial.Nearby to
// its moduli.
func hakeNearby(phases initial.Scatter) initial.Scatter {
	return func(s *initial.Source, row, centre []float32) {
		p, m := halves(row)
		centreP, centreM := halves(centre)
		phases(s, p, centreP)
		initial.Nearby(s, m, centreM)
	}
}

type hakeModel struct {
	Tables
	unit          float64 // half the phase of the value 1
	phase, moduli float64 // w_p and w_m
	balance       float64 // τ
}

func newHAKE(t Tables) Model {
	m := &hakeModel{
		Tables: t, unit: mistypedPi / phaseRange.Of(t.config) / 2,
		phase: phaseWeight.Of(t.config), moduli: modulusWeight.Of(t.config),
	}
	m.balance = m.newBalance()
	return m
}

// newBalance chooses τ to make ‖ψ‖‖φ‖ small, because errors are relative to this product. τ² is
// about w_p/w_m times the root mean square of the moduli in a sample of at most 256 entities.
func (m *hakeModel) newBalance() float64 {
	const sample = 256
	var squares, count float64
	n := m.config.Entities
	for e := 0; e < n; e += n/sample + 1 {
		_, moduli := halves(m.Row(entityTable, int32(e)))
		for _, v := range moduli {
			squares += float64(v) * float64(v)
			count++
		}
	}
	ratio := m.phase / m.moduli * math.Sqrt(squares/count)
	if !(ratio > 0 && ratio < math.Inf(1)) {
		return 1
	}
	_, exponent := math.Frexp(ratio)
	return math.Ldexp(1, max(-30, min(exponent/2, 30)))
}

func (m *hakeModel) Tower(kg.Side) Tower {
	return Tower{Compare: Hake, Psi: 4 * m.config.Dim, Phi: 3 * m.config.Dim}
}

// Score returns γ minus the two weighted distances.
func (m *hakeModel) Score(reference float64) float64 { return margin.Of(m.config) + reference }

func (m *hakeModel) NewWorker(*kernel.Backend) Worker {
	k := m.config.Dim
	return OneByOne(&hakeWorker{
		hakeModel: m, relation: newHakeRelation(k),
		anchor: newPhases(k), entity: newPhases(k), sum: newPhases(k),
	})
}

// hakeRelation holds the cosines and sines of a relation's half phases, and the factors A of head
// moduli and B of tail moduli.
type hakeRelation struct {
	phases
	head, tail []float64
	number     int32
}

func newHakeRelation(k int) hakeRelation {
	return hakeRelation{newPhases(k), make([]float64, k), make([]float64, k), -1}
}

// use computes the numbers of relation r, unless x already holds them.
func (x *hakeRelation) use(m *hakeModel, r int32) {
	if x.number == r {
		return
	}
	x.number = r
	k := m.config.Dim
	row := m.Row(relationTable, r)
	x.set(row[:k], m.unit)
	for i := range k {
		x.head[i], x.tail[i] = hakeFactors(float64(row[k+i]), float64(row[2*k+i]))
	}
}

// hakeFactors returns A and B of a relation's modulus and bias.
func hakeFactors(modulus, bias float64) (head, tail float64) {
	modulus = math.Abs(modulus)
	bias = max(min(bias, 1), -modulus)
	return modulus + bias, 1 - bias
}

type hakeWorker struct {
	*hakeModel
	relation hakeRelation
	entity   phases // scratch
	// anchor holds the half phases of the last query's anchor. sum holds x and y of a head and a
	// relation; after a tail query, these are the head and the relation of the query.
	last        lastQuery
	anchor, sum phases
}

// Feature writes scaled cosines and sines, and moduli. The size is the norm of the moduli.
func (w *hakeWorker) Feature(_ kg.Side, _, e int32, phi []float32) (size float64) {
	values, moduli := halves(w.Row(entityTable, e))
	w.entity.set(values, w.unit)
	for i, m := range moduli {
		out := phi[3*i : 3*i+3]
		out[0] = float32(w.balance * w.entity.cos[i])
		out[1] = float32(w.balance * w.entity.sin[i])
		out[2] = m
	}
	return fmath.Norm(moduli)
}

func (w *hakeWorker) Query(q kg.Query, psi []float32) Slack {
	w.relation.use(w.hakeModel, q.Relation)
	r := &w.relation
	values, moduli := halves(w.Row(entityTable, q.Anchor))
	w.entity.set(values, w.unit)
	ofAnchor, ofCandidate := r.head, r.tail
	if q.Side == kg.Head {
		ofAnchor, ofCandidate = r.tail, r.head
	}
	weight := w.phase / w.balance
	var phaseChanges, squaredChanges, largestChange, squares, largest float64
	for i, m := range moduli {
		c, s := w.entity.cos[i], w.entity.sin[i]
		if q.Side == kg.Head {
			s = -s
		}
		sin := float64(s*r.cos[i]) + float64(c*r.sin[i])
		cos := float64(c*r.cos[i]) - float64(s*r.sin[i])
		if q.Side == kg.Tail {
			cos = -cos
		}
		a, b := float64(float64(m)*ofAnchor[i]), w.moduli*ofCandidate[i]
		out := psi[4*i : 4*i+4]
		var changes [4]float64
		out[0], changes[0] = round(weight * sin)
		out[1], changes[1] = round(weight * cos)
		out[2], changes[2] = round(w.moduli * a)
		out[3], changes[3] = round(b)
		phaseChanges += math.Sqrt(changes[0]*changes[0] + changes[1]*changes[1])
		squaredChanges += changes[2] * changes[2]
		largestChange = max(largestChange, changes[3])
		squares += a * a
		largest = max(largest, b)
	}
	// See docs/models/hake.md, "Slack".
	const second = 1 + 1e-6 // bound on the norms of pairs
	k := float64(w.config.Dim)
	kappa := gamma(w.config.Dim + 24)
	perPair := kernel.U32/math.Sqrt2*w.phase + 0x1p-149*weight // error from rounding a pair of φ
	return Slack{
		(w.balance*phaseChanges+k*perPair)*second + k*w.phase*kappa +
			(math.Sqrt(squaredChanges)+kappa*w.moduli*math.Sqrt(squares))*fmath.NormSlack,
		(largestChange + kappa*largest) * fmath.NormSlack, 0,
	}
}

func (w *hakeWorker) Reference(q kg.Query, e int32) float64 {
	w.relation.use(w.hakeModel, q.Relation)
	r := &w.relation
	anchorValues, headModuli := halves(w.Row(entityTable, q.Anchor))
	if !w.last.keep(q) {
		w.anchor.set(anchorValues, w.unit)
		if q.Side == kg.Tail {
			w.sum.add(w.anchor, r.phases)
		}
	}
	values, tailModuli := halves(w.Row(entityTable, e))
	w.entity.set(values, w.unit)
	tail := w.entity
	if q.Side == kg.Head {
		w.sum.add(w.entity, r.phases)
		tail = w.anchor
		headModuli, tailModuli = tailModuli, headModuli
	}
	var distance, squares float64
	for i, x := range w.sum.sin {
		distance += math.Abs(float64(x*tail.cos[i]) - float64(w.sum.cos[i]*tail.sin[i]))
		v := float64(float64(headModuli[i])*r.head[i]) - float64(float64(tailModuli[i])*r.tail[i])
		squares += float64(v * v)
	}
	return -(float64(w.phase*distance) + float64(w.moduli*math.Sqrt(squares)))
}

// Training computes the term of the phases as pRotatE does, with w_p as the modulus, and the term
// of the moduli as −√Σ(a·1 − b·m)². φ consists of k pairs (cos, sin) of half phases and k pairs (1,
// m). The weights stay fixed, and there are no penalties.

func (m *hakeModel) Training() Training {
	t := distanceTraining(linalg.DistancePhase, 4*m.config.Dim, NoPenalty)
	t.Rest = &DistanceRest{Distance: linalg.DistanceProductNorm, From: 2 * m.config.Dim}
	return t
}

func (m *hakeModel) NewTrainingWorker(b *linalg.Backend, p Penalty) TrainingWorker {
	k := m.config.Dim
	return &hakeTraining{
		tableTraining: newTableTraining(&m.Tables, b, p), unit: m.unit,
		phase: float32(m.phase), moduli: float32(m.moduli),
		head: make([]float32, k), tail: make([]float32, k),
	}
}

type hakeTraining struct {
	tableTraining
	unit          float64 // as in hakeModel
	phase, moduli float32
	head, tail    []float32 // the factors A and B of the relation
}

func (w *hakeTraining) Features(phi []float32, e int32) {
	values, moduli := halves(w.Row(entityTable, e))
	phases, pairs := halves(phi)
	for i, v := range values {
		s, c := sinCos(float64(float64(v) * w.unit))
		phases[2*i], phases[2*i+1] = float32(c), float32(s)
		pairs[2*i], pairs[2*i+1] = 1, moduli[i]
	}
}

func (w *hakeTraining) FeatureGradient(dEntity, dPhi, phi []float32, _ int32) {
	unit := float32(w.unit)
	dValues, dModuli := halves(dEntity)
	phases, _ := halves(phi)
	dPhases, dPairs := halves(dPhi)
	for i := range dValues {
		cos, sin := phases[2*i], phases[2*i+1]
		dValues[i] = unit * (float32(dPhases[2*i+1]*cos) - float32(dPhases[2*i]*sin))
		dModuli[i] = dPairs[2*i+1]
	}
}

func (w *hakeTraining) Begin(side kg.Side, relation int32) {
	w.tableTraining.Begin(side, relation)
	k := len(w.head)
	for i := range k {
		a, b := hakeFactors(float64(w.r[k+i]), float64(w.r[2*k+i]))
		w.head[i], w.tail[i] = float32(a), float32(b)
	}
}

// factors returns the factors of the anchor's and of the candidate's moduli, and the sums of their
// gradients.
func (w *hakeTraining) factors() (anchor, candidate, dAnchor, dCandidate []float32) {
	k := len(w.head)
	dHead, dTail := w.sum[k:2*k], w.sum[2*k:]
	if w.side == kg.Head {
		return w.tail, w.head, dTail, dHead
	}
	return w.head, w.tail, dHead, dTail
}

// sinCosOf returns w_p times the sine and the cosine of the phase α of ψ.
func (w *hakeTraining) sinCosOf(anchor float32, i int) (sin, cos float32) {
	s, c := sinCos(float64((float64(w.r[i]) + float64(float64(w.sign())*float64(anchor))) * w.unit))
	return w.phase * float32(s), w.phase * float32(c)
}

func (w *hakeTraining) Query(psi, anchor []float32) (c, penalty float64) {
	sign := w.sign()
	values, moduli := halves(anchor)
	phases, pairs := halves(psi)
	ofAnchor, ofCandidate, _, _ := w.factors()
	for i, v := range values {
		sin, cos := w.sinCosOf(v, i)
		phases[2*i], phases[2*i+1] = sin, -sign*cos
		pairs[2*i], pairs[2*i+1] = w.moduli*float32(moduli[i]*ofAnchor[i]), -w.moduli*ofCandidate[i]
	}
	return 0, 0
}

func (w *hakeTraining) QueryGradient(dAnchor, dPsi, anchor []float32, _, _ float64) {
	sign, unit := w.sign(), float32(w.unit)
	values, moduli := halves(anchor)
	dPhases, dPairs := halves(dPsi)
	for i, v := range values {
		sin, cos := w.sinCosOf(v, i)
		g := float32(unit * (float32(dPhases[2*i]*cos) + float32(sign*dPhases[2*i+1]*sin)))
		w.sum[i] += g
		dAnchor[i] = sign * g
	}
	// dAnchor may overlap dPhases, so this loop comes second.
	ofAnchor, _, dOfAnchor, dOfCandidate := w.factors()
	dModuli := dAnchor[len(values):]
	for i, m := range moduli {
		g := w.moduli * dPairs[2*i]
		dOfAnchor[i] += float32(g * m)
		dOfCandidate[i] -= float32(w.moduli * dPairs[2*i+1])
		dModuli[i] = g * ofAnchor[i]
	}
}

// End turns the gradients of A and B into gradients of moduli and biases.
func (w *hakeTraining) End(dRelation []float32) {
	k := len(w.head)
	copy(dRelation, w.sum[:k])
	for i := range k {
		modulus, bias := w.r[k+i], w.r[2*k+i]
		dHead, dTail := w.sum[k+i], w.sum[2*k+i]
		dModulus, dBias := dHead, dHead-dTail
		switch {
		case bias > 1:
			dBias = 0
		case bias < -modulus && bias < modulus: // A is 0, and B is 1 + |m_r|
			dModulus, dBias = dTail, 0
		}
		if modulus < 0 {
			dModulus = -dModulus
		}
		dRelation[k+i], dRelation[2*k+i] = dModulus, dBias
	}
}
