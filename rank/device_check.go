package rank

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/mquine/mquine/kernel/cuda"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
)

// CheckDevices ranks a small graph by a checkpoint of m's class, made here, on each of o.Devices and on the
// backend, and returns an error if an integer differs: what docs/numerics.md, section 10, assumes of a
// card does not hold then, and it must not rank. Among the candidates are equal ones, ones that differ in the
// last bits, and of every size from 2⁻⁶ to 2⁶.
func CheckDevices(ctx context.Context, m model.Model, o Options) error {
	small, err := probe(m.Config())
	if err != nil {
		return err
	}
	index := kg.NewIndex(small.graph)
	o.Sides, o.Progress, o.FeatureMemory = nil, nil, 0
	devices := o.Devices
	rankOn := func(devices ...*cuda.Device) (*Ranking, error) {
		o.Devices = devices
		return Run(ctx, small.model, index, small.graph.Splits[kg.Test], o)
	}
	want, err := rankOn()
	if err != nil {
		return err
	}
	for _, d := range devices {
		got, err := rankOn(d)
		if err != nil {
			return err
		}
		if !slices.Equal(got.Ranks, want.Ranks) {
			return fmt.Errorf("GPU %d (%s) ranks a small test graph by %s otherwise than the processor, so its arithmetic is not what this program knows: take the processor with --backend %s",
				d.Index, d.Name, m.Config().Model, o.Backend.Tier)
		}
	}
	return nil
}

// probed is what CheckDevices ranks.
type probed struct {
	graph *kg.Graph
	model model.Model
}

func probe(c model.Config) (p probed, err error) {
	const (
		entities, relations = 2*cuda.CandidateTile + 44, 3
		triples, ranked     = 400, 48
	)
	rng := rand.New(rand.NewPCG(1, 1))
	p.graph = &kg.Graph{Name: "probe", Entities: kg.NewVocabulary(), Relations: kg.NewVocabulary()}
	for e := range entities {
		p.graph.Entities.Add(fmt.Sprint(e))
	}
	for r := range relations {
		p.graph.Relations.Add(fmt.Sprint(r))
	}
	for i := range triples + ranked {
		split := kg.Train
		if i >= triples {
			split = kg.Test
		}
		p.graph.Splits[split] = append(p.graph.Splits[split], kg.Triple{
			Head: rng.Int32N(entities), Relation: rng.Int32N(relations), Tail: rng.Int32N(entities)})
	}
	c.Entities, c.Relations = entities, relations
	shapes, err := model.Shapes(c)
	if err != nil {
		return p, err
	}
	var tensors [][]float32
	for _, s := range shapes {
		rows := s.Dims[0]
		x := make([]float32, s.Len())
		width := len(x) / rows
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		for e := entities / 4; rows == entities && e < entities; e++ {
			row, like := x[e*width:(e+1)*width], x[e%(entities/4)*width:]
			switch e % 4 {
			case 0: // equal
				copy(row, like)
			case 1: // in nearly all bits
				for i := range row {
					row[i] = like[i] * (1 + float32(rng.IntN(5)-2)*0x1p-22)
				}
			case 2:
				for i := range row {
					row[i] *= float32(int(1)<<rng.IntN(13)) / 64
				}
			}
		}
		tensors = append(tensors, x)
	}
	p.model, err = model.New(c, tensors)
	return p, err
}
