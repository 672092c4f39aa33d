package train

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
)

// stepper computes the loss of a workload and its gradients (docs/training.md).
type stepper struct {
	config  *Config
	known   *kg.Index
	tensors [][]float32 // as in the model: packed entities, then Rʰ, Rᵗ and perhaps Rᶜ
	dim     int
	backend *linalg.Backend
	crew    *crew   // all threads
	halves  []*crew // half of them each, where two blocks can be taken at once

	phi, psi   linalg.Matrix // features and queries
	dPhi, dPsi linalg.Matrix // of Φ, the rows of blocks alone
	constants  []float64     // c of each query
	dConstants []float64
	pairs      []float32 // scores of the pairs; then ∂L/∂f
	pairQuery  []int32   // the query of each pair
	losses     []float64 // of each query

	groups    []group
	relations []float32 // gradients of each group's relation
	byRow     csr       // pairs by feature row
	byEntity  csr       // feature rows, and then queries, by entity

	byRelation csr // groups by relation
	keys       []int32

	// What has a gradient, in ascending order, and the gradients, unless they are moved at once: packed
	// A, and all matrices of a relation one after the other.
	entities, touched          []int32
	gradient, relationGradient linalg.Matrix
	regulariser                *regulariser
	penalties                  []float64 // of entities, then relations
	loss                       Loss
}

// stepScratch is the memory of a goroutine.
type stepScratch struct {
	ahead     *linalg.Prefetcher // fetches during the products of query, back and symmetric
	query     *queryTower
	back      *gradientTower
	symmetric *linalg.Symmetric
	objective objective
	pcg       *rand.PCG
	anchor    []float32
	row       []float32 // gradient of a feature row
	gradient  []float32 // of an entity or a relation
	more      []float32 // another part of that of an entity
}

// crew is goroutines that work on the same items. They take a block from its queries to their gradients; two
// blocks go to the halves of the threads at once, which meet after that alone, and have scores of their own.
type crew struct {
	scratch []stepScratch // of each goroutine
	product *linalg.Product
	scores  linalg.Matrix // of a block; then ∂L/∂f
}

func newCrew(c *Config, b *linalg.Backend, scratch []stepScratch) *crew {
	return &crew{scratch: scratch, product: newProduct(c, b, len(scratch))}
}

func (c *crew) threads() int { return len(c.scratch) }

// parallel calls work for every item, with the memory of the goroutine that calls.
func (c *crew) parallel(ctx context.Context, items int, work func(c *stepScratch, item int)) error {
	return kernel.Parallel(ctx, len(c.scratch), items, func(worker, item int) { work(&c.scratch[worker], item) })
}

// group is a run of queries with the same side and relation, no longer than groupSize. The gradients
// of a relation are added up group by group, so that the order does not depend on the threads.
type group struct{ first, last int }

const groupSize = 16

// How many products of small matrices a feature row, its gradient, a query and its gradient take:
// what is wanted for the next one comes between them.
const featureProducts, queryProducts, queryGradientProducts = 1, 4, 6

func newStepper(c *Config, b *linalg.Backend, threads int, known *kg.Index, tensors [][]float32) *stepper {
	s := &stepper{config: c, known: known, tensors: tensors, dim: c.Dim, backend: b}
	s.regulariser = newRegulariser(c, s.entityCount(), s.relationCount())
	scratch := make([]stepScratch, threads)
	for i := range scratch {
		ahead := b.NewPrefetcher()
		scratch[i] = stepScratch{
			ahead: ahead, query: newQueryTower(ahead.Backend, c.Dim), back: newGradientTower(ahead.Backend, c.Dim), symmetric: ahead.NewSymmetric(c.Dim),
			objective: objective{config: c, backend: b}, pcg: rand.NewPCG(0, 0),
			row: kernel.AlignedFloat32(2 * s.width()), gradient: kernel.AlignedFloat32(max(s.width(), s.relationSize())),
			more: kernel.AlignedFloat32(s.width()),
		}
	}
	s.crew = newCrew(c, b, scratch)
	if threads%2 == 0 && c.Negatives == sharedNegatives && c.Distribution != bernoulliDistribution { // two blocks, alike
		s.halves = []*crew{newCrew(c, b, scratch[:threads/2]), newCrew(c, b, scratch[threads/2:])}
	}
	return s
}

func newProduct(c *Config, b *linalg.Backend, threads int) *linalg.Product {
	if c.Products == splitProducts {
		return b.NewSplitProduct(threads)
	}
	return b.NewProduct(threads)
}

