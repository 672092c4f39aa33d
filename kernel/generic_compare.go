package kernel

import (
	"math"
	"unsafe"
)

const genericMR, genericNR = 4, 16

// panelGeneric returns a panel kernel in portable Go. Products and sums are rounded separately.
func panelGeneric(c Comparison) panelFunc {
	var sum func(q, e []float32, row int) [genericNR]float32
	switch c {
	case Dot:
		sum = func(q, e []float32, row int) (sums [genericNR]float32) {
			for t := 0; len(e) > 0; t, e = t+1, e[genericNR:] {
				w := q[t*genericMR+row]
				for j, v := range e[:genericNR] {
					sums[j] += float32(w * v)
				}
			}
			return sums
		}
	case L1:
		sum = func(q, e []float32, row int) (sums [genericNR]float32) {
			for t := 0; len(e) > 0; t, e = t+1, e[genericNR:] {
				w := q[t*genericMR+row]
				for j, v := range e[:genericNR] {
					sums[j] -= abs32(w - v)
				}
			}
			return sums
		}
	case GroupNorm:
		sum = func(q, e []float32, row int) (sums [genericNR]float32) {
			for t := 0; len(e) > 0; t, e = t+2, e[2*genericNR:] {
				w0, w1 := q[t*genericMR+row], q[(t+1)*genericMR+row]
				for j := range sums {
					x, y := w0-e[j], w1-e[genericNR+j]
					s := float32(x*x) + float32(y*y)
					sums[j] -= float32(math.Sqrt(float64(s)))
				}
			}
			return sums
		}
	case Phase:
		sum = func(q, e []float32, row int) (sums [genericNR]float32) {
			for t := 0; len(e) > 0; t, e = t+2, e[2*genericNR:] {
				w0, w1 := q[t*genericMR+row], q[(t+1)*genericMR+row]
				for j := range sums {
					sums[j] -= abs32(float32(w0*e[j]) + float32(w1*e[genericNR+j]))
				}
			}
			return sums
		}
	}
	return func(q *float32, qStride int, e *float32, k, strips int, scores *float32, addTo int, drop *float32, alive *uint8, rows *int32, ends *float32, better *int32, undecided *uint64, valid uint64, _ uintptr, _ int) int {
		qs, es := unsafe.Slice(q, (strips-1)*qStride+k*genericMR), unsafe.Slice(e, k*genericNR)
		out := unsafe.Slice(scores, strips*genericMR*genericNR)
		for s := range strips {
			if drop != nil && unsafe.Slice(alive, strips)[s] == 0 {
				continue
			}
			strip, tile := qs[s*qStride:], out[s*genericMR*genericNR:]
			for i := range genericMR {
				for j, v := range sum(strip, es, i) {
					if addTo != 0 {
						v += tile[i*genericNR+j]
					}
					tile[i*genericNR+j] = v
				}
			}
		}
		dropGeneric(genericMR, genericNR, strips, out, drop, alive)
		return countGeneric(genericMR, genericNR, strips, out, drop, alive, rows, ends, better, undecided, valid)
	}
}

func abs32(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }

// dropGeneric marks the strips all of whose scores are below their queries' drops.
func dropGeneric(mr, nr, strips int, scores []float32, drop *float32, alive *uint8) {
	if drop == nil {
		return
	}
	limits, marks := unsafe.Slice(drop, strips*mr), unsafe.Slice(alive, strips)
	for s := range strips {
		if marks[s] == 0 {
			continue
		}
		marks[s] = 0
		for i := s * mr; i < (s+1)*mr; i++ {
			for _, v := range scores[i*nr : (i+1)*nr] {
				if !(v < limits[i]) {
					marks[s] = 1
				}
			}
		}
	}
}

// pairGeneric returns a pair kernel in portable Go: the assembly's, bit for bit.
func pairGeneric(c Comparison) pairFunc {
	var sum func(x, row []float32) [32]float64
	switch c {
	case Dot:
		sum = func(x, row []float32) (a [32]float64) {
			for t, v := range x {
				a[t%32] += float64(float64(v) * float64(row[t]))
			}
			return a
		}
	case L1:
		sum = func(x, row []float32) (a [32]float64) {
			for t, v := range x {
				a[t%32] -= math.Abs(float64(v) - float64(row[t]))
			}
			return a
		}
	case GroupNorm:
		sum = func(x, row []float32) (a [32]float64) {
			for t := 0; t < len(x); t += 2 {
				d, e := float64(x[t])-float64(row[t]), float64(x[t+1])-float64(row[t+1])
				r := math.Sqrt(float64(d*d) + float64(e*e))
				a[t%32] -= r
				a[t%32+1] -= r
			}
			return a
		}
	case Phase:
		sum = func(x, row []float32) (a [32]float64) {
			for t := 0; t < len(x); t += 2 {
				p := math.Abs(float64(float64(x[t])*float64(row[t])) + float64(float64(x[t+1])*float64(row[t+1])))
				a[t%32] -= p
				a[t%32+1] -= p
			}
			return a
		}
	}
	return func(x *float32, n int, table *float32, stride int, ids *int32, count int, out *float64) {
		xs, sums := unsafe.Slice(x, n), unsafe.Slice(out, count)
		for i, id := range unsafe.Slice(ids, count) {
			row := unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(table), uintptr(id)*uintptr(stride)*4)), n)
			a := sum(xs, row)
			var s [8]float64
			for l := range s {
				s[l] = (a[l] + a[8+l]) + (a[16+l] + a[24+l])
			}
			for l := range 4 {
				s[l] += s[l+4]
			}
			s[0] += s[2]
			s[1] += s[3]
			sums[i] = s[0] + s[1]
		}
	}
}

// peakGenericTerms is the terms of a round of peakGeneric: one tile row over one chunk.
const peakGenericTerms = Chunk * genericNR

// peakGeneric is the panel loop itself on memory in the L1 cache: Go has no loop on registers alone
// to compare it with.
func peakGeneric(c Comparison) func(n int, _ *float32) {
	panel := panelGeneric(c)
	return func(n int, _ *float32) {
		q, e := make([]float32, Chunk*genericMR), make([]float32, Chunk*genericNR)
		scores := make([]float32, genericMR*genericNR)
		for range (n + genericMR - 1) / genericMR {
			panel(&q[0], 0, &e[0], Chunk, 1, &scores[0], 0, nil, nil, nil, nil, nil, nil, 0, 0, 0)
		}
	}
}
