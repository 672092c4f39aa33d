//go:build linux && (amd64 || arm64) && !nocuda

package gpu

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/proc/proctest"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/cuda"
	"github.com/mquine/mquine/kernel/cuda/standin"
	"github.com/mquine/mquine/kernel/kerneltest"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/kgtest"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank"
	"github.com/mquine/mquine/rank/internal/engine"
	"github.com/mquine/mquine/rank/internal/ranktest"
)

// openDevices opens n devices of the stand-in driver. In turn, they are like an RTX 30 and an H200,
// which use different variants of the tensor-core screen.
func openDevices(t *testing.T, driver *standin.Driver, n int) []*cuda.Device {
	driver.Set("devices", int64(n))
	var devices []*cuda.Device
	for i := range n {
		driver.Set("capability", []int64{86, 90}[i%2])
		driver.Set("shared", []int64{99 << 10, 227 << 10}[i%2])
		d, err := cuda.Open(i)
		require.NoError(t, err)
		t.Cleanup(d.Close)
		devices = append(devices, d)
	}
	return devices
}

// gpuEnv is the environment variable that makes tests run on GPUs, not only on the stand-in, as in
// package cuda.
const gpuEnv = "MQUINE_GPU"

// openGPUs opens one or two GPUs.
func openGPUs(t *testing.T) (devices []*cuda.Device) {
	if os.Getenv(gpuEnv) == "" {
		t.Skip(gpuEnv + "=1 runs this on a GPU")
	}
	infos, err := cuda.List()
	require.NoError(t, err)
	for i := range infos[:min(2, len(infos))] {
		d, err := cuda.Open(i)
		require.NoError(t, err)
		t.Cleanup(d.Close)
		devices = append(devices, d)
	}
	return devices
}

func TestGPUsExact(t *testing.T) { conformExact(t, openGPUs(t)) }

func TestGPUsShards(t *testing.T) { conformShards(t, openGPUs(t)) }

func TestGPUsPredict(t *testing.T) { conformPredict(t, openGPUs(t)) }

// trusted returns an engine that skips the self-test.
func trusted(devices ...*cuda.Device) *Engine {
	e := New(devices...)
	e.untested = true
	return e
}

// smallBlocks is like trusted, with small blocks, so that few queries occupy several teams.
func smallBlocks(devices ...*cuda.Device) *Engine {
	e := trusted(devices...)
	e.blockQueries = cuda.QueryTile
	return e
}

// teamsOf returns the number of teams that run creates for a ranking with one device. Every team and
// every buffer has one stream.
func teamsOf(driver *standin.Driver, buffers int, run func()) int {
	before := driver.Streams()
	run()
	return driver.Streams() - before - buffers
}

// requireVariants returns a function that checks that both variants of the tensor-core screen have been
// launched since. In short mode, only the variant of the first device must have been.
func requireVariants(t *testing.T, driver *standin.Driver) func() {
	launches := func() (small, large int) {
		return driver.Launches("count_half_128_small"), driver.Launches("count_half_128")
	}
	small, large := launches()
	return func() {
		nowSmall, nowLarge := launches()
		assert.Greater(t, nowSmall, small)
		assert.True(t, nowLarge > large || testing.Short())
	}
}

func TestDevicesExact(t *testing.T) {
	driver := standin.Use(t)
	defer requireVariants(t, driver)()
	conformExact(t, openDevices(t, driver, 2))
	bytes, _, open := driver.Held()
	assert.Zero(t, bytes, "memory is left")
	assert.Zero(t, open, "streams or events are left")
}

// conformExact checks that the GPUs' ranks of every kind of checkpoint, exact and with a tolerance,
// equal the processor's. It uses the first device and all devices, with all candidates in one slice
// and in several.
func conformExact(t *testing.T, devices []*cuda.Device) {
	backend := kerneltest.Best(t)
	rng := rand.New(rand.NewPCG(7, 7))
	g := ranktest.Graph(rng, 150, 4, 600, 60, 60)
	index, test := kgtest.Index(t, g), g.Splits[kg.Test]
	checked := 0
	check := func(m model.Model, kind, name string, d int) {
		checked++
		tolerances := []rank.Tolerance{{Absolute: 1e-5, Relative: 1e-4}}
		want, err := rank.Run(context.Background(), m, index, test,
			rank.Options{Backend: backend, Threads: 2, Tolerances: tolerances})
		require.NoError(t, err)
		for i, o := range []rank.Options{
			{Threads: 2, Engine: trusted(devices[:1]...)},
			{Threads: 1, Engine: trusted(devices...), FeatureMemory: 35 * candidateBytes(pad(engine.WidestTower(m)))},
		} {
			if i > 0 && (testing.Short() || checked%4 != 1) {
				break
			}
			o.Backend, o.Tolerances = backend, tolerances
			got, err := rank.Run(context.Background(), m, index, test, o)
			require.NoError(t, err)
			require.Equal(t, want.Ranks, got.Ranks, "%s, %s d = %d, %v", kind, name, d, o.Engine)
			require.Equal(t, want.Near, got.Near, "%s, %s d = %d, %v", kind, name, d, o.Engine)
		}
	}
	for _, kind := range ranktest.MatrixKinds {
		check(ranktest.Model(t, "mquine", 7, g, 7, kind), kind.Name, "mquine", 7)
	}
	check(ranktest.Model(t, "mquade", 12, g, 12, ranktest.MatrixKinds[0]), "random", "mquade", 12)
	// Models with dot products differ only in what the processor does, so two of them are enough for
	// most kinds of checkpoints.
	for i, kind := range ranktest.VectorKinds {
		if i > 0 {
			test = g.Splits[kg.Test][:20]
		}
		dots := 0
		for j, c := range ranktest.VectorConfigs(9, g) {
			if testing.Short() && j > 1 {
				break
			}
			m := ranktest.ModelOf(t, c, 9, kind)
			if !cuda.Supports(m.Tower(kg.Tail).Compare) {
				continue // TestUnsupported
			}
			if m.Tower(kg.Tail).Compare == kernel.Dot {
				if dots++; i > 0 && dots%3 != i%3 {
					continue
				}
			}
			check(m, kind.Name, c.Model, 9)
		}
	}
}

