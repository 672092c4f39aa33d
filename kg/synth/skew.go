package synth

import "math/bits"

// skew is a distribution of sizes. It gives the shares of n things, the largest first.
type skew struct {
	// top lists the shares of the largest things, which do not fit the curve.
	top []float64
	// density returns n times the share of any other thing, as a function of its rank divided by n.
	density func(x float64) float64
}

// The two distributions are fitted to the training split of YAGO3-10. One is fitted to the degrees
// of its 123,182 entities (2,158,080 heads and tails), the other to the sizes of its 37 relations
// (1,079,040 triples).
//
// The shares in top are taken from YAGO3-10. The constants of a curve minimise the root mean square
// difference between the logarithms of its sizes and of YAGO3-10's. For entities, the fit samples
// ranks evenly in log(rank), except the last 3%, and its objective adds ten times the root mean
// square difference of the cumulative shares. For entities, the root mean square difference of the
// logarithms is 0.11, and cumulative shares differ by at most 0.011. For relations, these
// differences are 0.25 and 0.014.
//
// [Zipf] rejects known triples, which mostly join large entities. To compensate, the hyperbola of
// the entities (0.0055) is 7% higher than fitted, and the line (1.1) is 5% lower. In a graph with
// the sizes of YAGO3-10, the top 5% of the entities then have 41.5% of all heads and tails
// (YAGO3-10: 41.6%). The largest entity has 2.83% (YAGO3-10: 2.83%), and cumulative shares differ
// by at most 0.023.
var (
	entitySkew = skew{
		top: []float64{61044. / 2158080, 12416. / 2158080, 5119. / 2158080},
		density: func(x float64) float64 {
			// The conversion keeps compilers from fusing the product with the sum.
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

// apportion divides total into parts that are nearly proportional to the weights, but at least 1
// and at most limit. It requires len(weights) ≤ total ≤ limit·len(weights).
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
	// Rounding and the limit leave a remainder. It goes to the parts below the limit, one each in
	// turn, the largest first.
	for i := 0; left > 0; i = (i + 1) % len(parts) {
		if parts[i] < limit {
			parts[i]++
			left--
		}
	}
	return parts
}
