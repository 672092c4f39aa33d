package train

import (
	"math"

	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/train/recipe"
)

// objective computes the loss of a query (docs/training.md, "Losses"). It is not safe for
// concurrent use.
//
// Its methods expect scores f without the constant c of the query. The full score of a candidate is
// f + c.
type objective struct {
	config  *recipe.Recipe
	backend *linalg.Backend
	p       []float32 // the weights p_j of the negatives
	scores  []float32 // scores of the answers
	roots   []float32 // see unsquare
}

// excluded replaces the score of an entity that is not a negative. It is low enough to give the
// entity zero weight, but not so low that products with it overflow.
const excluded = -1e30

// oneTarget returns weight times the loss of a query with one target, and its derivative with
// respect to the score of the target. It replaces the scores of the negatives with the derivatives,
// which are 0 for excluded entities.
func (o *objective) oneTarget(target float32, negatives []float32, c, weight float64) (loss, dTarget float64) {
	if !o.config.Unsquared {
		return o.ofTarget(target, negatives, c, weight)
	}
	root := rootOf(target, c)
	o.unsquare(negatives, c)
	loss, dTarget = o.ofTarget(-root, negatives, 0, weight)
	o.divideByRoots(negatives)
	return loss, dTarget / float64(2*root)
}

// ofTarget is oneTarget without the option unsquared.
func (o *objective) ofTarget(target float32, negatives []float32, c, weight float64) (loss, dTarget float64) {
	switch f := o.config; f.Loss {
	case recipe.Softmax:
		if f.Smoothing > 0 {
			return o.smoothedCrossEntropy(target, negatives, weight)
		}
		return o.crossEntropy(target, negatives, weight)
	case recipe.Margin:
		return o.marginRanking(target, negatives, weight)
	case recipe.BCE:
		o.weigh(negatives, 0, weight*f.LambdaNeg)
		return o.logistic(target, negatives, c+f.Gamma, f.Smoothing, weight)
	}
	o.weigh(negatives, o.config.Adversarial, weight*o.config.LambdaNeg)
	return o.logistic(target, negatives, c+o.config.Gamma, 0, weight)
}

// manyTargets returns weight times the loss of a query with several targets. scores holds the scores
// of all entities, and manyTargets replaces them with the derivatives of the loss. Where oneTarget
// uses the target, manyTargets uses the mean over the targets.
func (o *objective) manyTargets(scores []float32, targets []int32, c, weight float64) (loss float64) {
	if !o.config.Unsquared {
		return o.ofTargets(scores, targets, c, weight)
	}
	o.unsquare(scores, c)
	loss = o.ofTargets(scores, targets, 0, weight)
	o.divideByRoots(scores)
	return loss
}

// zSample returns weight times the loss −log σ(γ + f) of a Z-sample, and its derivative with respect to
// the score.
func (o *objective) zSample(score float32, c, weight float64) (loss, dScore float64) {
	if !o.config.Unsquared {
		x := float64(score) + c + o.config.Gamma
		return weight * softplus(-x), -weight * sigmoid(-x)
	}
	root := float64(rootOf(score, c))
	x := o.config.Gamma - root
	return weight * softplus(-x), -weight * sigmoid(-x) / (2 * root)
}

// rootOf returns the norm √−(f + c), for a score f and a constant c = −‖A‖². The result is at least
// 2⁻¹⁰‖A‖, because the rounding errors of f + c are in proportion to ‖A‖², and at least 2⁻²⁰.
func rootOf(score float32, c float64) float32 {
	square := max(-(float64(score) + c), 0x1p-20*-c, 0x1p-40)
	return float32(math.Sqrt(square))
}

// unsquare replaces scores f with minus the norms √−(f + c), except for excluded entities.
// divideByRoots needs the norms.
func (o *objective) unsquare(scores []float32, c float64) {
	o.roots = resize(o.roots, len(scores))
	for j, f := range scores {
		o.roots[j] = rootOf(f, c)
		if f != excluded {
			scores[j] = -o.roots[j]
		}
	}
}

// divideByRoots turns the derivatives with respect to −√s into derivatives with respect to −s.
func (o *objective) divideByRoots(dScores []float32) {
	for j, root := range o.roots {
		dScores[j] /= 2 * root
	}
}

// ofTargets is manyTargets without the option unsquared.
func (o *objective) ofTargets(scores []float32, targets []int32, c, weight float64) (loss float64) {
	o.scores = o.scores[:0]
	o.p = resize(o.p, len(scores))
	for j := range o.p {
		o.p[j] = 1
	}
	for _, e := range targets {
		o.scores = append(o.scores, scores[e])
		o.p[e] = 0
	}
	if o.config.Loss == recipe.BCE {
		return o.logisticOfMany(scores, targets, c+o.config.Gamma, weight)
	}
	return o.crossEntropyOfMany(scores, targets, weight)
}

