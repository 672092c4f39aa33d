package linalg

import (
	"context"
	"fmt"
	"math"
	"sync"

	"github.com/mquine/mquine/kernel"
)

// Region is a score that is minus a distance from a region: an interval of width W in each
// coordinate. With V = W + 1 and κ = ½W(V − 1/V), a point at the distance x from the middle of its
// interval has the distance x/V from the region if it is inside, and Vx − κ outside.
//
// A query vector ψ and a feature vector φ consist of parts, whose distances are added. A part of φ
// has n entries b: one for each coordinate, and zeros up to a multiple of 16. A part of ψ has n
// entries p, then n entries q and then n widths W ≥ 0.
type Region struct {
	Kind        RegionKind
	Coordinates int // the number of coordinates of a part
}

// RegionKind says where points are, and which of them are inside.
type RegionKind uint32

const (
	// RegionBoxes has two parts. The distance in a coordinate is the larger of the distances inside
	// and outside. With a = p, m = q and b ≥ 0,
	//
	//	x = |1 − 1/(ab + ½) − m|,   S = −√Σd² − √Σd²,   d = max(x/V, Vx − κ).
	//
	// The gradients with respect to p and to b are the gradients with respect to α and β, where
	// a = e^{2α}/2 and b = e^{2β}.
	RegionBoxes RegionKind = iota
	// RegionParallelogram has one part, and a point is inside if it is inside in all coordinates.
	// With a = p and s = q,
	//
	//	x = |a − sb|,   S = −√Σ(x/V)² if x ≤ ½W in all coordinates, otherwise −√Σ(Vx − κ)².
	RegionParallelogram
	numRegions
)

// String returns "boxes" or "parallelogram".
func (k RegionKind) String() string { return [numRegions]string{"boxes", "parallelogram"}[k] }

func (k RegionKind) parts() int {
	if k == RegionBoxes {
		return 2
	}
	return 1
}

// terms returns the number of entries of a part of φ.
func (r Region) terms() int { return roundUp(r.Coordinates, regionLanes) }

// Width returns the number of entries of φ. ψ has three times as many.
func (r Region) Width() int { return r.Kind.parts() * r.terms() }

// Scratch returns the number of float32 entries that a Regions needs for a block.
func (r Region) Scratch(queries, features int) int {
	scores := r.Kind.parts() * LineStride(features)
	if r.Kind == RegionParallelogram {
		scores += features // which pairs are inside
	}
	return queries * (LineStride(regionWords*r.Width()) + scores)
}

const (
	regionLanes = rowLanes // lanes of a sum over coordinates; entry u goes to lane u mod 16
	regionPsi   = 3        // entries of ψ for an entry of φ
)

// A prepared part of a query has n entries of each of these words.
const (
	wordFactor  = iota // a, or s of a parallelogram
	wordOffset         // 1 − m, or a of a parallelogram
	wordInverse        // 1/V
	wordV              // V
	wordKappa          // κ
	wordInside         // −1/V², so x times it is ∂(x/V)/∂W
	wordOutside        // k′ = ½(V − 1/V) + ½W(1 + 1/V²), so x minus it is ∂(Vx − κ)/∂W
	wordHalf           // ½W
	regionWords
)

// regionKernels holds the kernels of a kind. n is a multiple of regionLanes, and count > 0. q is a
// prepared part of a query, and rows are parts of features. The chains of gradients continue the
// values of dq and dx, in the order of the rows.
type regionKernels struct {
	// scores writes Σd² for the rows table[ids[i]*stride:]; outside for a parallelogram, whose
	// kernel also writes to most the largest x − ½W.
	scores func(q *float32, n int, table *float32, stride int, ids *int32, count int, sums, most *float32)
	// psi adds the gradients of the rows to dq, the gradient of a part of ψ. weights holds the
	// derivatives with respect to the scores, divided by the scores of the part. A word of inside is
	// −1 if the pair is inside its parallelogram, and 0 otherwise. The kernel of boxes ignores it.
	psi func(
		dq, q *float32, n int, table *float32, stride int, ids *int32, weights *float32, inside *int32, count int,
	)
	// phi adds to dx the gradients of prepared parts table[i*stride:], for the part x of a feature.
	phi func(dx, x *float32, n int, table *float32, stride int, weights *float32, inside *int32, count int)
	// ofScores and ofGradients do the arithmetic of scores, and of psi and phi, on registers alone.
	ofScores, ofGradients Peak
}

