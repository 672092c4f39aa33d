package train_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/synth"
	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank"
	"github.com/mquine/mquine/train"
)

func options(t testing.TB) train.Options {
	all, err := kernel.Available()
	require.NoError(t, err)
	return train.Options{Seed: 1, Backend: all[0], Threads: 2}
}

func families(t testing.TB) *kg.Graph {
	g, _, err := synth.Families(t.Context(), synth.Config{Seed: 1})
	require.NoError(t, err)
	return g
}

func config(g *kg.Graph, name string, d int) model.Config {
	return model.Config{Model: name, Dim: d, Entities: g.Entities.Len(), Relations: g.Relations.Len()}
}

// digest identifies all bits of the parameters.
func digest(t testing.TB, m model.Model) string {
	h := sha256.New()
	for _, tensor := range m.Tensors() {
		require.NoError(t, binary.Write(h, binary.LittleEndian, tensor))
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}

// measure ranks the test split on both sides, filtered by all splits.
func measure(t testing.TB, m model.Model, g *kg.Graph) metrics.Result {
	o := options(t)
	ranking, err := rank.Run(t.Context(), m, kg.NewIndex(g), g.Splits[kg.Test], rank.Options{Backend: o.Backend, Threads: 2})
	require.NoError(t, err)
	return metrics.Measure(ranking.Ranks, rank.BothSides, rank.All, rank.Realistic, nil)
}

// matrixModels are the models that can be fitted.
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

func TestRandomTables(t *testing.T) {
	for _, name := range model.Names()[len(matrixModels):] {
		for _, c := range []struct{ given, want model.Config }{
			{model.Config{}, model.Config{Gamma: 12, EmbeddingRange: 14.0 / 20}},
			{model.Config{Gamma: 6}, model.Config{Gamma: 6, EmbeddingRange: 8.0 / 20}},
			{model.Config{Gamma: 6, EmbeddingRange: 0.1}, model.Config{Gamma: 6, EmbeddingRange: 0.1}},
		} {
			for _, x := range []*model.Config{&c.given, &c.want} {
				x.Model, x.Dim, x.Entities, x.Relations = name, 20, 500, 300
			}
			if name == "protate" {
				c.want.Modulus = c.want.EmbeddingRange / 2
			}
			m, err := train.Random(t.Context(), c.given, 7)
			require.NoError(t, err)
			assert.Equal(t, c.want, m.Config())
			for _, tensor := range m.Tensors() {
				var sum, squares, largest float64
				for _, x := range tensor {
					v := float64(x) / c.want.EmbeddingRange
					sum += v
					squares += v * v
					largest = max(largest, math.Abs(v))
				}
				n := float64(len(tensor))
				assert.InDelta(t, 0, sum/n, 4/math.Sqrt(3*n), name)
				assert.InDelta(t, 1.0/3, squares/n, 4*math.Sqrt(4/(45*n)), name)
				assert.InDelta(t, 0.999, largest, 0.0011, name)
			}
		}
	}
	m, err := train.Random(t.Context(), model.Config{Model: "rotate", Dim: 7, Entities: 100, Relations: 5}, 7)
	require.NoError(t, err)
	assert.Equal(t, "700903c0543a9f66", digest(t, m), "on every platform")
	_, err = train.Random(t.Context(), model.Config{Model: "rotate", Dim: 0}, 1)
	assert.ErrorContains(t, err, "out of range")
}

// The bits do not depend on threads, tier or platform.
func TestSameBits(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	cfg := model.Config{Model: "mquine", Dim: 7, Entities: 100, Relations: 5}
	m, err := train.Random(t.Context(), cfg, 7)
	require.NoError(t, err)
	assert.Equal(t, "9dfdc22d5a639122", digest(t, m))
	other, err := train.Random(t.Context(), cfg, 8)
	require.NoError(t, err)
	assert.NotEqual(t, digest(t, m), digest(t, other))

	g, _, err := synth.Families(t.Context(), synth.Config{Entities: 60, Seed: 1})
	require.NoError(t, err)
	for i, b := range backends {
		for _, threads := range []int{1, 2, 5}[:3-i] {
			m, err := train.Clustered(t.Context(), config(g, "mquine", 5), g, train.Options{Seed: 1, Backend: b, Threads: threads})
			require.NoError(t, err)
			assert.Equal(t, "ef3b3a736e8abd28", digest(t, m), "clustered, %v, %d threads", b.Tier, threads)
		}
	}
}

// norm returns the Frobenius norm of the symmetric matrix of packed A, after subtracting another.
func norm(d int, a, minus []float32) float64 {
	var sum float64
	at := 0
	for i := range d {
		for j := range i + 1 {
			v := float64(a[at]) - float64(minus[at])
			if i == j {
				sum += 2 * v * v
			}
			sum += 2 * v * v
			at++
		}
	}
	return math.Sqrt(sum)
}

// Entities lie round the centres of the planted groups as promised, and true answers rank well.
func TestClusteredZipf(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes under the race detector; run without -short")
	}
	g, groups, err := synth.Zipf(t.Context(), synth.Config{Entities: 2000, Seed: 5})
	require.NoError(t, err)
	for _, name := range matrixModels {
		const d = 10
		m, err := train.Clustered(t.Context(), config(g, name, d), g, options(t))
		require.NoError(t, err)
		res := measure(t, m, g)
		t.Logf("%s: median rank %v of %d", name, res.Median, g.Entities.Len())
		assert.Less(t, float64(res.Median), float64(g.Entities.Len())/20)

		// The mean of a group is near its centre: the deviations average out.
		centres, sizes := map[int32][]float32{}, map[int32]float32{}
		for e, group := range groups {
			if centres[group] == nil {
				centres[group] = make([]float32, model.Triangle(d))
			}
			sizes[group]++
			for i, x := range m.EntityRow(int32(e)) {
				centres[group][i] += x
			}
		}
		zero := make([]float32, model.Triangle(d))
		for e, group := range groups {
			if sizes[group] < 20 {
				continue
			}
			centre := make([]float32, len(zero))
			for i, x := range centres[group] {
				centre[i] = x / sizes[group]
			}
			ratio := norm(d, m.EntityRow(int32(e)), centre) / norm(d, centre, zero)
			require.InDelta(t, 0.3, ratio, 0.04, "entity %d", e)
		}
	}
}

