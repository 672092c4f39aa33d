package bench

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/ceiling"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/train"
)

// dims are the sizes at which the models are measured: those that the MQuinE paper gives matrices
// for FB15k-237, and vectors of about as many entries.
var dims = map[string]int{
	"mquine": 38, "mquade": 38, "transe-l1": 1000, "transe-l2": 1000, "distmult": 1000, "complex": 500, "rotate": 500, "protate": 500,
}

// towers measures what a model does for one entity, one query and one reference score. The flops
// are those of the matrix products and norms; vector models have none to speak of. The bytes
// are the entity's parameters and the vector written; those of the relation stay in the caches.
func towers(s *suite) []Benchmark {
	const entities, relations = 4096, 16
	var list []Benchmark
	for _, backend := range s.backends {
		for _, m := range model.Names() {
			d := dims[m]
			if d == 0 {
				d = 100
			}
			for _, part := range []string{"Features", "Query", "Reference"} {
				list = append(list, Benchmark{
					Name:  name(part, "tier", backend.Tier, "model", m, "dim", d),
					Quick: m == "mquine" && s.best(backend),
					run: func(ctx context.Context, b *testing.B) error {
						trained, err := train.Random(ctx, model.Config{Model: m, Dim: d, Entities: entities, Relations: relations}, 1)
						if err != nil {
							return err
						}
						tower(part, trained, backend).measure(b)
						return nil
					},
				})
			}
		}
	}
	return list
}

func tower(part string, m model.Model, backend *kernel.Backend) operation {
	c := m.Config()
	worker := m.NewWorker(backend)
	rng := rand.New(rand.NewPCG(1, 1))
	triples := make([]kg.Triple, 4096)
	for i := range triples { // of one relation, as a ranking has them
		triples[i] = kg.Triple{Head: rng.Int32N(int32(c.Entities)), Tail: rng.Int32N(int32(c.Entities))}
	}
	width := m.Tower(kg.Tail).Width
	vector := kernel.AlignedFloat32(width)
	cube := float64(c.Dim * c.Dim * c.Dim)
	var o operation
	at := 0
	next := func() kg.Triple {
		at = (at + 1) % len(triples)
		return triples[at]
	}
	var products map[string]float64 // of matrices, in d³ operations
	switch part {
	case "Features":
		products = map[string]float64{"mquine": 1, "mquade": 1}
		o.call = func() { worker.Features(kg.Tail, 0, next().Tail, vector) }
		o.bytes = float64(4 * (len(m.EntityRow(0)) + width))
		o.others = map[string]float64{"entities/s": 1}
	case "Query":
		products = map[string]float64{"mquine": 7, "mquade": 5}
		o.call = func() {
			q, _ := next().Query(kg.Tail)
			worker.Query(q, vector)
		}
		o.bytes = float64(4 * (len(m.EntityRow(0)) + width))
		o.others = map[string]float64{"queries/s": 1}
	default:
		products = map[string]float64{"mquine": 4, "mquade": 2}
		q, _ := triples[0].Query(kg.Tail)
		o.call = func() { worker.Reference(q, next().Tail) }
		o.bytes = float64(4 * len(m.EntityRow(0)))
		o.others = map[string]float64{"scores/s": 1}
	}
	o.flops = products[c.Model] * cube
	if o.flops > 0 {
		limit := ceiling.FMA64(backend)
		if part == "Reference" {
			limit = ceiling.MulAdd64(backend)
		}
		o.limits = []share{{"pct-peak", o.flops, newLimit(limit)}}
	}
	return o
}
