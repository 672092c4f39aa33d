package kerneltest

import (
	"math"

	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel"
)

// Sqrt32 returns √x rounded once. Rounding twice gives the same result because float64 has more
// than twice the bits of float32.
func Sqrt32(x float32) float32 { return float32(math.Sqrt(float64(x))) }

// twinUpdate adds the term of one group of coordinates to a score, with the operations of the
// assembly.
func twinUpdate(c kernel.Comparison, score float32, q, e []float32) float32 {
	switch c {
	case kernel.L1:
		return score - fmath.Abs32(q[0]-e[0])
	case kernel.Phase:
		return score - fmath.Abs32(fmath.FMA32(q[1], e[1], float32(q[0]*e[0])))
	case kernel.Dot:
		return fmath.FMA32(q[0], e[0], score)
	}
	var squares float32
	for u := range c.Group() {
		d := q[u] - e[u]
		squares = fmath.FMA32(d, d, squares)
	}
	return score - Sqrt32(squares)
}

// HasTwin reports whether TwinScore equals the assembly's score bit for bit. For group norms and BoxE
// it does not, because the approximate square root or reciprocal differs between processors;
// PanelError bounds its error.
func HasTwin(c kernel.Comparison) bool { return c != kernel.BoxE && (!c.Distance() || c.Group() == 1) }

// TwinScore returns the score of q and e in Panels(c), with the operations of the assembly (see
// HasTwin). The operations are the same for AVX2 and AVX-512.
func TwinScore(c kernel.Comparison, q, e []float32) float32 {
	switch c {
	case kernel.Hake:
		return twinHake(q, e)
	case kernel.Expressive:
		return twinExpressive(q, e)
	case kernel.BoxE:
		return twinBoxE(q, e)
	}
	var sum float32
	chunk := max(kernel.Chunk/c.Group(), 1) * c.Group()
	for from := 0; from < len(q); from += chunk {
		var chain float32
		for t := from; t < min(from+chunk, len(q)); t += c.Group() {
			chain = twinUpdate(c, chain, q[t:], e[t:])
		}
		if from > 0 {
			chain = sum + chain
		}
		sum = chain
	}
	return sum
}

// twinHake is TwinScore for Hake, whose chains have 40 coordinates.
func twinHake(q, e []float32) float32 {
	const chunk = 40
	var distance, squares float32
	for from := 0; from < len(q)/4; from += chunk {
		var phases, moduli float32
		for t := from; t < min(from+chunk, len(q)/4); t++ {
			x, y := q[4*t:], e[3*t:]
			phases -= fmath.Abs32(fmath.FMA32(x[1], y[1], float32(x[0]*y[0])))
			v := fmath.FMA32(-x[3], y[2], x[2])
			moduli = fmath.FMA32(v, v, moduli)
		}
		if from > 0 {
			phases, moduli = distance+phases, squares+moduli
		}
		distance, squares = phases, moduli
	}
	return distance - Sqrt32(squares)
}

// twinExpressive is TwinScore for Expressive.
func twinExpressive(q, e []float32) float32 {
	var sum, largest float32
	for from := 0; from < len(e); from += kernel.Chunk {
		var chain float32
		for t := from; t < min(from+kernel.Chunk, len(e)); t++ {
			for p := q[12*t:][:12]; len(p) > 0; p = p[6:] {
				x := fmath.Abs32(fmath.FMA32(-p[1], e[t], p[0]))
				if x > largest {
					largest = x
				}
				z := fmath.FMA32(p[2], x, -p[3])
				chain = fmath.FMA32(-z, z, chain)
			}
		}
		if from > 0 {
			chain = sum + chain
		}
		sum = chain
	}
	if largest > 1 {
		return sum
	}
	return float32(math.NaN())
}

// twinBoxE is TwinScore for BoxE, whose chains have 64 coordinates. Its reciprocals are correctly
// rounded.
func twinBoxE(q, e []float32) float32 {
	const chunk = 64
	var sums [2]float32
	for from := 0; from < len(e); from += 2 * chunk {
		var chains [2]float32
		for t := from; t < min(from+2*chunk, len(e)); t++ {
			p := q[5*t:][:5]
			x := fmath.Abs32(p[1] - 1/fmath.FMA32(p[0], e[t], 0.5))
			d := max(float32(p[2]*x), fmath.FMA32(p[3], x, -p[4]))
			chains[t%2] = fmath.FMA32(d, d, chains[t%2])
		}
		for box := range sums {
			sums[box] += chains[box] // exact for the first chain
		}
	}
	return -Sqrt32(sums[0]) - Sqrt32(sums[1])
}

// TwinInt8 returns the score of q and e, which are words of four codes. It equals the score of
// Int8Panels bit for bit.
func TwinInt8(q, e []uint32) float32 {
	sum := int32(0)
	for t := range q {
		for shift := 0; shift < 32; shift += 8 {
			sum += int32(int8(q[t]>>shift)) * int32(uint8(e[t]>>shift))
		}
	}
	return float32(sum)
}

// TwinInt16 returns the score of q and e, each of which contains words of coarse codes and then
// words of fine codes. It equals the score of Int16Panels bit for bit.
func TwinInt16(q, e []uint32) float32 {
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
	part := float32(float32(fine) * float32(1.0/254)) // the conversion prevents fusing
	return float32(coarse) + part
}

// TwinInt16Dot returns the score of q and e, which are words of two codes. It equals the score of
// Int16DotPanels bit for bit.
func TwinInt16Dot(q, e []uint32) float32 {
	sum := int32(0) // overflow is harmless
	for t := range q {
		for shift := 0; shift < 32; shift += 16 {
			sum += int32(int16(q[t]>>shift)) * int32(int16(e[t]>>shift))
		}
	}
	return float32(sum)
}

// TwinInt8Phase returns the score of q and e, which are words of four phases. It equals the score of
// Int8PhasePanels bit for bit.
func TwinInt8Phase(q, e []uint32) float32 {
	sum := 0.0
	for t := range q {
		for shift := 0; shift < 32; shift += 8 {
			d := math.Abs(float64(int8(q[t]>>shift) - int8(e[t]>>shift)))
			sum += math.RoundToEven(255 * math.Sin(math.Pi/256*min(d, 127)))
		}
	}
	return 0 - float32(sum) // 0, not −0
}

// TwinInt8L1 returns the score of q and e, which are words of four codes. It equals the score of
// Int8L1Panels bit for bit.
func TwinInt8L1(q, e []uint32) float32 {
	sum := 0
	for t := range q {
		for shift := 0; shift < 32; shift += 8 {
			x, y := int(uint8(q[t]>>shift)), int(uint8(e[t]>>shift))
			sum += max(x-y, y-x)
		}
	}
	return 0 - float32(sum) // 0, not −0
}
