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

// In BoxE (Abboud et al., 2020; docs/models/boxe.md), an entity is a position and a bump, which
// moves the other entity of a triple. A relation has two boxes, for the bumped head and for the
// bumped tail. The score is minus the sum of the distances from the boxes.
//
// The reference score is computed in float64. Every operation is rounded, and tanh, ln and exp come
// from package fmath. An entity's row is its position x and its bump y. A relation's row is, for
// the head box and then for the tail box, a centre and a shape, followed by the sizes of both
// boxes. A box spans tanh(c − |δ|/2) to tanh(c + |δ|/2), where
//
//	δ = (shape/g) σ,   g = exp((Σ ln max(|shape|, 2⁻²³))/d),   σ = size + 1 if size > 0, else exp(size).
//
// In each coordinate, let W be the box's width, m = (lower + upper)/2 its middle, V = W + 1, and κ
// = (W/2)(V − 1/V). The distance of a point p is max(|p − m|/V, V|p − m| − κ). With p₁ = tanh(x_h +
// y_t) in the head box and p₂ = tanh(x_t + y_h) in the tail box, the score is −√Σd₁² − √Σd₂², both
// chains from 0.
//
// Towers: tanh(α + β) = 1 − 1/(ab + ½) for a = exp(2α)/2 and b = exp(2β). φ has b of the bump and
// of the position in each coordinate. ψ has a of the anchor, 1 − m, 1/V, V and κ for two boxes: the
// box in which the bump moves the anchor, and the box in which the anchor moves the position.

var boxE = &Spec{
	Name: "boxe", Title: "BoxE", Score: "−‖d(h + bump_t, box₁)‖ − ‖d(t + bump_h, box₂)‖", MaxDim: maxVectorDim,
	Tensors: func(c Config) []Parameter {
		uniform := initial.Uniform(0.5 / math.Sqrt(float64(c.Dim)))
		return []Parameter{
			{Name: "entity", Axis: PerEntity, Row: []int{2 * c.Dim}, Initial: uniform},
			{Name: "relation", Axis: PerRelation, Row: []int{4*c.Dim + 2}, Initial: boxInitial(uniform)},
		}
	},
	Recipe: commonRecipe(map[string]string{"dim": "64", "gamma": "4", "learning_rate": "0.05"}),
	Build:  func(t Tables) Model { return &boxEModel{t} },
}

// boxInitial returns the distribution of relations: sizes are uniform in [−1, 1), and others draws
// all other entries.
func boxInitial(others initial.Distribution) initial.Distribution {
	return func(ctx context.Context, s *initial.Source, row []int, values []float32) error {
		if err := others(ctx, s, row, values); err != nil {
			return err
		}
		for i := row[0]; i <= len(values); i += row[0] {
			for k := i - 2; k < i; k++ {
				values[k] = float32(s.Uniform())
			}
		}
		return nil
	}
}

type boxEModel struct{ Tables }

func (m *boxEModel) Tower(kg.Side) Tower {
	psi, phi := BoxE.Words()
	return Tower{Compare: BoxE, Psi: psi * m.config.Dim, Phi: phi * m.config.Dim}
}

// box holds the middle m and the width W of a box in each coordinate, and the numbers from which a
// gradient is computed.
type box struct {
	middle, width, lower, upper, delta []float64
	sigma, mean                        float64 // σ and g
}

func newBox(d int) box {
	f := func() []float64 { return make([]float64, d) }
	return box{middle: f(), width: f(), lower: f(), upper: f(), delta: f()}
}

// leastShape is the least |shape| that enters the geometric mean g.
const leastShape = 0x1p-23

// compute computes the box with the given parameters.
func (b *box) compute(centre, shape []float32, size float32) {
	var logs float64
	for _, v := range shape {
		logs += fmath.Ln(max(math.Abs(float64(v)), leastShape))
	}
	b.mean = exp(logs / float64(len(shape)))
	b.sigma = exp(min(float64(size), 0))
	if size > 0 {
		b.sigma = float64(size) + 1
	}
	for i, v := range shape {
		b.delta[i] = float64(float64(v) / b.mean * b.sigma)
		half := math.Abs(b.delta[i]) / 2
		b.lower[i], b.upper[i] = fmath.Tanh(float64(centre[i])-half), fmath.Tanh(float64(centre[i])+half)
		b.width[i], b.middle[i] = b.upper[i]-b.lower[i], (b.lower[i]+b.upper[i])/2
	}
}

// exp returns eˣ.
func exp(x float64) float64 {
	if x > 0 {
		return 1 / fmath.Exp(-x)
	}
	return fmath.Exp(x)
}

// boxes holds the boxes of a relation: the head box and the tail box.
type boxes struct {
	box      [2]box
	kept     bool
	relation int32
}

func newBoxes(d int) boxes { return boxes{box: [2]box{newBox(d), newBox(d)}} }