func (s *stepper) width() int { return s.dim * (s.dim + 1) / 2 }

// entity returns the packed A of an entity.
func (s *stepper) entity(e int32) []float32 {
	return s.tensors[0][int(e)*s.width() : (int(e)+1)*s.width()]
}

// run computes the loss and the gradients of w, the workload of a step. It wakes the rows that it uses,
// and has each moved while its gradient is in a near cache, or keeps the gradients if o is nil or
// wants them all first. There are none of a loss that is not finite.
func (s *stepper) run(ctx context.Context, w *workload, epoch, step int, o *optimiser) error {
	s.prepare(w)
	s.regulariser.begin(epoch, len(w.positives))
	blocked := s.groupsBefore(w.blockQueries())
	stages := []func() error{
		func() error { return s.wake(ctx, o) },
		func() error { return s.features(ctx, w) },
		func() error { return s.blocks(ctx, w, epoch, step) },
		func() error { return s.queries(ctx, s.crew, w, blocked, len(s.groups), epoch, step) },
	}
	if len(w.blocks) == 0 {
		stages = append(stages, func() error { return s.pairLosses(ctx, w) })
	}
	stages = append(stages,
		func() error { return s.zLosses(ctx, w) },
		func() error { return s.queryGradients(ctx, s.crew, w, blocked, len(s.groups), epoch, step) },
	)
	for _, stage := range stages {
		if err := stage(); err != nil {
			return err
		}
	}
	s.loss.Fit, s.loss.Z, s.loss.Regulariser = 0, 0, 0
	for i, l := range s.losses {
		if i < w.main {
			s.loss.Fit += l
		} else {
			s.loss.Z += l
		}
	}
	s.loss.Total = s.loss.Fit + s.loss.Z
	if s.loss.Total-s.loss.Total != 0 {
		return nil
	}
	if o != nil && !o.atOnce() {
		o = nil
	}
	err := s.collect(ctx, w, o)
	s.loss.Total += s.loss.Regulariser
	return err
}

// groupsBefore returns the number of groups of queries before the given one, with which a group begins.
func (s *stepper) groupsBefore(query int) int {
	n, _ := slices.BinarySearchFunc(s.groups, query, func(g group, q int) int { return cmp.Compare(g.first, q) })
	return n
}

// blocks takes the blocks from their queries to their gradients: one by one, so that what the queries of
// one take and give stays in a near cache, or the two at once on half of the threads each.
func (s *stepper) blocks(ctx context.Context, w *workload, epoch, step int) error {
	crews := []*crew{s.crew}
	if len(w.blocks) == 2 && s.halves != nil {
		crews = s.halves
	}
	return kernel.Parallel(ctx, len(crews), len(w.blocks), func(worker, i int) {
		b, crew := w.blocks[i], crews[worker]
		first, last := s.groupsBefore(b.query), s.groupsBefore(b.lastQuery)
		// Their errors are ctx's, which Parallel returns.
		if s.queries(ctx, crew, w, first, last, epoch, step) == nil && s.block(ctx, crew, w, b) == nil {
			s.queryGradients(ctx, crew, w, first, last, epoch, step)
		}
	})
}

// prepare sizes the memory, groups the queries and lists what they use.
func (s *stepper) prepare(w *workload) {
	f := 2 * s.width()
	size(&s.phi, len(w.rows), f)
	size(&s.dPhi, w.blockRows(), f)
	size(&s.psi, len(w.queries), f)
	size(&s.dPsi, len(w.queries), f)
	s.constants = resize(s.constants, len(w.queries))
	s.dConstants = resize(s.dConstants, len(w.queries))
	s.losses = resize(s.losses, len(w.queries))
	s.pairs = resize(s.pairs, len(w.pairRows))
	s.groups = s.groups[:0]
	for i, q := range w.queries {
		n := len(s.groups)
		if n > 0 && i != w.main {
			g := &s.groups[n-1]
			if last := w.queries[g.last-1]; last.Side == q.Side && last.Relation == q.Relation && g.last-g.first < groupSize {
				g.last++
				continue
			}
		}
		s.groups = append(s.groups, group{i, i + 1})
	}
	s.relations = resize(s.relations, len(s.groups)*s.relationSize())

	s.keys = append(s.keys[:0], w.rows...)
	for _, q := range w.queries {
		s.keys = append(s.keys, q.Anchor)
	}
	s.entities = s.byEntity.distinct(s.entities[:0], s.entityCount(), s.keys)
	s.keys = s.keys[:0]
	for _, g := range s.groups {
		s.keys = append(s.keys, w.queries[g.first].Relation)
	}
	s.touched = s.byRelation.distinct(s.touched[:0], s.relationCount(), s.keys)
}

