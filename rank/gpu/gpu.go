// Package gpu ranks and predicts on NVIDIA GPUs (docs/decisions/0006-gpus-rank-in-three-stages.md).
// Open the devices and set rank.Options.Engine to the Engine. Before it ranks with a new kind of
// model, the Engine tests each GPU on a small graph. With OrProcessor, the processor ranks if a GPU
// fails. Only programs that import this package load the CUDA driver.
//
// Begin reading with Engine.Start and the type ranking, which is the engine of one ranking. Package
// engine defines the plan and its blocks. Load divides a slice of the candidates among the devices
// (buffer, part). Count gives a block of queries to a team, which is one worker for each device. A
// worker screens its part, uses float64 scores to decide most of the pairs that the screen leaves
// undecided, and leaves the others pending for the reference scores (worker.count). The same stages
// score the known answers, whose counts worker.subtractKnown subtracts. The unfiltered counts and the
// counts of known answers are both exact, no matter which stage decides. The ranking then decides
// the pending pairs and adds the counts, as it does on the processor.
//
// The processor computes ψ and φ, except for MQuinE and MQuadE, whose vectors the devices may
// compute from the parameters.
package gpu

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/mquine/mquine/internal/proc"
	"github.com/mquine/mquine/kernel/cuda"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/engine"
)

const (
	// blockQueries is the largest number of queries in a block.
	blockQueries = 512
	// mostBlocks is the largest number of blocks at a time for each device. While the processor
	// prepares and completes some blocks, the devices count others. Each block needs memory, and
	// reserving it takes 1 to 2 ms.
	mostBlocks = 6
	// maxUndecided is the share of undecided pairs above which the float32 screen takes over.
	maxUndecided = 1.0 / 16
	// listRoom is the capacity of a list of undecided pairs. A tile of candidates and a block of
	// queries leave at most 256 · engine.BlockTargets pairs, which fit.
	listRoom = 5 << 18
	// mostSpan is the largest number of candidates for a launch of a screen. The device counts the
	// undecided pairs of a launch in 32 bits. With more candidates, the count could wrap around to a
	// number that fits in the list, and pairs would be lost.
	mostSpan = math.MaxUint32 / engine.BlockTargets / cuda.CandidateTile * cuda.CandidateTile
	// remoteTargets is the number of remote targets whose φ a device computes at a time. A target
	// is remote if it is not among the device's candidates.
	remoteTargets = 512
)

// Engine is a rank.Engine that counts on GPUs.
type Engine struct {
	devices  []*cuda.Device
	fallback func(error)

	mu     sync.Mutex      // guards the fields below
	passed map[string]bool // configurations of models that passed the self-test
	active int             // rankings that have not been closed
	// failed is the first failure. After it, no ranking starts, and the GPUs are closed as soon as no
	// ranking is active.
	failed error

	// Tests set these.
	untested                                                    bool
	listRoom, mostSpan, remoteTargets, mostBlocks, blockQueries int
}

// Open opens one or more GPUs with the given numbers, which must be distinct, from cuda.List.
func Open(indices ...int) (*Engine, error) {
	if len(indices) == 0 {
		return nil, errors.New("rank: gpu.Open needs at least one GPU: give its number, such as 0")
	}
	var devices []*cuda.Device
	for at, i := range indices {
		if slices.Contains(indices[:at], i) {
			New(devices...).Close()
			return nil, fmt.Errorf("rank: gpu.Open got GPU %d twice: give distinct numbers", i)
		}
		d, err := cuda.Open(i)
		if err != nil {
			New(devices...).Close()
			return nil, err
		}
		devices = append(devices, d)
	}
	return New(devices...), nil
}

// New returns an engine that divides the candidates among open GPUs, at least one. Closing the engine closes
// them.
func New(devices ...*cuda.Device) *Engine {
	return &Engine{
		devices: devices, passed: map[string]bool{},
		listRoom: listRoom, mostSpan: mostSpan, remoteTargets: remoteTargets, mostBlocks: mostBlocks,
		blockQueries: blockQueries,
	}
}

// OrProcessor makes the processor rank if the GPUs fail, after calling note with the error. If
// OrProcessor is not called, the ranking fails too.
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

// UnsupportedError is the error of a model that only the processor ranks.
type UnsupportedError struct{ model, reason string }

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("model %s cannot be ranked on GPUs, %s: only the processor ranks it", e.model, e.reason)
}

// supports returns an error if GPUs have no kernels for the comparison of a model, or if the model is
// not registered, such as an ensemble.
func supports(m model.Model) error {
	name := m.Config().Model
	for _, side := range []kg.Side{kg.Tail, kg.Head} {
		if c := m.Tower(side).Compare; !cuda.Supports(c) {
			return &UnsupportedError{name, "which lack the comparison " + c.String()}
		}
	}
	if _, err := model.Lookup(name); err != nil {
		return &UnsupportedError{name, "whose self-test does not know it"}
	}
	return nil
}

// Fallback reports whether the processor should rank after an error: whether OrProcessor has been
// called and a GPU caused the error. If so, it closes the GPUs, unless they only do not support the
// model. If other rankings are active, the last of them closes the GPUs, because closing a GPU
// frees memory that they read.
func (e *Engine) Fallback(err error) bool {
	var unsupported *UnsupportedError
	var failure *cuda.DeviceError
	switch {
	case e.fallback == nil:
		return false
	case errors.As(err, &unsupported):
		e.fallback(err)
		return true
	case !errors.As(err, &failure):
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.failed == nil {
		e.failed = err
		e.fallback(err)
		e.closeUnused()
	}
	return true
}

// closeUnused closes the GPUs after a failure, unless rankings are active. The caller holds e.mu.
func (e *Engine) closeUnused() {
	if e.failed != nil && e.active == 0 {
		e.Close()
	}
}

// enter notes that a ranking begins to use the GPUs. It returns the error of a ranking that has
// failed before.
func (e *Engine) enter() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.failed == nil {
		e.active++
	}
	return e.failed
}

// leave notes that a ranking has ended.
func (e *Engine) leave() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.active--
	e.closeUnused()
}

// Memory returns the device memory for the candidates, the host memory for their features, the memory
// for transfers and the memory for ψ.
func (e *Engine) Memory(j *engine.Job) (engine.Memory, error) {
	x, err := e.slicing(j)
	if err != nil {
		return engine.Memory{}, err
	}
	width, devices, buffered := engine.WidestTower(j.Model), int64(len(e.devices)), int64(x.buffers*x.size)
	row, rest := engine.FeatureBytes(width)
	_, entries := e.room(width, x)
	if x.constructs {
		row = 0
	}
	in, out := e.workerPins(pad(width), x)
	transfers := devices * (int64(x.buffers)*partPin(pad(width), e.partRoom(x)) + int64(x.blocks)*(in+out))
	return engine.Memory{
		Slice: x.size, Device: buffered * candidateBytes(pad(width)),
		Host: []proc.Need{
			{For: "features of the candidates", Bytes: buffered * row},
			{For: "order of the candidates", Bytes: buffered * rest},
			{For: "memory for transfers", Bytes: transfers},
			{For: "query vectors of the threads", Bytes: int64(min(j.Threads, e.passBlocks(j))) * 4 * int64(entries)},
		},
	}, nil
}

// Start reserves device memory for a ranking.
func (e *Engine) Start(j *engine.Job) (engine.Engine, error) {
	if err := supports(j.Model); err != nil {
		return nil, err
	}
	if err := e.enter(); err != nil {
		return nil, err
	}
	return newRanking(e, j)
}
