package train

import (
	"math"

	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/train/recipe"
)

// objective is the loss of a query. It belongs to one goroutine.
type objective struct {
	config  *recipe.Recipe
	backend *linalg.Backend
	p       []float32 // weights of the negatives
	answers []int32
	scores  []float32 // of the answers
}

// excluded is the score of what is no candidate: so low that no weight is left of it, and not so low
// that a product with it would overflow.
const excluded = -1e30

// take replaces the negatives' scores by ∂L/∂f of weight times the loss, and returns that and the
// derivative by the answer's score pos. The gradients of what is excluded are 0. A score f is what
// stands in neg and pos plus the constant c.
func (o *objective) take(pos float32, neg []float32, c, weight float64) (loss, dPos float64) {
	switch f := o.config; f.Loss {
	case recipe.Softmax:
		if f.Smoothing > 0 {
			return o.smoothedCrossEntropy(pos, neg, weight)
		}
		return o.crossEntropy(pos, neg, weight)
	case recipe.Margin:
		return o.marginRanking(pos, neg, weight)
	case recipe.BCE:
		o.weigh(neg, 0, weight*f.LambdaNeg)
		return o.logistic(pos, neg, c+f.Gamma, f.Smoothing, weight)
	}
	o.weigh(neg, o.config.Adversarial, weight*o.config.LambdaNeg)
	return o.logistic(pos, neg, c+o.config.Gamma, 0, weight)
}

// takeAll is take for all training answers of a query at once, among the scores of all entities: the
// mean over the answers stands where take has the one.
func (o *objective) takeAll(scores []float32, known kg.Answers, c, weight float64) (loss float64) {
	f := o.config
	o.answers, o.scores = trainAnswers(o.answers[:0], known), o.scores[:0]
	o.p = resize(o.p, len(scores))
	for j := range o.p {
		o.p[j] = 1
	}
	for _, e := range o.answers {
		o.scores = append(o.scores, scores[e])
		o.p[e] = 0
	}
	negatives := len(scores) - len(o.answers)
	each := weight / float64(len(o.answers))
	if f.Loss == recipe.BCE {
		o.backend.Scale(o.p, float32(weight*f.LambdaNeg/float64(max(negatives, 1))))
		loss = o.backend.Logistic(scores, o.p, float32(c+f.Gamma), float32(f.Smoothing))
		for k, e := range o.answers {
			l, d := o.logistic(o.scores[k], nil, c+f.Gamma, f.Smoothing, each)
			loss += l
			scores[e] = float32(d)
		}
		return loss
	}
	smoothing := f.Smoothing
	if negatives == 0 {
		smoothing = 0
	}
	top := o.backend.Max(scores)
	share := weight * smoothing / float64(max(negatives, 1))
	if share > 0 {
		for j, x := range scores {
			loss -= share * float64(o.p[j]*(x-top))
		}
	}
	sum := o.backend.Exp(scores, 1, top)
	o.backend.Scale(scores, float32(weight/sum))
	if share > 0 {
		o.backend.Axpy(scores, float32(-share), o.p)
	}
	for k, e := range o.answers {
		loss -= each * (1 - smoothing) * float64(o.scores[k]-top)
		scores[e] -= float32(each * (1 - smoothing))
	}
	return loss + weight*fmath.Ln(sum)
}

// crossEntropy is −log softmax of the answer among the candidates.
func (o *objective) crossEntropy(pos float32, neg []float32, weight float64) (loss, dPos float64) {
	top := max(pos, o.backend.Max(neg))
	own := fmath.Exp(float64(pos - top))
	sum := own + o.backend.Exp(neg, 1, top)
	o.backend.Scale(neg, float32(weight/sum))
	return weight * (fmath.Ln(sum) - float64(pos-top)), weight * (own/sum - 1)
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
func softplus(x float64) float64 { return max(x, 0) + fmath.Ln(1+fmath.Exp(-math.Abs(x))) }

func sigmoid(x float64) float64 {
	e := fmath.Exp(-math.Abs(x))
	if x >= 0 {
		return 1 / (1 + e)
	}
	return e / (1 + e)
}