// wake has o bring the rows up to date that the step uses.
func (s *stepper) wake(ctx context.Context, o *optimiser) error {
	if o == nil {
		return nil
	}
	n := len(s.entities)
	return s.crew.parallel(ctx, n+len(s.touched), func(_ *stepScratch, k int) {
		if k < n {
			o.wake(0, int(s.entities[k]), int(s.entities[min(k+s.crew.threads(), n-1)]))
			return
		}
		for i := range s.tensors[1:] {
			r := int(s.touched[k-n])
			o.wake(1+i, r, r)
		}
	})
}

// relationSize is the number of parameters of a relation.
func (s *stepper) relationSize() int { return (len(s.tensors) - 1) * s.dim * s.dim }

// stride is the distance of rows: an odd number of cache lines, so that columns lie in all sets of a cache, also
// where a row is a page long.
func stride(cols int) int {
	const line = 16
	return ((cols+line-1)/line | 1) * line
}

// size makes m a matrix of undefined entries whose rows begin at cache lines.
func size(m *linalg.Matrix, rows, cols int) {
	stride := stride(cols)
	if len(m.Data) < rows*stride {
		m.Data = kernel.AlignedFloat32(rows * stride)
	}
	m.Rows, m.Cols, m.Stride = rows, cols, stride
}

// resize returns a slice of n elements, with undefined values.
func resize[T any](x []T, n int) []T {
	if cap(x) < n {
		return make([]T, n)
	}
	return x[:n]
}

func (s *stepper) features(ctx context.Context, w *workload) error {
	return s.crew.parallel(ctx, len(w.rows), func(c *stepScratch, i int) {
		c.ahead.Reset()
		if next := i + s.crew.threads(); next < len(w.rows) {
			c.ahead.Add(s.phi.Row(next))
			c.ahead.Add(s.entity(w.rows[next]))
			c.ahead.SpreadOver(featureProducts, s.dim)
		}
		c.symmetric.Features(s.phi.Row(i), s.entity(w.rows[i]))
	})
}

// queries computes Ψ of groups first ≤ i < last, and the scores of their pairs.
func (s *stepper) queries(ctx context.Context, crew *crew, w *workload, first, last, epoch, step int) error {
	return crew.parallel(ctx, last-first, func(c *stepScratch, k int) {
		i := first + k
		g := s.groups[i]
		c.query.begin(w.queries[g.first].Side, s.tensors[1:], w.queries[g.first].Relation)
		for q := g.first; q < g.last; q++ {
			c.ahead.Reset()
			s.wantRelation(c, w, i, i+crew.threads(), q)
			if next := s.after(i, i+crew.threads(), q); next < len(w.queries) {
				c.ahead.Add(s.psi.Row(next))
				c.ahead.Add(s.entity(w.queries[next].Anchor))
			}
			s.wantPair(c, w, q)
			c.ahead.SpreadOver(queryProducts, s.dim)
			s.constants[q] = c.query.query(s.psi.Row(q), s.anchor(c, w.queries[q].Anchor, epoch, step, q))
			s.drop(c, s.psi.Row(q), s.config.Dropout, useDropout, epoch, step, q)
			for k := w.pairs[q]; k < w.pairs[q+1]; k++ {
				s.pairs[k] = float32(s.backend.Dot(s.psi.Row(q), s.phi.Row(int(w.pairRows[k]))))
			}
		}
	})
}

// after returns the query that the goroutine with query q of group i, and then likely with the given next
// group, is likely to have next, or a number beyond the last.
func (s *stepper) after(i, next, q int) int {
	if q+1 < s.groups[i].last {
		return q + 1
	}
	if next < len(s.groups) {
		return s.groups[next].first
	}
	return math.MaxInt
}

// wantRelation asks, with the last query q of group i, for the relation of the group that is likely to be
// the goroutine's next.
func (s *stepper) wantRelation(c *stepScratch, w *workload, i, next, q int) {
	if q+1 < s.groups[i].last || next >= len(s.groups) {
		return
	}
	r, d2 := int(w.queries[s.groups[next].first].Relation), s.dim*s.dim
	if r == int(w.queries[q].Relation) {
		return // near already
	}
	for _, tensor := range s.tensors[1:] {
		c.ahead.Add(tensor[r*d2 : (r+1)*d2])
	}
}

