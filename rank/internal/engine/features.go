package engine

import (
	"cmp"
	"context"
	"math"
	"math/bits"
	"slices"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/model"
)

// Features holds the N candidates of a slice. Row i belongs to the candidate at index i. An engine
// counts the candidates in a different order, by position.
type Features struct {
	Tower      model.Tower
	Slice      Set
	N          int
	Rows       []float32 // φ, Stride() entries each; nil if the engine computes φ itself
	Norms      []float64 // upper bounds on ‖φ‖, by row
	Sizes      []float64 // the model's sizes (model.Slack), by row
	RowAt      []int32   // the row at each position
	PositionOf []int32   // the position of each row
	TermOrder  []int32   // φ's entries in the order in which the engine adds their terms
	PsiOrder   []int32   // ψ's entries in the corresponding order; TermOrder itself if ψ and φ have equal lengths
}

// vectorBatch is the largest number of vectors that a worker computes between checks of the
// context.
const vectorBatch = 16

// PairPad returns width rounded up to a multiple of kernel.PairWidth.
func PairPad(width int) int {
	return (width + kernel.PairWidth - 1) / kernel.PairWidth * kernel.PairWidth
}

// PsiStride returns the number of entries of ψ, padded to a multiple of kernel.PairWidth
// coordinates.
func PsiStride(t model.Tower) int {
	psi, _ := t.Compare.Words()
	return psi * PairPad(t.Terms())
}

// PhiStride returns the number of entries of φ, padded to a multiple of kernel.PairWidth
// coordinates.
func PhiStride(t model.Tower) int {
	_, phi := t.Compare.Words()
	return phi * PairPad(t.Terms())
}

// NewFeatures reserves memory for up to n candidates. Rows is nil if rows is false.
func NewFeatures(width, n int, rows bool) *Features {
	f := &Features{
		Norms: make([]float64, n), Sizes: make([]float64, n), RowAt: make([]int32, n), PositionOf: make([]int32, n),
	}
	if rows {
		f.Rows = kernel.AlignedFloat32(n * PairPad(width))
	}
	return f
}

// FeatureBytes returns the memory that NewFeatures reserves for a candidate, in bytes: φ, and the rest.
func FeatureBytes(width int) (row, rest int64) { return 4 * int64(PairPad(width)), 8 + 8 + 4 + 4 }

// Stride returns the length of a row: the width of φ, padded with zeros to a multiple of
// kernel.PairWidth coordinates.
func (f *Features) Stride() int { return PhiStride(f.Tower) }

// Row returns φ in row i, padded with zeros.
func (f *Features) Row(i int32) []float32 { return f.Rows[int(i)*f.Stride() : (int(i)+1)*f.Stride()] }

// Position returns the position of an entity, or −1 if it is not in the slice.
func (f *Features) Position(entity int32) int {
	if row := f.Slice.Find(entity); row >= 0 {
		return int(f.PositionOf[row])
	}
	return -1
}

// Entity returns the entity at a position.
func (f *Features) Entity(position int) int32 { return f.Slice.Entity(int(f.RowAt[position])) }

// Use sets the candidates to a slice of p's candidates. It does not compute their features.
func (f *Features) Use(p Pass, slice Set) { f.Tower, f.Slice, f.N = p.Tower, slice, slice.Len() }

// Fill computes φ, norms and sizes of a slice of p's candidates.
func (f *Features) Fill(ctx context.Context, j *Job, workers *Workers, p Pass, slice Set) error {
	f.Use(p, slice)
	return InChunks(ctx, j.Threads, f.N, 256, func(w, from, to int) {
		j.Phases.Enter(FeaturesPhase)
		worker := workers.Get(w)
		var entities []int32
		for i := from; i < to && ctx.Err() == nil; i += len(entities) {
			entities = entities[:0]
			for e := i; e < min(i+vectorBatch, to); e++ {
				entities = append(entities, slice.Entity(e))
			}
			phi := model.Rows{Values: f.Rows[i*f.Stride():], Width: f.Tower.Phi, Stride: f.Stride()}
			worker.Features(p.Side, p.Relation, entities, phi, f.Sizes[i:])
			for e := i; e < i+len(entities); e++ {
				f.Norms[e] = f.Tower.Compare.PhiNorm(f.Row(int32(e))[:f.Tower.Phi])
			}
		}
	})
}

// SortBy sets the positions of the rows, in ascending order of their keys. Rows with equal keys keep
// their order. Keys are not negative.
func (f *Features) SortBy(key []float64) {
	// The keys are sorted by one byte after another. Their bits have the order of the keys, because
	// keys are not negative.
	type keyed struct {
		bits uint64
		row  int32
	}
	rows, sorted := make([]keyed, f.N), make([]keyed, f.N)
	for i := range rows {
		rows[i] = keyed{math.Float64bits(key[i]), int32(i)}
	}
	for shift := 0; shift < 64; shift += 8 {
		var count, at [256]int
		for _, r := range rows {
			count[byte(r.bits>>shift)]++
		}
		if slices.Contains(count[:], f.N) {
			continue // all have the same byte
		}
		for b := range at[1:] {
			at[b+1] = at[b] + count[b]
		}
		for _, r := range rows {
			b := byte(r.bits >> shift)
			sorted[at[b]] = r
			at[b]++
		}
		rows, sorted = sorted, rows
	}
	for at, r := range rows {
		f.RowAt[at], f.PositionOf[r.row] = r.row, int32(at)
	}
}