// bothGradients returns the ceiling of gradients, given the loops with the arithmetic of psi and of
// phi. A round of each of the two loops computes the given number of terms.
func bothGradients(psi, phi func(rounds int, operands *float32), terms int) Peak {
	return Peak{func(n int, x *float32) {
		psi(n, x)
		phi(n, x)
	}, 2 * terms}
}

// RegionKinds returns all kinds of regions.
func RegionKinds() []RegionKind { return []RegionKind{RegionBoxes, RegionParallelogram} }

// RegionPeaks returns two loops for a kind of regions. They do the arithmetic of scores and of
// gradients on registers alone. For m queries and n features with k entries of φ, padding included,
// scores have m·n·k terms. Gradients have 2·m·n·k terms: half of them belong to ψ, which has three
// entries for each, and half to φ. Package ceiling measures the rates of the loops.
func (b *Backend) RegionPeaks(kind RegionKind) (scores, gradients Peak) {
	return b.regions[kind].ofScores, b.regions[kind].ofGradients
}

// prepare writes the words of a part of a query, given the part of ψ. Words beyond the last
// coordinate are 0, so the terms are 0.
func (r Region) prepare(words, psi []float32) {
	n := r.terms()
	p, q, width := psi[:n], psi[n:][:n], psi[2*n:][:n]
	word := func(i int) []float32 { return words[i*n:][:n] }
	factor, offset, inverse, vs := word(wordFactor), word(wordOffset), word(wordInverse), word(wordV)
	kappa, inside, outside, halves := word(wordKappa), word(wordInside), word(wordOutside), word(wordHalf)
	if r.Kind == RegionBoxes {
		copy(factor, p)
		for u, m := range q {
			offset[u] = 1 - m
		}
	} else {
		copy(factor, q)
		copy(offset, p)
	}
	for u, w := range width {
		v := w + 1
		i := 1 / v
		half, rise, square := float32(w*0.5), v-i, float32(i*i)
		inverse[u], vs[u], kappa[u] = i, v, float32(half*rise)
		inside[u], outside[u] = -square, float32(0.5*rise)+float32(half*(1+square))
		halves[u] = half
	}
	if r.Coordinates < n {
		for i := range regionWords {
			clear(word(i)[r.Coordinates:])
		}
	}
}

// Regions computes the scores of queries and features for a Region, and their gradients.
//
// All operations are float32 and rounded separately. A sum over the coordinates of a part has 16
// lanes. Lane u mod 16 adds the term of coordinate u, with u ascending. Then lanes l and l + 8 are
// added, then l and l + 4, l and l + 2, and the last two. An entry of a gradient is a sum over chunks
// of ProductChunk queries or features in ascending order, and a chunk is one chain that starts at 0.
// Hence the results do not depend on the number of threads, and all tiers agree bit for bit.
//
// The gradient is 0 where the distance of a part is 0. At the edge of a box, it is the gradient
// outside. Where a point is in the middle of its interval, x = |y| has a kink at y = 0 (y = c − r for
// a box, y = a − sb for a parallelogram), and the kernels take the one-sided derivative from y > 0, +1,
// because they copy the sign bit of y; +1 is a subgradient, as is the 0 of the frameworks in which the
// authors of both models wrote their code.
//
// A Regions holds scratch memory for one call at a time. It allocates only if the matrices are
// larger than in all earlier calls.
type Regions struct {
	region  Region
	backend *Backend
	pool    *kernel.Pool

	words Matrix // the prepared queries, part by part
	// scores holds the score of every part: minus its distance, or the distance itself if the pair
	// is inside its parallelogram. inside holds −1 for these pairs.
	scores [maxRegionParts]Matrix
	inside []int32 // [query][feature], for a parallelogram
	// weights is the second name of scores: Gradients replaces them with its kernels' weights.
	weights [maxRegionParts]Matrix

	// These are the operands of the current call.
	s, g, psi, phi, dPsi, dPhi              Matrix
	scoreWork, weightWork, psiWork, phiWork func(worker, item int)
	scratch                                 []*regionScratch // per worker
}

