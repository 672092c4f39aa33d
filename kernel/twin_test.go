package kernel

import "math"

// The assembly's float32 arithmetic, operation by operation. GroupNorm has no twin, only its bound:
// the approximate root differs from processor to processor.

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

func twinScore(c Comparison, q, e []float32) float32 {
	if c == Int16 {
		products := func(x, y []float32) (sum int64) {
			for t := range x {
				for shift := 0; shift < 32; shift += 8 {
					sum += int64(int8(math.Float32bits(x[t])>>shift)) * int64(int8(math.Float32bits(y[t])>>shift))
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
	if c == Int8 {
		sum := int32(0)
		for t := range q {
			x, y := math.Float32bits(q[t]), math.Float32bits(e[t])
			for shift := 0; shift < 32; shift += 8 {
				sum += int32(int8(x>>shift)) * int32(uint8(y>>shift))
			}
		}
		return float32(sum)
	}
	var sum float32
	for from := 0; from < len(q); from += Chunk {
		var chain float32
		for t := from; t < min(from+Chunk, len(q)); t += c.Unit() {
			chain = twinUpdate(c, chain, q[t:], e[t:])
		}
		if from > 0 {
			chain = sum + chain
		}
		sum = chain
	}
	return sum
}
