package formats

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel/kerneltest"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
)

const (
	toolEntities  = 4
	toolRelations = 3
)

// toolFolder returns a folder with random tensors of the given shapes.
func toolFolder(shapes map[string][2]int) *Folder {
	f := &Folder{Path: "folder", Format: openke, Entities: kg.NewVocabulary(), Relations: kg.NewVocabulary()}
	for i := range toolEntities {
		f.Entities.Add(fmt.Sprint("e", i))
	}
	for i := range toolRelations {
		f.Relations.Add(fmt.Sprint("r", i))
	}
	for name, shape := range shapes {
		hash := fnv.New64a()
		hash.Write([]byte(name))
		rng := rand.New(rand.NewPCG(hash.Sum64(), 3))
		values := make([]float32, shape[0]*shape[1])
		for i := range values {
			values[i] = float32(rng.NormFloat64())
		}
		f.Tensors = append(f.Tensors, Tensor{"file", name, "float32", shape[:], func() []float32 { return values }})
	}
	return f
}

// toolRow returns a row of a tensor.
func toolRow(t *testing.T, f *Folder, name string, i int) []float64 {
	x, err := f.tensor(name)
	require.NoError(t, err)
	row := make([]float64, x.width())
	for k, v := range x.Values()[i*x.width():][:x.width()] {
		row[k] = float64(v)
	}
	return row
}

func toolDot(x, y []float64) (sum float64) {
	for i, v := range x {
		sum += v * y[i]
	}
	return sum
}

func toolUnit(x []float64) []float64 {
	n := math.Max(math.Sqrt(toolDot(x, x)), 1e-12)
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = v / n
	}
	return y
}

// hyperplaneImage is OpenKE's and LibKGE's projection of e, with the stored normal w.
func hyperplaneImage(e, w []float64) []float64 {
	w = toolUnit(w)
	image := make([]float64, len(e))
	for i, v := range e {
		image[i] = v - toolDot(w, e)*w[i]
	}
	return image
}

// checkTool compares the scores of all triples with scores that a tool's formula gives.
func checkTool(t *testing.T, c *Converted, distance func(h, r, tail int) float64) {
	c.Config.Entities, c.Config.Relations = toolEntities, toolRelations
	var tensors [][]float32
	for _, x := range c.Parameters {
		tensors = append(tensors, x.Values())
	}
	m, err := model.New(c.Config, tensors)
	require.NoError(t, err)
	w := m.NewWorker(kerneltest.Best(t))
	for h := range toolEntities {
		for r := range toolRelations {
			for tail := range toolEntities {
				q := kg.Query{Side: kg.Tail, Relation: int32(r), Anchor: int32(h)}
				score := m.Score(w.Reference(q, int32(tail)))
				assert.InDelta(t, -distance(h, r, tail), score, 1e-6, "%d, %d, %d", h, r, tail)
			}
		}
	}
}

