package model

import (
	"errors"
	"fmt"
	"math"

	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
)

// An ensemble scores a triple with the weighted sum of the scores of its members. It ranks like any
// model, because the sum of dot products is one dot product: of the query vectors w₁ψ₁, w₂ψ₂, …,
// joined, with the feature vectors φ₁, φ₂, …, joined (docs/models/ensemble.md).
//
// The reference score, in float64, is the chain of w_i f_i over the members in order, where f_i is
// the member's reference score. Every product and sum is rounded.

// Member is a model of an ensemble.
type Member struct {
	Model Model
	// Weight is the factor of the member's score. It is finite and not negative.
	Weight float64
	// Entities[e] and Relations[r] are the member's identifiers of entity e and relation r of the
	// ensemble. Each identifier occurs once. Nil means the same identifiers.
	Entities, Relations []int32
}

// EnsembleName is the name of an ensemble in its Config. It is not registered.
const EnsembleName = "ensemble"

// NewEnsemble returns a model whose reference score is the weighted sum of the members' reference
// scores, in the given order. The members must compare by dot product. All must have as many
// entities and relations as the first, and their lists of identifiers must contain each identifier
// once. NewEnsemble keeps these lists; do not modify them.
func NewEnsemble(members []Member) (Model, error) {
	if len(members) == 0 {
		return nil, errors.New("an ensemble needs at least one model")
	}
	for i, m := range members {
		if m.Model == nil {
			return nil, fmt.Errorf("model %d of the ensemble is nil: give each member a model", i+1)
		}
	}
	e := &ensemble{}
	first := members[0].Model.Config()
	e.config = Config{Model: EnsembleName, Entities: first.Entities, Relations: first.Relations}
	for i, m := range members {
		c := m.Model.Config()
		for _, side := range []kg.Side{kg.Tail, kg.Head} {
			if t := m.Model.Tower(side); t.Compare != Dot {
				return nil, fmt.Errorf("model %d of the ensemble, %s, uses comparison %s: an ensemble needs models "+
					"with dot products, such as mquine, complex or tucker", i+1, c.Model, t.Compare)
			}
		}
		if c.Entities != first.Entities || c.Relations != first.Relations {
			return nil, fmt.Errorf("model %d of the ensemble, %s, has %d entities and %d relations, but the first has "+
				"%d and %d: an ensemble needs models of one data set",
				i+1, c.Model, c.Entities, c.Relations, first.Entities, first.Relations)
		}
		for _, list := range []struct {
			of    string
			ids   []int32
			given int
		}{{"entities", m.Entities, c.Entities}, {"relations", m.Relations, c.Relations}} {
			if list.ids != nil && !isPermutation(list.ids, list.given) {
				return nil, fmt.Errorf("model %d of the ensemble, %s, has %d %s, but its list of %d identifiers does "+
					"not contain each of them once", i+1, c.Model, list.given, list.of, len(list.ids))
			}
		}
		if !(m.Weight >= 0) || math.IsInf(m.Weight, 0) {
			return nil, fmt.Errorf("model %d of the ensemble, %s, has the weight %v: it must be finite and "+
				"not negative", i+1, c.Model, m.Weight)
		}
		if m.Weight > 0 { // others do not change the sum
			e.members = append(e.members, m)
			e.config.Dim += c.Dim
		}
	}
	if e.members == nil {
		return nil, errors.New("all weights of the ensemble are 0: one must be positive")
	}
	return e, nil
}

// isPermutation reports whether ids contains every number from 0 to n − 1 once.
func isPermutation(ids []int32, n int) bool {
	seen := make([]bool, n)
	for _, id := range ids {
		if id < 0 || int(id) >= n || seen[id] {
			return false
		}
		seen[id] = true
	}
	return len(ids) == n
}

type ensemble struct {
	members []Member
	config  Config
}

func (m *ensemble) Config() Config { return m.config }

