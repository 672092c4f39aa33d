package rank

import "github.com/mquine/mquine/kernel"

// The int16 screen of dot products: coarse and fine codes in the panels, and only the products of fine
// with fine codes left out. It leaves some hundred times fewer pairs than the int8 screen, for float64.

// int16Terms is the number of terms of kernel.Int16 for a width.
func int16Terms(width int) int {
	unit := kernel.Int16.Unit()
	return (2*int8Words(width) + unit - 1) / unit * unit
}

// int16Band bounds |ψ·φ − s| for the candidates of a block, with the score s of coarse and fine codes.
func (s *sweeper) int16Band(row, block int) float64 {
	q, b := &s.coded[row], &s.f.codeBlocks[block]
	coarse := q.norm * (b.norm + b.residual)
	fine := q.norm*b.fineNorm + q.fineNorm*(b.norm+b.residual)
	// The sums are rounded to float32, the fine one divided, and then their sum is rounded; the float32 number next
	// to 1/Fine is within a tenth of a unit roundoff.
	rounding := kernel.U32 * (2*coarse + 3.1*fine) * (1 + 1e-6)
	return (q.fineNorm*b.fineNorm + q.fineResidual*b.norm + (q.size+q.fineResidual)*b.fineResidual + s.centerError(row) + rounding) * outward
}