// logisticOfMany is like logistic but has several targets. o.p is 1 for the negatives and 0 for the
// targets.
func (o *objective) logisticOfMany(scores []float32, targets []int32, shift, weight float64) (loss float64) {
	f, negatives := o.config, len(scores)-len(targets)
	o.backend.Scale(o.p, float32(weight*f.LambdaNeg/float64(max(negatives, 1))))
	loss = o.backend.Logistic(scores, o.p, float32(shift), float32(f.Smoothing))
	each := weight / float64(len(targets))
	for k, e := range targets {
		l, d := o.logistic(o.scores[k], nil, shift, f.Smoothing, each)
		loss += l
		scores[e] = float32(d)
	}
	return loss
}

// crossEntropyOfMany is like smoothedCrossEntropy but has several targets. o.p is 1 for the negatives
// and 0 for the targets.
func (o *objective) crossEntropyOfMany(scores []float32, targets []int32, weight float64) (loss float64) {
	smoothing, negatives := o.config.Smoothing, len(scores)-len(targets)
	if negatives == 0 {
		smoothing = 0
	}
	top := o.backend.Max(scores)
	label := weight * smoothing / float64(max(negatives, 1)) // label of a negative
	if label > 0 {
		for j, x := range scores {
			loss -= label * float64(o.p[j]*(x-top))
		}
	}
	sum := o.backend.Exp(scores, 1, top)
	o.backend.Scale(scores, float32(weight/sum))
	if label > 0 {
		o.backend.Axpy(scores, float32(-label), o.p)
	}
	each := weight / float64(len(targets))
	for k, e := range targets {
		loss -= each * (1 - smoothing) * float64(o.scores[k]-top)
		scores[e] -= float32(each * (1 - smoothing))
	}
	return loss + weight*fmath.Ln(sum)
}

// crossEntropy is −log of the target's softmax over the target and the negatives.
func (o *objective) crossEntropy(target float32, negatives []float32, weight float64) (loss, dTarget float64) {
	top := max(target, o.backend.Max(negatives))
	own := fmath.Exp(float64(target - top))
	sum := own + o.backend.Exp(negatives, 1, top)
	o.backend.Scale(negatives, float32(weight/sum))
	return weight * (fmath.Ln(sum) - float64(target-top)), weight * (own/sum - 1)
}

// smoothedCrossEntropy is −Σ y log softmax with label smoothing: y is 1 − ε for the target and ε/n
// for each of the n negatives.
func (o *objective) smoothedCrossEntropy(target float32, negatives []float32, weight float64) (loss, dTarget float64) {
	count, total := 0, 0.0
	o.p = resize(o.p, len(negatives))
	for j, f := range negatives {
		o.p[j] = 0
		if f != excluded {
			o.p[j] = 1
			count++
			total += float64(f - target)
		}
	}
	loss, dTarget = o.crossEntropy(target, negatives, weight)
	if count == 0 {
		return loss, dTarget
	}
	label := weight * o.config.Smoothing / float64(count) // label of a negative
	o.backend.Axpy(negatives, float32(-label), o.p)
	return loss - label*total, dTarget + float64(weight*o.config.Smoothing)
}

// weigh sets the p_j of the n negatives to weight/n or, with self-adversarial weights (Sun et al.,
// 2019), to weight times the softmax of α f_j. No gradient flows through the weights.
func (o *objective) weigh(negatives []float32, alpha, weight float64) {
	o.p = resize(o.p, len(negatives))
	if alpha > 0 && len(negatives) > 0 {
		copy(o.p, negatives)
		o.backend.Softmax(o.p, float32(alpha), float32(weight))
		return
	}
	count := 0
	for j, f := range negatives {
		o.p[j] = 0
		if f != excluded {
			o.p[j] = 1
			count++
		}
	}
	o.backend.Scale(o.p, float32(weight/float64(max(count, 1))))
}

// logistic is −(1−ε) log σ(z) − ε log σ(−z) for the target, plus −Σ p_j ((1−ε) log σ(−z_j) + ε log
// σ(z_j)) over the negatives, where z = f + shift. With ε = 0 it is the loss nssa.
func (o *objective) logistic(
	target float32, negatives []float32, shift, smoothing, weight float64,
) (loss, dTarget float64) {
	z := float64(target) + shift
	loss = weight * (softplus(z) - (1-smoothing)*z)
	if len(negatives) > 0 {
		loss += o.backend.Logistic(negatives, o.p, float32(shift), float32(smoothing))
	}
	return loss, weight * (sigmoid(z) - (1 - smoothing))
}

// marginRanking is Σ p_j max(0, γ + f_j − f).
func (o *objective) marginRanking(target float32, negatives []float32, weight float64) (loss, dTarget float64) {
	o.weigh(negatives, o.config.Adversarial, weight)
	for j, f := range negatives {
		excess := o.config.Gamma + float64(f) - float64(target)
		negatives[j] = 0
		if excess > 0 {
			negatives[j] = o.p[j]
			loss += float64(o.p[j]) * excess
			dTarget -= float64(o.p[j])
		}
	}
	return loss, dTarget
}

// softplus is log(1 + eˣ). Its derivative is sigmoid.
func softplus(x float64) float64 { return max(x, 0) + fmath.Ln(1+fmath.Exp(-math.Abs(x))) }

func sigmoid(x float64) float64 {
	e := fmath.Exp(-math.Abs(x))
	if x >= 0 {
		return 1 / (1 + e)
	}
	return e / (1 + e)
}
