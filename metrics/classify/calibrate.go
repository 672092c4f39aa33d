package classify

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/metrics"
)

// Method is a way to turn scores into probabilities.
type Method uint8

const (
	// Platt fits a logistic curve: p = 1/(1 + exp(−(Slope·score + Intercept))), by maximum likelihood
	// with Platt's smoothed targets (Platt, 1999; Lin, Lin and Weng, 2007).
	Platt Method = iota
	// Isotonic fits the non-decreasing function with the least squared error (pool adjacent
	// violators). Between two scores it is linear; beyond the first and the last it is constant.
	Isotonic
)

var methodNames = []string{"platt", "isotonic"}

// String returns "platt" or "isotonic".
func (m Method) String() string { return text.Name(methodNames, m, "Method") }

// MarshalText returns the text of String, for JSON.
func (m Method) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText is the inverse of MarshalText.
func (m *Method) UnmarshalText(name []byte) (err error) {
	*m, err = text.ParseName[Method](methodNames, string(name), "calibration")
	return err
}

// Calibration is a non-decreasing function from scores to probabilities.
type Calibration struct {
	Method Method `json:"method"`
	// Logistic belongs to Platt, for which nil means zeros: JSON of earlier versions omits a parameter
	// that is 0. Its fields can be read only if it is not nil.
	*Logistic
	// Knots belong to Isotonic. Their scores increase.
	Knots []Knot `json:"knots,omitempty"`
}

// Logistic holds the parameters of a logistic curve.
type Logistic struct {
	Slope     float64 `json:"slope"`
	Intercept float64 `json:"intercept"`
}

// Knot is a point of an isotonic calibration.
type Knot struct {
	Score       float64 `json:"score"`
	Probability float64 `json:"probability"`
}

