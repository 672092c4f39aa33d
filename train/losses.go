package train

import (
	"math"

	"github.com/mquine/mquine/kernel"
)

// objective is the loss of a query. It belongs to one goroutine.
type objective struct {
	config  *Config
	backend *kernel.Backend
	p       []float32 // weights of the negatives
}

// excluded is the score of what is no candidate: so low that no weight is left of it, and not so low
// that a product with it would overflow.
const excluded = -1e30

// take replaces the negatives' scores by ∂L/∂f of weight times the loss, and returns that and the
// derivative by the answer's score pos. The gradients of what is excluded are 0. A score f is what
// stands in neg and pos plus the constant c.
func (o *objective) take(pos float32, neg []float32, c, weight float64) (loss, dPos float64) {
	switch f := o.config; f.Loss {
	case softmaxLoss:
		if f.Smoothing > 0 {
			return o.smoothedCrossEntropy(pos, neg, weight)
		}
		return o.crossEntropy(pos, neg, weight)
	case marginLoss:
		return o.marginRanking(pos, neg, weight)
	case bceLoss:
		o.weigh(neg, 0, weight*f.LambdaNeg)
		return o.logistic(pos, neg, c+f.Gamma, f.Smoothing, weight)
	}
	o.weigh(neg, o.config.Adversarial, weight*o.config.LambdaNeg)
	return o.logistic(pos, neg, c+o.config.Gamma, 0, weight)
}

// crossEntropy is −log softmax of the answer among the candidates.
func (o *objective) crossEntropy(pos float32, neg []float32, weight float64) (loss, dPos float64) {
	top := max(pos, o.backend.Max(neg))
	own := exp(float64(pos - top))
	sum := own + o.backend.Exp(neg, 1, top)
	o.backend.Scale(neg, float32(weight/sum))
	return weight * (ln(sum) - float64(pos-top)), weight * (own/sum - 1)
}

// smoothedCrossEntropy is −Σ y log softmax over the answer, with y = 1 − ε, and the negatives, with ε
// shared by them.
func (o *objective) smoothedCrossEntropy(pos float32, neg []float32, weight float64) (loss, dPos float64) {
	count, total := 0, 0.0
	o.p = resize(o.p, len(neg))
	for j, f := range neg {
		o.p[j] = 0
		if f != excluded {
			o.p[j] = 1
			count++
			total += float64(f - pos)
		}
	}
	loss, dPos = o.crossEntropy(pos, neg, weight)
	if count == 0 {
		return loss, dPos
	}
	share := weight * o.config.Smoothing / float64(count)
	o.backend.Axpy(neg, float32(-share), o.p)
	return loss - share*total, dPos + weight*o.config.Smoothing
}

// weigh sets p_j of every negative j: weight times 1/n, or times the softmax of α f_j, which is held
// constant (self-adversarial, Sun et al. 2019).
func (o *objective) weigh(neg []float32, alpha, weight float64) {
	o.p = resize(o.p, len(neg))
	if alpha > 0 && len(neg) > 0 {
		copy(o.p, neg)
		o.backend.Softmax(o.p, float32(alpha), float32(weight))
		return
	}
	count := 0
	for j, f := range neg {
		o.p[j] = 0
		if f != excluded {
			o.p[j] = 1
			count++
		}
	}
	o.backend.Scale(o.p, float32(weight/float64(max(count, 1))))
}

// logistic is −(1−ε) log σ(z) − ε log σ(−z) of the answer and −Σ p_j ((1−ε) log σ(−z_j) + ε log σ(z_j))
// of the negatives, with z = f + shift. With ε = 0 and z = γ − s it is the paper's loss.
func (o *objective) logistic(pos float32, neg []float32, shift, smoothing, weight float64) (loss, dPos float64) {
	z := float64(pos) + shift
	loss = weight * (softplus(z) - (1-smoothing)*z)
	if len(neg) > 0 {
		loss += o.backend.Logistic(neg, o.p, float32(shift), float32(smoothing))
	}
	return loss, weight * (sigmoid(z) - (1 - smoothing))
}

// marginRanking is Σ p_j max(0, γ + f_j − f).
func (o *objective) marginRanking(pos float32, neg []float32, weight float64) (loss, dPos float64) {
	o.weigh(neg, o.config.Adversarial, weight)
	for j, f := range neg {
		excess := o.config.Gamma + float64(f) - float64(pos)
		neg[j] = 0
		if excess > 0 {
			neg[j] = o.p[j]
			loss += float64(o.p[j]) * excess
			dPos -= float64(o.p[j])
		}
	}
	return loss, dPos
}

// softplus is log(1 + eˣ), and sigmoid its derivative.
func softplus(x float64) float64 { return max(x, 0) + ln(1+exp(-math.Abs(x))) }

func sigmoid(x float64) float64 {
	e := exp(-math.Abs(x))
	if x >= 0 {
		return 1 / (1 + e)
	}
	return e / (1 + e)
}