// tableModels are the models that are fitted in few coordinates.
var tableModels = []string{"transe-l1", "transe-l2", "distmult", "complex", "rotate", "protate"}

// The models of tables rank as well, and their bits do not depend on threads. Dimensions are fewer than
// the fitted ones, as many, and no multiple of them.
func TestClusteredTables(t *testing.T) {
	g, _, err := synth.Zipf(t.Context(), synth.Config{Entities: 1000, Seed: 5})
	require.NoError(t, err)
	dims := []int{10, 32, 75}
	if testing.Short() {
		dims = dims[:1]
	}
	for _, name := range tableModels {
		for _, d := range dims {
			m, err := train.Clustered(t.Context(), config(g, name, d), g, options(t))
			require.NoError(t, err)
			if d == 75 {
				res := measure(t, m, g)
				t.Logf("%s: median rank %v of %d", name, res.Median, g.Entities.Len())
				if !strings.HasPrefix(name, "transe") { // a ring has no translations: TestClusteredLine
					assert.Less(t, float64(res.Median), float64(g.Entities.Len())/20, name)
				}
				continue
			}
			o := options(t)
			o.Threads = 3
			again, err := train.Clustered(t.Context(), config(g, name, d), g, o)
			require.NoError(t, err)
			assert.Equal(t, digest(t, m), digest(t, again), name)
		}
	}
}

