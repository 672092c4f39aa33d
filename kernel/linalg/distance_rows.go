package linalg

import "fmt"

// rowDistance holds the kernels that compare one vector x with listed rows of a matrix. x and the
// rows table[ids[i]*stride:], i < count, have n coordinates. The kernels work in rounds. masks
// contains −1 for the coordinates of the last, partial round and 0 for the positions beyond them.
type rowDistance struct {
	// scores computes the scores of DistanceScores, or sums of squares for a root. A round
	// processes 32 groups.
	scores func(x *float32, n int, table *float32, stride int, ids *int32, count int, out *float32, masks *int32)
	// gradient adds the terms of count ≤ ProductChunk pairs to dx, one after the other. weights
	// contains the derivatives with respect to the scores, divided by the scores for a root. A round
	// processes distanceKernels.gradientRound coordinates of all pairs.
	gradient func(
		dx, x *float32, n int, table *float32, stride int, ids *int32, weights *float32, count int, masks *int32,
	)
}

// pairScratch is scratch memory for a chunk of pairs.
type pairScratch struct {
	scores, weights [ProductChunk]float32
	groups          [ProductChunk]float32               // scores of a group
	chain           []float32                           // the terms of a gradient
	strip, panel    [genericSide * ProductChunk]float32 // for the generic tier
}

// maxRound is the largest number of coordinates in a round.
const maxRound = 2 * sumLanes

// masks holds maxRound words of −1, followed by maxRound zeros.
var masks = func() (m [2 * maxRound]int32) {
	for i := range maxRound {
		m[i] = -1
	}
	return m
}()

// masksOf returns the masks for n coordinates in rounds of the given size.
func masksOf(n, round int) *int32 { return &masks[maxRound-n%round] }

// DistanceScores computes the scores −dist(psi, φ_i) of a query for the rows φ_i of phi that rows
// lists.
//
// A group is a coordinate or a pair of coordinates. Lane p mod 32 adds the term of group p. A lane
// adds its terms in float32 with p ascending. Then lanes l and l + 16 are added, then lanes l and l
// + 8, l and l + 4, l and l + 2, and the last two. All tiers agree bit for bit. The terms are the
// same as in Distance, but the order of the additions is different, so the scores of the same vectors
// differ by rounding errors. A distance of DistanceGroupNormOf adds the DistanceL2 of the groups in
// ascending order.
func (b *Backend) DistanceScores(kind DistanceKind, scores, psi []float32, phi Matrix, rows []int32) {
	checkPairs(kind, psi, phi, rows, scores)
	clear(scores) // the result for vectors without coordinates
	if size := kind.groups(); size > 0 {
		b.groupRowScores(size, scores, psi, phi, rows)
		return
	}
	masks := masksOf(len(psi), sumLanes*kind.Group())
	for i := 0; i < len(rows) && len(psi) > 0; i += ProductChunk {
		n := min(ProductChunk, len(rows)-i)
		b.distances.rows[kind].scores(&psi[0], len(psi), &phi.Data[0], phi.Stride, &rows[i], n, &scores[i], masks)
	}
	if kind.Root() {
		b.distances.takeRoots(scores)
	}
}

// AddDistanceGradient adds to dX the gradient of a loss with respect to x. g_i is the derivative of
// the loss with respect to the score −dist(x, y_i), where rows lists the rows y_i of y. All
// distances are symmetric, so x may be a query and the rows of y features, or vice versa. For a
// root and for DistanceGroupNormOf, AddDistanceGradient recomputes the scores.
//
// The gradients of ProductChunk rows form one chain from 0 in the order of the rows. The chain is
// added to dX. If dX was 0, the result therefore equals the result of Distance.Gradients for the
// same scores.
func (b *Backend) AddDistanceGradient(kind DistanceKind, dX, g, x []float32, y Matrix, rows []int32) {
	checkPairs(kind, x, y, rows, g)
	checkLength("AddDistanceGradient", len(x), dX)
	if size := kind.groups(); size > 0 {
		for u := 0; u < len(x); u += size {
			b.AddDistanceGradient(DistanceL2, dX[u:u+size], g, x[u:u+size], y.Columns(u, u+size), rows)
		}
		return
	}
	if len(x) == 0 {
		return
	}
	t := scratches.Get().(*scratch)
	defer scratches.Put(t)
	t.pairs.chain = room(t.pairs.chain, len(x))
	chain := t.pairs.chain[:len(x)]
	for i := 0; i < len(rows); i += ProductChunk {
		n := min(ProductChunk, len(rows)-i)
		weights := g[i : i+n]
		if kind.Root() {
			weights = t.pairs.weights[:n]
			b.DistanceScores(kind, t.pairs.scores[:n], x, y, rows[i:i+n])
			b.distances.divide(weights, g[i:i+n], t.pairs.scores[:n])
		}
		clear(chain)
		b.addTerms(kind, chain, weights, x, y, rows[i:i+n])
		b.Axpy(dX, 1, chain)
	}
}

// addTerms adds the terms of at most ProductChunk rows to chain. A kernel passes over its rows once for
// every round of coordinates, so addTerms hands it only a few rows at a time if there is more than one
// round. For a root, the computation of the scores has just brought the rows into L2.
func (b *Backend) addTerms(kind DistanceKind, chain, weights, x []float32, y Matrix, rows []int32) {
	few, round := fewRows, b.distances.gradientRound
	if len(x) <= round || kind.Root() {
		few = len(rows)
	}
	gradient, masks := b.distances.rows[kind].gradient, masksOf(len(x), round)
	for i := 0; i < len(rows); i += few {
		n := min(few, len(rows)-i)
		gradient(&chain[0], &x[0], len(x), &y.Data[0], y.Stride, &rows[i], &weights[i], n, masks)
	}
}

// groupRowScores adds to scores the scores of groups of the given size.
func (b *Backend) groupRowScores(size int, scores, psi []float32, phi Matrix, rows []int32) {
	t := scratches.Get().(*scratch)
	defer scratches.Put(t)
	for i := 0; i < len(rows); i += ProductChunk {
		n := min(ProductChunk, len(rows)-i)
		part := t.pairs.groups[:n]
		for u := 0; u < len(psi); u += size {
			b.DistanceScores(DistanceL2, part, psi[u:u+size], phi.Columns(u, u+size), rows[i:i+n])
			for k, s := range part {
				scores[i+k] += s
			}
		}
	}
}

func checkPairs(kind DistanceKind, x []float32, y Matrix, rows []int32, scores []float32) {
	y.check("y")
	if len(x) != y.Cols || len(rows) != len(scores) || len(x)%kind.Group() != 0 {
		panic(fmt.Sprintf("linalg: %d scores for distance %v between a vector of %d coordinates and %d rows of %d",
			len(scores), kind, len(x), len(rows), y.Cols))
	}
	for _, r := range rows {
		if uint32(r) >= uint32(y.Rows) {
			panic(fmt.Sprintf("linalg: row %d of a matrix of %d", r, y.Rows))
		}
	}
}
