// Package bench measures the speed of kernels and whole jobs, and compares kernels to the machine's
// limits. All lists the benchmarks, and Run runs them and writes the results. `go test -bench .
// ./bench` runs the same benchmarks as `mquine bench run`. Package compare compares results, and
// package report draws them. docs/benchmarks.md explains the names and metrics.
package bench

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/ceiling"
	"github.com/mquine/mquine/kg"
)

// Benchmark is a benchmark with its name.
type Benchmark struct {
	// Name is a family followed by key=value pairs, such as Panel/tier=avx2/compare=dot/k=1482.
	Name string
	// Quick reports whether the quick subset, which runs in about a minute, includes the benchmark.
	Quick bool
	// Missing is the name of the data set that the benchmark needs, if its training split is not
	// installed, or "".
	Missing string

	data string // the name of the data set that must be installed, or ""
	run  func(ctx context.Context, b *testing.B) error
}

// Family returns the first part of the name.
func (x Benchmark) Family() string {
	family, _, _ := strings.Cut(x.Name, "/")
	return family
}

// families contains the functions that list the benchmarks, in the order in which the benchmarks
// run.
var families = []func(*suite) []Benchmark{
	ceilings,
	panels, pairs, matrices, packing, // kernels of rankings
	towers,
	products, bfloat16Products, tileProducts, splitProducts, // products of training
	distances, regions, smallProducts, rowOperations, // other kernels of training
	loads, opens, // jobs
	evaluations,
	screenChoices,
	predictions,
	trainingSteps, presetSteps,
}

// suite holds the state that the benchmarks share.
type suite struct {
	backends []*kernel.Backend // best first
	fixtures fixtures
	reading  map[ceiling.Level]func(int)
}

// All lists the benchmarks for this machine and for the tiers and features that the environment
// allows (kernel.TierEnv, kernel.CPUEnv). The benchmarks share data and are not safe for concurrent
// use. Graphs and checkpoints are created on first use. Checkpoints stay in the user's cache
// folder. Benchmarks whose data set is not installed are listed, too (Benchmark.Missing).
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
	dir, err := kg.DataDir()
	for i, x := range all {
		if x.data == "" {
			continue
		}
		train, _ := fs.Glob(os.DirFS(filepath.Join(dir, x.data)), "train.*")
		if err != nil || len(train) == 0 {
			all[i].Missing = x.data
		}
	}
	return all, nil
}

// best reports whether b is the machine's best backend.
func (s *suite) best(b *kernel.Backend) bool { return b == s.backends[0] }

// read returns the limit on the rate of reads from a level of memory on one thread, or nil if the
// machine has no such level.
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

// name returns the name of a benchmark, given its family and alternating keys and values.
func name(family string, pairs ...any) string {
	for i := 0; i < len(pairs); i += 2 {
		family += fmt.Sprintf("/%v=%v", pairs[i], pairs[i+1])
	}
	return family
}

func threads() int { return runtime.GOMAXPROCS(0) }
