package rank

import (
	"cmp"
	"context"
	"slices"

	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/model"
)

// features holds φ of the candidates first ≤ e < first+n, by rows for single scores and in panels
// for the screen. The panels hold the candidates in ascending order of ‖φ‖, so that the few large
// ones do not widen everyone's error band.
type features struct {
	tower      model.Tower
	first, n   int
	rows       []float32 // stride() entries each
	norms      []float64 // ‖φ‖ by row
	sizes      []float64 // the model's size by row
	nr         int
	screen     screen
	panels     []uint32 // packed for the screen, which may keep codes in what they leave free
	orderOf    []int32  // the order of φ's entries in the panels
	order      []int32  // row of a position
	place      []int32  // position of a row
	blockNorms []float64
	blockSizes []float64
}

// vectorBatch is the most vectors that a worker makes between two looks at the context.
const vectorBatch = 16

// blockPanels is the number of panels that share one pair of thresholds per truth.
const blockPanels = 16

// featureBytes is the memory for one candidate's features.
func featureBytes(width int) int64 {
	const rest = 8 + 8 + 4 + 4 // norms, sizes, order, place
	return int64(4*pairPad(width) + 4*mostTerms(width) + rest)
}

// mostTerms is the most words that a candidate may take in the panels, codes for single pairs included.
func mostTerms(width int) int {
	return max(width, int8Words(width)+int8Stride(width), int16Terms(width))
}

func pairPad(width int) int {
	return (width + kernel.PairWidth - 1) / kernel.PairWidth * kernel.PairWidth
}

// newFeatures reserves memory for up to n candidates: for devices without panels, and without rows
// where these make φ themselves.
func newFeatures(r *run, width, n int) *features {
	f := &features{
		nr:    r.backend.NR,
		norms: make([]float64, n), sizes: make([]float64, n), order: make([]int32, n), place: make([]int32, n),
	}
	if !r.constructs {
		f.rows = kernel.AlignedFloat32(n * pairPad(width))
	}
	if !r.onDevices {
		padded := (n + f.nr - 1) / f.nr * f.nr
		f.panels = kernel.AlignedWords(padded * mostTerms(width))
	}
	return f
}

// stride is the length of a row: the width padded with zeros to kernel.PairWidth.
func (f *features) stride() int { return pairPad(f.tower.Phi) }

// measure returns an upper bound of ‖x‖ for x with the length of a row.
func (f *features) measure(x []float32) float64 { return fmath.Norm(x[:f.tower.Phi]) }

func (f *features) panelCount() int { return (f.n + f.nr - 1) / f.nr }

// aim sets what a call needs to know of panel p, with the next panel ahead.
func (f *features) aim(call *kernel.PanelCall, p int) {
	size := f.nr * f.screen.terms()
	call.Panel, call.ValidLanes = f.panel(p)
	call.Ahead = f.panels[min((p+1)*size, len(f.panels)):min((p+2)*size, len(f.panels))]
}

// panel returns panel p and the mask of its lanes that hold candidates.
func (f *features) panel(p int) (panel []uint32, valid uint64) {
	size := f.nr * f.screen.terms()
	lanes := min(f.nr, f.n-p*f.nr)
	return f.panels[p*size : (p+1)*size], uint64(1)<<lanes - 1
}

// row returns φ of the candidate in row i, padded with zeros.
func (f *features) row(i int32) []float32 { return f.rows[int(i)*f.stride() : (int(i)+1)*f.stride()] }

// fill computes the features of n candidates from first on for a pass.
func (f *features) fill(ctx context.Context, c *crew, p pass, first, n int) error {
	f.first, f.n = first, n
	const each = 256
	items := (n + each - 1) / each
	err := kernel.Parallel(ctx, len(c.workers), items, func(w, item int) {
		c.run.phases.enter(featuresPhase)
		if f.rows == nil {
			for i := item * each; i < min((item+1)*each, n); i++ {
				f.norms[i] = fmath.Norm(c.run.entityRow(first + i)) // any order will do
			}
			return
		}
		worker := c.worker(w)
		var entities []int32
		for i := item * each; i < min((item+1)*each, n) && ctx.Err() == nil; i += len(entities) {
			entities = entities[:0]
			for e := i; e < min(i+vectorBatch, (item+1)*each, n); e++ {
				entities = append(entities, int32(first+e))
			}
			phi := model.Rows{Values: f.rows[i*f.stride():], Width: f.tower.Phi, Stride: f.stride()}
			worker.Features(p.side, p.relation, entities, phi, f.sizes[i:])
			for e := i; e < i+len(entities); e++ {
				f.norms[e] = f.measure(f.row(int32(e)))
			}
		}
	})
	if err != nil {
		return err
	}
	f.screen = f.chooseScreen(c, p)
	if err := f.screen.arrange(ctx, c); err != nil {
		return err
	}
	if first == 0 || f.panels == nil || len(f.orderOf) != p.tower.Phi {
		f.orderOf = f.orderTerms()
	}
	if f.panels == nil {
		return nil
	}
	perBlock := blockPanels * f.nr
	f.blockNorms, f.blockSizes = f.blockNorms[:0], f.blockSizes[:0]
	for at := 0; at < n; at += perBlock {
		var norm, size float64
		for _, i := range f.order[at:min(at+perBlock, n)] {
			norm, size = max(norm, f.norms[i]), max(size, f.sizes[i])
		}
		f.blockNorms, f.blockSizes = append(f.blockNorms, norm), append(f.blockSizes, size)
	}
	return f.screen.pack(ctx, c)
}

// sortBy puts the candidates in ascending order of a key, the order of the panels.
func (f *features) sortBy(key []float64) {
	for i := range f.n {
		f.order[i] = int32(i)
	}
	slices.SortFunc(f.order[:f.n], func(x, y int32) int { return cmp.Or(cmp.Compare(key[x], key[y]), cmp.Compare(x, y)) })
	for at, i := range f.order[:f.n] {
		f.place[i] = int32(at)
	}
}

// orderTerms returns the order in which the panels hold φ's entries. Where a score falls as terms
// are added, those that vary most over the candidates come first, so that most candidates are out
// of the question early.
func (f *features) orderTerms() []int32 {
	width, unit := f.tower.Phi, f.tower.Compare.Group()
	terms := make([]int32, width)
	for t := range terms {
		terms[t] = int32(t)
	}
	if !f.tower.Compare.Distance() {
		return terms
	}
	const sample = 4096 // candidates
	variance := make([]float64, width)
	mean := make([]float64, width)
	count := 0.0
	for i := 0; i < f.n; i += (f.n + sample - 1) / sample {
		count++
		for t, v := range f.row(int32(i))[:width] { // Welford's update
			d := float64(v) - mean[t]
			mean[t] += d / count
			variance[t] += d * (float64(v) - mean[t])
		}
	}
	groups := make([]int32, width/unit)
	for g := range groups {
		groups[g] = int32(g)
	}
	of := func(g int32) (sum float64) {
		for u := range unit {
			sum += variance[int(g)*unit+u]
		}
		return sum
	}
	slices.SortStableFunc(groups, func(a, b int32) int { return cmp.Compare(of(b), of(a)) })
	for at, g := range groups {
		for u := range unit {
			terms[at*unit+u] = g*int32(unit) + int32(u)
		}
	}
	return terms
}

// representatives maps every entity to the first entity with identical parameters; nil if all differ.
func representatives(ctx context.Context, m model.Model, threads int) ([]int32, error) {
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
