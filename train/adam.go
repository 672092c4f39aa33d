package train

import "math"

// adam optimises a tensor of rows by Adam (Kingma and Ba, https://arxiv.org/abs/1412.6980), each
// row with its own count of steps: a row without a gradient rests.
type adam struct {
	width         int
	values        []float32 // changed in place
	gradient      []float64
	first, second []float32 // moments
	decay         [][2]float64
}

const (
	adamBeta1   = 0.9
	adamBeta2   = 0.99
	adamEpsilon = 1e-8
)

func newAdam(values []float32, rows, width int) *adam {
	a := &adam{
		width: width, values: values, gradient: make([]float64, len(values)),
		first: make([]float32, len(values)), second: make([]float32, len(values)), decay: make([][2]float64, rows),
	}
	for i := range a.decay {
		a.decay[i] = [2]float64{1, 1}
	}
	return a
}

// row returns the gradient of row i.
func (a *adam) row(i int) []float64 { return a.gradient[i*a.width : (i+1)*a.width] }

// step moves row i against its gradient.
func (a *adam) step(i int, rate float64) {
	decay := &a.decay[i]
	decay[0] *= adamBeta1
	decay[1] *= adamBeta2
	size, spread := rate/(1-decay[0]), 1/(1-decay[1])
	for k := i * a.width; k < (i+1)*a.width; k++ {
		g := a.gradient[k]
		m := float64(adamBeta1*float64(a.first[k])) + float64((1-adamBeta1)*g)
		v := float64(adamBeta2*float64(a.second[k])) + float64((1-adamBeta2)*g*g)
		a.first[k], a.second[k] = float32(m), float32(v)
		a.values[k] -= float32(size * m / (math.Sqrt(v*spread) + adamEpsilon))
	}
}
