//go:build linux && (amd64 || arm64) && !nocuda

package rank

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/cuda"
	"github.com/mquine/mquine/kernel/cuda/standin"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
)

// openDevices opens n devices of the stand-in.
func openDevices(t *testing.T, driver *standin.Driver, n int) []*cuda.Device {
	driver.Set("devices", int64(n))
	var devices []*cuda.Device
	for i := range n {
		d, err := cuda.Open(i)
		require.NoError(t, err)
		t.Cleanup(d.Close)
		devices = append(devices, d)
	}
	return devices
}

// Every kind of checkpoint has the CPU's ranks, on one device and on two, with all candidates in
// memory and slice by slice.
func TestDevicesExact(t *testing.T) {
	driver := standin.Use(t)
	devices := openDevices(t, driver, 2)
	backends, err := kernel.Available()
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(7, 7))
	g := randomGraph(rng, 150, 4, 600, 60, 60)
	index := kg.NewIndex(g)
	checked := 0
	check := func(m model.Model, kind, name string, d int) {
		checked++
		want, err := Run(context.Background(), m, index, g.Splits[kg.Test], Options{Backend: backends[0], Threads: 2})
		require.NoError(t, err)
		for i, o := range []Options{
			{Threads: 2, Devices: devices[:1]},
			{Threads: 1, Devices: devices, FeatureMemory: 70 * featureBytes(widestTower(m))},
		} {
			if i > 0 && (testing.Short() || checked%4 != 1) {
				break
			}
			o.Backend = backends[0]
			got, err := Run(context.Background(), m, index, g.Splits[kg.Test], o)
			require.NoError(t, err)
			require.Equal(t, want.Ranks, got.Ranks, "%s, %s d = %d, %d devices", kind, name, d, len(o.Devices))
		}
	}
	for _, kind := range checkpointKinds {
		check(newModel(t, "mquine", 7, g, 7, kind), kind.name, "mquine", 7)
	}
	check(newModel(t, "mquade", 12, g, 12, checkpointKinds[0]), "random", "mquade", 12)
	for _, kind := range vectorKinds {
		for i, c := range vectorConfigs(9, g) {
			if testing.Short() && i > 1 {
				break
			}
			check(newModelOf(t, c, 9, kind), kind.name, c.Model, 9)
		}
	}
	bytes, _, streams := driver.Held()
	assert.Zero(t, bytes, "device memory is left")
	assert.Zero(t, streams, "streams are left")
}

// Tensor cores as bad as assumed pass the check by every class, and ones that add with ten bits do not.
func TestCheckDevices(t *testing.T) {
	driver := standin.Use(t)
	devices := openDevices(t, driver, 1)
	backends, err := kernel.Available()
	require.NoError(t, err)
	g := randomGraph(rand.New(rand.NewPCG(7, 12)), 20, 2, 20, 20, 20)
	o := Options{Backend: backends[0], Threads: 2, Devices: devices}
	names := model.Names()
	if testing.Short() {
		names = []string{"mquine", "rotate"}
	}
	for _, name := range names {
		m := newModel(t, name, 8, g, 7, vectorKinds[0])
		require.NoError(t, CheckDevices(t.Context(), m, o), name)
	}
	m := newModel(t, "mquine", 8, g, 7, vectorKinds[0])
	for _, c := range []struct {
		model string
		d     int
	}{{"mquine", 8}, {"mquade", 12}, {"complex", 100}, {"distmult", 200}, {"transe-l2", 60}} {
		if testing.Short() && c.model != "mquine" {
			break
		}
		driver.Set("careless", 13)
		err = CheckDevices(t.Context(), newModel(t, c.model, c.d, g, 7, vectorKinds[0]), o)
		assert.ErrorContains(t, err, "GPU 0 (Stand-in) ranks a small test graph by "+c.model+" otherwise than the processor")
		driver.Reset("careless")
	}
	driver.Set("fail_launch", 5)
	assert.ErrorContains(t, CheckDevices(t.Context(), m, o), "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES")
}

