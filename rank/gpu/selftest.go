package gpu

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/cuda"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank"
)

// Test ranks and predicts on a small graph with random parameters, on each GPU and on the backend.
// The model has m's configuration, except for the graph; each configuration is tested once. Test
// returns an error if any result differs: the GPU's rounding errors are then larger than
// docs/numerics.md, "GPU screens", assumes, and the GPU must not rank. For a model that GPUs cannot
// rank, the error is an UnsupportedError.
//
// Most candidates lie near one of a few rows of parameters, at distances from half a row to a few
// units in the last place. Score differences of all sizes, down to rounding errors, therefore
// occur.
func (e *Engine) Test(ctx context.Context, m model.Model, backend *kernel.Backend, threads int) error {
	if err := supports(m); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	c := m.Config()
	c.Entities, c.Relations = 0, 0 // newProbe sets them
	kind := fmt.Sprint(c)
	if e.failed != nil || e.untested || e.passed[kind] {
		return e.failed
	}
	p, err := newProbe(c)
	if err != nil {
		return err
	}
	o := rank.Options{Backend: backend, Threads: threads}
	wantRanks, wantBest, err := p.results(ctx, o)
	if err != nil {
		return err
	}
	for _, d := range e.devices {
		one := New(d)
		one.untested = true
		o.Engine = one
		ranks, best, err := p.results(ctx, o)
		if err != nil {
			return err
		}
		if !slices.Equal(ranks, wantRanks) || !slices.EqualFunc(best, wantBest, slices.Equal) {
			return &cuda.DeviceError{Err: fmt.Errorf("%s failed the self-test: its results for model %s "+
				"on a small graph differ from the processor's", one, c.Model)}
		}
	}
	e.passed[kind] = true
	return nil
}

// probe is the graph and the model that Test ranks.
type probe struct {
	graph *kg.Graph
	model model.Model
}

// results returns the ranks of the test split, and the best candidates of its queries.
func (p *probe) results(ctx context.Context, o rank.Options) ([]rank.Rank, [][]rank.Prediction, error) {
	index, err := kg.NewIndex(ctx, p.graph)
	if err != nil {
		return nil, nil, err
	}
	triples := p.graph.Splits[kg.Test]
	ranking, err := rank.Run(ctx, p.model, index, triples, o)
	if err != nil {
		return nil, nil, err
	}
	var queries []kg.Query
	for i, t := range triples {
		q, _ := t.Query(kg.Side(i % 2))
		queries = append(queries, q)
	}
	const k = 10
	best, err := rank.Predict(ctx, p.model, index, queries, rank.Top{K: k}, o)
	return ranking.Ranks, best, err
}

// newProbe returns a probe whose model has the configuration c, except for the graph.
func newProbe(c model.Config) (*probe, error) {
	const (
		entities, relations = 2*cuda.CandidateTile + 44, 3
		triples, ranked     = 400, 48
		centres             = 4
	)
	rng := rand.New(rand.NewPCG(1, 1))
	g := &kg.Graph{Name: "probe", Entities: kg.NewVocabulary(), Relations: kg.NewVocabulary()}
	for e := range entities {
		g.Entities.Add(fmt.Sprint(e))
	}
	for r := range relations {
		g.Relations.Add(fmt.Sprint(r))
	}
	for i := range triples + ranked {
		split := kg.Train
		if i >= triples {
			split = kg.Test
		}
		g.Splits[split] = append(g.Splits[split], kg.Triple{
			Head: rng.Int32N(entities), Relation: rng.Int32N(relations), Tail: rng.Int32N(entities)})
	}
	c.Entities, c.Relations = entities, relations
	parameters, err := model.Parameters(c)
	if err != nil {
		return nil, err
	}
	var tensors [][]float32
	for _, p := range parameters {
		x := make([]float32, p.Len())
		for i := range x {
			x[i] = float32(rng.NormFloat64())
			if p.NonNegative {
				x[i] = max(x[i], -x[i])
			}
		}
		width := p.Width()
		for e := centres; p.Axis == model.PerEntity && e < entities; e++ {
			row, centre := x[e*width:(e+1)*width], x[e%centres*width:]
			switch e / centres % 8 {
			case 0: // equal
				copy(row, centre)
			case 1: // a multiple of the row
				scale := math.Ldexp(1, rng.IntN(13)-6)
				for i := range row {
					row[i] *= float32(scale)
				}
			default:
				away := math.Exp2(-1 - 23*rng.Float64())
				for i := range row {
					row[i] = centre[i] + float32(away*float64(row[i]))
				}
			}
		}
		tensors = append(tensors, x)
	}
	m, err := model.New(c, tensors)
	return &probe{g, m}, err
}
