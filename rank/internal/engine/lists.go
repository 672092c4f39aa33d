package engine

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
)

// Lists finds the K best candidates of each query of a block. Engines add contenders. A full list
// narrows the intervals of its contenders, stage by stage, until enough contenders drop out.
type Lists struct {
	K int
	// Index holds the known answers. If FilterKnown is true, the lists leave them out.
	Index       *kg.Index
	FilterKnown bool
	// Floor, if not nil, returns a reference score below which a candidate of a query need not be
	// listed.
	Floor func(model.Worker, kg.Query) float64

	block    *Block
	features *Features
	lists    []shortlist // by row
	rows     []int32     // rows of contenders to rescore
	scores   []float64
}

// Kept is the list of a query between two slices of the candidates.
type Kept struct{ list shortlist }

// Open starts the lists of a block for the candidates of f. kept[row] is the list of a row after
// the previous slices.
func (l *Lists) Open(b *Block, f *Features, kept []Kept) {
	l.block, l.features = b, f
	for len(l.lists) < len(b.Queries) {
		l.lists = append(l.lists, shortlist{})
	}
	for row := range b.Queries {
		list := &l.lists[row]
		list.reset(l.K)
		if before := &kept[row].list; len(before.items) > 0 {
			list.items, list.threshold = append(list.items, before.items...), before.threshold
			list.prune()
		}
	}
}

// Raise raises the thresholds of the lists to the floors of their queries. It needs ψ of the block and
// φ of the candidates.
func (l *Lists) Raise(ctx context.Context) error {
	if l.Floor == nil {
		return nil
	}
	b, f := l.block, l.features
	for row, q := range b.Queries {
		if err := ctx.Err(); err != nil {
			return err
		}
		floor := l.Floor(b.Worker, q.Query)
		if math.IsInf(floor, -1) {
			continue
		}
		// Intervals bound reference scores minus the constant of the query. The constant is at most the
		// difference between any candidate's reference score and the lower end of its interval.
		reference := b.Worker.Reference(q.Query, f.Slice.Entity(0))
		low, _ := b.Interval(row, b.pairScore(row, f.Rows, 0), f.Norms[0], f.Sizes[0])
		threshold := outward(floor-outward(reference-low, 1), -1)
		l.lists[row].threshold = max(l.lists[row].threshold, threshold)
	}
	return nil
}

// Keep saves the lists for the next slice of the candidates.
func (l *Lists) Keep(kept []Kept) {
	for row := range l.block.Queries {
		list := l.narrowed(row)
		kept[row].list = shortlist{items: slices.Clone(list.items), threshold: list.threshold}
	}
}

// Best returns the best candidates of a row by reference score. The best comes first; candidates
// with equal scores are in the order of their identifiers. The next call to Open reuses the memory of
// the result.
func (l *Lists) Best(ctx context.Context, row int) ([]Contender, error) {
	list := l.narrowed(row)
	err := l.decide(ctx, row, list)
	return list.items, err
}

// narrowed returns the list of a row after giving all screened contenders float64 scores and dropping
// the contenders below the threshold.
func (l *Lists) narrowed(row int) *shortlist {
	list := &l.lists[row]
	list.prune()
	l.rescore(row, list)
	list.prune()
	return list
}

// Threshold returns a score below which a contender of a row is not among the best: a score that at
// least K candidates certainly reach, the floor if Raise found it to be higher, or −Inf.
func (l *Lists) Threshold(row int) float64 { return l.lists[row].threshold }

// Add adds a candidate of the slice to the list of a row, unless FilterKnown leaves it out.
func (l *Lists) Add(ctx context.Context, row int, c Contender) error {
	if l.FilterKnown {
		known := l.Index.Answers(l.block.Queries[row].Query)
		if _, isKnown := slices.BinarySearch(known.Entities, c.Entity); isKnown {
			return nil
		}
	}
	list := &l.lists[row]
	list.add(c)
	if !list.full() {
		return nil
	}
	return l.shrink(ctx, row, list)
}

// shrink makes room in a list, stage by stage. In the last stage it keeps the k candidates with the
// highest reference scores.
func (l *Lists) shrink(ctx context.Context, row int, list *shortlist) error {
	if list.prune(); list.roomy() {
		return nil
	}
	l.rescore(row, list)
	if list.prune(); list.roomy() {
		return nil
	}
	err := l.decide(ctx, row, list)
	list.prune()
	return err
}

// rescore gives screened contenders the narrower intervals of their float64 scores.
func (l *Lists) rescore(row int, list *shortlist) {
	b, f := l.block, l.features
	l.copyToDuplicates(list.items)
	l.rows = l.rows[:0]
	for _, c := range list.items {
		if c.Stage == Screened {
			l.rows = append(l.rows, int32(f.Slice.Find(c.Entity)))
		}
	}
	if len(l.rows) == 0 {
		return
	}
	l.scores = slices.Grow(l.scores[:0], len(l.rows))[:len(l.rows)]
	b.Job.Backend.Pair(f.Tower.Compare, l.scores, b.Row(row), f.Rows, f.Stride(), l.rows)
	n := 0
	for i := range list.items {
		c := &list.items[i]
		if c.Stage == Screened {
			local := l.rows[n]
			c.Low, c.High = b.Interval(row, l.scores[n], f.Norms[local], f.Sizes[local])
			c.Stage = Rescored
			n++
		}
	}
}

// decide sorts the contenders of a list by reference score and keeps the best k.
func (l *Lists) decide(ctx context.Context, row int, list *shortlist) error {
	l.copyToDuplicates(list.items)
	j, q := l.block.Job, l.block.Queries[row].Query
	for i := range list.items {
		if i%16 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		c := &list.items[i]
		if c.Stage == Referenced {
			continue
		}
		if i > 0 && j.Rep(list.items[i-1].Entity) == j.Rep(c.Entity) {
			c.Score = list.items[i-1].Score
		} else {
			c.Score = l.block.Worker.Reference(q, j.Rep(c.Entity))
		}
		c.Stage = Referenced
	}
	list.truncate()
	return nil
}

// copyToDuplicates puts candidates with the same parameters side by side and gives all of them the
// latest stage that any has reached.
func (l *Lists) copyToDuplicates(items []Contender) {
	j := l.block.Job
	if j.Representatives == nil {
		return
	}
	slices.SortFunc(items, func(a, b Contender) int {
		return cmp.Or(cmp.Compare(j.Rep(a.Entity), j.Rep(b.Entity)), cmp.Compare(b.Stage, a.Stage))
	})
	for i := 1; i < len(items); i++ {
		if c, known := &items[i], items[i-1]; j.Rep(c.Entity) == j.Rep(known.Entity) {
			known.Entity = c.Entity
			*c = known
		}
	}
}
