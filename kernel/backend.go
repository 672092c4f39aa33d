package kernel

import (
	"fmt"
	"unsafe"

	"github.com/mquine/mquine/asm"
)

// Backend holds the kernels of one tier. All backends agree bit for bit in the float64 kernels.
// The float32 scores of Panel have an error bound for each tier (PanelError).
type Backend struct {
	Tier Tier
	// NR is the number of candidates in a panel.
	NR int

	compare   [numComparisons]comparer
	rootError float64 // relative error of the square root in GroupNorm's panels
	fastInt8  bool    // Int8 is in assembly
	fastInt16 bool    // Int16 is in assembly
	matMul    func(c, a, b *float64, k, ld, groups int)
	matMulFMA func(c, a, b *float64, k, ld, groups int)
	frobenius func(p, q, x, out *float64, rows, ld, groups int)
	pairInt8  func(x *float32, n int, table *float32, stride int, ids *int32, count int, out *int32)
	gemm      gemm
	split     gemm // of split products, or nothing
	small     smallKernels
	rows      rowKernels
	weights   weightKernels
}

// MR is the number of queries in a strip.
func (b *Backend) MR(c Comparison) int { return b.compare[c].mr }

// Chunk is the number of terms that Panel adds up in one chain; the chains are added in order.
// Short chains keep the error bound narrow (PanelError), and so many terms of a panel stay in the
// L1 cache while strip after strip passes over them.
const Chunk = 128

// Tile is the result of scoring strips of queries against one panel of candidates. It is scratch
// memory that a goroutine uses again and again.
type Tile struct {
	// Scores[i*NR+j] is the float32 score of query i and candidate j; in a strip that was dropped,
	// a value below the query's Drop that is no less than the score. The rows after those of the last
	// strip are scratch memory of Int16.
	Scores []float32
	// Undecided holds Pairs pairs (truth, mask of candidates that are not certainly on one side), in
	// the order of the truths.
	Undecided []uint64
	Pairs     int
	// Drop[i], if Drop is not nil, is a score for query i: a strip whose scores are all less is not
	// computed to the end. Its truths' ends must not be below it. Not for Dot.
	Drop  []float32
	alive []uint8
	args  asm.PanelArgs // here, since it would leave the stack
	// Strips counts the strips that Panel was given, in chains of Chunk terms, and Dropped those
	// that it passed over because of Drop.
	Strips, Dropped int64
}

// NewTile returns a tile for up to queries queries with up to truths truths.
func (b *Backend) NewTile(queries, truths int) *Tile {
	return &Tile{Scores: AlignedFloat32((queries + int16MR) * b.NR), Undecided: make([]uint64, 2*(truths+1)), alive: make([]uint8, queries)}
}

// Panel scores queries, in strips of MR(c) ([strips][k][MR], PackRows; for Int16 PackTiles), against a
// panel of NR candidates ([k][NR]), and counts. The truths of query i are rows[i] ≤ t < rows[i+1], an interval
// lo ≤ hi of each is ends[2t], ends[2t+1], with lo possibly −Inf and hi +Inf. For every truth,
// better[t] goes up by the number of candidates j with bit j of valid set and a score > hi, and
// those with neither score > hi nor score < lo become a pair in tile.Undecided. Meanwhile ahead,
// the memory wanted next, is fetched into the L2 cache. k must be a positive multiple of c.Unit().
func (b *Backend) Panel(c Comparison, tile *Tile, strips, panel []float32, k int, rows []int32, ends []float32, better []int32, valid uint64, ahead []float32) {
	mr := b.compare[c].mr
	n := (len(rows) - 1) / mr
	chunk, scratch := Chunk, 0
	if c == Int16 {
		chunk, scratch = k, mr
	}
	truths := int(rows[len(rows)-1])
	if k < 1 || k%c.Unit() != 0 || n < 1 || n*mr != len(rows)-1 || len(strips) < n*k*mr || len(panel) < k*b.NR ||
		len(tile.Scores) < (n*mr+scratch)*b.NR || rows[0] < 0 || len(ends) < 2*truths || len(better) < truths ||
		len(tile.Undecided) < 2*(truths+1) || len(tile.alive) < n || (tile.Drop != nil && len(tile.Drop) < n*mr) {
		panic(fmt.Sprintf("kernel: Panel(%s): k = %d, strips %d, panel %d, rows %d, ends %d, better %d, truths %d, room %d and %d, drop %d: too short",
			c, k, len(strips), len(panel), len(rows), len(ends), len(better), truths, len(tile.Scores), len(tile.Undecided), len(tile.Drop)))
	}
	var drop *float32
	if c.falling() && tile.Drop != nil {
		drop = &tile.Drop[0]
		for i := range tile.alive[:n] {
			tile.alive[i] = 1
		}
	}
	// An address, not a pointer: it may run past the end. The fetches are spread evenly, so that they
	// never take all of the few line buffers that L2 hits need too.
	next, step := uintptr(unsafe.Pointer(&panel[0])), 0
	if len(ahead) > 0 {
		next, step = uintptr(unsafe.Pointer(&ahead[0])), (4*len(ahead)+n*k/4)/(n*k/4+1)
	}
	for from := 0; from < k; from += chunk {
		terms := min(chunk, k-from)
		if drop != nil {
			for _, a := range tile.alive[:n] {
				tile.Dropped += int64(1 - a)
			}
		}
		tile.Strips += int64(n)
		tile.args = asm.PanelArgs{
			Psi: word(&strips[from*mr]), PsiStride: k * mr, Phi: word(&panel[from*b.NR]), K: terms, Strips: n,
			Scores: &tile.Scores[0], Add: from, ExitBelow: drop, Active: &tile.alive[0],
			Thresholds: ptr(ends), Counts: ptr(better), Undecided: &tile.Undecided[0],
			ValidLanes: valid, Ahead: next, Step: step,
		}
		if from+terms == k {
			tile.args.TruthStart = ptr(rows)
		}
		tile.Pairs = b.compare[c].panel(&tile.args)
		next += uintptr(terms / 4 * n * step)
	}
}

