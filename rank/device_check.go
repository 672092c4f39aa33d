package rank

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/mquine/mquine/kernel/cuda"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
)

// CheckDevices ranks and predicts for a small graph, by a checkpoint of m's class and width that is made
// here, on each of o.Devices and on the backend, and returns an error if anything differs: what
// docs/numerics.md, section 10, assumes of a card does not hold then, and it must not rank. Most
// candidates lie around a few rows, from half a row to its last bits away from them, so that
// scores differ by as much as any excess of rounding.
func CheckDevices(ctx context.Context, m model.Model, o Options) error {
	if len(o.Devices) == 0 {
		return nil
	}
	p, err := newProbe(m.Config())
	if err != nil {
		return err
	}
	o.Sides, o.Progress, o.FeatureMemory = nil, nil, 0
	devices := o.Devices
	o.Devices = nil
	wantRanks, wantBest, err := p.results(ctx, o)
	if err != nil {
		return err
	}
	for _, d := range devices {
		o.Devices = []*cuda.Device{d}
		ranks, best, err := p.results(ctx, o)
		if err != nil {
			return err
		}
		if !slices.Equal(ranks, wantRanks) || !slices.EqualFunc(best, wantBest, slices.Equal) {
			return fmt.Errorf("GPU %d (%s) ranks a small test graph by %s otherwise than the processor, so its arithmetic is not what this program knows: take the processor with --backend %s",
				d.Index, d.Name, m.Config().Model, o.Backend.Tier)
		}
	}
	return nil
}

// probe is what CheckDevices ranks.
type probe struct {
	graph *kg.Graph
	model model.Model
}

// results are the ranks of the test split and the best candidates of its queries.
func (p *probe) results(ctx context.Context, o Options) ([]Rank, [][]Prediction, error) {
	index, triples := kg.NewIndex(p.graph), p.graph.Splits[kg.Test]
	ranking, err := Run(ctx, p.model, index, triples, o)
	if err != nil {
		return nil, nil, err
	}
	var queries []kg.Query
	for i, t := range triples {
		q, _ := t.Query(kg.Side(i % 2))
		queries = append(queries, q)
	}
	const k = 10
	best, err := Predict(ctx, p.model, index, queries, k, false, o)
	return ranking.Ranks, best, err
}

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
		}
		width := p.Width()
		for e := centres; p.Axis == model.PerEntity && e < entities; e++ {
			row, centre := x[e*width:(e+1)*width], x[e%centres*width:]
			switch e / centres % 8 {
			case 0: // equal
				copy(row, centre)
			case 1: // of another size
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
