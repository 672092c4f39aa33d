package train

import (
	"context"
	"math"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/initial"
)

// entitySpread is the distance of an entity from the centre of its group, as a multiple of the
// centre's norm.
const entitySpread = 0.3

// The schedules are the same for every graph: the groups are few, and each is in many triples.
var (
	clusteredSchedule = schedule{steps: 100, batch: 512, rate: 0.02} // of matrices
	tableSchedule     = schedule{steps: 400, batch: 512, rate: 0.05}
)

// Clustered makes parameters for measurements of speed, which rank true answers about as a trained
// model does: well, with many close candidates. They prove nothing about a model's quality, because
// they are fitted to all splits, test included.
//
// The entities are put into about √N groups: the planted ones of a synth.Zipf graph, else groups of
// entities with similar roles and neighbours. The centres of the groups and the relations are
// fitted to the triples between the groups, and each entity lies in a random direction from its
// group's centre at 30% of the centre's norm. The phases of pRotatE's entities instead differ from
// those of the centre by a normal deviation of 5% of the circle.
//
// MQuinE and MQuadE are fitted as they are. The others are fitted in at most 32 coordinates, which
// are then repeated up to the model's dimension and scaled so that scores keep their size.
func Clustered(ctx context.Context, cfg model.Config, g *kg.Graph, o Options) (model.Model, error) {
	cfg = withRange(cfg)
	if err := o.check(cfg, g); err != nil {
		return nil, err
	}
	needs, err := clusteredMemory(cfg, g)
	if err != nil {
		return nil, err
	}
	if err := checkInitial(cfg, needs); err != nil {
		return nil, err
	}
	groups, count, err := groupEntities(ctx, g, o.Seed)
	if err != nil {
		return nil, err
	}
	var triples []kg.Triple
	err = eachTriple(ctx, g, func(t kg.Triple) {
		triples = append(triples, kg.Triple{Head: groups[t.Head], Relation: t.Relation, Tail: groups[t.Tail]})
	})
	if err != nil {
		return nil, err
	}
	if isMatrixModel(cfg.Model) {
		return clusteredMatrices(ctx, cfg, groups, count, triples, o)
	}
	return clusteredTables(ctx, cfg, groups, count, triples, o)
}

// clusteredMatrices fits MQuinE or MQuadE.
func clusteredMatrices(ctx context.Context, cfg model.Config, groups []int32, count int, triples []kg.Triple, o Options) (model.Model, error) {
	centres := cfg
	centres.Entities = count
	m, err := random(ctx, centres, o.Seed)
	if err != nil {
		return nil, err
	}
	if err := fit(ctx, m, triples, clusteredSchedule, o); err != nil {
		return nil, err
	}
	tensors := append([][]float32{nil}, m.Tensors()[1:]...)
	width := model.Triangle(cfg.Dim)
	tensors[0] = make([]float32, cfg.Entities*width)
	err = kernel.Parallel(ctx, o.Threads, cfg.Entities, func(_, e int) {
		n := initial.NewSource(o.Seed, streamEntities+uint64(e))
		scatter(tensors[0][e*width:(e+1)*width], m.EntityRow(groups[e]), cfg.Dim, n)
	})
	if err != nil {
		return nil, err
	}
	return model.New(cfg, tensors)
}

// scatter writes to out an entity in a random direction from centre, both the packed triangles of
// A with E = A + Aᵀ, and directions and norms those of E.
func scatter(out, centre []float32, d int, n *initial.Source) {
	// All directions are equally likely if entries off the diagonal, of which E has two each, have
	// half of the variance of E_ii = 2A_ii.
	at := 0
	for i := range d {
		for range i {
			out[at] = float32(math.Sqrt2 * n.Normal())
			at++
		}
		out[at] = float32(n.Normal())
		at++
	}
	scale := entitySpread * packedNorm(centre, d) / packedNorm(out, d)
	for i, c := range centre {
		out[i] = c + float32(scale*float64(out[i]))
	}
}

// packedNorm returns ‖A + Aᵀ‖_F.
func packedNorm(a []float32, d int) float64 {
	var sum float64
	at := 0
	for i := range d {
		for j := range i + 1 {
			v := float64(a[at])
			if j == i {
				sum += float64(4 * v * v)
			} else {
				sum += float64(2 * v * v)
			}
			at++
		}
	}
	return math.Sqrt(sum)
}