// Models converted from OpenKE have the scores of its formulas, which divide the images of entities
// and the translations by their Euclidean norms.
func TestOpenKEProjections(t *testing.T) {
	const d, k = 5, 3
	for name, c := range map[string]struct {
		width int // width of the translations
		more  map[string][2]int
		image func(f *Folder, r, e int) []float64
	}{
		"transh-l1": {d, map[string][2]int{"norm_vector.weight": {toolRelations, d}},
			func(f *Folder, r, e int) []float64 {
				entity, normal := toolRow(t, f, "ent_embeddings.weight", e), toolRow(t, f, "norm_vector.weight", r)
				return hyperplaneImage(entity, normal)
			}},
		"transr-l1": {k, map[string][2]int{"transfer_matrix.weight": {toolRelations, d * k}},
			func(f *Folder, r, e int) []float64 {
				image, matrix := make([]float64, k), toolRow(t, f, "transfer_matrix.weight", r)
				for i, v := range toolRow(t, f, "ent_embeddings.weight", e) {
					for j := range k {
						image[j] += v * matrix[i*k+j]
					}
				}
				return image
			}},
		"transd-l1": {
			k, map[string][2]int{"ent_transfer.weight": {toolEntities, d}, "rel_transfer.weight": {toolRelations, k}},
			func(f *Folder, r, e int) []float64 {
				entity, image := toolRow(t, f, "ent_embeddings.weight", e), toolRow(t, f, "rel_transfer.weight", r)
				c := toolDot(entity, toolRow(t, f, "ent_transfer.weight", e))
				for j := range image {
					image[j] = entity[j] + c*image[j]
				}
				return image
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			shapes := map[string][2]int{
				"ent_embeddings.weight": {toolEntities, d}, "rel_embeddings.weight": {toolRelations, c.width},
			}
			for tensor, shape := range c.more {
				shapes[tensor] = shape
			}
			f := toolFolder(shapes)
			converted, err := convertOpenKE(f)
			require.NoError(t, err)
			assert.Equal(t, name, converted.Config.Model)
			checkTool(t, converted, func(h, r, tail int) (sum float64) {
				x, y := toolUnit(c.image(f, r, h)), toolUnit(c.image(f, r, tail))
				for i, v := range toolUnit(toolRow(t, f, "rel_embeddings.weight", r)) {
					sum += math.Abs(x[i] + v - y[i])
				}
				return sum
			})
			f.Tensors = append(f.Tensors, Tensor{Name: "margin"})
			_, err = convertOpenKE(f)
			assert.ErrorContains(t, err, "was trained with a margin")
		})
	}
}

// A TransH model converted from LibKGE has the scores of LibKGE's formula. LibKGE stores the
// translation and the normal of a relation in one row.
func TestLibKGETransH(t *testing.T) {
	const d = 5
	f := toolFolder(map[string][2]int{"entity": {toolEntities, d}, "relation": {toolRelations, 2 * d}, "short": {3, d}})
	entity, relation, err := f.tables("entity", "relation")
	require.NoError(t, err)
	c, err := f.libkgeTransH("transh-l2", entity, relation)
	require.NoError(t, err)
	checkTool(t, c, func(h, r, tail int) float64 {
		row := toolRow(t, f, "relation", r)
		x := hyperplaneImage(toolRow(t, f, "entity", h), row[d:])
		y := hyperplaneImage(toolRow(t, f, "entity", tail), row[d:])
		for i, v := range row[:d] {
			x[i] += v - y[i]
		}
		return math.Sqrt(toolDot(x, x))
	})
	short, err := f.tensor("short")
	require.NoError(t, err)
	_, err = f.libkgeTransH("transh-l2", entity, short)
	assert.ErrorContains(t, err, `"short" has rows of 5 numbers, but TransH with d = 5 needs 10`)
}

// The rows of ConvE's tables are checked first, because a table without rows can have any width in a
// small file.
func TestConvERows(t *testing.T) {
	f := toolFolder(map[string][2]int{
		"emb_e.weight": {0, 8}, "emb_rel.weight": {toolRelations + conveTokens, 8},
		"b": {toolEntities + conveTokens, 1}, "fc.weight": {8, 7}, "conv1.weight": {1, 9},
	})
	_, err := convertConvE(f)
	assert.ErrorContains(t, err, `tensor "emb_e.weight" has 0 rows, but the vocabulary in `)
}

// The unit complex numbers with the phases of a table equal the numbers of the table.
func TestPhases(t *testing.T) {
	values := []float32{1, 0, 0, 1, -1, 0, 0.6, -0.8}
	table := Tensor{"file", "relation", "float32", []int{2, 4}, func() []float32 { return values }}
	phases, err := table.phases()
	require.NoError(t, err)
	assert.Equal(t, []int{2, 2}, phases.Shape)
	for i, phase := range phases.Values() {
		sin, cos := math.Sincos(float64(phase))
		assert.InDelta(t, values[2*i], cos, 1e-7)
		assert.InDelta(t, values[2*i+1], sin, 1e-7)
	}
	values[3] = 1.1
	_, err = table.phases()
	assert.ErrorContains(t, err, "a number of modulus 1.1 in row 0")
}