// set computes the boxes of relation r unless b holds them.
func (b *boxes) set(m *boxEModel, r int32) {
	if b.kept && b.relation == r {
		return
	}
	b.kept, b.relation = true, r
	b.compute(m.Row(relationTable, r))
}

// compute computes the boxes from a relation's row.
func (b *boxes) compute(row []float32) {
	d := len(b.box[0].width)
	for k := range b.box {
		b.box[k].compute(row[2*k*d:][:d], row[(2*k+1)*d:][:d], row[4*d+k])
	}
}

// boxEdge returns V and κ of a width.
func boxEdge(width float64) (v, kappa float64) {
	v = width + 1
	return v, float64(width / 2 * (v - 1/v))
}

// boxRole returns the half of the anchor's row that is added to the candidates' bumps (part 0) or
// positions (part 1), and the index of the box for the sums. For part 0 of a tail query, these are
// the head's position and the head box.
func boxRole(side kg.Side, part int, anchor []float32) (values []float32, box int) {
	position, bump := halves(anchor)
	if part == 1 {
		position, bump = bump, position
	}
	if side == kg.Head {
		return position, 1 - part
	}
	return position, part
}

// mostBoxExponent bounds the exponents of a and b, which keeps a and b within the range of float32.
// Larger entries are clamped.
const mostBoxExponent = 40

// boxExponential returns exp(2x) with x clamped to ±mostBoxExponent, and whether clamping changed
// x.
func boxExponential(x float32) (e float64, clamped bool) {
	y := max(-mostBoxExponent, min(float64(x), mostBoxExponent))
	return exp(2 * y), y != float64(x)
}

func (m *boxEModel) NewWorker(*kernel.Backend) Worker {
	return OneByOne(&boxEWorker{m, newBoxes(m.config.Dim)})
}

type boxEWorker struct {
	*boxEModel
	boxes boxes // boxes of the most recent relation
}

// Feature writes the exponentials. The size is the number of clamped entries.
func (w *boxEWorker) Feature(_ kg.Side, _, e int32, phi []float32) (size float64) {
	position, bump := halves(w.Row(entityTable, e))
	for i := range position {
		for k, v := range [2]float32{bump[i], position[i]} {
			b, clamped := boxExponential(v)
			phi[2*i+k] = float32(b)
			if clamped {
				size++
			}
		}
	}
	return size
}

func (w *boxEWorker) Query(q kg.Query, psi []float32) Slack {
	w.boxes.set(w.boxEModel, q.Relation)
	d := w.config.Dim
	words := len(psi) / (2 * d) // numbers of a box in a coordinate
	var largest, clamps, most float64
	for part := range 2 {
		values, k := boxRole(q.Side, part, w.Row(entityTable, q.Anchor))
		b := &w.boxes.box[k]
		var squares float64
		for i, x := range values {
			a, clamped := boxExponential(x)
			v, kappa := boxEdge(b.width[i])
			c := 1 - b.middle[i]
			p := psi[(2*i+part)*words:][:words]
			p[0], p[1], p[2], p[3], p[4] = float32(a/2), float32(c), float32(1/v), float32(v), float32(kappa)
			z := v*(math.Abs(c)+2) + kappa
			squares += z * z
			largest = max(largest, v)
			if clamped {
				clamps += 2 * v
			}
		}
		most += math.Sqrt(squares)
	}
	// See docs/models/boxe.md, "Slack".
	constant := (2.25*kernel.U32+gamma(d+40))*most + clamps*fmath.NormSlack
	return Slack{constant, 2 * largest * fmath.NormSlack, 0}
}

func (w *boxEWorker) Reference(q kg.Query, e int32) float64 {
	w.boxes.set(w.boxEModel, q.Relation)
	h, _, t := w.rows(q, e)
	positionH, bumpH := halves(h)
	positionT, bumpT := halves(t)
	return -w.boxes.box[0].distance(positionH, bumpT) - w.boxes.box[1].distance(positionT, bumpH)
}

// distance returns the distance of a bumped position from the box.
func (b *box) distance(position, bump []float32) float64 {
	bump = bump[:len(position)]
	var sum float64
	for i, x := range position {
		from := math.Abs(fmath.Tanh(float64(x)+float64(bump[i])) - b.middle[i])
		v, kappa := boxEdge(b.width[i])
		d := max(from/v, float64(v*from)-kappa)
		sum += float64(d * d)
	}
	return math.Sqrt(sum)
}

// Training uses the printed score. A part of φ holds b of the bumps or of the positions, and a part
// of ψ holds a, m and W of the box that meets them (linalg.RegionBoxes). The gradients with respect
// to a and to φ are the gradients with respect to the exponents α and β. The penalty frobenius of a
// triple is ‖h‖² + ‖r‖² + ‖t‖² of the rows, and n3 is the same with Σ|x|³ in place of ‖·‖².

