package kernel

import (
	"math/bits"
	"unsafe"

	"github.com/mquine/mquine/asm"
)

const genericMR, genericNR = 4, 16

// panelGeneric returns the portable panel kernel of a comparison. The kernel rounds products and sums
// separately.
func panelGeneric(c *spec) panelFunc {
	if c.second != nil {
		return panelOfSums(c)
	}
	return func(a *asm.PanelArgs) int {
		queries, panel := genericOperands(a, c)
		out := unsafe.Slice(a.Scores, a.Strips*genericMR*genericNR)
		for s := range a.Strips {
			if a.ExitBelow != nil && unsafe.Slice(a.Active, a.Strips)[s] == 0 {
				continue
			}
			for i := range genericMR {
				row := out[(s*genericMR+i)*genericNR:][:genericNR]
				for j, v := range c.scores(queries[s*a.PsiStride:], panel, i) {
					if a.Add != 0 {
						v += row[j]
					}
					row[j] = v
				}
			}
		}
		markGeneric(a, genericNR, out)
		return countGeneric(a, genericMR, genericNR, out)
	}
}

// genericOperands returns the strips and the panel of a call.
func genericOperands(a *asm.PanelArgs, c *spec) (queries, panel []float32) {
	queries = unsafe.Slice((*float32)(unsafe.Pointer(a.Psi)), (a.Strips-1)*a.PsiStride+a.K*c.psi*genericMR)
	return queries, unsafe.Slice((*float32)(unsafe.Pointer(a.Phi)), a.K*c.phi*genericNR)
}

// panelOfSums is panelGeneric for a comparison with two sums.
func panelOfSums(c *spec) panelFunc {
	return func(a *asm.PanelArgs) int {
		queries, panel := genericOperands(a, c)
		out := unsafe.Slice(a.Scores, a.Strips*genericMR*genericNR)
		sums := unsafe.Slice(a.Sums, 2*len(out))
		for s := range a.Strips {
			if a.ExitBelow != nil && unsafe.Slice(a.Active, a.Strips)[s] == 0 {
				continue
			}
			for i := range genericMR {
				strip := queries[s*a.PsiStride:]
				x, y := c.scores(strip, panel, i), c.second.scores(strip, panel, i)
				first := sums[(2*s*genericMR+i)*genericNR:][:genericNR]
				second := sums[((2*s+1)*genericMR+i)*genericNR:][:genericNR]
				row := out[(s*genericMR+i)*genericNR:][:genericNR]
				for j := range row {
					switch {
					case a.Add != 0 && c.second.largest:
						x[j], y[j] = x[j]+first[j], max(y[j], second[j])
					case a.Add != 0:
						x[j], y[j] = x[j]+first[j], y[j]+second[j]
					}
					first[j], second[j] = x[j], y[j]
					row[j] = c.second.combine(x[j], y[j])
				}
			}
		}
		markGeneric(a, genericNR, out)
		return countGeneric(a, genericMR, genericNR, out)
	}
}

// markGeneric makes a strip inactive if all its scores are below the ExitBelow of their queries.
func markGeneric(a *asm.PanelArgs, nr int, scores []float32) {
	if a.ExitBelow == nil {
		return
	}
	limits, active := unsafe.Slice(a.ExitBelow, a.Strips*genericMR), unsafe.Slice(a.Active, a.Strips)
	for s := range active {
		if active[s] == 0 {
			continue
		}
		active[s] = 0
		for i := s * genericMR; i < (s+1)*genericMR; i++ {
			for _, v := range scores[i*nr : (i+1)*nr] {
				if !(v < limits[i]) {
					active[s] = 1
				}
			}
		}
	}
}

// countGeneric counts the candidates that are better than the targets of the active strips, unless
// TargetStart is nil. It returns the number of undecided pairs.
func countGeneric(a *asm.PanelArgs, mr, nr int, scores []float32) int {
	if a.TargetStart == nil {
		return 0
	}
	targetStart := unsafe.Slice(a.TargetStart, a.Strips*mr+1)
	targets := int(targetStart[a.Strips*mr])
	thresholds, counts := unsafe.Slice(a.Thresholds, 2*targets), unsafe.Slice(a.Counts, targets)
	undecided := unsafe.Slice(a.Undecided, 2*targets)
	pairs := 0
	for i := range a.Strips * mr {
		if a.ExitBelow != nil && unsafe.Slice(a.Active, a.Strips)[i/mr] == 0 {
			continue
		}
		row := scores[i*nr : (i+1)*nr]
		for t := targetStart[i]; t < targetStart[i+1]; t++ {
			lo, hi := thresholds[2*t], thresholds[2*t+1]
			var above, notBelow uint64
			for j, s := range row {
				if s > hi {
					above |= 1 << j
				}
				if !(s < lo) {
					notBelow |= 1 << j
				}
			}
			notBelow &= a.ValidLanes
			above &= notBelow
			counts[t] += int32(bits.OnesCount64(above))
			if open := notBelow &^ above; open != 0 {
				undecided[2*pairs], undecided[2*pairs+1] = uint64(t), open
				pairs++
			}
		}
	}
	return pairs
}

// pairGeneric returns the portable pair kernel of a comparison. Its results equal the assembly's
// bit for bit.
func pairGeneric(c *spec) pairFunc {
	return func(x *float32, n int, table *float32, stride int, ids *int32, count int, out *float64) {
		xs, scores := unsafe.Slice(x, n*c.psi), unsafe.Slice(out, count)
		for i, id := range unsafe.Slice(ids, count) {
			row := unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(table), uintptr(id)*uintptr(stride)*4)), n*c.phi)
			scores[i] = c.pairScore(xs, row)
		}
	}
}

// addLanes adds the lanes of a sum in the order of the pair kernels.
func addLanes(a [32]float64) float64 {
	var s [8]float64
	for l := range s {
		s[l] = (a[l] + a[8+l]) + (a[16+l] + a[24+l])
	}
	return addEights(s)
}

// addEights adds eight lanes: lanes l and l + 4, then l and l + 2, then the last two.
func addEights(s [8]float64) float64 {
	for l := range 4 {
		s[l] += s[l+4]
	}
	s[0] += s[2]
	s[1] += s[3]
	return s[0] + s[1]
}

// peakGeneric returns a loop of the panel kernel on memory in the L1 cache, because Go cannot
// express a loop on registers alone. A round is one query of a strip over one chunk.
func peakGeneric(c *spec, panel panelFunc) func(n int, _ *float32) {
	return func(n int, _ *float32) {
		k := c.chunk()
		strip, candidates := make([]uint32, k*c.psi*genericMR), make([]uint32, k*c.phi*genericNR)
		scores, sums := make([]float32, genericMR*genericNR), make([]float32, 2*genericMR*genericNR)
		a := asm.PanelArgs{
			Psi: &strip[0], Phi: &candidates[0], K: k, Strips: 1, Group: c.group, Scores: &scores[0], Sums: &sums[0],
		}
		for range (n + genericMR - 1) / genericMR {
			panel(&a)
		}
	}
}