const (
	maxRegionParts = 2
	// regionGroup is the number of queries, or of features, in a work item. The features of a chunk
	// stay in L2 while the queries of an item pass over them. For the gradients of features, the
	// words of regionGroup queries stay in L1.
	regionGroup = 16
)

// regionScratch is scratch memory for a chunk of pairs.
type regionScratch struct {
	words, sum []float32 // a prepared part of a query, and the chains of its gradient
	scores     [ProductChunk]float32
	weights    [ProductChunk]float32
	inside     [ProductChunk]int32
	// columns are the weights of a chunk of queries for the features of a work item, and sums are
	// the chains of their gradients.
	columns       [regionGroup][ProductChunk]float32
	insideColumns [regionGroup][ProductChunk]int32
	sums          []float32
}

// everyRow lists the rows of a chunk.
var everyRow = func() (rows [ProductChunk]int32) {
	for i := range rows {
		rows[i] = int32(i)
	}
	return rows
}()

// NewRegions returns scratch memory for regions on the given number of threads.
func (b *Backend) NewRegions(region Region, threads int) *Regions {
	r := &Regions{region: region, backend: b, pool: kernel.NewPool(threads)}
	for range threads {
		r.scratch = append(r.scratch, new(regionScratch))
	}
	r.scoreWork, r.weightWork, r.psiWork, r.phiWork = r.scoreQueries, r.weighQuery, r.psiGradients, r.phiGradients
	return r
}

// check panics if ψ and φ do not have the given numbers of entries.
func (r Region) check(psi, phi int) {
	if phi != r.Width() || psi != regionPsi*phi {
		panic(fmt.Sprintf("linalg: %v of %d coordinates with vectors of %d and %d entries",
			r.Kind, r.Coordinates, psi, phi))
	}
}

// Scores computes S_ij for the queries ψ_i and the features φ_j, the rows of psi and phi. s must
// not overlap the other matrices. Scores returns ctx's error if ctx is cancelled; s is then
// undefined.
func (r *Regions) Scores(ctx context.Context, s, psi, phi Matrix) error {
	s.check("s")
	psi.check("psi")
	phi.check("phi")
	if s.Rows != psi.Rows || s.Cols != phi.Rows {
		panic(fmt.Sprintf("linalg: %d × %d scores of %d queries and %d features", s.Rows, s.Cols, psi.Rows, phi.Rows))
	}
	r.region.check(psi.Cols, phi.Cols)
	n, parts := r.region.terms(), r.region.Kind.parts()
	r.words.Resize(psi.Rows, parts*regionWords*n)
	for k := range parts {
		r.scores[k].Resize(s.Rows, s.Cols)
	}
	if r.region.Kind == RegionParallelogram && len(r.inside) < s.Rows*s.Cols {
		r.inside = make([]int32, s.Rows*s.Cols)
	}
	r.s, r.psi, r.phi = s, psi, phi
	defer r.forget()
	return r.pool.Run(ctx, groups(psi.Rows), r.scoreWork)
}

func groups(rows int) int { return (rows + regionGroup - 1) / regionGroup }

func (r *Regions) forget() {
	r.s, r.g, r.psi, r.phi, r.dPsi, r.dPhi = Matrix{}, Matrix{}, Matrix{}, Matrix{}, Matrix{}, Matrix{}
}

// part returns part k of a vector whose parts have n entries.
func part(x []float32, k, n int) []float32 { return x[k*n : (k+1)*n] }

// queryWords returns prepared part k of query i.
func (r *Regions) queryWords(i, k int) []float32 {
	return part(r.words.Row(i), k, regionWords*r.region.terms())
}

