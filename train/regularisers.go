package train

import "github.com/mquine/mquine/kg"

// regulariser is λ_reg/B times a sum over the B positives of a batch:
//
//	frobenius  ‖H‖² + ‖T‖² + ‖Rʰ‖² + ‖Rᵗ‖² + ‖Rᶜ‖²
//	n3         the same with Σ|x|³ of the entries for ‖·‖² (after Lacroix et al. 2018)
//	dura       ‖H‖² + ‖T‖² + ‖H Rʰ‖² + ‖Rᵗ T‖² + ‖Rᶜ‖² (after Zhang et al. 2020): the third
//	           and the fourth are the constants −c of the two queries, and left to the stepper
type regulariser struct {
	kind   string
	lambda float64
	warmup int     // epochs in which lambda rises
	factor float64 // λ_reg/B of the step
	// How often the batch's positives have each entity and relation.
	entities, relations []int32
}

func newRegulariser(c *Config, entities, relations int) *regulariser {
	return &regulariser{kind: c.Regulariser, lambda: c.LambdaReg, warmup: c.RegWarmup, entities: make([]int32, entities), relations: make([]int32, relations)}
}

// begin begins a step with so many positives.
func (r *regulariser) begin(epoch, positives int) {
	r.factor = r.lambda / float64(positives)
	if epoch+1 < r.warmup {
		r.factor *= float64(epoch+1) / float64(r.warmup)
	}
}

// count counts the positives of a batch, and forget makes the counts zero again.
func (r *regulariser) count(positives []kg.Triple) {
	for _, t := range positives {
		r.entities[t.Head]++
		r.entities[t.Tail]++
		r.relations[t.Relation]++
	}
}

func (r *regulariser) forget(positives []kg.Triple) {
	for _, t := range positives {
		r.entities[t.Head], r.entities[t.Tail], r.relations[t.Relation] = 0, 0, 0
	}
}

// entity adds the gradient of entity e, whose packed A is a, to out and returns its penalty.
func (r *regulariser) entity(out, a []float32, e int32, d int) float64 {
	n := r.factor * float64(r.entities[e])
	if r.kind == noRegulariser || n == 0 {
		return 0
	}
	var sum float64
	at := 0
	for i := range d {
		for j := range i + 1 {
			// E_ij occurs twice off the diagonal, where it is A_ij, and E_ii = 2A_ii.
			twice, once := 2.0, 1.0
			if j == i {
				twice, once = 1, 2
			}
			v := once * float64(a[at])
			value, slope := r.entry(v)
			sum += twice * value
			out[at] += float32(n * twice * once * slope)
			at++
		}
	}
	return n * sum
}

// relation adds the gradient of a matrix of relation i, rh, rt or rc, to out and returns its penalty.
func (r *regulariser) relation(out, matrix []float32, i int32, which int) float64 {
	n := r.factor * float64(r.relations[i])
	if r.kind == noRegulariser || r.kind == duraRegulariser && which != rc || n == 0 {
		return 0
	}
	var sum float64
	for k, v := range matrix {
		value, slope := r.entry(float64(v))
		sum += value
		out[k] += float32(n * slope)
	}
	return n * sum
}

// entry returns the penalty of an entry of a matrix and its derivative.
func (r *regulariser) entry(v float64) (value, slope float64) {
	if r.kind == n3Regulariser {
		return max(v, -v) * v * v, 3 * v * max(v, -v)
	}
	return v * v, 2 * v
}
