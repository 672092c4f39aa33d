package train

import "github.com/mquine/mquine/kernel/linalg"

// orthogonality computes the penalty ‖MᵀM − I‖² of matrices M (MEIM; Tran and Takasu, 2022). It is not
// safe for concurrent use.
type orthogonality struct {
	backend         *linalg.Backend
	m, square, grad linalg.Matrix // M, MᵀM − I and M(MᵀM − I)
}

// penalty returns weight times the sum of the penalties over the matrices of a relation that map
// entities, and adds its gradient 4M(MᵀM − I). The gradient has the layout of the relation's rows of
// all tables, one after another.
func (o *orthogonality) penalty(
	gradient []float32, tables []parameterTable, relation int, weight float64,
) (sum float64) {
	for _, t := range tables {
		row := t.row(relation)
		if d := t.dim; d > 0 {
			if o.m.Rows != d {
				o.m, o.square, o.grad = linalg.NewSmall(d, d), linalg.NewSmall(d, d), linalg.NewSmall(d, d)
			}
			for at := 0; at < len(row); at += d * d {
				sum += o.add(gradient[at:][:d*d], row[at:][:d*d], weight)
			}
		}
		gradient = gradient[t.width:]
	}
	return sum
}

// add is penalty for a single matrix, given by its rows.
func (o *orthogonality) add(gradient, rows []float32, weight float64) float64 {
	b, d := o.backend, o.m.Rows
	for i := range d {
		copy(o.m.Row(i), rows[i*d:][:d])
	}
	b.MatMulT32(o.square, o.m, o.m, linalg.Matrix{})
	for i := range d {
		o.square.Row(i)[i]--
	}
	b.MatMul32(o.grad, o.m, o.square, linalg.Matrix{})
	for i := range d {
		b.Axpy(gradient[i*d:][:d], float32(4*weight), o.grad.Row(i))
	}
	return weight * b.Dot(o.square.Data, o.square.Data) // the padding is zero
}