// scoreQueries prepares a group of queries and scores them against all features.
func (r *Regions) scoreQueries(worker, item int) {
	first, last := item*regionGroup, min((item+1)*regionGroup, r.psi.Rows)
	parts, t := r.region.Kind.parts(), r.scratch[worker]
	n := r.region.terms()
	for i := first; i < last; i++ {
		for k := range parts {
			r.region.prepare(r.queryWords(i, k), part(r.psi.Row(i), k, regionPsi*n))
		}
	}
	for j := 0; j < r.phi.Rows; j += ProductChunk {
		count := min(ProductChunk, r.phi.Rows-j)
		for i := first; i < last; i++ {
			out := r.s.Row(i)[j:][:count]
			for k := range parts {
				scores, inside := r.scores[k].Row(i)[j:][:count], t.inside[:count]
				if r.region.Kind == RegionParallelogram {
					inside = r.inside[i*r.s.Cols+j:][:count]
				}
				r.backend.regionScores(r.region.Kind, scores, inside, r.queryWords(i, k),
					r.phi.Slice(j, j+count), k*n, everyRow[:count], t)
				addRegionScores(out, scores, k == 0)
			}
		}
	}
}

// addRegionScores sets out to the scores of the first part, or adds the scores of another one.
func addRegionScores(out, scores []float32, first bool) {
	for j, v := range scores {
		v = min(v, -v) // a positive number marks a pair inside its parallelogram
		if !first {
			v += out[j]
		}
		out[j] = v
	}
}

// regionScores writes the scores of a prepared part of a query for at most ProductChunk listed
// rows of phi, whose parts begin at the given column. A score is positive if the pair is inside its
// parallelogram. inside receives −1 for these pairs and 0 for others.
func (b *Backend) regionScores(
	kind RegionKind, scores []float32, inside []int32, words []float32, phi Matrix, column int, rows []int32,
	t *regionScratch,
) {
	n, most := len(words)/regionWords, t.weights[:len(rows)]
	b.regions[kind].scores(
		&words[0], n, &phi.Data[column], phi.Stride, &rows[0], len(rows), &scores[0], &most[0])
	b.distances.takeRoots(scores)
	if kind == RegionBoxes {
		return
	}
	for j, v := range most {
		inside[j] = 0
		if v <= 0 {
			inside[j] = -1
			scores[j] = float32(math.Sqrt(float64(insideSum(words, phi.Row(int(rows[j]))[column:][:n]))))
		}
	}
}

// Gradients computes the gradients of a loss L with respect to ψ and φ, given its gradients with
// respect to the scores, G_ij = ∂L/∂S_ij. The previous call must have been Scores for the same psi
// and phi, and there is one call to Gradients for a call to Scores. The results must not overlap
// each other or the operands. Gradients returns ctx's error if ctx is cancelled; the results are
// then undefined.
func (r *Regions) Gradients(ctx context.Context, dPsi, dPhi, g, psi, phi Matrix) error {
	g.check("g")
	dPsi.check("dPsi")
	dPhi.check("dPhi")
	r.region.check(psi.Cols, phi.Cols)
	if dPsi.Rows != psi.Rows || dPsi.Cols != psi.Cols || dPhi.Rows != phi.Rows || dPhi.Cols != phi.Cols ||
		g.Rows != psi.Rows || g.Cols != phi.Rows || r.scores[0].Rows != g.Rows || r.scores[0].Cols != g.Cols {
		panic(fmt.Sprintf("linalg: gradients %d × %d and %d × %d for %d × %d scores of vectors %d × %d and %d × %d",
			dPsi.Rows, dPsi.Cols, dPhi.Rows, dPhi.Cols, g.Rows, g.Cols, psi.Rows, psi.Cols, phi.Rows, phi.Cols))
	}
	r.weights = r.scores
	r.g, r.psi, r.phi, r.dPsi, r.dPhi = g, psi, phi, dPsi, dPhi
	defer r.forget()
	if err := r.pool.Run(ctx, g.Rows, r.weightWork); err != nil {
		return err
	}
	if err := r.pool.Run(ctx, groups(psi.Rows), r.psiWork); err != nil {
		return err
	}
	return r.pool.Run(ctx, groups(phi.Rows), r.phiWork)
}

// weighQuery replaces the scores of a query's parts with weights.
func (r *Regions) weighQuery(_, i int) {
	for k := range r.region.Kind.parts() {
		var inside []int32
		if r.region.Kind == RegionParallelogram {
			inside = r.inside[i*r.g.Cols:][:r.g.Cols]
		}
		r.backend.regionWeights(r.weights[k].Row(i), r.g.Row(i), r.scores[k].Row(i), inside)
	}
}

