package bench

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/ceiling"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/train"
)

// dimOf returns the dimension at which a model is measured. For MQuinE and MQuadE, it is the MQuinE
// paper's dimension on FB15k-237. For TuckER and ConvE, it is the dimension that their authors
// used. For other models, it is the largest dimension with which an entity has at most 1,000
// parameters.
func dimOf(name string) int {
	switch name {
	case "mquine", "mquade":
		return 38
	case "tucker", "conve": // the authors' dimension
		return 200
	}
	d := 1
	for entityWidth(name, d+1) <= 1000 {
		d++
	}
	return d
}

// entityWidth returns the number of parameters of one entity, or math.MaxInt if d is not valid.
func entityWidth(name string, d int) int {
	spec, err := model.Lookup(name)
	if err != nil {
		panic(err)
	}
	parameters, err := spec.Parameters(spec.Initial(model.Config{Model: name, Dim: d, Entities: 1, Relations: 1}))
	if err != nil {
		return math.MaxInt
	}
	width := 0
	for _, p := range parameters {
		if p.Axis == model.PerEntity {
			width += p.Width()
		}
	}
	return width
}

// towers measures a model's work for one entity, one query and one reference score. GFLOP/s counts
// matrix products and is reported only for MQuinE and MQuadE. GB/s counts the entity's parameters
// and the vector that is written, but not the relation's parameters, which stay in the caches.
func towers(s *suite) []Benchmark {
	const entities, relations = 4096, 16
	var list []Benchmark
	for _, backend := range s.backends {
		for _, m := range model.Names() {
			d := dimOf(m)
			for _, part := range []string{"Features", "Query", "Reference"} {
				list = append(list, Benchmark{
					Name:  name(part, "tier", backend.Tier, "model", m, "dim", d),
					Quick: m == "mquine" && s.best(backend),
					run: func(ctx context.Context, b *testing.B) error {
						c := model.Config{Model: m, Dim: d, Entities: entities, Relations: relations}
						random, err := train.Random(ctx, c, 1)
						if err != nil {
							return err
						}
						tower(part, random, backend).measure(b)
						return nil
					},
				})
			}
		}
	}
	return list
}

// vectorOf returns a zero row of the given width.
func vectorOf(width int) model.Rows {
	return model.Rows{Values: kernel.AlignedFloat32(width), Width: width, Stride: width}
}

// tower returns the operation that measures a part: Features, Query or Reference.
func tower(part string, m model.Model, backend *kernel.Backend) operation {
	c := m.Config()
	worker := m.NewWorker(backend)
	rng := rand.New(rand.NewPCG(1, 1))
	triples := make([]kg.Triple, 4096)
	for i := range triples { // all of one relation, as in a ranking
		triples[i] = kg.Triple{Head: rng.Int32N(int32(c.Entities)), Tail: rng.Int32N(int32(c.Entities))}
	}
	tower := m.Tower(kg.Tail)
	psi, phi := vectorOf(tower.Psi), vectorOf(tower.Phi)
	one, sizes, slacks := make([]int32, 1), make([]float64, 1), make([]model.Slack, 1)
	row := entityWidth(c.Model, c.Dim)
	cube := float64(c.Dim * c.Dim * c.Dim)
	var o operation
	at := 0
	next := func() kg.Triple {
		at = (at + 1) % len(triples)
		return triples[at]
	}
	var products map[string]float64 // floating-point operations of the matrix products, in units of d³
	switch part {
	case "Features":
		products = map[string]float64{"mquine": 1, "mquade": 1}
		o.call = func() {
			one[0] = next().Tail
			worker.Features(kg.Tail, 0, one, phi, sizes)
		}
		o.bytes = float64(4 * (row + tower.Phi))
		o.others = map[string]float64{"entities/s": 1}
	case "Query":
		products = map[string]float64{"mquine": 7, "mquade": 5}
		o.call = func() {
			one[0] = next().Head
			worker.Queries(kg.Tail, 0, one, psi, slacks)
		}
		o.bytes = float64(4 * (row + tower.Psi))
		o.others = map[string]float64{"queries/s": 1}
	default:
		products = map[string]float64{"mquine": 4, "mquade": 2}
		q, _ := triples[0].Query(kg.Tail)
		o.call = func() { worker.Reference(q, next().Tail) }
		o.bytes = float64(4 * row)
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
