//go:build linux && (amd64 || arm64) && !nocuda

package rank

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/cuda"
	"github.com/mquine/mquine/kernel/cuda/standin"
	"github.com/mquine/mquine/kg"
)

// Every list is what sorting all candidates by their reference scores gives: on one device and on two,
// with all candidates in memory and slice by slice, with ties and with lists of pairs that overflow.
func TestDevicesPredict(t *testing.T) {
	driver := standin.Use(t)
	devices := openDevices(t, driver, 2)
	backends, err := kernel.Available()
	require.NoError(t, err)
	const entities = 400
	rng := rand.New(rand.NewPCG(3, 3))
	g := randomGraph(rng, entities, 3, 4000, 20, 20)
	index := kg.NewIndex(g)
	var queries []kg.Query
	for i := range 20 {
		queries = append(queries, kg.Query{Side: kg.Side(i % 2), Relation: int32(rng.IntN(3)), Anchor: int32(rng.IntN(i + 1))})
	}
	defer func(room int) { deviceList = room }(deviceList)
	roomy := deviceList
	for i, c := range []struct {
		model   string
		d, k    int
		kind    checkpointKind
		devices int
		memory  int // candidates
		room    int
	}{
		{"mquine", 5, 10, checkpointKinds[0], 1, 0, roomy},
		{"mquade", 4, 1, checkpointKinds[0], 2, 0, roomy},
		{"mquine", 3, 7, vectorKinds[1], 2, 250, roomy}, // one ulp apart
		{"mquine", 3, 15, vectorKinds[2], 1, 0, 2 * cuda.CandidateTile * len(queries)},
		{"mquine", 4, entities + 1, checkpointKinds[0], 1, 0, 2 * cuda.CandidateTile * len(queries)},
		{"complex", 6, 10, vectorKinds[0], 1, 250, roomy},
		{"rotate", 6, 10, vectorKinds[0], 2, 0, roomy},
		{"transe-l1", 6, 10, vectorKinds[2], 1, 0, roomy},
		{"protate", 6, 3, vectorKinds[0], 1, 0, roomy},
	} {
		if testing.Short() && i%2 == 1 && c.model != "mquine" {
			continue
		}
		deviceList = c.room
		m := newModel(t, c.model, c.d, g, 12, c.kind)
		all := brutePredictions(g, queries, m.NewWorker(backends[0]).Reference)
		o := Options{Backend: backends[0], Threads: 2, Devices: devices[:c.devices], FeatureMemory: int64(c.memory) * featureBytes(widestTower(m))}
		checkPredictions(t, m, index, queries, all, c.k, i%2 == 0, o, c.kind.name)
	}
	bytes, _, streams := driver.Held()
	assert.Zero(t, bytes, "device memory is left")
	assert.Zero(t, streams, "streams are left")
}

// A device that fails at any launch ends the prediction with its error, and gives back what it held.
func TestDevicesPredictFaults(t *testing.T) {
	driver := standin.Use(t)
	devices := openDevices(t, driver, 1)
	backends, err := kernel.Available()
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(3, 4))
	g := randomGraph(rng, 40, 2, 100, 20, 20)
	m := newModel(t, "mquine", 3, g, 3, checkpointKinds[0])
	failures := 0
	for n := int64(1); ; n++ {
		driver.Set("fail_launch", n)
		_, err := Predict(t.Context(), m, kg.NewIndex(g), []kg.Query{{}}, 3, false, Options{Backend: backends[0], Threads: 1, Devices: devices})
		driver.Reset("fail_launch")
		bytes, _, streams := driver.Held()
		require.Zero(t, bytes, n)
		require.Zero(t, streams, n)
		if err == nil {
			break
		}
		require.ErrorContains(t, err, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES")
		failures++
	}
	assert.GreaterOrEqual(t, failures, 6)
}