// regionWeights sets weights to the derivatives with respect to the scores, divided by the scores.
// weights and scores may be the same slice. inside may be empty.
func (b *Backend) regionWeights(weights, g, scores []float32, inside []int32) {
	if len(g) == 0 {
		return
	}
	b.distances.divide(weights, g, scores)
	for j, m := range inside {
		if m != 0 { // the kept score is positive
			weights[j] = -weights[j]
		}
	}
}

// psiGradients computes the gradients of a group of queries.
func (r *Regions) psiGradients(worker, item int) {
	first, last := item*regionGroup, min((item+1)*regionGroup, r.psi.Rows)
	parts, t := r.region.Kind.parts(), r.scratch[worker]
	n := r.region.terms()
	for i := first; i < last; i++ {
		clear(r.dPsi.Row(i))
	}
	for j := 0; j < r.phi.Rows; j += ProductChunk {
		count := min(ProductChunk, r.phi.Rows-j)
		for i := first; i < last; i++ {
			inside := &t.inside[0]
			if r.region.Kind == RegionParallelogram {
				inside = &r.inside[i*r.g.Cols+j]
			}
			for k := range parts {
				r.backend.addRegionPsi(r.region.Kind, part(r.dPsi.Row(i), k, regionPsi*n), r.queryWords(i, k),
					r.phi.Slice(j, j+count), k*n, everyRow[:count], &r.weights[k].Row(i)[j], inside, t)
			}
		}
	}
}

// addRegionPsi adds a chunk of listed rows to the gradient of a part of a query.
func (b *Backend) addRegionPsi(
	kind RegionKind, dPsi, words []float32, phi Matrix, column int, rows []int32, weights *float32, inside *int32,
	t *regionScratch,
) {
	n := len(words) / regionWords
	t.sum = room(t.sum, regionPsi*n)
	sum := t.sum[:regionPsi*n]
	clear(sum)
	b.regions[kind].psi(
		&sum[0], &words[0], n, &phi.Data[column], phi.Stride, &rows[0], weights, inside, len(rows))
	b.Axpy(dPsi, 1, sum)
}

// phiGradients computes the gradients of a group of features.
func (r *Regions) phiGradients(worker, item int) {
	first := item * regionGroup
	features := min(regionGroup, r.phi.Rows-first)
	parts, t := r.region.Kind.parts(), r.scratch[worker]
	n := r.region.terms()
	t.sums = room(t.sums, regionGroup*n)
	for j := range features {
		clear(r.dPhi.Row(first + j))
	}
	for i := 0; i < r.psi.Rows; i += ProductChunk {
		count := min(ProductChunk, r.psi.Rows-i)
		if r.region.Kind == RegionParallelogram {
			for q := range count {
				for j, m := range r.inside[(i+q)*r.g.Cols+first:][:features] {
					t.insideColumns[j][q] = m
				}
			}
		}
		for k := range parts {
			for q := range count {
				for j, w := range r.weights[k].Row(i + q)[first:][:features] {
					t.columns[j][q] = w
				}
			}
			clear(t.sums[:features*n])
			for q := 0; q < count; q += regionGroup {
				some := min(regionGroup, count-q)
				for j := range features {
					r.backend.regions[r.region.Kind].phi(&t.sums[j*n], &r.phi.Row(first + j)[k*n], n,
						&r.queryWords(i+q, k)[0], r.words.Stride, &t.columns[j][q], &t.insideColumns[j][q], some)
				}
			}
			for j := range features {
				r.backend.Axpy(r.dPhi.Row(first + j)[k*n:][:n], 1, t.sums[j*n:][:n])
			}
		}
	}
}

var regionScratches = sync.Pool{New: func() any { return new(regionScratch) }}

// RegionScores computes the scores of a query for the rows of phi that rows lists. They equal the
// results of Regions.Scores.
func (b *Backend) RegionScores(region Region, scores, psi []float32, phi Matrix, rows []int32) {
	n, kind := checkRegionPairs(region, len(psi), phi.Cols, phi, rows, scores), region.Kind
	t := regionScratches.Get().(*regionScratch)
	defer regionScratches.Put(t)
	t.words = room(t.words, regionWords*n)
	words := t.words[:regionWords*n]
	for k := 0; k < kind.parts() && n > 0 && len(rows) > 0; k++ {
		region.prepare(words, part(psi, k, regionPsi*n))
		for i := 0; i < len(rows); i += ProductChunk {
			count := min(ProductChunk, len(rows)-i)
			of := t.scores[:count]
			b.regionScores(kind, of, t.inside[:count], words, phi, k*n, rows[i:i+count], t)
			addRegionScores(scores[i:i+count], of, k == 0)
		}
	}
}

