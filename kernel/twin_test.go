package kernel

import "math"

// The assembly's float32 arithmetic, operation by operation. GroupNorm has no twin, only its bound:
// the approximate root differs from processor to processor.

// fma32 returns x·y + z rounded once. The product is exact in float64; the sum is rounded to odd
// there, so that rounding it to float32 afterwards cannot round twice.
func fma32(x, y, z float32) float32 {
	p, c := float64(x)*float64(y), float64(z)
	s := p + c
	if math.IsInf(s, 0) || math.IsNaN(s) {
		return float32(s)
	}
	// The error of the sum (Knuth's TwoSum).
	pp := s - c
	err := (p - pp) + (c - (s - pp))
	if err != 0 {
		b := math.Float64bits(s)
		if b&1 == 0 {
			if (err > 0) == (s > 0) {
				b++
			} else {
				b--
			}
		}
		s = math.Float64frombits(b)
	}
	return float32(s)
}

func sqrt32(x float32) float32 { return float32(math.Sqrt(float64(x))) }

// twinUpdate adds one unit of terms to a score as the assembly of a tier does.
func twinUpdate(c Comparison, score float32, q, e []float32) float32 {
	switch c {
	case L1:
		return score - abs32(q[0]-e[0])
	case GroupNorm:
		x, y := q[0]-e[0], q[1]-e[1]
		return score - sqrt32(fma32(y, y, float32(x*x)))
	case Phase:
		return score - abs32(fma32(q[1], e[1], float32(q[0]*e[0])))
	}
	return fma32(q[0], e[0], score)
}

// twinScore is the score of Panels(c).
func twinScore(c Comparison, q, e []float32) float32 {
	var sum float32
	for from := 0; from < len(q); from += Chunk {
		var chain float32
		for t := from; t < min(from+Chunk, len(q)); t += c.Group() {
			chain = twinUpdate(c, chain, q[t:], e[t:])
		}
		if from > 0 {
			chain = sum + chain
		}
		sum = chain
	}
	return sum
}

// twinInt8 is the score of Int8Panels.
func twinInt8(q, e []uint32) float32 {
	sum := int32(0)
	for t := range q {
		for shift := 0; shift < 32; shift += 8 {
			sum += int32(int8(q[t]>>shift)) * int32(uint8(e[t]>>shift))
		}
	}
	return float32(sum)
}

// twinInt16 is the score of Int16Panels.
func twinInt16(q, e []uint32) float32 {
	products := func(x, y []uint32) (sum int64) {
		for t := range x {
			for shift := 0; shift < 32; shift += 8 {
				sum += int64(int8(x[t]>>shift)) * int64(int8(y[t]>>shift))
			}
		}
		return sum
	}
	half := len(q) / 2
	coarse := products(q[:half], e[:half])
	fine := products(q[:half], e[half:]) + products(q[half:], e[:half])
	part := float32(float32(fine) * float32(1.0/254)) // the conversion keeps the sum from being fused
	return float32(coarse) + part
}
