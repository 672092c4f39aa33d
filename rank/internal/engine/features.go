package engine

import (
	"cmp"
	"context"
	"slices"

	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/model"
)

// Features holds φ of the candidates First ≤ e < First+N, by rows, and the order in which an engine counts them.
type Features struct {
	Tower    model.Tower
	First, N int
	Rows     []float32 // Stride() entries each; nil where an engine makes φ itself
	Norms    []float64 // upper bounds of ‖φ‖, by row
	Sizes    []float64 // the model's sizes (model.Slack), by row
	Order    []int32   // the row of a position
	Place    []int32   // the position of a row
	Terms    []int32   // the order in which an engine takes φ's entries
}

// vectorBatch is the most vectors that a worker makes between two looks at the context.
const vectorBatch = 16

// PairPad is the length of a vector of a width, padded to whole kernel.PairWidth.
func PairPad(width int) int {
	return (width + kernel.PairWidth - 1) / kernel.PairWidth * kernel.PairWidth
}

// NewFeatures reserves memory for up to n candidates, with rows or without.
func NewFeatures(width, n int, rows bool) *Features {
	f := &Features{Norms: make([]float64, n), Sizes: make([]float64, n), Order: make([]int32, n), Place: make([]int32, n)}
	if rows {
		f.Rows = kernel.AlignedFloat32(n * PairPad(width))
	}
	return f
}

// Stride is the length of a row: the width padded with zeros to kernel.PairWidth.
func (f *Features) Stride() int { return PairPad(f.Tower.Phi) }

// Row returns φ of the candidate in row i, padded with zeros.
func (f *Features) Row(i int32) []float32 { return f.Rows[int(i)*f.Stride() : (int(i)+1)*f.Stride()] }

// Position returns the place of an entity in the order of the candidates, or −1 if it is not among them.
func (f *Features) Position(entity int32) int {
	if row := int(entity) - f.First; row >= 0 && row < f.N {
		return int(f.Place[row])
	}
	return -1
}

// Entity is the inverse of Position.
func (f *Features) Entity(position int) int32 { return f.Order[position] + int32(f.First) }

// Fill computes φ, norms and sizes of n candidates from first on for a pass.
func (f *Features) Fill(ctx context.Context, j *Job, workers *Workers, p Pass, first, n int) error {
	f.Tower, f.First, f.N = p.Tower, first, n
	const each = 256
	return kernel.Parallel(ctx, j.Threads, (n+each-1)/each, func(w, item int) {
		j.Phases.Enter(FeaturesPhase)
		worker := workers.Get(w)
		var entities []int32
		for i := item * each; i < min((item+1)*each, n) && ctx.Err() == nil; i += len(entities) {
			entities = entities[:0]
			for e := i; e < min(i+vectorBatch, (item+1)*each, n); e++ {
				entities = append(entities, int32(first+e))
			}
			phi := model.Rows{Values: f.Rows[i*f.Stride():], Width: f.Tower.Phi, Stride: f.Stride()}
			worker.Features(p.Side, p.Relation, entities, phi, f.Sizes[i:])
			for e := i; e < i+len(entities); e++ {
				f.Norms[e] = fmath.Norm(f.Row(int32(e))[:f.Tower.Phi])
			}
		}
	})
}

// SortBy orders the candidates by a key of each row, ascending.
func (f *Features) SortBy(key []float64) {
	for i := range f.N {
		f.Order[i] = int32(i)
	}
	slices.SortFunc(f.Order[:f.N], func(x, y int32) int {
		return cmp.Or(cmp.Compare(key[x], key[y]), cmp.Compare(x, y))
	})
	for at, i := range f.Order[:f.N] {
		f.Place[i] = int32(at)
	}
}

// OrderTerms sets the order of φ's entries. Where a score falls as terms are added, those that vary most over the
// candidates come first, so that most candidates are out of the question early.
func (f *Features) OrderTerms() {
	width, group := f.Tower.Phi, f.Tower.Compare.Group()
	f.Terms = make([]int32, width)
	for t := range f.Terms {
		f.Terms[t] = int32(t)
	}
	if !f.Tower.Compare.Distance() {
		return
	}
	const sample = 4096 // candidates
	variance := make([]float64, width)
	mean := make([]float64, width)
	count := 0.0
	for i := 0; i < f.N; i += (f.N + sample - 1) / sample {
		count++
		for t, v := range f.Row(int32(i))[:width] { // Welford's update
			d := float64(v) - mean[t]
			mean[t] += d / count
			variance[t] += d * (float64(v) - mean[t])
		}
	}
	groups := make([]int32, width/group)
	for g := range groups {
		groups[g] = int32(g)
	}
	of := func(g int32) (sum float64) {
		for u := range group {
			sum += variance[int(g)*group+u]
		}
		return sum
	}
	slices.SortStableFunc(groups, func(a, b int32) int { return cmp.Compare(of(b), of(a)) })
	for at, g := range groups {
		for u := range group {
			f.Terms[at*group+u] = g*int32(group) + int32(u)
		}
	}
}

// FindRepresentatives maps every entity to the first entity with identical parameters; nil if all differ.
func FindRepresentatives(ctx context.Context, m model.Model, threads int) ([]int32, error) {
	n := m.Config().Entities
	hashes := make([]uint64, n)
	const each = 1024
	err := kernel.Parallel(ctx, threads, (n+each-1)/each, func(_, item int) {
		for e := item * each; e < min((item+1)*each, n); e++ {
			hashes[e] = m.HashEntity(int32(e))
		}
	})
	if err != nil {
		return nil, err
	}
	var reps []int32
	seen := make(map[uint64]int32, n)
	for e := range int32(n) {
		other, known := seen[hashes[e]]
		if !known {
			seen[hashes[e]] = e
		}
		if known && m.SameEntity(e, other) {
			if reps == nil {
				reps = make([]int32, n)
				for i := range e {
					reps[i] = i
				}
			}
			reps[e] = other
		} else if reps != nil {
			reps[e] = e
		}
	}
	return reps, nil
}
