package ownmodel_test

import (
	"context"
	"fmt"
	"log"
	"math"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/synth"
	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/initial"
	"github.com/mquine/mquine/rank"
	"github.com/mquine/mquine/train"
	"github.com/mquine/mquine/train/recipe"
)

// diagonal is DistMult, declared with exported names only. Its score is Σ h_i r_i t_i.
//
// The reference score is computed in float64, as the sum of (h_i r_i) t_i in the order of i. The first
// product is exact. The second product and every addition are rounded.
var diagonal = &model.Spec{
	Name: "diagonal", Score: "Σ h_i r_i t_i", MaxDim: 1 << 15,
	Tensors: func(c model.Config) []model.Parameter {
		row, normal := []int{c.Dim}, initial.Normal(0.1)
		return []model.Parameter{
			{Name: "entity", Axis: model.PerEntity, Row: row, Initial: normal},
			{Name: "relation", Axis: model.PerRelation, Row: row, Initial: normal},
		}
	},
	Recipe: map[string]string{"dim": "16", "batch": "64", "epochs": "12"},
	Build:  func(t model.Tables) model.Model { return &diagonalModel{t} },
}

func init() { model.Register(diagonal) }

// The indexes of the parameters in diagonal.Tensors.
const (
	entities = iota
	relations
)

// diagonalModel needs no scratch memory, so it is its own worker.
type diagonalModel struct{ model.Tables }

func (m *diagonalModel) Tower(kg.Side) model.Tower {
	d := m.Config().Dim
	return model.Tower{Compare: model.Dot, Psi: d, Phi: d}
}

func (m *diagonalModel) NewWorker(*kernel.Backend) model.Worker { return model.OneByOne(m) }

// outward is a factor that makes a computed norm an upper bound.
const outward = 1 + 1e-9

func (m *diagonalModel) Feature(_ kg.Side, _, e int32, phi []float32) (size float64) {
	var squares float64
	for i, x := range m.Row(entities, e) {
		phi[i] = x
		squares += float64(x) * float64(x)
	}
	return math.Sqrt(squares) * outward
}

// Query returns a slack that covers d roundings of each term of the reference score. One more
// rounding covers the computation of the bound.
func (m *diagonalModel) Query(q kg.Query, psi []float32) model.Slack {
	r := m.Row(relations, q.Relation)
	var squares float64
	for i, a := range m.Row(entities, q.Anchor) {
		v := float64(a) * float64(r[i])
		psi[i] = float32(v)
		squares += v * v
	}
	return model.Slack{0, kernel.Gamma(len(r)+1, kernel.U64) * math.Sqrt(squares) * outward, 0}
}

func (m *diagonalModel) Reference(q kg.Query, e int32) float64 {
	h, t := m.Row(entities, q.Anchor), m.Row(entities, e)
	if q.Side == kg.Head {
		h, t = t, h
	}
	var sum float64
	for i, r := range m.Row(relations, q.Relation) {
		sum += float64(float64(h[i]) * float64(r) * float64(t[i]))
	}
	return sum
}

func (m *diagonalModel) Training() model.Training {
	return model.Training{Width: m.Config().Dim, EntityRows: true, Penalties: []model.Penalty{model.NoPenalty}}
}

func (m *diagonalModel) NewTrainingWorker(*linalg.Backend, model.Penalty) model.TrainingWorker {
	return &diagonalTraining{diagonalModel: m, sum: make([]float32, m.Config().Dim)}
}

// diagonalTraining computes ψ = a∘r and φ = e, and their gradients.
type diagonalTraining struct {
	*diagonalModel
	r   []float32
	sum []float32 // sum of the relation's gradients
}

func (w *diagonalTraining) Features(phi []float32, e int32) { copy(phi, w.Row(entities, e)) }

func (w *diagonalTraining) FeatureGradient(dEntity, dPhi, _ []float32, _ int32) { copy(dEntity, dPhi) }

func (w *diagonalTraining) Begin(_ kg.Side, relation int32) {
	w.r = w.Row(relations, relation)
	clear(w.sum)
}

func (w *diagonalTraining) Query(psi, anchor []float32) (c, penalty float64) {
	for i, a := range anchor {
		psi[i] = a * w.r[i]
	}
	return 0, 0
}

func (w *diagonalTraining) QueryGradient(dAnchor, dPsi, anchor []float32, _, _ float64) {
	for i, a := range anchor {
		g := dPsi[i] // dAnchor may share memory with dPsi
		w.sum[i] += float32(g * a)
		dAnchor[i] = g * w.r[i]
	}
}

func (w *diagonalTraining) End(dRelation []float32) { copy(dRelation, w.sum) }

func (w *diagonalTraining) EntityPenalty([]float32, int32, float64) float64 { return 0 }

func (w *diagonalTraining) RelationPenalty([]float32, int32, float64) float64 { return 0 }

// Train and rank a model that is not part of package model, as a program in a different module does.
func Example() {
	ctx := context.Background()
	g, _, err := synth.Families(ctx, synth.Config{Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	backend, err := kernel.New()
	if err != nil {
		log.Fatal(err)
	}
	options, err := recipe.DefaultFor("diagonal")
	if err != nil {
		log.Fatal(err)
	}
	trainer, err := train.NewTrainer(ctx, options, g, train.Machine{Backend: backend, Threads: 1})
	if err != nil {
		log.Fatal(err)
	}
	for trainer.Done() < options.Epochs {
		if _, err := trainer.Epoch(ctx); err != nil {
			log.Fatal(err)
		}
	}
	index, err := kg.NewIndex(ctx, g)
	if err != nil {
		log.Fatal(err)
	}
	ranking, err := rank.Run(ctx, trainer.Model(), index, g.Splits[kg.Test], rank.Options{})
	if err != nil {
		log.Fatal(err)
	}
	result := metrics.Measure(ranking.Ranks, rank.BothSides, rank.All, rank.Realistic, []int{10})
	fmt.Printf("%d queries, MRR %.1f\n", result.N, float64(result.MRR))
	// Output: 388 queries, MRR 0.6
}