// wantPair asks for the features of the first pair of query q.
func (s *stepper) wantPair(c *stepScratch, w *workload, q int) {
	if k := w.pairs[q]; k < w.pairs[q+1] {
		c.ahead.Add(s.phi.Row(int(w.pairRows[k])))
	}
}

// anchor returns the packed A of a query's anchor, with entries dropped.
func (s *stepper) anchor(c *stepScratch, e int32, epoch, step, query int) []float32 {
	if s.config.EntityDropout == 0 {
		return s.entity(e)
	}
	c.anchor = append(c.anchor[:0], s.entity(e)...)
	s.drop(c, c.anchor, s.config.EntityDropout, useEntityDropout, epoch, step, query)
	return c.anchor
}

// drop puts zeros in the place of entries of x with probability p, and scales the others up.
// The same use by the same query of the same step drops the same entries again.
func (s *stepper) drop(c *stepScratch, x []float32, p float64, use uint64, epoch, step, query int) {
	if p == 0 {
		return
	}
	stream(c.pcg, s.config.Seed, use, epoch, step, query)
	const bits = 16
	limit := uint64(p * (1 << bits))
	scale := float32(1 / (1 - float64(limit)/(1<<bits)))
	for i := 0; i < len(x); i += 64 / bits {
		r := c.pcg.Uint64()
		for j := i; j < min(i+64/bits, len(x)); j++ {
			if r&(1<<bits-1) < limit {
				x[j] = 0
			} else {
				x[j] *= scale
			}
			r >>= bits
		}
	}
}

// block scores the queries of a block, takes their losses and the gradients of Ψ and Φ.
func (s *stepper) block(ctx context.Context, crew *crew, w *workload, b block) error {
	queries, features := s.psi.Slice(b.query, b.lastQuery), s.phi.Slice(b.row, b.lastRow)
	size(&crew.scores, queries.Rows, features.Rows)
	if err := crew.product.NT(ctx, crew.scores, queries, features, false); err != nil {
		return err
	}
	err := crew.parallel(ctx, queries.Rows, func(c *stepScratch, k int) {
		i := b.query + k
		neg := crew.scores.Row(k)
		if s.config.Negatives == kvsAllNegatives {
			s.losses[i] = c.objective.takeAll(neg, s.known.Answers(w.queries[i]), s.constants[i], w.weights[i])
			s.dConstants[i] = s.backend.Sum(neg)
			return
		}
		var answer *float32
		if s.config.Negatives == allNegatives {
			answer = &neg[w.answers[i]] // row e has entity e
		} else {
			answer = &s.pairs[w.pairs[i]]
		}
		pos := *answer
		s.exclude(w, i, b, neg)
		loss, dPos := c.objective.take(pos, neg, s.constants[i], w.weights[i])
		s.losses[i] = loss
		*answer = float32(dPos)
		sum := s.backend.Sum(neg)
		if s.config.Negatives != allNegatives {
			sum += dPos
		}
		s.dConstants[i] = sum
	})
	if err != nil {
		return err
	}
	if err := crew.product.NN(ctx, s.dPsi.Slice(b.query, b.lastQuery), crew.scores, features, false); err != nil {
		return err
	}
	return crew.product.TN(ctx, s.dPhi.Slice(b.row, b.lastRow), crew.scores, queries, false)
}

// exclude marks the scores of what is no negative of main query i.
func (s *stepper) exclude(w *workload, i int, b block, scores []float32) {
	candidates := w.rows[b.row:b.lastRow]
	remove := func(e int32) {
		if k, found := slices.BinarySearch(candidates, e); found {
			scores[k] = excluded
		}
	}
	remove(w.answers[i])
	if s.config.Filter {
		known := s.known.Answers(w.queries[i])
		for k, e := range known.Entities {
			if known.Splits[k].Has(kg.Train) {
				remove(e)
			}
		}
	}
}

// pairLosses is block for queries with negatives of their own.
func (s *stepper) pairLosses(ctx context.Context, w *workload) error {
	return s.crew.parallel(ctx, w.main, func(c *stepScratch, i int) {
		pairs := s.pairs[w.pairs[i]:w.pairs[i+1]]
		loss, dPos := c.objective.take(pairs[0], pairs[1:], s.constants[i], w.weights[i])
		s.losses[i] = loss
		pairs[0] = float32(dPos)
		s.dConstants[i] = s.backend.Sum(pairs)
	})
}

