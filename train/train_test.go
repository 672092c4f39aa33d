package train_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/train"
)

// digest returns a hash of all bits of the parameters.
func digest(t testing.TB, m model.Model) string {
	h := sha256.New()
	for _, tensor := range m.Tensors() {
		require.NoError(t, binary.Write(h, binary.LittleEndian, tensor))
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}

// matrixModels are the models whose entities and relations are matrices.
var matrixModels = []string{"mquine", "mquade"}

func TestRandomMatrices(t *testing.T) {
	for _, name := range matrixModels {
		m, err := train.Random(t.Context(), model.Config{Model: name, Dim: 9, Entities: 500, Relations: 3}, 7)
		require.NoError(t, err)
		var sum, squares float64
		for _, x := range m.Tensors()[0] {
			sum += float64(x)
			squares += float64(x) * float64(x)
		}
		n := float64(500 * 45)
		assert.InDelta(t, 0, sum/n, 4*0.1/math.Sqrt(n))
		assert.InDelta(t, 0.01, squares/n, 4*0.01*math.Sqrt(2/n))
		for _, relation := range m.Tensors()[1:] {
			for i, x := range relation {
				want := float32(0)
				if i/9%9 == i%9 {
					want = 1
				}
				require.Equal(t, want, x, "element %d of the identities", i)
			}
		}
	}
	_, err := train.Random(t.Context(), model.Config{Model: "mquine", Dim: 0}, 1)
	assert.ErrorContains(t, err, "out of range")
}

func TestRandomRefuses(t *testing.T) {
	for _, name := range model.Names() {
		for _, none := range []model.Config{{Relations: 1}, {Entities: 1}, {}} {
			none.Model, none.Dim = name, 4
			_, err := train.Random(t.Context(), none, 1)
			assert.ErrorContains(t, err, "a model needs entities and relations", name)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := train.Random(ctx, model.Config{Model: name, Dim: 4, Entities: 3, Relations: 2}, 1)
		assert.ErrorIs(t, err, context.Canceled, name)
	}
}

// halfRange names the hyper-parameters that are half of the embedding range in new models.
var halfRange = map[string]string{"protate": "modulus", "hake": "phase_weight"}

// uniformEntries holds the number of entries of a relation's row, in units of d, that are uniform in
// ± the embedding range, for models in which the others are not.
var uniformEntries = map[string]int{"hake": 1}

func TestRandomTables(t *testing.T) {
	for _, name := range model.Names()[len(matrixModels):] {
		spec, err := model.Lookup(name)
		require.NoError(t, err)
		has := func(key string) bool {
			return slices.ContainsFunc(spec.Hyper, func(h *model.HyperParameter) bool { return h.Key == key })
		}
		if !has(model.Gamma) || !has(model.EmbeddingRange) {
			continue // the range does not follow from the margin
		}
		for _, c := range []struct{ given, want map[string]float64 }{
			{nil, map[string]float64{"gamma": 12, "embedding_range": 14.0 / 20}},
			{map[string]float64{"gamma": 6}, map[string]float64{"gamma": 6, "embedding_range": 8.0 / 20}},
			{
				map[string]float64{"gamma": 6, "embedding_range": 0.1},
				map[string]float64{"gamma": 6, "embedding_range": 0.1},
			},
		} {
			if key, ok := halfRange[name]; ok {
				c.want[key] = c.want["embedding_range"] / 2
			}
			given := model.Config{Model: name, Dim: 20, Entities: 500, Relations: 300, Hyper: c.given}
			m, err := train.Random(t.Context(), given, 7)
			require.NoError(t, err)
			assert.Equal(t, c.want, m.Config().Hyper, "%s: add exceptions to halfRange", name)
			parameters, err := spec.Parameters(m.Config())
			require.NoError(t, err)
			for i, p := range parameters {
				uniform, exception := uniformEntries[name]
				if p.Constrain != nil {
					continue
				}
				var sum, squares, largest, n float64
				for k, x := range m.Tensors()[i] {
					if p.Axis == model.PerRelation && exception && k%p.Width() >= uniform*given.Dim {
						continue
					}
					n++
					v := float64(x) / c.want["embedding_range"]
					sum += v
					squares += v * v
					largest = max(largest, math.Abs(v))
				}
				at := fmt.Sprintf("%s: tensor %s; add exceptions to uniformEntries", name, p.Name)
				assert.InDelta(t, 0, sum/n, 4/math.Sqrt(3*n), at)
				assert.InDelta(t, 1.0/3, squares/n, 4*math.Sqrt(4/(45*n)), at)
				assert.InDelta(t, 0.999, largest, 0.0011, at)
			}
		}
	}
	m, err := train.Random(t.Context(), model.Config{Model: "rotate", Dim: 7, Entities: 100, Relations: 5}, 7)
	require.NoError(t, err)
	assert.Equal(t, "700903c0543a9f66", digest(t, m), "on every platform")
	_, err = train.Random(t.Context(), model.Config{Model: "rotate", Dim: 0}, 1)
	assert.ErrorContains(t, err, "out of range")
}

// Initial parameters are the same, bit for bit, on every platform.
func TestSameBits(t *testing.T) {
	cfg := model.Config{Model: "mquine", Dim: 7, Entities: 100, Relations: 5}
	m, err := train.Random(t.Context(), cfg, 7)
	require.NoError(t, err)
	assert.Equal(t, "9dfdc22d5a639122", digest(t, m))
	other, err := train.Random(t.Context(), cfg, 8)
	require.NoError(t, err)
	assert.NotEqual(t, digest(t, m), digest(t, other))
}