// Check returns an error if c is not a calibration, for example because its file was edited.
func (c *Calibration) Check() error {
	finite := func(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
	if c.Method == Platt {
		if l := c.curve(); !finite(l.Slope) || !finite(l.Intercept) || l.Slope < 0 {
			return fmt.Errorf("a slope of %v and an intercept of %v: both must be finite, "+
				"and the slope must not be negative", l.Slope, l.Intercept)
		}
		return nil
	}
	if len(c.Knots) == 0 {
		return errors.New("an isotonic calibration needs at least one knot")
	}
	for i, k := range c.Knots {
		if !finite(k.Score) || !(k.Probability >= 0 && k.Probability <= 1) ||
			i > 0 && !(k.Score > c.Knots[i-1].Score && k.Probability >= c.Knots[i-1].Probability) {
			return fmt.Errorf("knot %d: scores must increase, and probabilities must not decrease "+
				"and must be from 0 to 1", i)
		}
	}
	return nil
}

// Probability returns the estimated probability that a triple with this score is true, given that
// true and false triples are as frequent as among the examples of the fit.
func (c *Calibration) Probability(score float64) float64 {
	if c.Method == Platt {
		l := c.curve()
		return logistic(l.Slope*score + l.Intercept)
	}
	i, found := slices.BinarySearchFunc(c.Knots, score, func(k Knot, s float64) int { return cmp.Compare(k.Score, s) })
	switch {
	case found:
		return c.Knots[i].Probability
	case i == 0:
		return c.Knots[0].Probability
	case i == len(c.Knots):
		return c.Knots[i-1].Probability
	}
	low, high := c.Knots[i-1], c.Knots[i]
	share := (score - low.Score) / (high.Score - low.Score)
	return low.Probability + share*(high.Probability-low.Probability)
}

// Constant reports whether all scores have the same probability.
func (c *Calibration) Constant() bool {
	if c.Method == Platt {
		return c.curve().Slope == 0
	}
	if len(c.Knots) == 0 {
		return true
	}
	return c.Knots[0].Probability == c.Knots[len(c.Knots)-1].Probability
}

// curve returns the parameters of Platt.
func (c *Calibration) curve() Logistic {
	if c.Logistic == nil {
		return Logistic{}
	}
	return *c.Logistic
}

func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// Calibrate fits a calibration to examples. It returns an error unless they include both classes
// and all scores are finite.
func Calibrate(m Method, examples []Example) (*Calibration, error) {
	if err := check(examples); err != nil {
		return nil, err
	}
	if m == Platt {
		return platt(examples), nil
	}
	return isotonic(examples), nil
}

// platt minimises the cross-entropy by Newton's method with backtracking, for standardised scores. If
// higher scores are less plausible, the best slope that is not negative is 0.
func platt(examples []Example) *Calibration {
	positives, negatives := count(examples)
	yes, no := float64(positives+1)/float64(positives+2), 1/float64(negatives+2)
	target := func(e Example) float64 {
		if e.True {
			return yes
		}
		return no
	}
	mean, deviation := standardise(examples)
	objective := func(a, b float64) (sum float64) {
		for _, e := range examples {
			// Add t·ln(1 + e⁻ˣ) + (1 − t)·ln(1 + eˣ), without overflow.
			x := a*(e.Score-mean)/deviation + b
			sum += math.Log1p(math.Exp(-math.Abs(x))) + math.Max(x, 0) - target(e)*x
		}
		return sum
	}
	a, b := 0.0, math.Log(float64(positives+1)/float64(negatives+1))
	value := objective(a, b)
	for range 100 {
		var ga, gb, haa, hab, hbb float64
		for _, e := range examples {
			z := (e.Score - mean) / deviation
			p := logistic(a*z + b)
			g, h := p-target(e), p*(1-p)
			ga, gb = ga+g*z, gb+g
			haa, hab, hbb = haa+h*z*z, hab+h*z, hbb+h
		}
		if math.Abs(ga)+math.Abs(gb) < 1e-12*float64(len(examples)) {
			break
		}
		const ridge = 1e-12 // keeps the matrix invertible
		haa, hbb = haa+ridge, hbb+ridge
		det := haa*hbb - hab*hab
		da, db := -(hbb*ga-hab*gb)/det, -(haa*gb-hab*ga)/det
		step, moved := 1.0, false
		for ; step > 1e-10; step /= 2 {
			if next := objective(a+step*da, b+step*db); next < value+1e-4*step*(ga*da+gb*db) {
				a, b, value, moved = a+step*da, b+step*db, next, true
				break
			}
		}
		if !moved {
			break
		}
	}
	if a < 0 {
		a, b = 0, math.Log((yes*float64(positives)+no*float64(negatives))/
			((1-yes)*float64(positives)+(1-no)*float64(negatives)))
	}
	return &Calibration{Method: Platt, Logistic: &Logistic{a / deviation, b - a*mean/deviation}}
}

// standardise returns the mean and the standard deviation of the scores. The deviation is 1 if all
// scores are equal.
func standardise(examples []Example) (mean, deviation float64) {
	if !slices.ContainsFunc(examples, func(e Example) bool { return e.Score != examples[0].Score }) {
		return examples[0].Score, 1 // rounding errors of the mean would be the deviation
	}
	n := float64(len(examples))
	for _, e := range examples {
		mean += e.Score / n
	}
	for _, e := range examples {
		deviation += (e.Score - mean) * (e.Score - mean) / n
	}
	const tiny = 0x1p-1022 // the smallest float64 that is not subnormal
	if deviation >= tiny && !math.IsInf(deviation, 1) {
		return mean, math.Sqrt(deviation)
	}
	// The squares overflow or underflow, so scale the scores first.
	largest := 0.0
	for _, e := range examples {
		largest = max(largest, math.Abs(e.Score-mean))
	}
	if math.IsInf(largest, 1) {
		return mean, largest
	}
	if largest < tiny { // the slope would overflow
		return mean, 1
	}
	deviation = 0
	for _, e := range examples {
		scaled := (e.Score - mean) / largest
		deviation += scaled * scaled / n
	}
	return mean, largest * math.Sqrt(deviation)
}

// isotonic pools adjacent violators. Examples with the same score form one block from the start.
func isotonic(examples []Example) *Calibration {
	type block struct {
		first, last  float64 // scores
		positives, n int
	}
	var blocks []block
	tied(byScore(examples), func(score float64, positives, negatives int) {
		b := block{score, score, positives, positives + negatives}
		// The comparison of the two shares is exact, because its products are integers.
		for len(blocks) > 0 {
			last := blocks[len(blocks)-1]
			if last.positives*b.n < b.positives*last.n {
				break
			}
			b = block{last.first, b.last, last.positives + b.positives, last.n + b.n}
			blocks = blocks[:len(blocks)-1]
		}
		blocks = append(blocks, b)
	})
	c := &Calibration{Method: Isotonic}
	for _, b := range blocks {
		share := float64(b.positives) / float64(b.n)
		c.Knots = append(c.Knots, Knot{b.first, share})
		if b.last > b.first {
			c.Knots = append(c.Knots, Knot{b.last, share})
		}
	}
	return c
}

// Reliability compares probabilities with the classes of examples.
type Reliability struct {
	// ECE is the expected calibration error: the mean of |Predicted − Observed| over the bins, weighted
	// by their numbers of examples.
	ECE metrics.Number `json:"ece"`
	// Brier is the mean of (probability − class)².
	Brier metrics.Number `json:"brier"`
	Bins  []Bin          `json:"bins"`
}

// Bin holds the examples with probabilities from Low to below High, or up to 1 in the last bin.
type Bin struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	N    int     `json:"n"`
	// Predicted is the mean probability, and Observed is the share of true examples. Both are undefined
	// for an empty bin.
	Predicted metrics.Number `json:"predicted"`
	Observed  metrics.Number `json:"observed"`
}

// NewReliability compares the probabilities of c with the classes of examples, in bins of equal
// width.
func NewReliability(c *Calibration, examples []Example, bins int) Reliability {
	r := Reliability{Bins: make([]Bin, bins)}
	sums, hits := make([]float64, bins), make([]int, bins)
	var brier float64
	for _, e := range examples {
		p, class := c.Probability(e.Score), 0.0
		i := min(int(p*float64(bins)), bins-1)
		r.Bins[i].N++
		sums[i] += p
		if e.True {
			class = 1
			hits[i]++
		}
		brier += (p - class) * (p - class)
	}
	var ece float64
	for i := range r.Bins {
		b := &r.Bins[i]
		b.Low, b.High = float64(i)/float64(bins), float64(i+1)/float64(bins)
		b.Predicted, b.Observed = metrics.Number(sums[i]/float64(b.N)), ratio(hits[i], b.N)
		if b.N > 0 {
			ece += math.Abs(sums[i] - float64(hits[i]))
		}
	}
	n := float64(len(examples))
	r.ECE, r.Brier = metrics.Number(ece/n), metrics.Number(brier/n)
	return r
}
