// Package gpu counts the candidates of rankings and predictions on NVIDIA GPUs (docs/decisions/0006). An Engine goes
// into rank.Options; it tests its GPUs on a small graph before they are trusted with a model's class, and may leave a
// ranking to the processor when they fail. Only programs that import this package load CUDA's driver.
//
// The devices share the candidates. A block of queries has its ψ and the intervals of its targets from the goroutine
// that counts it, as on the processor, or where the model allows from the device itself. Every device then screens its
// candidates, decides what the screen leaves by float64 scores, and compares the known answers; what is still undecided
// goes to the reference. Unfiltered counts and the known answers to take out of them are each exact by themselves,
// whatever stage decided.
package gpu

import (
	"fmt"
	"strings"
	"sync"

	"github.com/mquine/mquine/kernel/cuda"
	"github.com/mquine/mquine/rank/internal/engine"
)

const (
	// blockQueries bounds the queries of a block.
	blockQueries = 512
	// tooMany is the share of undecided pairs from which the float32 screen takes over.
	tooMany = 1.0 / 16
	// listRoom is the room for undecided pairs: no less than a tile of candidates and a block of queries can leave,
	// 256 · engine.BlockTargets.
	listRoom = 5 << 18
	// farTargets is the number of targets that are not among a device's candidates whose φ it makes at a time.
	farTargets = 512
)

// Engine ranks on GPUs: a rank.Engine.
type Engine struct {
	devices  []*cuda.Device
	fallback func(error)

	mu     sync.Mutex      // guards what follows
	passed map[string]bool // the classes of models that passed the test
	failed error           // from when on the processor ranks

	// For tests.
	untested             bool
	listRoom, farTargets int
}

// Open opens the GPUs with the given numbers, as cuda.List has them.
func Open(indices ...int) (*Engine, error) {
	var devices []*cuda.Device
	for _, i := range indices {
		d, err := cuda.Open(i)
		if err != nil {
			New(devices...).Close()
			return nil, err
		}
		devices = append(devices, d)
	}
	return New(devices...), nil
}

// New returns an engine of GPUs that are open, which share the candidates and are closed with the engine.
func New(devices ...*cuda.Device) *Engine {
	return &Engine{devices: devices, passed: map[string]bool{}, listRoom: listRoom, farTargets: farTargets}
}

// OrProcessor lets the processor rank if the GPUs fail, which note is then told. Without it, a failure of the GPUs is
// an error of the ranking.
func (e *Engine) OrProcessor(note func(error)) { e.fallback = note }

// Close closes the GPUs.
func (e *Engine) Close() {
	for _, d := range e.devices {
		d.Close()
	}
}

// String names the GPUs.
func (e *Engine) String() string {
	var list []string
	for _, d := range e.devices {
		list = append(list, fmt.Sprintf("GPU %d (%s)", d.Index, d.Name))
	}
	return strings.Join(list, " and ")
}

// Fallback tells whether the processor is to rank after an error, and then closes the GPUs.
func (e *Engine) Fallback(err error) bool {
	if e.fallback == nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.failed == nil {
		e.failed = err
		e.fallback(err)
		e.Close()
	}
	return true
}

// Memory tells the bytes of device memory that the candidates take, and the number of their slices.
func (e *Engine) Memory(j *engine.Job) (bytes int64, slices int, err error) {
	x, err := e.slice(j)
	if err != nil {
		return 0, 0, err
	}
	bytes = int64(x.buffers) * int64(x.size) * candidateBytes(pad(engine.WidestTower(j.Model)))
	return bytes, (j.Last - j.First + x.size - 1) / x.size, nil
}

// Start reserves what a ranking needs on the devices.
func (e *Engine) Start(j *engine.Job) (engine.Engine, error) { return newRanking(e, j) }