func (m *ensemble) Tensors() (all [][]float32) {
	for _, part := range m.members {
		all = append(all, part.Model.Tensors()...)
	}
	return all
}

func (m *ensemble) SameEntity(a, b int32) bool {
	for _, part := range m.members {
		if !part.Model.SameEntity(part.entity(a), part.entity(b)) {
			return false
		}
	}
	return true
}

func (m *ensemble) HashEntity(e int32) (h uint64) {
	for _, part := range m.members {
		h = (h ^ part.Model.HashEntity(part.entity(e))) * 0x9e3779b97f4a7c15
	}
	return h
}

// Score returns the weighted sum itself, without the margins and clamps of the members.
func (m *ensemble) Score(reference float64) float64 { return reference }

func (m *ensemble) Tower(side kg.Side) Tower {
	sum := Tower{Compare: Dot}
	for _, part := range m.members {
		t := part.Model.Tower(side)
		sum.Psi += t.Psi
		sum.Phi += t.Phi
		sum.Features |= t.Features
		if part.Model.Tower(kg.Tail) != part.Model.Tower(kg.Head) { // the sums may still be equal
			sum.Features |= OnSide
		}
	}
	return sum
}

func (m *ensemble) NewWorker(b *kernel.Backend) Worker {
	w := newEnsembleWorker(m.members, b)
	return &w
}

func newEnsembleWorker(members []Member, b *kernel.Backend) (w ensembleWorker) {
	for _, part := range members {
		widest := max(part.Model.Tower(kg.Tail).Phi, part.Model.Tower(kg.Head).Phi)
		w.members = append(w.members, memberWorker{
			Member: part, worker: part.Model.NewWorker(b), base: make([]float32, widest),
		})
	}
	return w
}

// entity returns the member's identifier of an entity of the ensemble.
func (m *Member) entity(e int32) int32 {
	if m.Entities == nil {
		return e
	}
	return m.Entities[e]
}

// relation is like entity for relations.
func (m *Member) relation(r int32) int32 {
	if m.Relations == nil {
		return r
	}
	return m.Relations[r]
}

type ensembleWorker struct {
	members []memberWorker
}

// memberWorker computes a member's part of the vectors.
type memberWorker struct {
	Member
	worker   Worker
	base     []float32 // φ of baseEntity
	entities []int32   // the member's identifiers
	sizes    []float64
	slacks   []Slack
}

// identify returns the member's identifiers of entities of the ensemble. The result is valid until
// the next call.
func (w *memberWorker) identify(entities []int32) []int32 {
	w.entities = w.entities[:0]
	for _, e := range entities {
		w.entities = append(w.entities, w.entity(e))
	}
	return w.entities
}

// columns returns the given columns of rows.
func columns(rows Rows, from, to int) Rows {
	return Rows{Values: rows.Values[from:], Width: to - from, Stride: rows.Stride}
}

// Features writes the members' φ one after another. The size is the maximum over the members' sizes
// and the norms of their φ before the rounding to float32.
func (w *ensembleWorker) Features(side kg.Side, relation int32, entities []int32, phi Rows, sizes []float64) {
	clear(sizes[:len(entities)])
	from := 0
	for i := range w.members {
		m := &w.members[i]
		m.sizes = grow(m.sizes, len(entities))
		to := from + m.Model.Tower(side).Phi
		part := columns(phi, from, to)
		m.worker.Features(side, m.relation(relation), m.identify(entities), part, m.sizes)
		for k := range entities {
			sizes[k] = max(sizes[k], m.sizes[k], beforeRounding(part.Row(k)))
		}
		from = to
	}
}

// beforeRounding returns an upper bound on the norm of a vector before its rounding to float32.
func beforeRounding(x []float32) float64 {
	return fmath.Norm(x)*(1+2*kernel.U32) + tiny32*math.Sqrt(float64(len(x)))
}

