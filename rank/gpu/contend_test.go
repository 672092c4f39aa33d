//go:build linux && (amd64 || arm64) && !nocuda

package gpu

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel/cuda"
	"github.com/mquine/mquine/kernel/cuda/standin"
	"github.com/mquine/mquine/kernel/kerneltest"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/kgtest"
	"github.com/mquine/mquine/rank"
	"github.com/mquine/mquine/rank/internal/engine"
	"github.com/mquine/mquine/rank/internal/ranktest"
)

func TestDevicesPredict(t *testing.T) {
	driver := standin.Use(t)
	defer requireVariants(t, driver)()
	conformPredict(t, openDevices(t, driver, 2))
	bytes, _, open := driver.Held()
	assert.Zero(t, bytes, "memory is left")
	assert.Zero(t, open, "streams or events are left")
}

// conformPredict checks that every list equals the processor's list, which TestPredict compares with
// the sorted list of all candidates. The cases cover one and two devices, candidates in one slice and
// in several, ties, and lists of pairs that overflow.
func conformPredict(t *testing.T, devices []*cuda.Device) {
	backend := kerneltest.Best(t)
	const entities = 400
	rng := rand.New(rand.NewPCG(3, 3))
	g := ranktest.Graph(rng, entities, 3, 4000, 20, 20)
	index := kgtest.Index(t, g)
	var queries []kg.Query
	for i := range 20 {
		queries = append(queries, kg.Query{Side: kg.Side(i % 2), Relation: int32(rng.IntN(3)),
			Anchor: int32(rng.IntN(i + 1))})
	}
	const roomy = listRoom
	for i, c := range []struct {
		model   string
		d, k    int
		kind    ranktest.Kind
		devices int
		memory  int // candidates
		room    int
	}{
		{"mquine", 5, 10, ranktest.MatrixKinds[0], 1, 0, roomy},
		{"mquade", 4, 1, ranktest.MatrixKinds[0], 2, 0, roomy},
		{"mquine", 3, 7, ranktest.VectorKinds[1], 2, 250, roomy}, // one ulp apart
		{"mquine", 3, 15, ranktest.VectorKinds[2], 1, 0, 2 * cuda.CandidateTile * len(queries)},
		{"mquine", 4, entities + 1, ranktest.MatrixKinds[0], 1, 0, 2 * cuda.CandidateTile * len(queries)},
		{"complex", 6, 10, ranktest.VectorKinds[0], 1, 250, roomy},
		{"rotate", 6, 10, ranktest.VectorKinds[0], 2, 0, roomy},
		{"transe-l1", 6, 10, ranktest.VectorKinds[2], 1, 0, roomy},
		{"protate", 6, 3, ranktest.VectorKinds[0], 1, 0, roomy},
	} {
		if testing.Short() && i%2 == 1 && c.model != "mquine" {
			continue
		}
		m := ranktest.Model(t, c.model, c.d, g, 12, c.kind)
		e := trusted(devices[:min(c.devices, len(devices))]...)
		e.listRoom = c.room
		o := rank.Options{Backend: backend, Threads: 2}
		if i%3 == 2 {
			o.Among = everyThird(t, g)
		}
		want, err := rank.Predict(t.Context(), m, index, queries, rank.Top{K: c.k, FilterKnown: i%2 == 0}, o)
		require.NoError(t, err)
		o.Engine, o.FeatureMemory = e, int64(c.memory)*candidateBytes(pad(engine.WidestTower(m)))
		got, err := rank.Predict(t.Context(), m, index, queries, rank.Top{K: c.k, FilterKnown: i%2 == 0}, o)
		require.NoError(t, err)
		require.Equal(t, want, got, "%s, %s, k = %d", c.model, c.kind.Name, c.k)
		if o.Among == nil {
			continue
		}
		ranked, err := rank.Run(t.Context(), m, index, g.Splits[kg.Test], o)
		require.NoError(t, err)
		o.Engine = nil
		exact, err := rank.Run(t.Context(), m, index, g.Splits[kg.Test], o)
		require.NoError(t, err)
		require.Equal(t, exact.Ranks, ranked.Ranks, "%s, %s", c.model, c.kind.Name)
	}
}

// everyThird returns every third entity as the candidates for tails, and the observed entities as the
// candidates for heads.
func everyThird(t *testing.T, g *kg.Graph) *rank.Candidates {
	c := rank.NewCandidates(g.Relations.Len())
	var some []int32
	for e := int32(0); int(e) < g.Entities.Len(); e += 3 {
		some = append(some, e)
	}
	c.RestrictAll(kg.Tail, some)
	require.NoError(t, c.Observe(t.Context(), g, kg.Head))
	return c
}

// TestDevicesPredictFaults checks that, if a device fails at any launch, the prediction returns its
// error and frees the device's memory.
func TestDevicesPredictFaults(t *testing.T) {
	driver := standin.Use(t)
	devices := openDevices(t, driver, 1)
	backend := kerneltest.Best(t)
	rng := rand.New(rand.NewPCG(3, 4))
	g := ranktest.Graph(rng, 40, 2, 100, 20, 20)
	m := ranktest.Model(t, "mquine", 3, g, 3, ranktest.MatrixKinds[0])
	failures := 0
	for n := int64(1); ; n++ {
		driver.Set("fail_launch", n)
		_, err := rank.Predict(t.Context(), m, kgtest.Index(t, g), []kg.Query{{}}, rank.Top{K: 3},
			rank.Options{Backend: backend, Threads: 1, Engine: trusted(devices...)})
		driver.Reset("fail_launch")
		bytes, _, open := driver.Held()
		require.Zero(t, bytes, n)
		require.Zero(t, open, n)
		if err == nil {
			break
		}
		require.ErrorContains(t, err, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES")
		failures++
	}
	assert.GreaterOrEqual(t, failures, 6)
}
