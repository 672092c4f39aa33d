package train

import (
	"math/rand/v2"

	"github.com/mquine/mquine/train/internal/stream"
)

// dropout sets each entry of a vector to zero with the given probability and multiplies the others
// by a factor that preserves the mean. Calls to apply with the same epoch, step and query drop the
// same entries, so a second call can apply the dropout to the gradient.
type dropout struct {
	probability float64 // apply rounds it down to a multiple of 2⁻¹⁶
	seed, use   uint64
}

// apply drops entries of x. It overwrites pcg.
func (d *dropout) apply(x []float32, pcg *rand.PCG, epoch, step, query int) {
	if d.probability == 0 {
		return
	}
	stream.Seed(pcg, d.seed, d.use, epoch, step, query)
	const bits = 16
	limit := uint64(d.probability * (1 << bits))
	factor := float32(1 / (1 - float64(limit)/(1<<bits)))
	for i := 0; i < len(x); i += 64 / bits {
		r := pcg.Uint64()
		for j := i; j < min(i+64/bits, len(x)); j++ {
			if r&(1<<bits-1) < limit {
				x[j] = 0
			} else {
				x[j] *= factor
			}
			r >>= bits
		}
	}
}
