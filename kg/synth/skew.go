package synth

import "math/bits"

// skew is a law of sizes: how large a share of the whole the largest of n things has, the second
// largest, and so on.
type skew struct {
	// top are the shares of the first few, which belong to no curve.
	top []float64
	// density is the share of the others times n, as a function of the rank relative to n.
	density func(x float64) float64
}

// The two laws were fitted to the training split of YAGO3-10: the number of ends (places as head or
// tail, 2,158,080 in all) of its 123,182 entities, and the number of triples (1,079,040 in all) of
// its 37 relations.
//
// The shares at the top are YAGO3-10's own. The constants of a curve minimise the root mean square
// of the difference of logarithms, at ranks spaced evenly in log(rank) for entities (the last 3%
// left out), and for these ten times that of cumulated shares besides. Logarithms differ by 0.11
// (entities) and 0.25 (relations), cumulated shares by at most 0.011 and 0.014.
//
// Then the hyperbola of the entities was raised by 7% to 0.0055 and the line lowered by 5% to 1.1,
// because [Zipf] refuses known triples, which mostly join large entities. In its graph of
// YAGO3-10's shape, the top 5% have 41.5% of all ends (YAGO3-10: 41.6%), the largest entity 2.83%
// (2.83%), and cumulated shares differ by at most 0.023.
var (
	entitySkew = skew{
		top: []float64{61044. / 2158080, 12416. / 2158080, 5119. / 2158080},
		density: func(x float64) float64 {
			// The conversion keeps a compiler from fusing the product with the sum.
			return 0.0055/((x+0.0016)*(x+0.045)) + float64(1.1*(1-x))
		},
	}
	relationSkew = skew{
		top: []float64{373783. / 1079040, 321024. / 1079040},
		density: func(x float64) float64 {
			return 0.0825 * (1 - x) / ((x + 0.0998) * (x + 0.0998))
		},
	}
)

// weights returns the shares of n things, largest first, in units of about 2⁻⁴⁰ of the whole.
func (s skew) weights(n int) []uint64 {
	w := make([]uint64, n)
	for i := range w {
		share := s.density((float64(i)+0.5)/float64(n)) / float64(n)
		if i < len(s.top) {
			share = max(share, s.top[i])
		}
		w[i] = uint64(share * (1 << 40))
	}
	return w
}

// apportion divides total into parts of at least 1 and at most limit, proportional to the weights
// as far as that allows. It needs len(weights) ≤ total ≤ limit·len(weights).
func apportion(total int, weights []uint64, limit int) []int {
	var sum uint64
	for _, w := range weights {
		sum += w
	}
	parts := make([]int, len(weights))
	left, spread := total, total-len(parts)
	for i, w := range weights {
		hi, lo := bits.Mul64(uint64(spread), w)
		quotient, _ := bits.Div64(hi, lo, sum)
		parts[i] = min(1+int(quotient), limit)
		left -= parts[i]
	}
	// What rounding and the limit left over goes to the largest parts that have room.
	for i := 0; left > 0; i = (i + 1) % len(parts) {
		if parts[i] < limit {
			parts[i]++
			left--
		}
	}
	return parts
}
