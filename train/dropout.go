package train

import (
	"math/rand/v2"

	"github.com/mquine/mquine/train/internal/stream"
)

// dropout sets entries of vectors to zero, each with the same probability, and scales the others up, so that the mean
// stays. The same use by the same query of the same step drops the same entries again, also of a gradient.
type dropout struct {
	probability float64
	seed, use   uint64
}

// apply drops entries of x. pcg is scratch memory.
func (d *dropout) apply(x []float32, pcg *rand.PCG, epoch, step, query int) {
	if d.probability == 0 {
		return
	}
	stream.Seed(pcg, d.seed, d.use, epoch, step, query)
	const bits = 16
	limit := uint64(d.probability * (1 << bits))
	scale := float32(1 / (1 - float64(limit)/(1<<bits)))
	for i := 0; i < len(x); i += 64 / bits {
		r := pcg.Uint64()
		for j := i; j < min(i+64/bits, len(x)); j++ {
			if r&(1<<bits-1) < limit {
				x[j] = 0
			} else {
				x[j] *= scale
			}
			r >>= bits
		}
	}
}