// Truths among the candidates of another device or another slice, and more of them than a device makes
// the features of at a time.
func TestDevicesConstruct(t *testing.T) {
	driver := standin.Use(t)
	devices := openDevices(t, driver, 2)
	backends, err := kernel.Available()
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(7, 10))
	g := randomGraph(rng, 150, 2, 200, 20, 40)
	defer func(n int) { farTruths = n }(farTruths)
	farTruths = 7
	index := kg.NewIndex(g)
	for _, name := range []string{"mquine", "mquade"} {
		m := newModel(t, name, 5, g, 7, checkpointKinds[0])
		o := Options{Backend: backends[0], Threads: 2}
		want, err := Run(context.Background(), m, index, g.Splits[kg.Test], o)
		require.NoError(t, err)
		o.Devices, o.FeatureMemory = devices, 70*featureBytes(widestTower(m))
		got, err := Run(context.Background(), m, index, g.Splits[kg.Test], o)
		require.NoError(t, err)
		require.Equal(t, want.Ranks, got.Ranks, name)
	}
}

// Which models a device makes the features of.
func TestConstructs(t *testing.T) {
	driver := standin.Use(t)
	devices := openDevices(t, driver, 1)
	g := randomGraph(rand.New(rand.NewPCG(7, 11)), 150, 2, 20, 20, 20)
	const tooLarge = 20
	for _, c := range []struct {
		model string
		d     int
		want  bool
	}{{"mquine", tooLarge - 1, true}, {"mquade", 6, true}, {"mquine", tooLarge, false}, {"distmult", 7, false}, {"mquine", cuda.MaxTowerDim + 1, false}} {
		m := newModel(t, c.model, c.d, g, 7, vectorKinds[0])
		driver.Reset("memory")
		if c.d == tooLarge { // one byte less than twice its parameters
			bytes := 0
			for _, x := range m.Tensors() {
				bytes += 4 * len(x)
			}
			driver.Set("memory", int64(2*bytes-1))
		}
		_, ok, err := constructs(m, devices)
		require.NoError(t, err)
		assert.Equal(t, c.want, ok, "%s d = %d", c.model, c.d)
	}
}

// Candidates that do not fit in a device's memory come slice by slice, through two buffers: the same
// ranks and predictions.
func TestDevicesStream(t *testing.T) {
	driver := standin.Use(t)
	devices := openDevices(t, driver, 2)
	backends, err := kernel.Available()
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(7, 12))
	const entities, fit = 1000, 700
	g := randomGraph(rng, entities, 2, 2000, 10, 10)
	index := kg.NewIndex(g)
	for _, c := range []struct {
		model   string
		d       int
		kind    checkpointKind
		devices int
	}{{"mquine", 4, checkpointKinds[0], 1}, {"complex", 5, vectorKinds[0], 1}, {"rotate", 5, vectorKinds[0], 2}} {
		m := newModel(t, c.model, c.d, g, 7, c.kind)
		k := devicePad(widestTower(m))
		o := Options{Backend: backends[0], Threads: 2}
		want, err := Run(context.Background(), m, index, g.Splits[kg.Test], o)
		require.NoError(t, err)
		queries := []kg.Query{{Side: kg.Tail, Relation: 0, Anchor: 3}, {Side: kg.Head, Relation: 1, Anchor: 4}}
		lists, err := Predict(context.Background(), m, index, queries, 20, true, o)
		require.NoError(t, err)

		o.Devices = devices[:c.devices]
		whole, err := newSlicing(m, o, false)
		require.NoError(t, err)
		require.Equal(t, slicing{entities, 1, whole.constructs, whole.kappa}, whole)
		far := 0
		if whole.constructs {
			far = farTruths
		}
		held := (2*laneBytes(k, far) + int64(fit/c.devices+2*cuda.CandidateTile)*candidateBytes(k)) * 16 / 15
		driver.Set("memory", held)
		x, err := newSlicing(m, o, false)
		require.NoError(t, err)
		require.Equal(t, 2, x.buffers, c.model)
		require.Less(t, x.size, entities, c.model)
		got, err := Run(context.Background(), m, index, g.Splits[kg.Test], o)
		require.NoError(t, err)
		require.Equal(t, want.Ranks, got.Ranks, c.model)
		predicted, err := Predict(context.Background(), m, index, queries, 20, true, o)
		require.NoError(t, err)
		require.Equal(t, lists, predicted, c.model)

		driver.Set("memory", held/8)
		var full *cuda.MemoryError
		_, err = Run(context.Background(), m, index, g.Splits[kg.Test], o)
		require.ErrorAs(t, err, &full, c.model)
		driver.Reset("memory")
		bytes, _, streams := driver.Held()
		require.Zero(t, bytes, "device memory is left")
		require.Zero(t, streams, "streams are left")
	}
}

