package train

import (
	"context"
	"math"

	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/initial"
)

const (
	// fittedWidth is the number of coordinates that are fitted, two for each complex number.
	fittedWidth = 32
	// phaseSpread is the standard deviation of the phases from those of their centre, as a part of
	// the circle.
	phaseSpread = 0.05
)

// clusteredTables fits a model with one row for each entity and one for each relation.
func clusteredTables(ctx context.Context, cfg model.Config, groups []int32, count int, triples []kg.Triple, o Options) (model.Model, error) {
	f := forms[cfg.Model]
	centres := cfg
	centres.Entities = count
	centres.Dim = min(cfg.Dim, fittedWidth)
	if f.complexEntities {
		centres.Dim = min(cfg.Dim, fittedWidth/2)
	}
	centres.EmbeddingRange = 1 // the largest of the numbers that the fit begins with
	m, err := random(ctx, centres, o.Seed)
	if err != nil {
		return nil, err
	}
	if err := fit(ctx, m, triples, tableSchedule, o); err != nil {
		return nil, err
	}

	// Scores are sums over the coordinates.
	scale := 1.0
	if f.power > 0 {
		scale = root(float64(centres.Dim)/float64(cfg.Dim), f.power)
	}
	// A phase is not scaled, but the number that stands for half a turn is another.
	entity, relation := scale, scale
	if f.entityPhases {
		entity = cfg.EmbeddingRange
	}
	if f.relationPhases {
		relation = cfg.EmbeddingRange
	}
	parameters, err := model.Parameters(cfg)
	if err != nil {
		return nil, err
	}
	tensors := [][]float32{make([]float32, parameters[0].Len()), make([]float32, parameters[1].Len())}
	fitted := m.Tensors()[1]
	err = kernel.Parallel(ctx, o.Threads, cfg.Relations, func(_, r int) {
		repeat(rowOf(tensors[1], cfg.Relations, r), rowOf(fitted, cfg.Relations, r), cfg.Dim, centres.Dim, relation)
	})
	if err != nil {
		return nil, err
	}
	steps := matrix(o.Threads, len(tensors[0])/cfg.Entities)
	err = kernel.Parallel(ctx, o.Threads, cfg.Entities, func(w, e int) {
		row := rowOf(tensors[0], cfg.Entities, e)
		repeat(row, m.EntityRow(groups[e]), cfg.Dim, centres.Dim, entity)
		n := initial.NewSource(o.Seed, streamEntities+uint64(e))
		if f.entityPhases {
			scatterPhases(row, cfg.EmbeddingRange, n)
		} else {
			scatterRow(row, steps[w], n)
		}
	})
	if err != nil {
		return nil, err
	}
	return model.New(cfg, tensors)
}

// rowOf returns row i of a tensor of n rows.
func rowOf(tensor []float32, n, i int) []float32 {
	width := len(tensor) / n
	return tensor[i*width : (i+1)*width]
}

// root returns the root of x ∈ (0, 1] of order n ∈ {1, 2, 3}.
func root(x float64, n int) float64 {
	switch n {
	case 2:
		return math.Sqrt(x)
	case 3:
		return exp(fmath.Ln(x) / 3)
	}
	return x
}

// repeat fills the rows of d numbers that out is made of with those of width numbers that centre
// is made of, over and over, times scale.
func repeat(out, centre []float32, d, width int, scale float64) {
	for part := range len(out) / d {
		from := centre[part*width : (part+1)*width]
		for i := range d {
			out[part*d+i] = float32(scale * float64(from[i%width]))
		}
	}
}

// scatterRow moves row in a random direction, which it writes to step, by a part of its norm.
func scatterRow(row []float32, step []float64, n *initial.Source) {
	var norm, length float64
	for i, x := range row {
		step[i] = n.Normal()
		norm += float64(float64(x) * float64(x))
		length += float64(step[i] * step[i])
	}
	scale := entitySpread * math.Sqrt(norm/length)
	for i, x := range row {
		row[i] = float32(float64(x) + float64(scale*step[i]))
	}
}

// scatterPhases moves phases, of which half a turn is the number half, to either side.
func scatterPhases(row []float32, half float64, n *initial.Source) {
	for i, x := range row {
		row[i] = float32(float64(x) + float64(2*phaseSpread*half*n.Normal()))
	}
}
