package kernel

import (
	"fmt"
	"unsafe"
)

// PackRows interleaves at most width rows, which ids lists, into dst, [len(terms)][width]: word
// terms[t] of row ids[i], rows[ids[i]*stride+terms[t]], goes to dst[t*width+i]. Missing rows become
// zeros. With width NR, PackRows packs a panel.
func PackRows(dst, rows []uint32, stride int, ids, terms []int32, width int) {
	if len(ids) > width || len(dst) < len(terms)*width {
		panic(fmt.Sprintf("kernel: PackRows: %d rows of %d into width %d: room for %d words",
			len(ids), len(terms), width, len(dst)))
	}
	dst = dst[:len(terms)*width]
	if len(ids) < width {
		clear(dst)
	}
	// Eight rows at a time fill half a cache line.
	const rowsAtOnce = 8
	i := 0
	for ; i+rowsAtOnce <= len(ids); i += rowsAtOnce {
		var r [rowsAtOnce][]uint32
		for j := range r {
			r[j] = rows[int(ids[i+j])*stride:][:stride]
		}
		for t, from := range terms {
			out := dst[t*width+i : t*width+i+rowsAtOnce]
			out[0], out[1], out[2], out[3] = r[0][from], r[1][from], r[2][from], r[3][from]
			out[4], out[5], out[6], out[7] = r[4][from], r[5][from], r[6][from], r[7][from]
		}
	}
	// A strip for dot products with AVX2 has six rows.
	for ; i+6 <= len(ids); i += 6 {
		row := func(j int) []uint32 { return rows[int(ids[i+j])*stride:][:stride] }
		r0, r1, r2, r3, r4, r5 := row(0), row(1), row(2), row(3), row(4), row(5)
		for t, from := range terms {
			out := dst[t*width+i : t*width+i+6]
			out[0], out[1], out[2], out[3], out[4], out[5] = r0[from], r1[from], r2[from], r3[from], r4[from], r5[from]
		}
	}
	for ; i < len(ids); i++ {
		row := rows[int(ids[i])*stride:][:stride]
		for t, from := range terms {
			dst[t*width+i] = row[from]
		}
	}
}

// Words returns the bits of x as words that share its memory.
func Words(x []float32) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}

// AlignedWords returns n zeros that begin at a multiple of 64 bytes. It allocates memory for panels
// and strips, whose words are float32 values or codes.
func AlignedWords(n int) []uint32 { return aligned[uint32](n) }

// AlignedFloat32 returns n zeros that begin at a multiple of 64 bytes.
func AlignedFloat32(n int) []float32 { return aligned[float32](n) }

// AlignedFloat64 returns n zeros that begin at a multiple of 64 bytes.
func AlignedFloat64(n int) []float64 { return aligned[float64](n) }

func aligned[T uint32 | float32 | float64](n int) []T {
	var zero T
	size := int(unsafe.Sizeof(zero))
	s := make([]T, n+64/size)
	hugePages(unsafe.Pointer(&s[0]), len(s)*size)
	skip := 0
	if at := int(uintptr(unsafe.Pointer(&s[0])) % 64); at != 0 {
		skip = (64 - at) / size
	}
	return s[skip : skip+n : skip+n]
}