// watchedModel tells when its features of an entity are asked for.
type watchedModel struct {
	model.Model
	asked func(e int32)
}

type watchedWorker struct {
	model.Worker
	asked func(e int32)
}

func (m watchedModel) NewWorker(b *kernel.Backend) model.Worker {
	return watchedWorker{m.Model.NewWorker(b), m.asked}
}

func (w watchedWorker) Features(side kg.Side, relation int32, entities []int32, phi model.Rows, sizes []float64) {
	for _, e := range entities {
		w.asked(e)
	}
	w.Worker.Features(side, relation, entities, phi, sizes)
}

// While a slice is screened, the next is prepared, and no more than that.
func TestDevicesPrepareAhead(t *testing.T) {
	driver := standin.Use(t)
	devices := openDevices(t, driver, 1)
	backends, err := kernel.Available()
	require.NoError(t, err)
	const entities, size = 120, 40
	g := randomGraph(rand.New(rand.NewPCG(7, 13)), entities, 2, 200, 10, 1)
	asked := [entities / size]chan struct{}{}
	var once [entities / size]sync.Once
	for i := range asked {
		asked[i] = make(chan struct{})
	}
	m := watchedModel{newModel(t, "distmult", 5, g, 7, vectorKinds[0]), func(e int32) { once[e/size].Do(func() { close(asked[e/size]) }) }}
	o := Options{Backend: backends[0], Threads: 1, Devices: devices, FeatureMemory: 2 * size * candidateBytes(devicePad(5))}
	tr := g.Splits[kg.Test][0]
	r := newRun(m, kg.NewIndex(g), o, newPlan(m, []Rank{{Triple: tr, Side: kg.Tail}}))
	d, err := newDeviceRun(r, o)
	require.NoError(t, err)
	defer d.close()
	require.Equal(t, slicing{size: size, buffers: 2}, d.slicing)
	var screened []int
	err = d.eachSlice(t.Context(), o, new(Stats), deviceBlock, func(ctx context.Context, _ int, _ item, sl *slot) error {
		at := sl.f.first / size
		screened = append(screened, at)
		if at+1 < len(asked) {
			select {
			case <-asked[at+1]:
			case <-time.After(time.Minute):
				t.Error("the next slice waits for this one")
			}
		}
		if at+2 < len(asked) {
			select {
			case <-asked[at+2]:
				t.Error("a slice has no buffer of its own")
			case <-time.After(20 * time.Millisecond):
			}
		}
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, []int{0, 1, 2}, screened)
}

// Lists that are too short for all candidates: the same ranks, in more launches.
func TestDeviceListOverflow(t *testing.T) {
	driver := standin.Use(t)
	devices := openDevices(t, driver, 1)
	backends, err := kernel.Available()
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(7, 9))
	g := randomGraph(rng, 700, 2, 300, 10, 30)
	defer func(room int) { deviceList = room }(deviceList)
	deviceList = cuda.CandidateTile * 60
	for _, kind := range []checkpointKind{checkpointKinds[2], checkpointKinds[len(checkpointKinds)-1]} { // one ulp apart, collapsed
		m := newModel(t, "mquine", 3, g, 3, kind)
		o := Options{Backend: backends[0], Threads: 1}
		want, err := Run(context.Background(), m, kg.NewIndex(g), g.Splits[kg.Test], o)
		require.NoError(t, err)
		o.Devices = devices
		got, err := Run(context.Background(), m, kg.NewIndex(g), g.Splits[kg.Test], o)
		require.NoError(t, err)
		assert.Equal(t, want.Ranks, got.Ranks, kind.name)
		assert.Greater(t, got.Stats.Rescored.Float64, int64(deviceList), "%s: all at once would not have fitted", kind.name)
	}
}

