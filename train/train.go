// Package train makes the parameters of models. A Trainer trains MQuinE and MQuadE
// (docs/training.md), and a Run keeps such a training in a folder, from which it can go on after any
// interruption. Random has the parameters with which a training begins, and Clustered makes
// parameters for measurements of speed.
//
// The same configuration, graph and seed give the same parameters, byte for byte, for any number
// of threads: work is split over outputs, never over a sum. What Random and Clustered make is also the same
// on every backend and every platform: what they compute outside the float64 kernels uses only
// operations that IEEE 754 rounds exactly, with explicit conversions where a compiler could fuse two of
// them.
package train

import (
	"fmt"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
)

// Options says how Clustered fits.
type Options struct {
	Seed uint64
	// Backend runs the kernels and Threads is the number of goroutines; the outcome depends on
	// neither.
	Backend *kernel.Backend
	Threads int
	// Progress, if not nil, is called after each step of the optimiser, from the goroutine that
	// called Clustered.
	Progress func(done, total int)
}

// check says what is wrong with a call.
func (o Options) check(cfg model.Config, g *kg.Graph) error {
	if o.Backend == nil || o.Threads < 1 {
		return fmt.Errorf("train: Options needs a backend and at least one thread")
	}
	if n, r := g.Entities.Len(), g.Relations.Len(); cfg.Entities != n || cfg.Relations != r {
		return fmt.Errorf("train: a model of %d entities and %d relations cannot be fitted to data set %s, which has %d and %d",
			cfg.Entities, cfg.Relations, g.Name, n, r)
	}
	_, err := model.Parameters(cfg)
	return err
}

// Streams of the random generator keep the draws of one seed for different uses apart.
const (
	_ uint64 = iota << 32 // model.Random
	streamRoles
	streamBatches
	streamEntities // plus the entity
)
