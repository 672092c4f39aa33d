// Package ranktest creates graphs and checkpoints for tests of rankings.
package ranktest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
)

// Graph returns a random graph with n entities, r relations and skewed degrees.
func Graph(rng *rand.Rand, n, r, train, valid, test int) *kg.Graph {
	g := &kg.Graph{Name: "random", Entities: kg.NewVocabulary(), Relations: kg.NewVocabulary()}
	for i := range n {
		g.Entities.Add(fmt.Sprintf("e%d", i))
	}
	for i := range r {
		g.Relations.Add(fmt.Sprintf("r%d", i))
	}
	skewed := func() int32 { return int32(float64(n) * rng.Float64() * rng.Float64()) }
	for split, count := range []int{train, valid, test} {
		for range count {
			t := kg.Triple{Head: skewed(), Relation: int32(rng.IntN(r)), Tail: skewed()}
			g.Splits[split] = append(g.Splits[split], t)
		}
	}
	return g
}

// Kind is a way to fill the tensors of a model.
type Kind struct {
	Name string
	Fill func(rng *rand.Rand, m model.Config, tensors [][]float32)
}

// Normal fills x with normally distributed numbers of mean 0 and standard deviation scale.
func Normal(rng *rand.Rand, x []float32, scale float64) {
	for i := range x {
		x[i] = float32(rng.NormFloat64() * scale)
	}
}

// MatrixKinds fill the tensors of MQuinE and MQuadE.
var MatrixKinds = []Kind{
	{"random", func(rng *rand.Rand, c model.Config, ts [][]float32) {
		for _, x := range ts {
			Normal(rng, x, 0.3)
		}
	}},
	{"clustered", func(rng *rand.Rand, c model.Config, ts [][]float32) {
		for _, x := range ts[1:] {
			Normal(rng, x, 0.3)
		}
		p := model.Triangle(c.Dim)
		for e := range c.Entities {
			if e%8 == 0 {
				Normal(rng, ts[0][e*p:(e+1)*p], 0.5)
				continue
			}
			center := ts[0][e/8*8*p:][:p]
			for i := range p {
				ts[0][e*p+i] = center[i] + float32(rng.NormFloat64()*1e-6)
			}
		}
	}},
	{"one ulp apart", func(rng *rand.Rand, c model.Config, ts [][]float32) {
		for _, x := range ts {
			Normal(rng, x, 0.3)
		}
		p := model.Triangle(c.Dim)
		first := slices.Clone(ts[0][:p])
		for e := range c.Entities {
			row := ts[0][e*p : (e+1)*p]
			copy(row, first)
			i := rng.IntN(p)
			row[i] = float32(float64(row[i]) * (1 + float64(rng.IntN(3)-1)*0x1p-23))
		}
	}},
	{"few distinct rows", func(rng *rand.Rand, c model.Config, ts [][]float32) {
		for _, x := range ts {
			Normal(rng, x, 0.3)
		}
		p := model.Triangle(c.Dim)
		for e := 5; e < c.Entities; e++ {
			copy(ts[0][e*p:(e+1)*p], ts[0][rng.IntN(5)*p:][:p])
		}
	}},
	{"small integers", func(rng *rand.Rand, c model.Config, ts [][]float32) {
		for _, x := range ts {
			for i := range x {
				x[i] = float32(rng.IntN(3) - 1)
			}
		}
	}},
	{"constant score", func(rng *rand.Rand, c model.Config, ts [][]float32) {
		// With H = 3I for every second entity and Rᵗ = 3Rᶜ, s does not depend on T except in its
		// last bits.
		for _, x := range ts {
			Normal(rng, x, 0.3)
		}
		d, p := c.Dim, model.Triangle(c.Dim)
		if len(ts) > 3 {
			for i, v := range ts[3] {
				ts[2][i] = 3 * v
			}
		}
		for e := 0; e < c.Entities; e += 2 {
			clear(ts[0][e*p : (e+1)*p])
			for i := range d {
				ts[0][e*p+i*(i+1)/2+i] = 1.5
			}
		}
	}},
	{"huge norms", func(rng *rand.Rand, c model.Config, ts [][]float32) {
		for _, x := range ts {
			Normal(rng, x, 1)
		}
		p := model.Triangle(c.Dim)
		for e := range c.Entities {
			scale := []float32{1, 1e10, 1e19, 1e25, 3e37}[rng.IntN(5)]
			for i := range p {
				ts[0][e*p+i] *= scale
			}
		}
	}},
	{"sums beyond float32", func(rng *rand.Rand, c model.Config, ts [][]float32) {
		Normal(rng, ts[0], 1e9)
		for _, x := range ts[1:] {
			Normal(rng, x, 1e8)
		}
	}},
	{"sums below float32", func(rng *rand.Rand, c model.Config, ts [][]float32) {
		Normal(rng, ts[0], 1e-12)
		for _, x := range ts[1:] {
			Normal(rng, x, 1e-10)
		}
	}},
	{"aligned", func(rng *rand.Rand, c model.Config, ts [][]float32) {
		// All terms of a dot product have the same sign and nearly the same size, so rounding
		// errors add up.
		for i, x := range ts {
			for j := range x {
				x[j] = 0.3 * float32(1+1e-6*rng.NormFloat64())
				if i == 2 {
					x[j] = -x[j]
				}
			}
		}
	}},
	{"tiny norms", func(rng *rand.Rand, c model.Config, ts [][]float32) {
		for _, x := range ts {
			Normal(rng, x, 1e-3)
		}
		p := model.Triangle(c.Dim)
		for e := range c.Entities {
			scale := []float32{1, 1e-10, 1e-20, 1e-35, 1e-42, 0}[rng.IntN(6)]
			for i := range p {
				ts[0][e*p+i] *= scale
			}
		}
	}},
	{"collapsed", func(rng *rand.Rand, c model.Config, ts [][]float32) {
		for _, x := range ts[1:] {
			Normal(rng, x, 0.3)
		}
		for i := range ts[0] {
			ts[0][i] = 0.25
		}
	}},
}