// Where the ring of the groups is cut open, and without the hubs to which all groups lead, relations
// are translations, and the models of translations rank as well as the others.
func TestClusteredLine(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes under the race detector; run without -short")
	}
	g, groups, err := synth.Zipf(t.Context(), synth.Config{Entities: 1000, Seed: 5})
	require.NoError(t, err)
	for s, triples := range g.Splits {
		g.Splits[s] = slices.DeleteFunc(triples, func(x kg.Triple) bool {
			head, tail := groups[x.Head], groups[x.Tail]
			return head == 0 || tail == 0 || tail < head
		})
	}
	for _, name := range []string{"transe-l1", "transe-l2"} {
		m, err := train.Clustered(t.Context(), config(g, name, 75), g, options(t))
		require.NoError(t, err)
		res := measure(t, m, g)
		t.Logf("%s: median rank %v of %d", name, res.Median, g.Entities.Len())
		assert.Less(t, float64(res.Median), float64(g.Entities.Len())/20, name)
	}
}

// The sizes that measurements of speed use.
func TestClusteredRealData(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute; run without -short")
	}
	dir := os.Getenv("MQUINE_DATA")
	for _, test := range []struct {
		name, model string
		d           int
	}{
		{"fb15k-237", "mquine", 38}, {"wn18rr", "mquine", 35},
		{"fb15k-237", "complex", 500}, {"fb15k-237", "transe-l1", 1000}, {"fb15k-237", "rotate", 500},
	} {
		t.Run(test.name+" "+test.model, func(t *testing.T) {
			if _, err := os.Stat(filepath.Join(dir, test.name)); dir == "" || err != nil {
				t.Skipf("needs the data set %s in the folder that MQUINE_DATA names", test.name)
			}
			g, err := kg.Open(t.Context(), test.name)
			require.NoError(t, err)
			m, err := train.Clustered(t.Context(), config(g, test.model, test.d), g, options(t))
			require.NoError(t, err)
			g.Splits[kg.Test] = g.Splits[kg.Test][:1000]
			res := measure(t, m, g)
			t.Logf("median rank %v of %d", res.Median, g.Entities.Len())
			assert.Less(t, float64(res.Median), float64(g.Entities.Len())/20)
		})
	}
}

func TestCancelAndProgress(t *testing.T) {
	g := families(t)
	ctx, cancel := context.WithCancel(t.Context())
	o := options(t)
	var calls []int
	o.Progress = func(done, total int) {
		assert.Greater(t, total, 3)
		if calls = append(calls, done); done == 3 {
			cancel()
		}
	}
	m, err := train.Clustered(ctx, config(g, "mquine", 3), g, o)
	assert.True(t, errors.Is(err, context.Canceled), "%v", err)
	assert.Nil(t, m)
	assert.Equal(t, []int{1, 2, 3}, calls)
}

func TestWrongCalls(t *testing.T) {
	g := families(t)
	cfg := config(g, "mquine", 3)
	cfg.Entities++
	_, err := train.Clustered(t.Context(), cfg, g, options(t))
	assert.EqualError(t, err, "train: a model of 401 entities and 17 relations cannot be fitted to data set families, which has 400 and 17")
	_, err = train.Clustered(t.Context(), config(g, "transd", 3), g, options(t))
	assert.ErrorContains(t, err, "unknown model")
	_, err = train.Clustered(t.Context(), config(g, "mquine", 3), g, train.Options{Threads: 1})
	assert.ErrorContains(t, err, "backend")
}

// Graphs too small for groups and facts are no special case.
func TestTiny(t *testing.T) {
	for n := 1; n < 3; n++ {
		g := &kg.Graph{Name: "tiny", Entities: kg.NewVocabulary(), Relations: kg.NewVocabulary("r")}
		g.Splits[kg.Train] = []kg.Triple{}
		for e := range n {
			g.Entities.Add(fmt.Sprint(e))
			g.Splits[kg.Train] = append(g.Splits[kg.Train], kg.Triple{Tail: int32(e)})
		}
		m, err := train.Clustered(t.Context(), config(g, "mquine", 2), g, options(t))
		require.NoError(t, err)
		for _, tensor := range m.Tensors() {
			for _, x := range tensor {
				require.False(t, math.IsNaN(float64(x)))
			}
		}
	}
}