// AddRegionPsi adds to dPsi the gradient of a loss with respect to ψ. g_i is the derivative of the
// loss with respect to the score of ψ and row rows[i] of phi. If dPsi was 0, the result equals the
// result of Regions.Gradients for the same pairs.
func (b *Backend) AddRegionPsi(region Region, dPsi, g, psi []float32, phi Matrix, rows []int32) {
	n, kind := checkRegionPairs(region, len(psi), phi.Cols, phi, rows, g), region.Kind
	checkLength("AddRegionPsi", len(psi), dPsi)
	t := regionScratches.Get().(*regionScratch)
	defer regionScratches.Put(t)
	t.words = room(t.words, regionWords*n)
	words := t.words[:regionWords*n]
	for k := 0; k < kind.parts() && n > 0; k++ {
		region.prepare(words, part(psi, k, regionPsi*n))
		for i := 0; i < len(rows); i += ProductChunk {
			count := min(ProductChunk, len(rows)-i)
			b.weighPairs(kind, g[i:i+count], words, phi, k*n, rows[i:i+count], t)
			b.addRegionPsi(kind, part(dPsi, k, regionPsi*n), words, phi, k*n, rows[i:i+count],
				&t.weights[0], &t.inside[0], t)
		}
	}
}

// AddRegionPhi is like AddRegionPsi for φ and the rows of psi that rows lists.
func (b *Backend) AddRegionPhi(region Region, dPhi, g, phi []float32, psi Matrix, rows []int32) {
	n, kind := checkRegionPairs(region, psi.Cols, len(phi), psi, rows, g), region.Kind
	checkLength("AddRegionPhi", len(phi), dPhi)
	t := regionScratches.Get().(*regionScratch)
	defer regionScratches.Put(t)
	t.words, t.sum = room(t.words, regionWords*n), room(t.sum, n)
	words, sum := t.words[:regionWords*n], t.sum[:n]
	feature := Matrix{Data: phi, Rows: 1, Cols: len(phi), Stride: len(phi)}
	for k := 0; k < kind.parts() && n > 0; k++ {
		for i := 0; i < len(rows); i += ProductChunk {
			clear(sum)
			for j := i; j < min(i+ProductChunk, len(rows)); j++ {
				region.prepare(words, part(psi.Row(int(rows[j])), k, regionPsi*n))
				b.weighPairs(kind, g[j:j+1], words, feature, k*n, everyRow[:1], t)
				b.regions[kind].phi(&sum[0], &phi[k*n], n, &words[0], len(words), &t.weights[0], &t.inside[0], 1)
			}
			b.Axpy(dPhi[k*n:][:n], 1, sum)
		}
	}
}

// weighPairs computes the weights of at most ProductChunk pairs in t.
func (b *Backend) weighPairs(
	kind RegionKind, g, words []float32, phi Matrix, column int, rows []int32, t *regionScratch,
) {
	count := len(rows)
	b.regionScores(kind, t.scores[:count], t.inside[:count], words, phi, column, rows, t)
	inside := t.inside[:count]
	if kind == RegionBoxes {
		inside = nil
	}
	b.regionWeights(t.weights[:count], g, t.scores[:count], inside)
}

// checkRegionPairs panics if the operands do not fit. It returns the number of entries of a part.
func checkRegionPairs(region Region, psi, phi int, table Matrix, rows []int32, scores []float32) int {
	table.check("rows")
	if len(rows) != len(scores) {
		panic(fmt.Sprintf("linalg: %d scores of %d rows", len(scores), len(rows)))
	}
	for _, r := range rows {
		if uint32(r) >= uint32(table.Rows) {
			panic(fmt.Sprintf("linalg: row %d of a matrix of %d", r, table.Rows))
		}
	}
	region.check(psi, phi)
	return region.terms()
}