// tiny32 is twice the largest change of a number near zero by rounding to float32.
const tiny32 = 0x1p-149

// baseEntity is a candidate. addSlack uses its reference score to bound the reference scores of all
// other candidates.
const baseEntity = 0

// Queries writes the members' w ψ one after another.
func (w *ensembleWorker) Queries(side kg.Side, relation int32, anchors []int32, psi Rows, slacks []Slack) {
	w.begin(slacks[:len(anchors)])
	from := 0
	for i := range w.members {
		m := &w.members[i]
		to := from + m.Model.Tower(side).Psi
		w.queries(m, side, relation, anchors, columns(psi, from, to), slacks)
		from = to
	}
}

// begin sets slacks to the share that does not depend on the members' queries: products that
// underflow.
func (w *ensembleWorker) begin(slacks []Slack) {
	for k := range slacks {
		slacks[k] = Slack{float64(len(w.members)) * 2 * math.SmallestNonzeroFloat64}
	}
}

// queries writes the w ψ of a member to the rows of part, and adds the member's share to slacks.
func (w *ensembleWorker) queries(
	m *memberWorker, side kg.Side, relation int32, anchors []int32, part Rows, slacks []Slack,
) {
	r := m.relation(relation)
	m.slacks = grow(m.slacks, len(anchors))
	m.worker.Queries(side, r, m.identify(anchors), part, m.slacks)
	base := m.measure(side, r)
	for k, anchor := range anchors {
		q := kg.Query{Side: side, Relation: r, Anchor: m.entity(anchor)}
		score := m.worker.Reference(q, m.entity(baseEntity))
		m.addSlack(&slacks[k], m.slacks[k], part.Row(k), score, base, len(w.members))
	}
}

// measured holds the size of the base entity and the norm of its φ.
type measured struct{ size, norm float64 }

func (m *memberWorker) measure(side kg.Side, relation int32) measured {
	m.sizes = grow(m.sizes, 1)
	phi := m.base[:m.Model.Tower(side).Phi]
	m.entities = append(m.entities[:0], m.entity(baseEntity))
	m.worker.Features(side, relation, m.entities, Rows{Values: phi, Width: len(phi), Stride: len(phi)}, m.sizes[:1])
	return measured{m.sizes[0], beforeRounding(phi)}
}

// addSlack multiplies ψ by the weight and adds the member's share to the slack of the ensemble
// (docs/models/ensemble.md, "Slack").
func (m *memberWorker) addSlack(sum *Slack, own Slack, psi []float32, score float64, base measured, members int) {
	norm := beforeRounding(psi)
	var squares float64 // squared changes by rounding
	for i, v := range psi {
		scaled, change := round(m.Weight * float64(v))
		psi[i] = scaled
		squares += change * change
	}
	changes := math.Sqrt(squares)*(1+2*kernel.U32) +
		m.Weight*(2*kernel.U64*norm+tiny32*math.Sqrt(float64(len(psi))))
	g := gamma(members+1) * m.Weight
	for k, v := range own {
		sum[k] += (m.Weight + g) * v * fmath.NormSlack
	}
	sum[0] += g * (math.Abs(score) + norm*base.norm + own.At(base.size)) * fmath.NormSlack
	sum[1] += (g*norm + changes) * fmath.NormSlack
}

// Reference returns the weighted sum of the members' reference scores.
func (w *ensembleWorker) Reference(q kg.Query, e int32) (sum float64) {
	for i := range w.members {
		m := &w.members[i]
		own := kg.Query{Side: q.Side, Relation: m.relation(q.Relation), Anchor: m.entity(q.Anchor)}
		sum += float64(m.Weight * m.worker.Reference(own, m.entity(e)))
	}
	return sum
}

// grow returns a slice of n elements, which reuses the memory of x if it is large enough.
func grow[T any](x []T, n int) []T {
	if cap(x) < n {
		return make([]T, n)
	}
	return x[:n]
}
