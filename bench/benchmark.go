// Package bench measures the kernels and whole jobs, and how far they are from what the machine can
// do at all. `go test -bench . ./bench` and `mquine bench run` run the same benchmarks.
package bench

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/ceiling"
)

// Benchmark is one measurement.
type Benchmark struct {
	// Name is the family and then key=value pairs, as in Panel/tier=avx2/compare=dot/k=1482.
	Name string
	// Quick says that it belongs to the subset that takes less than a minute.
	Quick bool

	run func(ctx context.Context, b *testing.B) error
}

// Family returns the first part of the name.
func (x Benchmark) Family() string {
	family, _, _ := strings.Cut(x.Name, "/")
	return family
}

// Run measures. It fails b if it cannot, or if the context is cancelled.
func (x Benchmark) Run(ctx context.Context, b *testing.B) {
	if err := x.run(ctx, b); err != nil {
		b.Fatal(err)
	}
}

// families lists the benchmarks in the order in which they run.
var families = []func(*suite) []Benchmark{
	ceilings,
	panels, pairs, matrices, packing, // kernels
	towers,
	products, splitProducts, smallProducts, rowOperations, // of training
	loads, opens, // jobs
	evaluations,
	predictions,
	trainingSteps,
}

// suite is what the benchmarks share.
type suite struct {
	backends []*kernel.Backend // best first
	fixtures fixtures
	reading  map[ceiling.Level]func(int)
}

// All lists the benchmarks of this machine, on the instruction sets that kernel.TierEnv allows. They
// are not safe for concurrent use. Data and checkpoints that they need are made when the first one
// needs them, and checkpoints are kept in the user's cache.
func All() ([]Benchmark, error) {
	backends, err := kernel.Available()
	if err != nil {
		return nil, err
	}
	s := &suite{backends: backends, reading: map[ceiling.Level]func(int){}}
	var all []Benchmark
	for _, list := range families {
		all = append(all, list(s)...)
	}
	return all, nil
}

// best tells whether a backend is the machine's best.
func (s *suite) best(b *kernel.Backend) bool { return b == s.backends[0] }

// read returns the loop that reads a level of the memory on one thread, and nil where there is no
// such level.
func (s *suite) read(l ceiling.Level) *limit {
	size := l.Reading(1)
	if size == 0 {
		return nil
	}
	c := ceiling.Read(s.backends[0], size)
	if s.reading[l] == nil {
		s.reading[l] = c.Loop()
	}
	return &limit{c.PerRound, s.reading[l], 1}
}

// name joins a family and pairs of key and value.
func name(family string, pairs ...any) string {
	for i := 0; i < len(pairs); i += 2 {
		family += fmt.Sprintf("/%v=%v", pairs[i], pairs[i+1])
	}
	return family
}

func threads() int { return runtime.GOMAXPROCS(0) }