// zLosses takes the losses of the Z-samples, −log σ(γ − s) each.
func (s *stepper) zLosses(ctx context.Context, w *workload) error {
	if w.main == len(w.queries) {
		return nil
	}
	first := w.pairs[w.main]
	return s.crew.parallel(ctx, len(w.queries)-w.main, func(_ *stepScratch, k int) {
		i := w.main + k
		s.losses[i] = 0
		for k := w.pairs[i]; k < w.pairs[i+1]; k++ {
			x, weight := float64(s.pairs[k])+s.constants[i]+s.config.Gamma, w.zWeights[k-first]
			s.losses[i] += weight * softplus(-x)
			s.pairs[k] = float32(-weight * sigmoid(-x))
		}
		s.dConstants[i] = s.backend.Sum(s.pairs[w.pairs[i]:w.pairs[i+1]])
	})
}

// queryGradients takes the gradients of Ψ of groups first ≤ i < last to packed anchors, in their place,
// and to relations. Those of a block's queries are there; the pairs' parts are added.
func (s *stepper) queryGradients(ctx context.Context, crew *crew, w *workload, first, last, epoch, step int) error {
	n, blocked := s.relationSize(), w.blockQueries()
	dura := 0.0
	if s.config.Regulariser == duraRegulariser {
		dura = s.regulariser.factor
	}
	return crew.parallel(ctx, last-first, func(c *stepScratch, k int) {
		i := first + k
		g := s.groups[i]
		c.back.begin(w.queries[g.first].Side, s.tensors[1:], w.queries[g.first].Relation)
		for q := g.first; q < g.last; q++ {
			gradient, dc := s.dPsi.Row(q), s.dConstants[q]
			c.ahead.Reset()
			s.wantRelation(c, w, i, i+crew.threads(), q)
			if next := s.after(i, i+crew.threads(), q); next < len(w.queries) {
				s.wantPair(c, w, next)
				c.ahead.Add(s.dPsi.Row(next))
				c.ahead.Add(s.entity(w.queries[next].Anchor))
			}
			c.ahead.SpreadOver(queryGradientProducts, s.dim)
			if q >= blocked {
				clear(gradient)
			}
			for k := w.pairs[q]; k < w.pairs[q+1]; k++ {
				s.backend.Axpy(gradient, s.pairs[k], s.phi.Row(int(w.pairRows[k])))
			}
			s.drop(c, gradient, s.config.Dropout, useDropout, epoch, step, q)
			if q < w.main {
				dc -= dura * w.halves[q] // of dura·‖A‖² = −dura·c
			}
			c.back.gradient(gradient[:s.width()], s.anchor(c, w.queries[q].Anchor, epoch, step, q), gradient, dc)
			s.drop(c, gradient[:s.width()], s.config.EntityDropout, useEntityDropout, epoch, step, q)
		}
		c.back.end(s.relations[i*n : (i+1)*n])
	})
}

// rowGradient takes the gradient of feature row i to the packed entity, written to out. That of a
// block's row is there; the pairs' parts are added.
func (s *stepper) rowGradient(out []float32, c *stepScratch, w *workload, i int) {
	g := c.row
	if i < s.dPhi.Rows {
		g = s.dPhi.Row(i)
	} else {
		clear(g)
	}
	if len(w.pairRows) > 0 {
		for _, k := range s.byRow.of(i) {
			s.backend.Axpy(g, s.pairs[k], s.psi.Row(int(s.pairQuery[k])))
		}
	}
	c.symmetric.Gradient(out, g, s.entity(w.rows[i]))
}

// wantEntity asks for what the gradient of entity e is made of, of a row's pairs the first.
func (s *stepper) wantEntity(c *stepScratch, w *workload, e int32) {
	for _, i := range s.byEntity.of(int(e)) {
		i := int(i)
		switch {
		case i >= len(w.rows):
			c.ahead.Add(s.dPsi.Row(i - len(w.rows))[:s.width()])
		case i < s.dPhi.Rows:
			c.ahead.Add(s.dPhi.Row(i))
		default:
			c.ahead.Add(s.psi.Row(int(s.pairQuery[s.byRow.of(i)[0]])))
		}
	}
	c.ahead.Add(s.entity(e))
	c.ahead.SpreadOver(featureProducts, s.dim)
}

