package kernel

import (
	"math"
	"unsafe"

	"github.com/mquine/mquine/asm"
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
	return func(a *asm.PanelArgs) int {
		psi := unsafe.Slice((*float32)(unsafe.Pointer(a.Psi)), (a.Strips-1)*a.PsiStride+a.K*genericMR)
		phi := unsafe.Slice((*float32)(unsafe.Pointer(a.Phi)), a.K*genericNR)
		scores := unsafe.Slice(a.Scores, a.Strips*genericMR*genericNR)
		for s := range a.Strips {
			if a.ExitBelow != nil && unsafe.Slice(a.Active, a.Strips)[s] == 0 {
				continue
			}
			for i := range genericMR {
				row := scores[(s*genericMR+i)*genericNR:][:genericNR]
				for j, v := range sum(psi[s*a.PsiStride:], phi, i) {
					if a.Add != 0 {
						v += row[j]
					}
					row[j] = v
				}
			}
		}
		markGeneric(a, genericMR, genericNR, scores)
		return countGeneric(a, genericMR, genericNR, scores)
	}
}

func abs32(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }

// markGeneric makes strips inactive all of whose scores are below their queries' limits.
func markGeneric(a *asm.PanelArgs, mr, nr int, scores []float32) {
	if a.ExitBelow == nil {
		return
	}
	limits, active := unsafe.Slice(a.ExitBelow, a.Strips*mr), unsafe.Slice(a.Active, a.Strips)
	for s := range active {
		if active[s] == 0 {
			continue
		}
		active[s] = 0
		for i := s * mr; i < (s+1)*mr; i++ {
			for _, v := range scores[i*nr : (i+1)*nr] {
				if !(v < limits[i]) {
					active[s] = 1
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
		psi, phi := make([]uint32, Chunk*genericMR), make([]uint32, Chunk*genericNR)
		scores := make([]float32, genericMR*genericNR)
		a := asm.PanelArgs{Psi: &psi[0], Phi: &phi[0], K: Chunk, Strips: 1, Scores: &scores[0]}
		for range (n + genericMR - 1) / genericMR {
			panel(&a)
		}
	}
}
