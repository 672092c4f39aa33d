package checkpoint

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"

	"github.com/mquine/mquine/internal/fault"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/model"
)

// checkFinite returns an error for the first value of a tensor that is NaN or infinite. dtype is the
// type in the file, from which the values may have been converted. The message begins with the text
// in where. The column in the message is an index into the elements of a row.
func checkFinite(ctx context.Context, where, dtype string, p model.Parameter, values []float32) (err error) {
	defer fault.Guard().Catch(&err)
	at, err := firstNonFinite(ctx, values)
	if err != nil || at < 0 {
		return err
	}
	width := p.Width()
	if strings.HasSuffix(dtype, "float64") && math.IsInf(float64(values[at]), 0) {
		return fmt.Errorf("%stensor %q has a number of type %s in row %d, column %d (counted from 0), that is "+
			"infinite or too large for float32, to which mquine converts it: use an earlier checkpoint, whose "+
			"parameters may be smaller",
			where, p.Name, dtype, at/width, at%width)
	}
	return fmt.Errorf("%stensor %q has %v in row %d, column %d (counted from 0), "+
		"but a checkpoint must not contain NaN or Inf: train the model again or use an earlier checkpoint",
		where, p.Name, values[at], at/width, at%width)
}

// firstNonFinite returns the index of the first NaN or infinity, or −1.
func firstNonFinite(ctx context.Context, values []float32) (int, error) {
	const chunk = 1 << 18 // 1 MiB
	chunks := (len(values) + chunk - 1) / chunk
	bad := make([]bool, chunks)
	err := kernel.Parallel(ctx, runtime.GOMAXPROCS(0), chunks, func(_, i int) {
		bad[i] = !allFinite(values[i*chunk : min((i+1)*chunk, len(values))])
	})
	if err != nil {
		return 0, err
	}
	i := slices.Index(bad, true)
	if i < 0 {
		return -1, nil
	}
	at := slices.IndexFunc(values[i*chunk:], func(v float32) bool { return !finite(v) })
	if at < 0 { // another program wrote to the file; Verify will detect it
		return -1, nil
	}
	return i*chunk + at, nil
}

// finite reports whether v is neither NaN nor infinite. NaN and infinities have every bit of the
// exponent set.
func finite(v float32) bool {
	const exponent = 0x7f800000
	return math.Float32bits(v)&exponent != exponent
}

// allFinite reports whether every value is finite. Its loop has no branches: adding 1 at the lowest
// bit of the exponent carries into the sign bit if and only if all bits of the exponent are set.
func allFinite(values []float32) bool {
	const sign, one = 1 << 31, 1 << 23
	var carry uint32
	for _, v := range values {
		carry |= math.Float32bits(v)&^sign + one
	}
	return carry&sign == 0
}

// rows returns the number of rows in a tensor of the given shape: its first extent, or 1 for a
// scalar.
func rows(shape []int) int {
	if len(shape) == 0 {
		return 1
	}
	return shape[0]
}
