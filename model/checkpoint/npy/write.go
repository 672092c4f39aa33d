package npy

import (
	"context"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"strings"

	"github.com/mquine/mquine/internal/atomicfile"
	"github.com/mquine/mquine/internal/fault"
	"github.com/mquine/mquine/model/checkpoint/internal/mapped"
)

// WriteFile atomically writes an array of the given shape to the file at path, and replaces an
// existing file. The values are in row-major order and become little-endian float32. Their number
// must match the shape. After an error or a cancelled context, the old file is unchanged.
func WriteFile(ctx context.Context, path string, shape []int, values []float32) error {
	return atomicfile.Write(path, func(w io.Writer) (err error) {
		defer fault.Guard().Catch(&err) // values may be mapped
		if !fits(shape, len(values)) {
			return fmt.Errorf("the number of values is %d, which does not match the shape %v", len(values), shape)
		}
		if _, err := io.WriteString(w, encodeHeader(shape)); err != nil {
			return err
		}
		for chunk := range slices.Chunk(values, 1<<18) {
			if err := ctx.Err(); err != nil {
				return err
			}
			if _, err := w.Write(mapped.Bytes(chunk)); err != nil {
				return err
			}
		}
		return nil
	})
}

// fits reports whether an array of the given shape has n elements and Open would read it.
func fits(shape []int, n int) bool {
	size := uint64(4) // in bytes
	for _, extent := range shape {
		over, product := bits.Mul64(size, uint64(extent))
		if extent < 0 || over != 0 {
			return false
		}
		size = product
	}
	return len(shape) <= maxRank && size == 4*uint64(n)
}

// encodeHeader returns everything before the elements, as numpy.save writes it: its length is a
// multiple of 64 bytes.
func encodeHeader(shape []int) string {
	extents := make([]string, len(shape))
	for i, n := range shape {
		extents[i] = fmt.Sprint(n)
	}
	list := strings.Join(extents, ", ")
	if len(shape) == 1 {
		list += ","
	}
	header := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }", list)
	const prefix = len(magic) + 4
	padding := 64 - (prefix+len(header)+1)%64
	header += strings.Repeat(" ", padding%64) + "\n"
	return magic + "\x01\x00" + string([]byte{byte(len(header)), byte(len(header) >> 8)}) + header
}