// OrderTerms sets the order of φ's entries. If rankings leave strips early
// (kernel.Comparison.Exits), a score falls with every term, so the entries that vary most over the
// candidates come first. Early exit then rules out most candidates after a few terms.
func (f *Features) OrderTerms() {
	psi, phi := f.Tower.Compare.Words()
	width, group := f.Tower.Phi, phi*f.Tower.Compare.Group()
	f.TermOrder = make([]int32, width)
	for t := range f.TermOrder {
		f.TermOrder[t] = int32(t)
	}
	defer func() { f.PsiOrder = sameOrder(f.TermOrder, phi, psi) }()
	if !f.Tower.Compare.Exits() {
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
	spread := func(g int32) (sum float64) {
		for u := range group {
			sum += variance[int(g)*group+u]
		}
		return sum
	}
	slices.SortStableFunc(groups, func(a, b int32) int { return cmp.Compare(spread(b), spread(a)) })
	for at, g := range groups {
		for u := range group {
			f.TermOrder[at*group+u] = g*int32(group) + int32(u)
		}
	}
}

// sameOrder converts an order of the entries of vectors with m entries per coordinate to the
// corresponding order for vectors with n entries per coordinate. In both orders, the entries of a
// coordinate are consecutive.
func sameOrder(order []int32, m, n int) []int32 {
	if m == n {
		return order
	}
	var other []int32
	for t := 0; t < len(order); t += m {
		for u := range n {
			other = append(other, order[t]/int32(m)*int32(n)+int32(u))
		}
	}
	return other
}

// RepresentativeBytes is the memory that FindRepresentatives allocates for every candidate and target:
// its hash, and two slots of a hash table.
const RepresentativeBytes = 8 + 2*4

// FindRepresentatives maps every candidate and target of the job to the first of them with identical
// parameters. It returns nil if all differ.
func FindRepresentatives(ctx context.Context, j *Job) ([]int32, error) {
	m, used := j.Model, j.entities()
	n := m.Config().Entities
	hashes := make([]uint64, used.Len())
	err := InChunks(ctx, j.Threads, used.Len(), 256, func(_, first, last int) {
		for i := first; i < last; i++ {
			hashes[i] = m.HashEntity(used.Entity(i))
		}
	})
	if err != nil {
		return nil, err
	}
	var reps []int32
	seen := firsts{hashes, make([]int32, 2*len(hashes))}
	for i := range hashes {
		if i%4096 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		first, known := seen.add(int32(i))
		e, other := used.Entity(i), used.Entity(int(first))
		if !known || !m.SameEntity(e, other) {
			continue
		}
		if reps == nil {
			reps = make([]int32, n)
			for i := range reps {
				reps[i] = int32(i)
			}
		}
		reps[e] = other
	}
	return reps, nil
}

// firsts finds the first index of each hash. It is a hash table with open addressing, at most half
// full, which needs less memory than a map.
type firsts struct {
	hashes []uint64
	table  []int32 // indices plus 1, or 0 for free slots
}

// add returns the first index with the hash of index i, and whether it is known already. If not, it
// adds i.
func (f *firsts) add(i int32) (first int32, known bool) {
	hash := f.hashes[i]
	// The product has the bits that vary most on top, where the slot comes from.
	at, _ := bits.Mul64((hash^hash>>32)*0x9e3779b97f4a7c15, uint64(len(f.table)))
	for ; ; at++ {
		if at == uint64(len(f.table)) {
			at = 0
		}
		switch other := f.table[at] - 1; {
		case other < 0:
			f.table[at] = i + 1
			return i, false
		case f.hashes[other] == hash:
			return other, true
		}
	}
}

// entities returns the entities that are candidates or targets.
func (j *Job) entities() Set {
	n := j.Model.Config().Entities
	used, count := make([]bool, n), 0
	use := func(e int32) {
		if !used[e] {
			used[e] = true
			count++
		}
	}
	for _, p := range j.Passes {
		if p.Candidates.Len() == n {
			return Range(0, n)
		}
		for i := range p.Candidates.Len() {
			use(p.Candidates.Entity(i))
		}
	}
	for _, t := range j.Targets {
		if t.Answer >= 0 { // the target of a prediction has no entity
			use(t.Answer)
		}
	}
	list := make([]int32, 0, count)
	for e, is := range used {
		if is {
			list = append(list, int32(e))
		}
	}
	return List(list)
}
