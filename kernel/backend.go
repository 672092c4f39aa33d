package kernel

import (
	"fmt"
	"unsafe"
)

// Backend holds the kernels for a tier and its features. It is immutable and safe for concurrent
// use.
//
// The float64 kernels and the panels of codes return the same bits on every backend, except
// Int16NormPanels. The scores of Int16NormPanels and the float32 scores of Panels may differ;
// Int16NormError and PanelError bound their errors.
type Backend struct {
	Tier Tier
	// Features is the set of features that the kernels use.
	Features Features
	// NR is the number of candidates in a panel.
	NR int

	int8   comparer // panels of one-byte codes: assembly with VNNI, otherwise portable and slow
	int16  comparer // panels of two-byte codes: assembly with FeatureAMX, otherwise portable and slow
	int8L1 comparer // panels of L1 distances of one-byte codes
	// int8Phase are the panels of one-byte phases: assembly with VNNI and VBMI, otherwise portable and slow.
	int8Phase comparer
	// int16Dot are the panels of two-byte codes in one product.
	int16Dot comparer
	// int16Norms are the panels of group norms of two-byte codes, for groups of one word, of two words,
	// and of more.
	int16Norms [3]normPanels

	matMul    func(c, a, b *float64, k, ld, eights int)
	matMulFMA func(c, a, b *float64, k, ld, eights int)
	frobenius func(p, q, x, out *float64, rows, ld, eights int)
	pairInt8  pairCodesFunc
	// pairInt16L1 computes L1 distances of two-byte codes.
	pairInt16L1 pairCodesFunc
}

// pairCodesFunc is the signature of the kernels that compare rows of codes. Package asm documents
// their arguments.
type pairCodesFunc func(x *uint32, n int, table *uint32, stride int, ids *int32, count int, out *int32)

// Peak returns a loop that does only the arithmetic of c's panels, on 64 operands in registers. It
// also returns the number of score terms that one round of the loop computes. Package ceiling
// measures the rate of the loop.
func (b *Backend) Peak(c Comparison) (loop func(rounds int, operands *float32), terms int) {
	k := b.comparer(c)
	return k.peak, k.peakTerms
}

// Pair scores x against the rows of table that ids lists, computing in float64 from the float32
// entries: out[i] is the score of x and the row that begins at table[ids[i]*stride]. The number of
// coordinates, which len(x) determines, must be a positive multiple of PairWidth. Coordinates after
// the last whole group are not compared. Comparison.PairError bounds the error.
func (b *Backend) Pair(c Comparison, out []float64, x, table []float32, stride int, ids []int32) {
	terms := len(x) / c.psi
	checkPair(len(out), PairWidth*c.psi, terms*c.phi, x, table, stride, ids)
	kernel := b.comparer(c).pair
	for len(ids) > 0 {
		n := min(len(ids), mostPairs)
		kernel(&x[0], terms, &table[0], stride, &ids[0], n, &out[0])
		if c.group > 1 && c.terms != nil {
			for i := range out[:n] {
				out[i] /= float64(c.group) // the kernels add a group's term once for each of its coordinates
			}
		}
		ids, out = ids[n:], out[n:]
	}
}

// checkPair panics unless len(x) is a positive multiple of width, the table contains the listed rows,
// each with row entries, and there is room for their scores in out values.
func checkPair[T any](out, width, row int, x, table []T, stride int, ids []int32) {
	if len(x) == 0 || len(x)%width != 0 || stride < row || out < len(ids) {
		panic(fmt.Sprintf("kernel: pairs: %d terms, stride %d, %d ids, room for %d", len(x), stride, len(ids), out))
	}
	for _, id := range ids {
		if id < 0 || int(id)*stride+row > len(table) {
			panic(fmt.Sprintf("kernel: pairs: row %d is outside the table", id))
		}
	}
}

// MatMul computes the product c = a·bm of d × d matrices in float64. Every entry is one chain that
// starts at 0 and adds its terms in ascending order; products and sums are rounded separately. The
// matrices are stored as LD(d) × LD(d) matrices in row-major order, with zeros beyond d. c must not
// overlap a or bm.
func (b *Backend) MatMul(c, a, bm []float64, d int) {
	multiply(b.matMul, c, a, bm, d, d, d, LD(d), false)
}

// MatMulFMA is MatMul with fused multiply-adds.
func (b *Backend) MatMulFMA(c, a, bm []float64, d int) {
	multiply(b.matMulFMA, c, a, bm, d, d, d, LD(d), false)
}

// MatMulFMALower is MatMulFMA for the entries on and below the diagonal of c. The entries above the
// diagonal are unspecified.
func (b *Backend) MatMulFMALower(c, a, bm []float64, d int) {
	multiply(b.matMulFMA, c, a, bm, d, d, d, LD(d), true)
}

// MatMulFMARows is MatMulFMA for n × d matrices a and c, which are stored as LD(n) rows of LD(d)
// entries.
func (b *Backend) MatMulFMARows(c, a, bm []float64, n, d int) {
	multiply(b.matMulFMA, c, a, bm, n, d, d, LD(d), false)
}

// MatMulRows is MatMul for the first rows of a. a has terms columns, and bm has terms rows and the
// given number of columns. The rows of all three matrices begin ld entries apart; ld is a multiple of
// 8 and at least terms and columns. a and c have LD(rows) rows. bm has zeros beyond its columns.
func (b *Backend) MatMulRows(c, a, bm []float64, rows, terms, columns, ld int) {
	multiply(b.matMul, c, a, bm, rows, terms, columns, ld, false)
}

// multiply calls f for each strip of eight rows of a. If lower is set, it computes only the columns of
// c up to the diagonal.
func multiply(
	f func(c, a, b *float64, k, ld, eights int), c, a, bm []float64, rows, terms, columns, ld int, lower bool,
) {
	strips := LD(rows) / 8
	if rows < 1 || terms < 1 || columns < 1 || ld%8 != 0 || ld < max(terms, columns) ||
		len(c) < 8*strips*ld || len(a) < 8*strips*ld || len(bm) < terms*ld {
		panic(fmt.Sprintf("kernel: MatMul: %d rows, %d terms, %d columns, ld = %d, matrices of %d, %d and %d entries",
			rows, terms, columns, ld, len(c), len(a), len(bm)))
	}
	eights := LD(columns) / 8
	for s := range strips {
		if lower {
			eights = s + 1
		}
		f(&c[8*s*ld], &a[8*s*ld], &bm[0], terms, ld, eights)
	}
}

// Frobenius returns ‖(P − Q) + X‖²_F in float64, for d × d matrices stored as for MatMul. It adds
// up the squares of each column from the first row to the last, then the sums of the columns from
// first to last, and rounds every operation. scratch has at least LD(d) entries.
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

// LD returns the leading dimension of the d × d matrices of MatMul and Frobenius: d rounded up to a
// multiple of 8.
func LD(d int) int { return (d + 7) &^ 7 }

// ptr returns the address of the first element of s. If s is empty, kernels do not dereference the
// address.
func ptr[T any](s []T) *T { return unsafe.SliceData(s) }