// Model returns a model of dimension d, or of the largest dimension that it supports if d is
// larger.
func Model(t testing.TB, name string, d int, g *kg.Graph, seed uint64, kind Kind) model.Model {
	return ModelOf(t, Config(t, name, d, g), seed, kind)
}

// Config returns a configuration of a model for a graph, with the dimension d, or with the largest
// dimension that the model supports if d is larger.
func Config(t testing.TB, name string, d int, g *kg.Graph) model.Config {
	spec, err := model.Lookup(name)
	require.NoError(t, err)
	c := model.Config{Model: name, Dim: min(d, spec.MaxDim), Entities: g.Entities.Len(), Relations: g.Relations.Len()}
	c.Hyper = hyperOf(spec)
	return spec.Initial(c)
}

// hyperOf returns hyper-parameters that suit random parameters and small graphs.
func hyperOf(spec *model.Spec) map[string]float64 {
	switch spec.Name {
	case "tucker":
		return map[string]float64{model.RelationDim: 3}
	case "conve":
		return map[string]float64{model.Channels: 2}
	}
	if slices.ContainsFunc(spec.Hyper, func(h *model.HyperParameter) bool {
		return h.Key == model.EmbeddingRange && h.Least > 0
	}) {
		return map[string]float64{model.EmbeddingRange: 1.1}
	}
	return nil
}

// ModelOf is like Model but takes a configuration with hyper-parameters.
func ModelOf(t testing.TB, c model.Config, seed uint64, kind Kind) model.Model {
	parameters, err := model.Parameters(c)
	require.NoError(t, err)
	var tensors [][]float32
	for i, s := range parameters {
		tensors = append(tensors, make([]float32, s.Len()))
		if s.Axis == model.Global { // some kinds fill only the tables of entities and relations
			Normal(rand.New(rand.NewPCG(seed, uint64(i))), tensors[i], 0.3)
		}
	}
	kind.Fill(rand.New(rand.NewPCG(seed, 5)), c, tensors)
	for i, s := range parameters {
		for k, v := range tensors[i] {
			if s.NonNegative {
				tensors[i][k] = max(v, -v)
			}
		}
	}
	m, err := model.New(c, tensors)
	require.NoError(t, err)
	return m
}