// PairWidth is the multiple to which Pair's rows are padded with zeros.
const PairWidth = 32

// Pair compares x with the rows of table that ids lists, in float64 from the float32 entries:
// out[i] is the score of x and table[ids[i]·stride:][:len(x)]. len(x) must be a positive multiple
// of PairWidth. There is none for Int8 and Int16.
func (b *Backend) Pair(c Comparison, out []float64, x, table []float32, stride int, ids []int32) {
	checkPair(len(out), PairWidth, x, table, stride, ids)
	for len(ids) > 0 {
		n := min(len(ids), mostPairs)
		b.compare[c].pair(&x[0], len(x), &table[0], stride, &ids[0], n, &out[0])
		if c.Unit() == 2 {
			for i := range out[:n] {
				out[i] /= 2 // the kernels count a pair for both of its terms
			}
		}
		ids, out = ids[n:], out[n:]
	}
}

func checkPair(out, width int, x, table []float32, stride int, ids []int32) {
	if len(x) == 0 || len(x)%width != 0 || stride < len(x) || out < len(ids) {
		panic(fmt.Sprintf("kernel: pairs: %d terms, stride %d, %d ids, room for %d", len(x), stride, len(ids), out))
	}
	for _, id := range ids {
		if id < 0 || int(id)*stride+len(x) > len(table) {
			panic(fmt.Sprintf("kernel: pairs: row %d is outside the table", id))
		}
	}
}

// mostPairs is the number of rows in one call, which the scheduler cannot interrupt.
const mostPairs = 256

// MatMul computes the product c = a·b of d × d matrices in float64: every entry one chain over k
// from 0, product and sum rounded separately. The matrices are LD(d) × LD(d), row by row, zero
// beyond d.
func (b *Backend) MatMul(c, a, bm []float64, d int) { b.product(b.matMul, c, a, bm, d, false) }

// MatMulFMA is MatMul with fused multiply-adds.
func (b *Backend) MatMulFMA(c, a, bm []float64, d int) { b.product(b.matMulFMA, c, a, bm, d, false) }

// MatMulFMALower is MatMulFMA for the entries on and below the diagonal; those above it may or
// may not be computed.
func (b *Backend) MatMulFMALower(c, a, bm []float64, d int) {
	b.product(b.matMulFMA, c, a, bm, d, true)
}

func (b *Backend) product(f func(c, a, b *float64, k, ld, groups int), c, a, bm []float64, d int, lower bool) {
	ld := LD(d)
	if d < 1 || len(c) < ld*ld || len(a) < ld*ld || len(bm) < ld*ld {
		panic(fmt.Sprintf("kernel: MatMul: d = %d, matrices of %d, %d and %d entries", d, len(c), len(a), len(bm)))
	}
	groups := ld / 8
	for s := range ld / 8 {
		if lower {
			groups = s + 1
		}
		f(&c[8*s*ld], &a[8*s*ld], &bm[0], d, ld, groups)
	}
}

// Frobenius returns ‖(P − Q) + X‖²_F of d × d matrices (stored as for MatMul) in float64: the
// squares of a column summed over ascending rows, then the columns in ascending order, every
// operation rounded. scratch holds LD(d) entries.
func (b *Backend) Frobenius(p, q, x []float64, d int, scratch []float64) float64 {
	ld := LD(d)
	if d < 1 || len(p) < ld*ld || len(q) < ld*ld || len(x) < ld*ld || len(scratch) < ld {
		panic(fmt.Sprintf("kernel: Frobenius: d = %d, matrices of %d, %d and %d entries", d, len(p), len(q), len(x)))
	}
	b.frobenius(&p[0], &q[0], &x[0], &scratch[0], d, ld, ld/8)
	var s float64
	for _, c := range scratch[:d] {
		s += c
	}
	return s
}

// LD is the leading dimension of the float64 kernels' d × d matrices: d rounded up to 8.
func LD(d int) int { return (d + 7) &^ 7 }

// word returns the address of a number as that of its bits.
func word(x *float32) *uint32 { return (*uint32)(unsafe.Pointer(x)) }

// ptr returns the address of the first element, or nil: a kernel does not follow it then.
func ptr[T any](s []T) *T { return unsafe.SliceData(s) }
