package linalg

import "fmt"

// manyRows is the number of rows that Dots and AddRows process together. The operations on each entry
// do not depend on it.
const manyRows = 4

// Dots writes the dot products of x with rows of m, as Dot computes them, rounded to float32. dst[k]
// belongs to row rows[k] or, if rows is nil, to row k.
func (b *Backend) Dots(dst, x []float32, m Matrix, rows []int32) {
	checkRows("Dots", len(dst), len(x), m, rows)
	t := scratches.Get().(*scratch)
	defer scratches.Put(t)
	many := &t.many
	for first := 0; first < len(dst); first += manyRows {
		group := dst[first:min(first+manyRows, len(dst))]
		clear(many.sums[:])
		for i, n := 0, 0; i < len(x); i += n {
			n = chunk(len(x)-i, sumLanes)
			for k := range many.rows {
				last := min(k, len(group)-1) // an incomplete group repeats its last row
				many.rows[k] = &m.Row(at(rows, first+last))[i]
			}
			b.rowsFor(n, sumLanes).dots(&x[i], &many.rows, n, &many.sums)
		}
		for k := range group {
			group[k] = float32(many.sums[k])
		}
	}
	clear(many.rows[:]) // so the pool does not keep m's memory alive
}

// AddRows adds multiples of rows of m to y, one after the other, as Axpy does. Factor a[k] belongs to row
// rows[k] or, if rows is nil, to row k.
func (b *Backend) AddRows(y, a []float32, m Matrix, rows []int32) {
	checkRows("AddRows", len(a), len(y), m, rows)
	t := scratches.Get().(*scratch)
	defer scratches.Put(t)
	k := 0
	for ; k+manyRows <= len(a); k += manyRows {
		t.many.factors = [manyRows]float32(a[k:])
		for i, n := 0, 0; i < len(y); i += n {
			n = chunk(len(y)-i, rowLanes)
			for j := range t.many.rows {
				t.many.rows[j] = &m.Row(at(rows, k+j))[i]
			}
			b.rowsFor(n, rowLanes).addRows(&y[i], &t.many.rows, n, &t.many.factors)
		}
	}
	clear(t.many.rows[:]) // so the pool does not keep m's memory alive
	for ; k < len(a); k++ {
		b.Axpy(y, a[k], m.Row(at(rows, k)))
	}
}

// at returns rows[k] or, if rows is nil, k.
func at(rows []int32, k int) int {
	if rows == nil {
		return k
	}
	return int(rows[k])
}

func checkRows(name string, n, width int, m Matrix, rows []int32) {
	if m.Cols != width {
		panic(fmt.Sprintf("linalg: %s: rows of %d entries and a vector of %d", name, m.Cols, width))
	}
	if rows != nil && len(rows) != n || rows == nil && n > m.Rows {
		panic(fmt.Sprintf("linalg: %s: %d numbers for %d of %d rows", name, n, len(rows), m.Rows))
	}
}
