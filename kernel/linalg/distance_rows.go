package linalg

import "fmt"

// Distances between one vector and listed rows of a matrix, for pairs of queries and features that are no block.

// rowDistance are the kernels of a distance for pairs. They compare the n coordinates of x and of rows table[ids[i]*stride:],
// i < count, in rounds; the first words of masks, for the coordinates of a partial round, are ones, and the others zeros.
type rowDistance struct {
	// scores are those of DistanceScores, but sums of squares for DistanceL2. A round has 32 units.
	scores func(x *float32, n int, table *float32, stride int, ids *int32, count int, out *float32, masks *int32)
	// gradient adds the gradients of count ≤ ProductChunk pairs to dx. The weights are the derivatives by the scores, for
	// DistanceL2 divided by them. A round has distanceKernels.gradientRound coordinates.
	gradient func(dx, x *float32, n int, table *float32, stride int, ids *int32, weights *float32, count int, masks *int32)
}

// pairScratch is the memory for a chunk of pairs.
type pairScratch struct {
	scores, weights [ProductChunk]float32
	strip, panel    [genericTile * ProductChunk]float32 // of the generic tier
}

// maxRound is the largest round of a kernel.
const maxRound = 2 * sumLanes

// masks are ones and then zeros.
var masks = func() (m [2 * maxRound]int32) {
	for i := range maxRound {
		m[i] = -1
	}
	return m
}()

// masksOf returns the masks of a kernel for n coordinates in rounds.
func masksOf(n, round int) *int32 { return &masks[maxRound-n%round] }

// DistanceScores computes the scores −dist(psi, φ_i) of a query and the rows φ_i of phi that rows lists.
//
// Unit p (a coordinate or a pair of coordinates) goes to lane p mod 32, whose terms are added up in float32 with p
// ascending; lanes l and l + 16 are added, then l and l + 8, l + 4, l + 2 and the last two. Terms are those of Distance,
// whose chains are longer, so that its scores of the same vectors differ by roundings. All tiers agree bit for bit.
func (b *Backend) DistanceScores(kind DistanceKind, scores, psi []float32, phi Matrix, rows []int32) {
	checkPairs(kind, psi, phi, rows, scores)
	clear(scores) // for vectors without coordinates
	masks := masksOf(len(psi), sumLanes*kind.Unit())
	for i := 0; i < len(rows) && len(psi) > 0; i += ProductChunk {
		n := min(ProductChunk, len(rows)-i)
		b.distances.rows[kind].scores(&psi[0], len(psi), &phi.Data[0], phi.Stride, &rows[i], n, &scores[i], masks)
	}
	if kind == DistanceL2 {
		b.distances.takeRoots(scores)
	}
}

// AddDistanceGradient adds to dX the gradient of a loss by x, given the derivatives g_i of the loss by the scores
// −dist(x, y_i) of x and the rows y_i of y that rows lists. x may be a query and y features, or the other way round: all
// distances are symmetric. For DistanceL2 it computes the scores again.
//
// The gradients of ProductChunk rows are one chain from 0 in the order of rows, which is then added to dX, so that on a
// dX of zeros they equal what Distance.Gradients computes of the same scores.
func (b *Backend) AddDistanceGradient(kind DistanceKind, dX, g, x []float32, y Matrix, rows []int32) {
	checkPairs(kind, x, y, rows, g)
	checkLength("AddDistanceGradient", len(x), dX)
	if len(x) == 0 {
		return
	}
	t := scratches.Get().(*scratch)
	defer scratches.Put(t)
	masks := masksOf(len(x), b.distances.gradientRound)
	for i := 0; i < len(rows); i += ProductChunk {
		n := min(ProductChunk, len(rows)-i)
		weights := g[i : i+n]
		if kind == DistanceL2 {
			weights = t.pairs.weights[:n]
			b.DistanceScores(kind, t.pairs.scores[:n], x, y, rows[i:i+n])
			b.distances.divide(weights, g[i:i+n], t.pairs.scores[:n])
		}
		b.distances.rows[kind].gradient(&dX[0], &x[0], len(x), &y.Data[0], y.Stride, &rows[i], &weights[0], n, masks)
	}
}

func checkPairs(kind DistanceKind, x []float32, y Matrix, rows []int32, scores []float32) {
	y.check("y")
	if len(x) != y.Cols || len(rows) != len(scores) || len(x)%kind.Unit() != 0 {
		panic(fmt.Sprintf("linalg: %d scores of distance %v between a vector of %d coordinates and %d rows of %d",
			len(scores), kind, len(x), len(rows), y.Cols))
	}
	for _, r := range rows {
		if uint32(r) >= uint32(y.Rows) {
			panic(fmt.Sprintf("linalg: row %d of a matrix of %d", r, y.Rows))
		}
	}
}