// TestSelfTest checks that tensor cores that round as badly as assumed pass the self-test for every
// kind of model, and that tensor cores that add with ten bits fail it.
func TestSelfTest(t *testing.T) {
	driver := standin.Use(t)
	device := openDevices(t, driver, 1)[0]
	backend := kerneltest.Best(t)
	g := ranktest.Graph(rand.New(rand.NewPCG(7, 12)), 20, 2, 20, 20, 20)
	names := model.Names()
	if testing.Short() {
		names = []string{"mquine", "rotate"}
	}
	good := New(device)
	for _, name := range names {
		m := ranktest.Model(t, name, 8, g, 7, ranktest.VectorKinds[0])
		if !cuda.Supports(m.Tower(kg.Tail).Compare) {
			continue
		}
		require.NoError(t, good.Test(t.Context(), m, backend, 2), name)
	}
	m := ranktest.Model(t, "mquine", 8, g, 7, ranktest.VectorKinds[0])
	for _, c := range []struct {
		model string
		d     int
	}{{"mquine", 8}, {"mquade", 12}, {"complex", 100}, {"distmult", 200}, {"transe-l2", 60}} {
		if testing.Short() && c.model != "mquine" {
			break
		}
		driver.Set("careless", 13)
		m := ranktest.Model(t, c.model, c.d, g, 7, ranktest.VectorKinds[0])
		err := New(device).Test(t.Context(), m, backend, 2)
		want := "GPU 0 (Stand-in) failed the self-test: its results for model " + c.model + " on a small graph differ"
		assert.ErrorContains(t, err, want)
		driver.Reset("careless")
	}
	driver.Set("fail_launch", 1)
	assert.NoError(t, good.Test(t.Context(), m, backend, 2), "each configuration is tested once")
	reciprocal := m.Config()
	reciprocal.Reciprocal = true
	other := ranktest.ModelOf(t, reciprocal, 7, ranktest.VectorKinds[0])
	assert.ErrorContains(t, good.Test(t.Context(), other, backend, 2), "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES")
	driver.Set("fail_launch", 1)
	assert.ErrorContains(t, New(device).Test(t.Context(), m, backend, 2), "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES")
}

// TestUnsupported checks that the processor ranks ensembles and models whose comparison the GPUs lack,
// with a note, and that the GPUs stay open for other models. Without OrProcessor, ranking such a model
// is an error.
func TestUnsupported(t *testing.T) {
	driver := standin.Use(t)
	device := openDevices(t, driver, 1)[0]
	g := ranktest.Graph(rand.New(rand.NewPCG(7, 15)), 30, 2, 50, 10, 10)
	index := kgtest.Index(t, g)
	distmult := ranktest.Model(t, "distmult", 3, g, 3, ranktest.VectorKinds[0])
	ensemble, err := model.NewEnsemble([]model.Member{{Model: distmult, Weight: 1}, {Model: distmult, Weight: 2}})
	require.NoError(t, err)
	models := []model.Model{ensemble}
	reasons := map[string]string{"ensemble": "whose self-test does not know it"}
	for _, name := range model.Names() {
		m := ranktest.Model(t, name, 3, g, 3, ranktest.VectorKinds[0])
		if c := m.Tower(kg.Tail).Compare; !cuda.Supports(c) {
			models, reasons[name] = append(models, m), "which lack the comparison "+c.String()
		}
	}
	e := New(device)
	for _, untested := range []bool{false, true} {
		e.untested = untested
		for _, m := range models {
			name := m.Config().Model
			e.fallback = nil
			o := rank.Options{Threads: 1, Engine: e}
			_, err := rank.Run(t.Context(), m, index, g.Splits[kg.Test], o)
			require.EqualError(t, err,
				"model "+name+" cannot be ranked on GPUs, "+reasons[name]+": only the processor ranks it")
			var notes []error
			e.OrProcessor(func(err error) { notes = append(notes, err) })
			got, err := rank.Run(t.Context(), m, index, g.Splits[kg.Test], o)
			require.NoError(t, err)
			require.Len(t, notes, 1)
			want, err := rank.Run(t.Context(), m, index, g.Splits[kg.Test], rank.Options{Threads: 1})
			require.NoError(t, err)
			assert.Equal(t, want.Ranks, got.Ranks)
		}
	}
	m := ranktest.Model(t, "mquine", 3, g, 3, ranktest.MatrixKinds[0])
	_, err = rank.Run(t.Context(), m, index, g.Splits[kg.Test], rank.Options{Threads: 1, Engine: e})
	assert.NoError(t, err, "the GPUs are still open")
}

// TestOtherErrors checks that the processor does not take the place of the GPUs after errors that they
// did not cause, before and after they fail.
func TestOtherErrors(t *testing.T) {
	driver := standin.Use(t)
	device := openDevices(t, driver, 1)[0]
	g := ranktest.Graph(rand.New(rand.NewPCG(7, 15)), 30, 2, 50, 10, 10)
	m, index := ranktest.Model(t, "mquine", 3, g, 3, ranktest.MatrixKinds[0]), kgtest.Index(t, g)
	var notes []error
	e := trusted(device)
	e.OrProcessor(func(err error) { notes = append(notes, err) })
	run := func(triple kg.Triple, threads int) error {
		_, err := rank.Run(t.Context(), m, index, []kg.Triple{triple}, rank.Options{Threads: threads, Engine: e})
		return err
	}
	outside := kg.Triple{Head: 30}
	for _, failed := range []bool{false, true} {
		if failed {
			driver.Set("fail_launch", 1)
			require.NoError(t, run(kg.Triple{}, 1), "the processor ranks")
			driver.Reset("fail_launch")
			require.Len(t, notes, 1)
		}
		_, noAnswers := rank.Predict(t.Context(), m, index, []kg.Query{{}}, rank.Top{K: 0},
			rank.Options{Threads: 1, Engine: e})
		for want, err := range map[string]error{
			"-1 threads": run(kg.Triple{}, -1), "outside the model's 30 entities": run(outside, 1),
			"cannot predict 0 candidates": noAnswers,
		} {
			require.ErrorContains(t, err, want)
			require.False(t, e.Fallback(err), "ranking again cannot help")
		}
		_, err := device.Free()
		require.Equal(t, failed, errors.Is(err, cuda.ErrClosed), "the GPU is open until it fails")
	}
	require.Len(t, notes, 1)
}