// VectorKinds fill the tables of vector models.
var VectorKinds = []Kind{
	{"random", func(rng *rand.Rand, c model.Config, ts [][]float32) {
		for _, x := range ts {
			Normal(rng, x, 0.3)
		}
	}},
	{"one ulp apart", func(rng *rand.Rand, c model.Config, ts [][]float32) {
		for _, x := range ts {
			Normal(rng, x, 0.3)
		}
		width := len(ts[0]) / c.Entities
		for e := range c.Entities {
			row := ts[0][e*width : (e+1)*width]
			copy(row, ts[0][:width])
			i := rng.IntN(width)
			row[i] = float32(float64(row[i]) * (1 + float64(rng.IntN(3)-1)*0x1p-23))
		}
	}},
	{"few distinct rows", func(rng *rand.Rand, c model.Config, ts [][]float32) {
		for _, x := range ts {
			Normal(rng, x, 0.3)
		}
		width := len(ts[0]) / c.Entities
		for e := 5; e < c.Entities; e++ {
			copy(ts[0][e*width:(e+1)*width], ts[0][rng.IntN(5)*width:][:width])
		}
	}},
	{"clustered", func(rng *rand.Rand, c model.Config, ts [][]float32) {
		for _, x := range ts {
			Normal(rng, x, 0.3)
		}
		width := len(ts[0]) / c.Entities
		for e := 8; e < c.Entities; e++ {
			for i := range width {
				ts[0][e*width+i] = ts[0][e%8*width+i] * float32(1+1e-6*rng.NormFloat64())
			}
		}
	}},
	{"small integers", func(rng *rand.Rand, c model.Config, ts [][]float32) {
		for _, x := range ts {
			for i := range x {
				x[i] = float32(rng.IntN(3) - 1)
			}
		}
	}},
	{"aligned", func(rng *rand.Rand, c model.Config, ts [][]float32) {
		for _, x := range ts {
			for j := range x {
				x[j] = 0.3 * float32(1+1e-6*rng.NormFloat64())
			}
		}
	}},
	{"huge and tiny norms", func(rng *rand.Rand, c model.Config, ts [][]float32) {
		for _, x := range ts {
			Normal(rng, x, 1)
		}
		width := len(ts[0]) / c.Entities
		for e := range c.Entities {
			scale := []float32{1, 1e-20, 1e-38, 1e-44, 1e10, 1e19, 1e20, 3e37}[rng.IntN(8)]
			for i := range width {
				ts[0][e*width+i] *= scale
			}
		}
	}},
	{"huge everywhere", func(rng *rand.Rand, c model.Config, ts [][]float32) {
		for _, x := range ts {
			Normal(rng, x, 1e19)
		}
	}},
	{"collapsed", func(rng *rand.Rand, c model.Config, ts [][]float32) {
		Normal(rng, ts[1], 0.3)
		for i := range ts[0] {
			ts[0][i] = 0.25
		}
	}},
	{"far from the origin", func(rng *rand.Rand, c model.Config, ts [][]float32) {
		Normal(rng, ts[1], 0.3)
		for i := range ts[0] {
			ts[0][i] = float32(1000 + rng.NormFloat64())
		}
	}},
	{"dimensions of all sizes", func(rng *rand.Rand, c model.Config, ts [][]float32) {
		// The products range from subnormal numbers to the largest that the int8 screen accepts.
		Normal(rng, ts[0], 0x1p-66)
		width := len(ts[1]) / c.Relations
		for i := range width {
			scale := math.Ldexp(1, rng.IntN(205)-83)
			for r := range c.Relations {
				ts[1][r*width+i] = float32(rng.NormFloat64() * scale)
			}
		}
	}},
}

// VectorConfigs returns configurations of all vector models that support dimension d, some of them
// with reciprocal relations, and one with scores in both directions.
func VectorConfigs(d int, g *kg.Graph) (list []model.Config) {
	for _, spec := range model.Specs()[2:] {
		if d > spec.MaxDim {
			continue
		}
		c := model.Config{Model: spec.Name, Dim: d, Entities: g.Entities.Len(), Relations: g.Relations.Len()}
		c.Hyper = hyperOf(spec)
		c = spec.Initial(c)
		if d >= 70 && HasMatrices(c) {
			continue // the reference scores would take most of the test's time
		}
		list = append(list, c)
		switch spec.Name {
		case "complex", "rotate", "cp", "conve":
			c.Reciprocal = true
			list = append(list, c)
		}
		if spec.Name == "complex" {
			c.InverseWeight = 0.4
			list = append(list, c)
		}
	}
	return list
}

// HasMatrices reports whether a tensor holds a matrix or a larger array for each relation, or for
// the whole model. The reference scores of such models take long for large d.
func HasMatrices(c model.Config) bool {
	parameters, err := model.Parameters(c)
	return err == nil && slices.ContainsFunc(parameters, func(p model.Parameter) bool {
		return p.Axis != model.PerEntity && p.Width() > 20*c.Dim
	})
}