// A device that fails at any point ends the ranking with its error, and gives back what it held.
func TestDeviceFaults(t *testing.T) {
	driver := standin.Use(t)
	backends, err := kernel.Available()
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(7, 7))
	g := randomGraph(rng, 60, 2, 200, 20, 20)
	index := kg.NewIndex(g)
	m := newModel(t, "mquine", 3, g, 3, checkpointKinds[0])
	memory := int64(0) // all candidates at once, or three slices through two buffers
	run := func(devices []*cuda.Device) error {
		_, err := Run(context.Background(), m, index, g.Splits[kg.Test], Options{Backend: backends[0], Threads: 1, Devices: devices, FeatureMemory: memory})
		return err
	}
	devices := openDevices(t, driver, 1)
	require.NoError(t, run(devices))
	for i, fault := range []struct{ name, want string }{
		{"fail_alloc", "is out of memory"}, {"fail_launch", "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
		{"fail_alloc", "is out of memory"}, {"fail_launch", "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
	} {
		if i == 2 {
			memory = 40 * candidateBytes(devicePad(widestTower(m)))
			_, slices := Memory(m, Options{Backend: backends[0], Devices: devices, FeatureMemory: memory})
			require.Equal(t, 3, slices)
		}
		failures := 0
		for n := int64(1); ; n++ {
			driver.Set(fault.name, n)
			err := run(devices)
			driver.Reset(fault.name)
			bytes, _, streams := driver.Held()
			require.Zero(t, bytes, "%s %d", fault.name, n)
			require.Zero(t, streams, "%s %d", fault.name, n)
			if err == nil {
				break
			}
			assert.ErrorContains(t, err, fault.want)
			failures++
		}
		assert.GreaterOrEqual(t, failures, 4, fault.name)
	}
	driver.Set("lose", 2)
	err = run(devices)
	assert.ErrorContains(t, err, "the GPU is lost to this process")
	assert.Equal(t, err, run(devices), "and stays lost")

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	fresh, err := cuda.Open(0)
	require.NoError(t, err)
	defer fresh.Close()
	_, err = Run(ctx, m, index, g.Splits[kg.Test], Options{Backend: backends[0], Threads: 1, Devices: []*cuda.Device{fresh}})
	assert.Error(t, err)
}

// What another program does to the file of a checkpoint ends a ranking on devices as it does one on the
// processor, and leaves nothing on the devices.
func TestDevicesChangingCheckpoint(t *testing.T) {
	driver := standin.Use(t)
	devices := openDevices(t, driver, 1)
	backends, err := kernel.Available()
	require.NoError(t, err)
	for _, kind := range []changing{
		mquineChanging("model", 100, 8),
		{"entity table", "entity_embedding.npy", 60, writeRotateFolder},
	} {
		t.Run(kind.name, func(t *testing.T) {
			checkChanging(t, kind, Options{Backend: backends[0], Threads: 2, Devices: devices})
		})
	}
	bytes, _, streams := driver.Held()
	assert.Zero(t, bytes, "device memory is left")
	assert.Zero(t, streams, "streams are left")
}