func (m *boxEModel) Training() Training {
	return regionTraining(linalg.Region{Kind: linalg.RegionBoxes, Coordinates: m.config.Dim})
}

func (m *boxEModel) NewTrainingWorker(b *linalg.Backend, p Penalty) TrainingWorker {
	return &boxETraining{newTableTraining(&m.Tables, b, p), newBoxes(m.config.Dim), make([]float32, 2*m.config.Dim)}
}

// boxETraining adds up the gradients of the boxes. w.sum has the gradients of the middles and the
// widths of the head box, and then of the tail box.
type boxETraining struct {
	tableTraining
	boxes   boxes
	dAnchor []float32 // scratch, because dAnchor may overlap dPsi
}

func (w *boxETraining) Features(phi []float32, e int32) {
	clear(phi)
	position, bump := halves(w.Row(entityTable, e))
	bumps, positions := halves(phi)
	for i := range position {
		b1, _ := boxExponential(bump[i])
		b2, _ := boxExponential(position[i])
		bumps[i], positions[i] = float32(b1), float32(b2)
	}
}

func (w *boxETraining) FeatureGradient(dEntity, dPhi, _ []float32, _ int32) {
	position, bump := halves(dEntity)
	bumps, positions := halves(dPhi)
	copy(bump, bumps)
	copy(position, positions)
}

func (w *boxETraining) Begin(side kg.Side, relation int32) {
	w.tableTraining.Begin(side, relation)
	w.boxes.compute(w.r)
}

func (w *boxETraining) Query(psi, anchor []float32) (c, penalty float64) {
	clear(psi)
	for part := range 2 {
		values, k := boxRole(w.side, part, anchor)
		b := &w.boxes.box[k]
		as, middles, widths := regionPart(psi, part, 2)
		for i, x := range values {
			a, _ := boxExponential(x)
			as[i], middles[i], widths[i] = float32(a/2), float32(b.middle[i]), float32(b.width[i])
		}
	}
	return 0, 0
}

func (w *boxETraining) QueryGradient(dAnchor, dPsi, anchor []float32, _, _ float64) {
	d := len(anchor) / 2
	for part := range 2 {
		_, k := boxRole(w.side, part, anchor)
		values, _ := boxRole(w.side, part, w.dAnchor)
		dMiddle, dWidth := w.sum[2*k*d:][:d], w.sum[(2*k+1)*d:][:d]
		das, dMiddles, dWidths := regionPart(dPsi, part, 2)
		copy(values, das)
		for i := range values {
			dMiddle[i] += dMiddles[i]
			dWidth[i] += dWidths[i]
		}
	}
	copy(dAnchor, w.dAnchor)
}

// End propagates the gradients of the middles and the widths to the relation's row.
func (w *boxETraining) End(dRelation []float32) {
	d := w.config.Dim
	for k := range w.boxes.box {
		b, shape, size := &w.boxes.box[k], w.r[(2*k+1)*d:][:d], w.r[4*d+k]
		dMiddle, dWidth := w.sum[2*k*d:][:d], w.sum[(2*k+1)*d:][:d]
		dCentre, dShape := dRelation[2*k*d:][:d], dRelation[(2*k+1)*d:][:d]
		var dMean, dSigma float64 // with respect to ln g and to σ
		for i, v := range shape {
			middle, width := float64(dMiddle[i]), float64(dWidth[i])
			dLower := float64((middle/2 - width) * (1 - float64(b.lower[i]*b.lower[i])))
			dUpper := float64((middle/2 + width) * (1 - float64(b.upper[i]*b.upper[i])))
			dCentre[i] = float32(dLower + dUpper)
			dDelta := (dUpper - dLower) / 2 * sign(v)
			dShape[i] = float32(dDelta * b.sigma / b.mean)
			dMean -= float64(dDelta * b.delta[i])
			dSigma += float64(dDelta * float64(v) / b.mean)
		}
		for i, v := range shape {
			if math.Abs(float64(v)) > leastShape {
				dShape[i] += float32(dMean / float64(d) / float64(v))
			}
		}
		if size <= 0 {
			dSigma *= b.sigma
		}
		dRelation[4*d+k] = float32(dSigma)
	}
}

// regionTraining returns the description of the training of a model of regions.
func regionTraining(r linalg.Region) Training {
	return Training{
		Width: r.Width(), Psi: 3 * r.Width(), Region: &r, Penalties: []Penalty{NoPenalty, Frobenius, N3},
	}
}

// regionPart returns the three vectors of a part of ψ (linalg.Region).
func regionPart(psi []float32, part, parts int) (p, q, width []float32) {
	n := len(psi) / (3 * parts)
	psi = psi[3*part*n:][:3*n]
	return psi[:n], psi[n : 2*n], psi[2*n:]
}