// collect adds up the gradients of each entity and each relation, and those of the regulariser, for
// o to move them, or to keep.
// Nothing but the gradient of a row needs its parameters here, so that they may move meanwhile.
func (s *stepper) collect(ctx context.Context, w *workload, o *optimiser) error {
	if len(w.pairRows) > 0 {
		s.pairQuery = resize(s.pairQuery, len(w.pairRows))
		for i := range w.queries {
			for k := w.pairs[i]; k < w.pairs[i+1]; k++ {
				s.pairQuery[k] = int32(i)
			}
		}
		s.byRow.build(len(w.rows), w.pairRows)
	}

	s.regulariser.count(w.positives)
	n, perRelation := s.width(), s.relationSize()
	if o == nil {
		size(&s.gradient, len(s.entities), n)
		size(&s.relationGradient, len(s.touched), perRelation)
	}
	s.penalties = resize(s.penalties, len(s.entities)+len(s.touched))
	err := s.crew.parallel(ctx, len(s.penalties), func(c *stepScratch, k int) {
		if k < len(s.entities) {
			e, out := s.entities[k], c.gradient[:n]
			if o == nil {
				out = s.gradient.Row(k)
			}
			c.ahead.Reset()
			if next := k + s.crew.threads(); next < len(s.entities) {
				s.wantEntity(c, w, s.entities[next])
			}
			for k, i := range s.byEntity.of(int(e)) {
				part := c.more
				if k == 0 {
					part = out
				}
				if int(i) < len(w.rows) {
					s.rowGradient(part, c, w, int(i))
				} else if part = s.dPsi.Row(int(i) - len(w.rows))[:n]; k == 0 {
					copy(out, part)
				}
				if k > 0 {
					s.backend.Axpy(out, 1, part)
				}
			}
			s.penalties[k] = s.regulariser.entity(out, s.entity(e), e, s.dim)
			if o != nil {
				o.move(0, int(e), int(s.entities[min(k+s.crew.threads(), len(s.entities)-1)]), out)
			}
			return
		}
		r, out := s.touched[k-len(s.entities)], c.gradient[:perRelation]
		if o == nil {
			out = s.relationGradient.Row(k - len(s.entities))
		}
		clear(out)
		for _, i := range s.byRelation.of(int(r)) {
			s.backend.Axpy(out, 1, s.relations[int(i)*perRelation:(int(i)+1)*perRelation])
		}
		d2 := s.dim * s.dim
		s.penalties[k] = 0
		for i, tensor := range s.tensors[1:] {
			g := out[i*d2 : (i+1)*d2]
			s.penalties[k] += s.regulariser.relation(g, tensor[int(r)*d2:(int(r)+1)*d2], r, i)
			if o != nil {
				o.move(1+i, int(r), int(r), g)
			}
		}
	})
	s.regulariser.forget(w.positives)
	for _, p := range s.penalties {
		s.loss.Regulariser += p
	}
	if s.config.Regulariser == duraRegulariser {
		for q, c := range s.constants[:w.main] {
			s.loss.Regulariser -= c * s.regulariser.factor * w.halves[q]
		}
	}
	return err
}

func (s *stepper) entityCount() int   { return len(s.tensors[0]) / s.width() }
func (s *stepper) relationCount() int { return len(s.tensors[1]) / (s.dim * s.dim) }

// csr lists the items of each key, in ascending order.
type csr struct{ starts, items []int32 }

func (c *csr) of(key int) []int32 { return c.items[c.starts[key]:c.starts[key+1]] }

// build sorts the items 0, 1, … by their keys, which are below n.
func (c *csr) build(n int, keys []int32) {
	c.starts = resize(c.starts, n+2)
	clear(c.starts)
	c.items = resize(c.items, len(keys))
	// Counts lie two places up, so that the filling advances each start to its end.
	for _, k := range keys {
		c.starts[k+2]++
	}
	for k := 2; k < len(c.starts); k++ {
		c.starts[k] += c.starts[k-1]
	}
	for i, k := range keys {
		c.items[c.starts[k+1]] = int32(i)
		c.starts[k+1]++
	}
}

// distinct is build, and appends the keys that have items to dst.
func (c *csr) distinct(dst []int32, n int, keys []int32) []int32 {
	c.build(n, keys)
	for k := range n {
		if c.starts[k] < c.starts[k+1] {
			dst = append(dst, int32(k))
		}
	}
	return dst
}