// TestFallback checks that the processor ranks, with one note, if the GPUs fail the self-test or a
// ranking and OrProcessor allows it. Otherwise the ranking returns the error of the GPUs.
func TestFallback(t *testing.T) {
	driver := standin.Use(t)
	driver.Set("devices", 1)
	g := ranktest.Graph(rand.New(rand.NewPCG(7, 14)), 60, 2, 200, 20, 20)
	m, index := ranktest.Model(t, "mquine", 3, g, 3, ranktest.MatrixKinds[0]), kgtest.Index(t, g)
	want, err := rank.Run(t.Context(), m, index, g.Splits[kg.Test], rank.Options{Threads: 2})
	require.NoError(t, err)
	queries := []kg.Query{{Anchor: 3}}
	lists, err := rank.Predict(t.Context(), m, index, queries, rank.Top{K: 5}, rank.Options{Threads: 2})
	require.NoError(t, err)
	for _, fault := range []struct {
		name     string
		value    int64
		untested bool // fails while it ranks
		want     string
	}{
		{"careless", 13, false, "failed the self-test"}, {"fail_launch", 4, true, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
		{"lose", 3, true, "this process can no longer use the GPU"},
	} {
		strict, err := Open(0)
		require.NoError(t, err)
		strict.untested = fault.untested
		driver.Set(fault.name, fault.value)
		_, err = rank.Run(t.Context(), m, index, g.Splits[kg.Test], rank.Options{Threads: 2, Engine: strict})
		assert.ErrorContains(t, err, fault.want)
		driver.Reset(fault.name)
		strict.Close()

		e, err := Open(0)
		require.NoError(t, err)
		var notes []error
		e.OrProcessor(func(err error) { notes = append(notes, err) })
		e.untested = fault.untested
		o := rank.Options{Threads: 2, Engine: e}
		driver.Set(fault.name, fault.value)
		got, err := rank.Run(t.Context(), m, index, g.Splits[kg.Test], o)
		driver.Reset(fault.name)
		require.NoError(t, err)
		assert.Equal(t, want.Ranks, got.Ranks)
		assert.Empty(t, got.Stats.Engine)
		predicted, err := rank.Predict(t.Context(), m, index, queries, rank.Top{K: 5}, o)
		require.NoError(t, err)
		assert.Equal(t, lists, predicted)
		require.Len(t, notes, 1)
		assert.ErrorContains(t, notes[0], fault.want)
	}
	fresh, err := Open(0)
	require.NoError(t, err)
	defer fresh.Close()
	got, err := rank.Run(t.Context(), m, index, g.Splits[kg.Test], rank.Options{Threads: 2, Engine: fresh})
	require.NoError(t, err)
	assert.Equal(t, "GPU 0 (Stand-in)", got.Stats.Engine)
	assert.Equal(t, want.Ranks, got.Ranks)
}

// TestOpenErrors checks the numbers that Open refuses.
func TestOpenErrors(t *testing.T) {
	driver := standin.Use(t)
	driver.Set("devices", 1)
	for want, indices := range map[string][]int{
		"cuda: there is no GPU 1: the driver finds 1, numbered from 0":      {0, 1},
		"rank: gpu.Open needs at least one GPU: give its number, such as 0": nil,
		"rank: gpu.Open got GPU 0 twice: give distinct numbers":             {0, 0},
	} {
		_, err := Open(indices...)
		assert.EqualError(t, err, want)
	}
	_, contexts, _ := driver.Held()
	assert.Zero(t, contexts, "GPUs are open")
}

// TestDevicesConstruct ranks with targets that are candidates of a different device or slice. There
// are more of them than remoteTargets.
func TestDevicesConstruct(t *testing.T) {
	driver := standin.Use(t)
	devices := openDevices(t, driver, 2)
	backend := kerneltest.Best(t)
	rng := rand.New(rand.NewPCG(7, 10))
	g := ranktest.Graph(rng, 150, 2, 200, 20, 40)
	index := kgtest.Index(t, g)
	for _, name := range []string{"mquine", "mquade"} {
		m := ranktest.Model(t, name, 5, g, 7, ranktest.MatrixKinds[0])
		o := rank.Options{Backend: backend, Threads: 2}
		want, err := rank.Run(context.Background(), m, index, g.Splits[kg.Test], o)
		require.NoError(t, err)
		e := trusted(devices...)
		e.remoteTargets = 7
		o.Engine, o.FeatureMemory = e, 70*candidateBytes(pad(engine.WidestTower(m)))
		got, err := rank.Run(context.Background(), m, index, g.Splits[kg.Test], o)
		require.NoError(t, err)
		require.Equal(t, want.Ranks, got.Ranks, name)
	}
}

// TestConstructs checks for which models the devices construct the features.
func TestConstructs(t *testing.T) {
	driver := standin.Use(t)
	devices := openDevices(t, driver, 1)
	g := ranktest.Graph(rand.New(rand.NewPCG(7, 11)), 150, 2, 20, 20, 20)
	const tooLarge = 20
	for _, c := range []struct {
		model string
		d     int
		want  bool
	}{
		{"mquine", tooLarge - 1, true}, {"mquade", 6, true}, {"mquine", tooLarge, false},
		{"distmult", 7, false}, {"mquine", cuda.MaxTowerDim + 1, false},
	} {
		m := ranktest.Model(t, c.model, c.d, g, 7, ranktest.VectorKinds[0])
		driver.Reset("memory")
		if c.d == tooLarge { // one byte less than twice the size of the parameters
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

// TestDevicesStream checks that candidates that do not fit into a device's memory pass through two
// buffers, slice by slice, with the same ranks and predictions.
func TestDevicesStream(t *testing.T) {
	driver := standin.Use(t)
	devices := openDevices(t, driver, 2)
	backend := kerneltest.Best(t)
	rng := rand.New(rand.NewPCG(7, 12))
	const entities, fit = 1000, 700
	g := ranktest.Graph(rng, entities, 2, 2000, 10, 10)
	index := kgtest.Index(t, g)
	for _, c := range []struct {
		model   string
		d       int
		kind    ranktest.Kind
		devices int
	}{
		{"mquine", 4, ranktest.MatrixKinds[0], 1}, {"complex", 5, ranktest.VectorKinds[0], 1},
		{"rotate", 5, ranktest.VectorKinds[0], 2},
	} {
		m := ranktest.Model(t, c.model, c.d, g, 7, c.kind)
		k := pad(engine.WidestTower(m))
		o := rank.Options{Backend: backend, Threads: 2}
		want, err := rank.Run(context.Background(), m, index, g.Splits[kg.Test], o)
		require.NoError(t, err)
		queries := []kg.Query{{Side: kg.Tail, Relation: 0, Anchor: 3}, {Side: kg.Head, Relation: 1, Anchor: 4}}
		lists, err := rank.Predict(context.Background(), m, index, queries, rank.Top{K: 20, FilterKnown: true}, o)
		require.NoError(t, err)

		e := trusted(devices[:c.devices]...)
		o.Engine = e
		j := &engine.Job{
			Model: m, Most: entities, Threads: 2, FeatureMemory: rank.DefaultFeatureMemory, OnePass: true,
		}
		whole, err := e.slicing(j)
		require.NoError(t, err)
		require.Equal(t, slicing{entities, 1, 2, whole.constructs, whole.kappa}, whole)
		far := 0
		if whole.constructs {
			far = e.remoteTargets
		}
		held := (e.workerBytes(k, far) + int64(fit/c.devices+2*cuda.CandidateTile)*candidateBytes(k)) * 16 / 15
		driver.Set("memory", held)
		x, err := e.slicing(j)
		require.NoError(t, err)
		require.Equal(t, 2, x.buffers, c.model)
		require.Equal(t, 1, x.blocks, c.model)
		require.Less(t, x.size, entities, c.model)
		got, err := rank.Run(context.Background(), m, index, g.Splits[kg.Test], o)
		require.NoError(t, err)
		require.Equal(t, want.Ranks, got.Ranks, c.model)
		predicted, err := rank.Predict(context.Background(), m, index, queries, rank.Top{K: 20, FilterKnown: true}, o)
		require.NoError(t, err)
		require.Equal(t, lists, predicted, c.model)

		driver.Set("memory", held/8)
		var full *cuda.MemoryError
		_, err = rank.Run(context.Background(), m, index, g.Splits[kg.Test], o)
		require.ErrorAs(t, err, &full, c.model)
		driver.Reset("memory")
		bytes, _, open := driver.Held()
		require.Zero(t, bytes, "memory is left")
		require.Zero(t, open, "streams are left")
	}
}

func TestDevicesShards(t *testing.T) { conformShards(t, openDevices(t, standin.Use(t), 2)) }

// conformShards checks that the ranks of three ranges of the candidates add up. All devices count the
// first range in slices, one device counts the second, and the processor counts the third.
func conformShards(t *testing.T, devices []*cuda.Device) {
	rng := rand.New(rand.NewPCG(7, 17))
	g := ranktest.Graph(rng, 150, 3, 600, 60, 40)
	index, test := kgtest.Index(t, g), g.Splits[kg.Test]
	for _, c := range []struct {
		model string
		kind  ranktest.Kind
	}{{"mquine", ranktest.MatrixKinds[2]}, {"complex", ranktest.VectorKinds[2]}, {"rotate", ranktest.VectorKinds[1]}} {
		m := ranktest.Model(t, c.model, 5, g, 3, c.kind)
		want, err := rank.Run(t.Context(), m, index, test, rank.Options{Threads: 2})
		require.NoError(t, err)
		var sum []rank.Rank
		for i, o := range []rank.Options{
			{Shard: rank.Range{First: 0, Last: 63}, Engine: trusted(devices...),
				FeatureMemory: 50 * candidateBytes(pad(engine.WidestTower(m)))},
			{Shard: rank.Range{First: 63, Last: 101}, Engine: trusted(devices[0])},
			{Shard: rank.Range{First: 101, Last: 150}},
		} {
			o.Threads = 2
			part, err := rank.Run(t.Context(), m, index, test, o)
			require.NoError(t, err)
			if i == 0 {
				sum = part.Ranks
			} else {
				require.NoError(t, rank.Add(sum, part.Ranks))
			}
		}
		require.Equal(t, want.Ranks, sum, "%s, %s", c.model, c.kind.Name)
	}
}

// TestDevicesWithoutCandidates gives two devices a single candidate for most relations, so one of
// them has none. Without waits for this device, its staging memory would overflow.
func TestDevicesWithoutCandidates(t *testing.T) {
	driver := standin.Use(t)
	devices := openDevices(t, driver, 2)
	const relations = 40
	g := ranktest.Graph(rand.New(rand.NewPCG(7, 5)), 60, relations, 100, 10, 6000)
	index := kgtest.Index(t, g)
	m := ranktest.Model(t, "complex", 5, g, 5, ranktest.VectorKinds[0])
	o := rank.Options{Backend: kerneltest.Best(t), Threads: 1, Among: rank.NewCandidates(relations)}
	for r := range int32(relations - 1) {
		o.Among.Restrict(kg.Tail, r, []int32{r})
		o.Among.Restrict(kg.Head, r, []int32{r})
	}
	queries := make([]kg.Query, 0, relations)
	for r := range int32(relations) {
		queries = append(queries, kg.Query{Side: kg.Side(r % 2), Relation: r, Anchor: r})
	}
	want, err := rank.Run(t.Context(), m, index, g.Splits[kg.Test], o)
	require.NoError(t, err)
	lists, err := rank.Predict(t.Context(), m, index, queries, rank.Top{K: 3, FilterKnown: true}, o)
	require.NoError(t, err)
	o.Engine = trusted(devices...)
	got, err := rank.Run(t.Context(), m, index, g.Splits[kg.Test], o)
	require.NoError(t, err)
	require.Equal(t, want.Ranks, got.Ranks)
	predicted, err := rank.Predict(t.Context(), m, index, queries, rank.Top{K: 3, FilterKnown: true}, o)
	require.NoError(t, err)
	require.Equal(t, lists, predicted)
}

// TestTeams ranks with several teams, and with more goroutines than teams, which wait for one another.
// It cancels rankings while they wait.
func TestTeams(t *testing.T) {
	driver := standin.Use(t)
	devices := openDevices(t, driver, 1)
	g := ranktest.Graph(rand.New(rand.NewPCG(7, 6)), 300, 6, 100, 10, 600)
	index, test := kgtest.Index(t, g), g.Splits[kg.Test]
	m := ranktest.Model(t, "distmult", 4, g, 5, ranktest.VectorKinds[0])
	o := rank.Options{Backend: kerneltest.Best(t), Threads: 4}
	want, err := rank.Run(t.Context(), m, index, test, o)
	require.NoError(t, err)
	require.Greater(t, want.Stats.UniqueQueries, 4*cuda.QueryTile, "a block for each goroutine")
	e := smallBlocks(devices...)
	o.Engine = e
	for _, teams := range []int{mostBlocks, 3, 1} {
		e.mostBlocks = teams
		require.Equal(t, min(teams, o.Threads), teamsOf(driver, 1, func() {
			got, err := rank.Run(t.Context(), m, index, test, o)
			require.NoError(t, err)
			require.Equal(t, want.Ranks, got.Ranks)
		}))
	}
	for n := int64(1); ; n *= 2 {
		driver.Set("fail_launch", n)
		_, err := rank.Run(t.Context(), m, index, test, o)
		driver.Reset("fail_launch")
		bytes, _, open := driver.Held()
		require.Zero(t, bytes, n)
		require.Zero(t, open, n)
		if err == nil {
			require.Greater(t, n, int64(4))
			break
		}
		require.ErrorContains(t, err, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES")
	}
	for delay := time.Duration(0); delay < 20*time.Millisecond; delay += 2 * time.Millisecond {
		ctx, cancel := context.WithTimeout(t.Context(), delay)
		if _, err := rank.Run(ctx, m, index, test, o); err != nil {
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		cancel()
		bytes, _, open := driver.Held()
		require.Zero(t, bytes, delay)
		require.Zero(t, open, delay)
	}
}

// TestTeamsHaveWork checks that a ranking or a prediction with few queries creates no more teams than a
// pass has blocks.
func TestTeamsHaveWork(t *testing.T) {
	driver := standin.Use(t)
	devices := openDevices(t, driver, 1)
	const entities, queries = 300, 2*cuda.QueryTile + 1
	g := ranktest.Graph(rand.New(rand.NewPCG(7, 22)), entities, 4, 100, 10, 0)
	index := kgtest.Index(t, g)
	m := ranktest.Model(t, "distmult", 4, g, 5, ranktest.VectorKinds[0])
	var asked []kg.Query
	var several []kg.Triple // the same number for each relation
	for i := range int32(queries) {
		asked = append(asked, kg.Query{Anchor: i})
		g.Splits[kg.Test] = append(g.Splits[kg.Test], kg.Triple{Head: i, Tail: 1})
		several = append(several, kg.Triple{Head: i, Relation: i % 4, Tail: 1})
	}
	among := rank.NewCandidates(4) // different ones, so every relation has a separate pass
	for r := range int32(4) {
		among.Restrict(kg.Tail, r, []int32{r, 10, 20})
	}
	o := rank.Options{Threads: 8, Engine: trusted(devices...), Sides: []kg.Side{kg.Tail}}
	small := o
	small.Engine = smallBlocks(devices...)
	run := func(triples []kg.Triple, o rank.Options) func() {
		return func() {
			_, err := rank.Run(t.Context(), m, index, triples, o)
			require.NoError(t, err)
		}
	}
	require.Equal(t, 1, teamsOf(driver, 1, run(g.Splits[kg.Test], o)))
	require.Equal(t, 3, teamsOf(driver, 1, run(g.Splits[kg.Test], small)))
	small.Among = among
	require.Equal(t, 1, teamsOf(driver, 2, run(several, small)), "with four passes")
	require.Equal(t, 3, teamsOf(driver, 1, func() {
		_, err := rank.Predict(t.Context(), m, index, asked, rank.Top{K: 3}, o)
		require.NoError(t, err)
	}))
}

// TestDeviceListOverflow checks that, if lists are too short for all candidates, there are more
// launches but the same ranks.
func TestDeviceListOverflow(t *testing.T) {
	driver := standin.Use(t)
	devices := openDevices(t, driver, 1)
	backend := kerneltest.Best(t)
	rng := rand.New(rand.NewPCG(7, 9))
	g := ranktest.Graph(rng, 700, 2, 300, 10, 30)
	// All entities are known answers of a query with 100 targets, so the pairs of a target and a known
	// answer overflow the list too.
	for e := range int32(700) {
		hub := kg.Triple{Head: 0, Relation: 1, Tail: e}
		g.Splits[kg.Train] = append(g.Splits[kg.Train], hub)
		if e < 100 {
			g.Splits[kg.Test] = append(g.Splits[kg.Test], hub)
		}
	}
	e := trusted(devices...)
	e.listRoom = cuda.CandidateTile * 262
	oneULPApart, collapsed := ranktest.MatrixKinds[2], ranktest.MatrixKinds[len(ranktest.MatrixKinds)-1]
	// The float64 stage decides no pair.
	allEqual := ranktest.Kind{Name: "equal scores", Fill: func(rng *rand.Rand, _ model.Config, ts [][]float32) {
		ranktest.Normal(rng, ts[0], 0.3)
	}}
	for _, kind := range []ranktest.Kind{oneULPApart, collapsed, allEqual} {
		m := ranktest.Model(t, "mquine", 3, g, 3, kind)
		o := rank.Options{Backend: backend, Threads: 1}
		want, err := rank.Run(context.Background(), m, kgtest.Index(t, g), g.Splits[kg.Test], o)
		require.NoError(t, err)
		o.Engine = e
		got, err := rank.Run(context.Background(), m, kgtest.Index(t, g), g.Splits[kg.Test], o)
		require.NoError(t, err)
		assert.Equal(t, want.Ranks, got.Ranks, kind.Name)
		assert.Greater(t, got.Stats.Rescored.Float64, int64(e.listRoom), "%s: all at once would not have fit",
			kind.Name)
	}
}

// TestDeviceFaults checks that, if a device fails at any point, the ranking returns its error and
// frees the device's memory.
func TestDeviceFaults(t *testing.T) {
	driver := standin.Use(t)
	backend := kerneltest.Best(t)
	rng := rand.New(rand.NewPCG(7, 7))
	g := ranktest.Graph(rng, 60, 10, 200, 20, 80)
	index := kgtest.Index(t, g)
	m := ranktest.Model(t, "mquine", 3, g, 3, ranktest.MatrixKinds[0])
	// All candidates at once and one team, or three slices through two buffers and two teams.
	memory, threads, test := int64(0), 1, g.Splits[kg.Test][:20]
	run := func(devices []*cuda.Device) error {
		_, err := rank.Run(context.Background(), m, index, test, rank.Options{
			Backend: backend, Threads: threads, Engine: smallBlocks(devices...), FeatureMemory: memory})
		return err
	}
	devices := openDevices(t, driver, 1)
	require.Equal(t, 1, teamsOf(driver, 1, func() { require.NoError(t, run(devices)) }))
	for i, fault := range []struct{ name, want string }{
		{"fail_alloc", "is out of memory"}, {"fail_launch", "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
		{"fail_alloc", "is out of memory"}, {"fail_launch", "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
	} {
		if i == 2 {
			memory, threads, test = 40*candidateBytes(pad(engine.WidestTower(m))), 2, g.Splits[kg.Test]
			_, slices := rank.Memory(m, rank.Options{Backend: backend, Threads: threads,
				Engine: trusted(devices...), FeatureMemory: memory})
			require.Equal(t, 3, slices)
			require.Equal(t, 2, teamsOf(driver, 2, func() { require.NoError(t, run(devices)) }))
		}
		failures := 0
		// With several threads, the failing allocation may be part of a team that no block needs.
		for n, passed := int64(1), 0; passed < 2*threads; n++ {
			driver.Set(fault.name, n)
			err := run(devices)
			driver.Reset(fault.name)
			bytes, _, open := driver.Held()
			require.Zero(t, bytes, "%s %d", fault.name, n)
			require.Zero(t, open, "%s %d", fault.name, n)
			if err == nil {
				passed++
				continue
			}
			assert.ErrorContains(t, err, fault.want)
			failures++
		}
		assert.GreaterOrEqual(t, failures, 4, fault.name)
	}
	driver.Set("lose", 2)
	err := run(devices)
	assert.ErrorContains(t, err, "this process can no longer use the GPU")
	assert.Equal(t, err, run(devices), "and stays lost")

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	fresh, err := cuda.Open(0)
	require.NoError(t, err)
	defer fresh.Close()
	_, err = rank.Run(ctx, m, index, g.Splits[kg.Test],
		rank.Options{Backend: backend, Threads: 1, Engine: trusted(fresh)})
	assert.Error(t, err)
}

// TestSpan checks that the number of undecided pairs of a launch fits in 32 bits, and that a launch
// covers at most mostSpan candidates.
func TestSpan(t *testing.T) {
	require.LessOrEqual(t, uint64(mostSpan)*engine.BlockTargets, uint64(math.MaxUint32))
	require.Zero(t, mostSpan%cuda.CandidateTile)

	driver := standin.Use(t)
	devices := openDevices(t, driver, 1)
	const entities, tiles = 1200, 5
	g := ranktest.Graph(rand.New(rand.NewPCG(7, 18)), entities, 2, 200, 10, 10)
	m := ranktest.Model(t, "complex", 4, g, 7, ranktest.VectorKinds[0])
	index, test := kgtest.Index(t, g), g.Splits[kg.Test]
	e, o := trusted(devices...), rank.Options{Threads: 1}
	want, err := rank.Run(t.Context(), m, index, test, o)
	require.NoError(t, err)
	lists, err := rank.Predict(t.Context(), m, index, []kg.Query{{Anchor: 3}}, rank.Top{K: 5}, o)
	require.NoError(t, err)
	o.Engine = e
	launches := func() (count, contend int) {
		count, contend = -driver.Launches("decide_pairs"), -driver.Launches("score_pairs")
		got, err := rank.Run(t.Context(), m, index, test, o)
		require.NoError(t, err)
		require.Equal(t, want.Ranks, got.Ranks)
		predicted, err := rank.Predict(t.Context(), m, index, []kg.Query{{Anchor: 3}}, rank.Top{K: 5}, o)
		require.NoError(t, err)
		require.Equal(t, lists, predicted)
		return count + driver.Launches("decide_pairs"), contend + driver.Launches("score_pairs")
	}
	blocks, growing := launches()
	require.Less(t, growing, tiles)
	e.mostSpan = cuda.CandidateTile
	count, contend := launches()
	require.Equal(t, tiles*blocks, count)
	require.Equal(t, tiles, contend)
}

// TestSpanWidens checks that the passes after a pass whose pairs overflow the list need few launches.
// All scores of relation 0 are equal, so its pairs are undecided.
func TestSpanWidens(t *testing.T) {
	driver := standin.Use(t)
	devices := openDevices(t, driver, 1)
	const entities, relations, targets = 600, 6, 100
	g := ranktest.Graph(rand.New(rand.NewPCG(7, 19)), entities, relations, 0, 0, 0)
	o := rank.Options{Threads: 1, Sides: []kg.Side{kg.Tail}, Among: rank.NewCandidates(relations)}
	for r := range int32(relations) {
		var candidates []int32 // different ones, so every relation has a separate pass
		for e := range int32(entities) {
			if e != r {
				candidates = append(candidates, e)
			}
		}
		o.Among.Restrict(kg.Tail, r, candidates)
		g.Splits[kg.Test] = append(g.Splits[kg.Test], kg.Triple{Head: 1, Relation: r, Tail: 2})
	}
	for e := range int32(targets) {
		g.Splits[kg.Test] = append(g.Splits[kg.Test], kg.Triple{Head: 0, Relation: 0, Tail: e})
	}
	kind := ranktest.Kind{Name: "equal scores of 0", Fill: func(rng *rand.Rand, c model.Config, ts [][]float32) {
		for _, x := range ts {
			ranktest.Normal(rng, x, 0.3)
		}
		clear(ts[1][:c.Dim])
	}}
	m, index := ranktest.Model(t, "distmult", 4, g, 3, kind), kgtest.Index(t, g)
	want, err := rank.Run(t.Context(), m, index, g.Splits[kg.Test], o)
	require.NoError(t, err)
	e := trusted(devices...)
	o.Engine = e
	launches := func() int {
		before := driver.Launches("decide_pairs")
		got, err := rank.Run(t.Context(), m, index, g.Splits[kg.Test], o)
		require.NoError(t, err)
		require.Equal(t, want.Ranks, got.Ranks)
		return driver.Launches("decide_pairs") - before
	}
	require.Equal(t, relations, launches())
	// A launch overflows and is repeated as three. The next pass needs two and the others need one.
	e.listRoom = cuda.CandidateTile * (targets + 1)
	require.Equal(t, 1+3+2+relations-2, launches())
}

// TestFewTeams checks that a ranking whose device lacks memory for several teams works with the teams
// that fit. Allocations of each kind fail at every point, with one team and with several.
func TestFewTeams(t *testing.T) {
	driver := standin.Use(t)
	devices := openDevices(t, driver, 1)
	g := ranktest.Graph(rand.New(rand.NewPCG(7, 20)), 60, 10, 200, 20, 200)
	m, index := ranktest.Model(t, "distmult", 4, g, 3, ranktest.VectorKinds[0]), kgtest.Index(t, g)
	want, err := rank.Run(t.Context(), m, index, g.Splits[kg.Test], rank.Options{Threads: 1})
	require.NoError(t, err)
	failures := map[string]int{}
	for _, threads := range []int{1, 3} {
		o := rank.Options{Threads: threads, Engine: smallBlocks(devices...), FeatureMemory: 25 * candidateBytes(64)}
		teams := teamsOf(driver, 2, func() {
			got, err := rank.Run(t.Context(), m, index, g.Splits[kg.Test], o)
			require.NoError(t, err)
			require.Equal(t, want.Ranks, got.Ranks)
		})
		require.Equal(t, threads, teams)
		for _, fault := range []string{"fail_alloc", "fail_pin", "fail_stream", "fail_event"} {
			failed := 0
			for n := int64(1); ; n++ {
				driver.Set(fault, n)
				got, err := rank.Run(t.Context(), m, index, g.Splits[kg.Test], o)
				driver.Reset(fault)
				bytes, _, open := driver.Held()
				require.Zero(t, bytes, n)
				require.Zero(t, open, n)
				if err == nil {
					require.Equal(t, want.Ranks, got.Ranks)
					break
				}
				require.ErrorContains(t, err, "is out of memory")
				failed++
			}
			require.Positive(t, failed, fault)
			if threads == 1 {
				failures[fault] = failed
			}
			require.Equal(t, failures[fault], failed, "%s: one team is enough", fault)
		}
	}

	e := trusted(devices...)
	j := &engine.Job{Model: m, Most: 1000, Threads: 8, FeatureMemory: rank.DefaultFeatureMemory}
	perBlock := e.workerBytes(64, 0)
	for blocks, want := range map[int64]int{1: 1, 3: 1, 6: 3, 20: 6} {
		driver.Set("memory", blocks*perBlock*16/15+16)
		x, err := e.slicing(j)
		require.NoError(t, err)
		require.Equal(t, want, x.blocks, "memory for %d blocks", blocks)
	}
}

// TestDefaultFeatureMemory checks that, without FeatureMemory, the default bounds the slices unless the
// devices compute φ.
func TestDefaultFeatureMemory(t *testing.T) {
	driver := standin.Use(t)
	e := trusted(openDevices(t, driver, 1)...)
	g := ranktest.Graph(rand.New(rand.NewPCG(7, 23)), 30, 2, 0, 0, 0)
	const most = rank.DefaultFeatureMemory / 300 // candidates of more than 300 bytes each
	for name, constructs := range map[string]bool{"mquine": true, "distmult": false} {
		m := ranktest.Model(t, name, 4, g, 3, ranktest.VectorKinds[0])
		for _, bound := range []int64{0, rank.DefaultFeatureMemory} {
			use, err := e.Memory(&engine.Job{Model: m, Most: most, Threads: 1, FeatureMemory: bound})
			require.NoError(t, err)
			require.Equal(t, constructs && bound == 0, use.Slice == most, name)
			require.Equal(t, constructs, use.Host[0].Bytes == 0, name)
		}
	}
}

// TestHostMemory checks that a ranking on a GPU makes slices smaller if the host has little memory for
// features, that it refuses to begin if the memory does not suffice, and that it needs no memory for
// features if the GPU computes them.
func TestHostMemory(t *testing.T) {
	driver := standin.Use(t)
	devices := openDevices(t, driver, 1)
	const entities, triples = 40_000, 1000
	bare := func(name string, d int) model.Model {
		c := model.Config{Model: name, Dim: d, Entities: entities, Relations: 1}
		parameters, err := model.Parameters(c)
		require.NoError(t, err)
		var tensors [][]float32
		for _, p := range parameters {
			tensors = append(tensors, make([]float32, p.Len()))
		}
		m, err := model.New(c, tensors)
		require.NoError(t, err)
		return m
	}
	wide, constructed := bare("distmult", 1000), bare("mquine", 20)
	o := rank.Options{Threads: 2, Engine: trusted(devices...)}
	fit := func(m model.Model, available int64) (slices int, err error) {
		proctest.Leave(t, available)
		fitted, err := rank.Fit(t.Context(), m, triples, o)
		if err == nil {
			_, slices = rank.Memory(m, fitted)
		}
		return slices, err
	}
	features := int64(4 * 1024 * entities)
	slices, err := fit(wide, 3*features)
	require.NoError(t, err)
	require.Equal(t, 1, slices)
	slices, err = fit(wide, features+features/8)
	require.NoError(t, err)
	require.Greater(t, slices, 1)
	_, err = fit(wide, 40<<20)
	require.ErrorContains(t, err, "ranking with distmult, d = 1000, among 40,000 candidates needs about ")
	require.ErrorContains(t, err, "(features of the candidates ")
	require.ErrorContains(t, err, "but only 40 MiB is available")
	slices, err = fit(constructed, 40<<20)
	require.NoError(t, err)
	require.Equal(t, 1, slices)
	o.Engine = nil
	_, err = fit(constructed, 40<<20)
	require.Error(t, err, "the processor needs memory for features")

	// The estimate of the memory for transfers and for ψ.
	e := trusted(devices...)
	j := &engine.Job{Model: wide, Most: entities, Threads: 3, OnePass: true, Plan: engine.Plan{Unique: triples}}
	use, err := e.Memory(j)
	require.NoError(t, err)
	perTeam := 4 * 1024 * int64(blockQueries)
	require.InEpsilon(t, 3*perTeam+stagingBytes, use.Host[2].Bytes, 0.4)
	require.Equal(t, 3*perTeam, use.Host[3].Bytes, "a block of queries for each thread")

	// The estimate for any plan covers the memory of a prediction in one pass, and in two if features
	// depend on the side.
	for name, passes := range map[string]int{"distmult": 1, "cp": 2} {
		m := bare(name, 100)
		plan := engine.Plan{Unique: 300}
		for i := range 300 {
			plan.Queries = append(plan.Queries, engine.Query{First: int32(i), Last: int32(i) + 1})
			plan.Targets = append(plan.Targets, engine.Target{Answer: -1})
		}
		for i := range passes {
			plan.Passes = append(plan.Passes, engine.Pass{First: 300 * i / passes, Last: 300 * (i + 1) / passes})
		}
		j := &engine.Job{Model: m, Most: entities, Threads: 3, Plan: plan,
			OnePass: model.DependenceOf(m) == model.OnEntity}
		actual, err := e.Memory(j)
		require.NoError(t, err)
		require.EqualValues(t, passes*4*engine.PairPad(engine.WidestTower(m))*entities, actual.Host[0].Bytes, name)
		j.Plan = engine.Plan{Unique: 300}
		use, err := e.Memory(j)
		require.NoError(t, err)
		for i, need := range actual.Host {
			require.GreaterOrEqual(t, use.Host[i].Bytes, need.Bytes, "%s: %s", name, need.For)
		}
	}
}

// TestFallbackWhileRanking checks that the GPUs stay open for a ranking that is active while another
// one fails, and that no ranking starts after the failure.
func TestFallbackWhileRanking(t *testing.T) {
	driver := standin.Use(t)
	d := openDevices(t, driver, 1)[0]
	g := ranktest.Graph(rand.New(rand.NewPCG(7, 21)), 60, 2, 20, 20, 20)
	e := trusted(d)
	e.OrProcessor(func(error) {})
	j := &engine.Job{
		Model: ranktest.Model(t, "distmult", 4, g, 3, ranktest.VectorKinds[0]), Most: 60, Threads: 1,
		FeatureMemory: rank.DefaultFeatureMemory,
	}
	active, err := e.Start(j)
	require.NoError(t, err)
	failure := &cuda.DeviceError{Err: errors.New("another ranking failed")}
	require.True(t, e.Fallback(failure))
	_, err = d.Free()
	require.NoError(t, err, "the GPU is open")
	_, err = e.Start(j)
	require.Equal(t, failure, err)
	require.NoError(t, active.Close())
	_, err = d.Free()
	require.ErrorIs(t, err, cuda.ErrClosed)
	bytes, contexts, _ := driver.Held()
	require.Zero(t, bytes)
	require.Zero(t, contexts)
}

// TestScreenNames checks that the statistics of a ranking name the screen of the device.
func TestScreenNames(t *testing.T) {
	devices := openDevices(t, standin.Use(t), 1)
	g := ranktest.Graph(rand.New(rand.NewPCG(7, 29)), 30, 2, 60, 0, 10)
	for name, screen := range map[string]string{"distmult": "fp16", "transe-l1": "float32"} {
		m := ranktest.Model(t, name, 4, g, 3, ranktest.VectorKinds[0])
		ranking, err := rank.Run(t.Context(), m, kgtest.Index(t, g), g.Splits[kg.Test],
			rank.Options{Threads: 1, Engine: trusted(devices...)})
		require.NoError(t, err)
		require.Equal(t, screen, ranking.Stats.Screen.String(), name)
	}
}
