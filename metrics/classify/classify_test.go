package classify

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/kgtest"
	"github.com/mquine/mquine/metrics"
)

// draw returns examples in which true triples have higher scores on average. Every relation has at
// least one example of each class. With ties, the scores are rounded, so some are equal.
func draw(rng *rand.Rand, n, relations int, ties bool) []Example {
	var list []Example
	for i := range n {
		e := Example{Triple: kg.Triple{Head: int32(i), Relation: int32(i % relations)}, True: rng.IntN(2) == 0}
		if i < 2*relations {
			e.True = i < relations
		}
		e.Score = 3 * rng.NormFloat64()
		if e.True {
			e.Score += 2
		}
		if ties {
			e.Score = math.Round(e.Score)
		}
		list = append(list, e)
	}
	return list
}

// Every threshold is the smallest score with the highest accuracy, as found by trying all scores.
func TestThresholds(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		examples := draw(rng, 12+rng.IntN(60), 1+rng.IntN(5), rng.IntN(2) == 0)
		got, err := FitThresholds(examples)
		require.NoError(t, err)
		brute := func(of []Example) float64 {
			best, most := math.Inf(1), -1
			for _, candidate := range of {
				correct := 0
				for _, e := range of {
					if (e.Score >= candidate.Score) == e.True {
						correct++
					}
				}
				if correct > most || correct == most && candidate.Score < best {
					best, most = candidate.Score, correct
				}
			}
			return best
		}
		require.Equal(t, brute(examples), got.Overall)
		for r := range int32(5) {
			of := slices.DeleteFunc(slices.Clone(examples), func(e Example) bool { return e.Triple.Relation != r })
			own, ok := got.Relations[r]
			require.Equal(t, len(of) > 0, ok)
			if ok {
				require.Equal(t, brute(of), own, "relation %d", r)
				require.Equal(t, own, got.Of(r))
			} else {
				require.Equal(t, got.Overall, got.Of(r))
			}
		}
	}
}

// The measures equal their definitions: AUC is the share of pairs in the right order, and AP sums
// over all thresholds.
func TestMeasure(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		examples := draw(rng, 12+rng.IntN(60), 1+rng.IntN(3), rng.IntN(2) == 0)
		thresholds, err := FitThresholds(draw(rng, 40, 2, false))
		require.NoError(t, err)
		r := Measure(examples, thresholds)
		var tp, fp, tn, fn, pairs, right float64
		for _, e := range examples {
			predicted := e.Score >= thresholds.Of(e.Triple.Relation)
			switch {
			case predicted && e.True:
				tp++
			case predicted:
				fp++
			case e.True:
				fn++
			default:
				tn++
			}
			for _, other := range examples {
				if e.True && !other.True {
					pairs++
					if e.Score > other.Score {
						right++
					} else if e.Score == other.Score {
						right += 0.5
					}
				}
			}
		}
		assert.Equal(t, [4]int{int(tp), int(fp), int(tn), int(fn)}, [4]int{r.TP, r.FP, r.TN, r.FN})
		assert.InDelta(t, (tp+tn)/(tp+fp+tn+fn), float64(r.Accuracy), 1e-12)
		if precision, recall := tp/(tp+fp), tp/(tp+fn); tp > 0 {
			assert.InDelta(t, precision, float64(r.Precision), 1e-12)
			assert.InDelta(t, recall, float64(r.Recall), 1e-12)
			assert.InDelta(t, 2*precision*recall/(precision+recall), float64(r.F1), 1e-12)
		}
		require.InDelta(t, right/pairs, float64(r.ROCAUC), 1e-12)

		var scores []float64
		for _, e := range examples {
			scores = append(scores, e.Score)
		}
		slices.Sort(scores)
		scores = slices.Compact(scores)
		var ap, before float64
		for _, threshold := range slices.Backward(scores) {
			var hits, taken float64
			for _, e := range examples {
				if e.Score >= threshold {
					taken++
					if e.True {
						hits++
					}
				}
			}
			recall := hits / (tp + fn)
			ap += (recall - before) * hits / taken
			before = recall
		}
		require.InDelta(t, ap, float64(r.AP), 1e-12)
	}
}

// lowest minimises a convex function between two numbers by golden-section search.
func lowest(from, to float64, f func(float64) float64) (x float64) {
	const golden = 0.6180339887498949
	for range 60 {
		a, b := to-golden*(to-from), from+golden*(to-from)
		if f(a) < f(b) {
			to = b
		} else {
			from = a
		}
	}
	return (from + to) / 2
}

// Platt's parameters minimise the cross-entropy with smoothed targets: a search without derivatives
// finds the same parameters. The function is convex, and its minimum over the intercept is convex
// in the slope.
func TestPlatt(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	for range 10 {
		examples := draw(rng, 20+rng.IntN(100), 3, rng.IntN(2) == 0)
		c, err := Calibrate(Platt, examples)
		require.NoError(t, err)
		positives, negatives := 0.0, 0.0
		for _, e := range examples {
			if e.True {
				positives++
			} else {
				negatives++
			}
		}
		loss := func(x []float64) (sum float64) {
			for _, e := range examples {
				target := 1 / (negatives + 2)
				if e.True {
					target = (positives + 1) / (positives + 2)
				}
				p := 1 / (1 + math.Exp(-(x[0]*e.Score + x[1])))
				sum -= target*math.Log(p) + (1-target)*math.Log(1-p)
			}
			return sum
		}
		intercept := func(slope float64) float64 {
			return lowest(-20, 20, func(b float64) float64 { return loss([]float64{slope, b}) })
		}
		slope := lowest(0, 10, func(a float64) float64 { return loss([]float64{a, intercept(a)}) })
		found := []float64{slope, intercept(slope)}
		assert.LessOrEqual(t, loss([]float64{c.Slope, c.Intercept}), loss(found)+1e-9)
		assert.InDelta(t, found[0], c.Slope, 1e-4)
		assert.InDelta(t, found[1], c.Intercept, 1e-4)
		require.NoError(t, c.Check())
	}
}

// TestPlattOfEqualScores checks that equal scores get the slope 0 and the mean of the smoothed targets,
// even if their mean is not exact.
func TestPlattOfEqualScores(t *testing.T) {
	const positives, n = 6, 10
	examples, mean := make([]Example, n), 0.0
	for i := range examples {
		examples[i] = Example{Score: 0.1, True: i < positives}
		mean += examples[i].Score / n
	}
	require.NotEqual(t, 0.1, mean)
	c, err := Calibrate(Platt, examples)
	require.NoError(t, err)
	assert.Zero(t, c.Slope)
	want := (positives*7./8 + (n-positives)*1./6) / n
	for _, score := range []float64{-1, 0.1, 1} {
		assert.InDelta(t, want, c.Probability(score), 1e-9)
	}
}

// JSON has both parameters of Platt, even if they are 0, and isotonic calibrations have neither. Earlier
// versions omitted zeros.
func TestJSONOfCalibrations(t *testing.T) {
	constant := []Example{{Score: 1, True: true}, {Score: 1}}
	for _, test := range []struct {
		method   Method
		examples []Example
		want     string
		constant bool
	}{
		{Platt, constant, `{"method":"platt","slope":0,"intercept":0}`, true},
		{Isotonic, constant, `{"method":"isotonic","knots":[{"score":1,"probability":0.5}]}`, true},
		{Isotonic, []Example{{Score: 2, True: true}, {Score: 1}},
			`{"method":"isotonic","knots":[{"score":1,"probability":0},{"score":2,"probability":1}]}`, false},
	} {
		c, err := Calibrate(test.method, test.examples)
		require.NoError(t, err)
		got, err := json.Marshal(c)
		require.NoError(t, err)
		assert.Equal(t, test.want, string(got))
		assert.Equal(t, test.constant, c.Constant(), test.want)
	}
	var former Calibration
	require.NoError(t, json.Unmarshal([]byte(`{"method":"platt"}`), &former))
	require.NoError(t, former.Check())
	assert.Equal(t, 0.5, former.Probability(7))
	assert.True(t, former.Constant())
}

// Platt's method also calibrates scores far from 1, and scores that separate the classes or order
// them wrongly.
func TestPlattOfExtremes(t *testing.T) {
	examples := func(scores, signs []float64) (list []Example) {
		for i, s := range scores {
			list = append(list, Example{Score: s, True: signs[i] > 0})
		}
		return list
	}
	signs := []float64{-1, -1, 1, 1}
	for _, scores := range [][]float64{
		{1e-9, 2e-9, 3e-9, 4e-9}, {1e9, 2e9, 3e9, 4e9}, {1e9 + 1, 1e9 + 2, 1e9 + 3, 1e9 + 4}, {-5, -5, -5, -5},
		{1e160, 2e160, 3e160, 4e160}, {1e-170, 2e-170, 3e-170, 4e-170}, {1e-307, 2e-307, 3e-307, 4e-307},
	} {
		c, err := Calibrate(Platt, examples(scores, signs))
		require.NoError(t, err)
		require.NoError(t, c.Check())
		low, high := c.Probability(scores[0]), c.Probability(scores[3])
		assert.LessOrEqual(t, low, high)
		assert.InDelta(t, 1, low+high, 1e-6, "the classes are symmetric")
		if scores[0] < scores[3] {
			// Smoothed targets are 1/4 and 3/4.
			assert.Greater(t, high, 0.7)
			assert.Less(t, high, 0.85)
		}
	}
	c, err := Calibrate(Platt, examples([]float64{4, 3, 2, 1}, signs))
	require.NoError(t, err)
	assert.Zero(t, c.Slope, "a lower score must not get a higher probability")
	assert.InDelta(t, 0.5, c.Probability(7), 1e-12)
}

// The isotonic fit equals max over i ≤ k of min over j ≥ k of the mean of blocks i to j.
func TestIsotonic(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 4))
	for range 100 {
		examples := draw(rng, 12+rng.IntN(50), 2, rng.IntN(2) == 0)
		c, err := Calibrate(Isotonic, examples)
		require.NoError(t, err)
		require.NoError(t, c.Check())
		sorted := slices.Clone(examples)
		slices.SortFunc(sorted, func(a, b Example) int { return int(math.Copysign(1, a.Score-b.Score)) })
		var scores, hits, counts []float64
		for _, e := range sorted {
			if n := len(scores); n == 0 || scores[n-1] != e.Score {
				scores, hits, counts = append(scores, e.Score), append(hits, 0), append(counts, 0)
			}
			counts[len(counts)-1]++
			if e.True {
				hits[len(hits)-1]++
			}
		}
		for k := range scores {
			best := math.Inf(-1)
			for i := range k + 1 {
				least := math.Inf(1)
				for j := k; j < len(scores); j++ {
					var h, n float64
					for l := i; l <= j; l++ {
						h, n = h+hits[l], n+counts[l]
					}
					least = min(least, h/n)
				}
				best = max(best, least)
			}
			require.InDelta(t, best, c.Probability(scores[k]), 1e-12)
		}
		last := len(scores) - 1
		assert.Equal(t, c.Probability(scores[0]), c.Probability(scores[0]-9))
		assert.Equal(t, c.Probability(scores[last]), c.Probability(scores[last]+9))
		for k := range last {
			middle := c.Probability((scores[k] + scores[k+1]) / 2)
			assert.InDelta(t, (c.Probability(scores[k])+c.Probability(scores[k+1]))/2, middle, 1e-9)
		}
	}
}

func TestReliability(t *testing.T) {
	// c is the identity on [0, 1].
	c := &Calibration{Method: Isotonic, Knots: []Knot{{0, 0}, {1, 1}}}
	var examples []Example
	for _, e := range []struct {
		score float64
		class bool
	}{{0.05, false}, {0.15, true}, {0.12, false}, {0.95, true}, {1, true}, {0, false}} {
		examples = append(examples, Example{Score: e.score, True: e.class})
	}
	r := NewReliability(c, examples, 10)
	require.Len(t, r.Bins, 10)
	assert.Equal(t, []int{2, 2, 2}, []int{r.Bins[0].N, r.Bins[1].N, r.Bins[9].N})
	assert.InDelta(t, 0.5, float64(r.Bins[1].Observed), 1e-12)
	assert.InDelta(t, 0.135, float64(r.Bins[1].Predicted), 1e-12)
	assert.True(t, math.IsNaN(float64(r.Bins[5].Observed)))
	assert.InDelta(t, (0.025+0.365+0.025)*2/6, float64(r.ECE), 1e-12)
	brier := (0.05*0.05 + 0.85*0.85 + 0.12*0.12 + 0.05*0.05) / 6
	assert.InDelta(t, brier, float64(r.Brier), 1e-12)
}

func TestEvaluate(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 5))
	valid, test := draw(rng, 200, 3, false), draw(rng, 200, 4, false)
	r, thresholds, err := Evaluate(valid, test, Options{})
	require.NoError(t, err)
	assert.Equal(t, 50, r.Unseen, "relation 3 is not in valid")
	assert.Equal(t, "overall", r.UnseenAs)
	assert.Equal(t, Measure(test, thresholds), r.Result)
	n := 0
	for _, relation := range r.Relations {
		n += relation.N
		require.NotNil(t, relation.Threshold)
	}
	assert.Equal(t, 200, n)

	r, thresholds, err = Evaluate(valid, test, Options{UnseenTrue: true, Method: Isotonic, Bins: 5})
	require.NoError(t, err)
	assert.True(t, thresholds.Predict(Example{Triple: kg.Triple{Relation: 3}, Score: -1e9}))
	assert.Nil(t, r.Relations[slices.IndexFunc(r.Relations, func(x Relation) bool { return x.ID == 3 })].Threshold)
	assert.Len(t, r.Reliability.Bins, 5)

	r, _, err = Evaluate(valid, test, Options{OneThreshold: true})
	require.NoError(t, err)
	assert.Zero(t, r.Unseen)
	for _, relation := range r.Relations {
		assert.Equal(t, r.Threshold, *relation.Threshold)
	}

	_, _, err = Evaluate(valid, test, Options{Bins: -1})
	require.EqualError(t, err, "the reliability cannot have -1 bins: choose at least 1, or 0 for 10")
	_, _, err = Evaluate(nil, test, Options{})
	require.ErrorContains(t, err, "validation split: there must be at least one true and one false triple")
	test[3].Score = math.NaN()
	_, _, err = Evaluate(valid, test, Options{})
	require.ErrorContains(t, err, "scores must be finite")
}

// A triple whose score is NaN counts as false. The areas need an order of the scores, so they are
// undefined.
func TestNaNScores(t *testing.T) {
	examples := []Example{{True: true, Score: 2}, {Score: math.NaN()}, {Score: 1}, {True: true, Score: math.NaN()}}
	curve := Curve(examples)
	require.Len(t, curve, 3)
	assert.Equal(t, []Point{{2, 1, 0}, {1, 1, 1}}, curve[:2])
	assert.True(t, math.IsNaN(curve[2].Threshold))
	assert.Equal(t, []int{2, 2}, []int{curve[2].TP, curve[2].FP})

	r := Measure(examples, Thresholds{Overall: 2})
	assert.Equal(t, []int{1, 0, 2, 1}, []int{r.TP, r.FP, r.TN, r.FN})
	assert.Equal(t, metrics.Number(0.75), r.Accuracy)
	assert.True(t, math.IsNaN(float64(r.ROCAUC)) && math.IsNaN(float64(r.AP)))
}

// All free entities of a side are equally likely, and other entities are not drawn.
func TestNegativesAreUniform(t *testing.T) {
	g := &kg.Graph{Name: "drawn", Entities: kg.NewVocabulary(), Relations: kg.NewVocabulary("a")}
	for i := range 12 {
		g.Entities.Add(string(rune('a' + i)))
	}
	// The heads are 0 to 4, the tails 4 to 11. Entity 0 has the tails 4, 6 and 8; tail 4 has the heads 0 and 1.
	for _, ht := range [][2]int32{
		{0, 4}, {0, 6}, {0, 8}, {1, 4}, {1, 5}, {2, 7}, {2, 9}, {3, 10}, {3, 11}, {4, 11}, {4, 5},
	} {
		g.Splits[kg.Train] = append(g.Splits[kg.Train], kg.Triple{Head: ht[0], Tail: ht[1]})
	}
	used := []kg.Triple{{Head: 0, Tail: 10}, {Head: 2, Tail: 4}, {Head: 0, Tail: 6}, {Head: 0, Tail: 3}}
	want := map[kg.Triple]float64{
		{Head: 0, Tail: 5}: 0.125, {Head: 0, Tail: 7}: 0.125, {Head: 0, Tail: 9}: 0.125, {Head: 0, Tail: 11}: 0.125,
		{Head: 3, Tail: 4}: 0.25, {Head: 4, Tail: 4}: 0.25,
	}
	x, true4 := kgtest.Index(t, g), []kg.Triple{{Head: 0, Tail: 4}}
	const draws = 8000
	count := map[kg.Triple]int{}
	for seed := range uint64(draws) {
		negatives, missing, err := Negatives(t.Context(), g, x, true4, used, seed)
		require.NoError(t, err)
		require.Zero(t, missing)
		require.Len(t, negatives, 1)
		count[negatives[0]]++
	}
	require.Len(t, count, len(want))
	for triple, share := range want {
		deviation := math.Sqrt(draws * share * (1 - share))
		assert.InDelta(t, draws*share, count[triple], 4*deviation, "%v", triple)
	}
}

// A false triple has the relation and one entity of its true triple. Its other entity has the
// relation on that side in the training split. No split contains the false triple.
func TestNegatives(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 6))
	g := &kg.Graph{Name: "drawn", Entities: kg.NewVocabulary(), Relations: kg.NewVocabulary("a", "b", "c")}
	for i := range 30 {
		g.Entities.Add(string(rune('A' + i)))
	}
	known := map[kg.Triple]bool{}
	type place struct {
		side     kg.Side
		relation int32
		entity   int32
	}
	seen := map[place]bool{}
	for split, n := range []int{200, 40, 40} {
		for range n {
			tr := kg.Triple{Head: rng.Int32N(30), Relation: rng.Int32N(3), Tail: rng.Int32N(30)}
			if tr.Relation == 2 { // complete: it has no false triples
				tr.Head, tr.Tail = 0, 1
			}
			g.Splits[split] = append(g.Splits[split], tr)
			known[tr] = true
			if split == 0 {
				seen[place{kg.Tail, tr.Relation, tr.Tail}] = true
				seen[place{kg.Head, tr.Relation, tr.Head}] = true
			}
		}
	}
	x := kgtest.Index(t, g)
	test := g.Splits[kg.Test]
	negatives, missing, err := Negatives(t.Context(), g, x, test, nil, 1)
	require.NoError(t, err)
	complete := 0
	for _, tr := range test {
		if tr.Relation == 2 {
			complete++
		}
	}
	require.Equal(t, complete, missing)
	require.Len(t, negatives, len(test)-complete)
	at, tails := 0, 0
	distinct := map[kg.Triple]bool{}
	for _, tr := range test {
		if tr.Relation == 2 {
			continue
		}
		n := negatives[at]
		at++
		require.Equal(t, tr.Relation, n.Relation)
		require.False(t, known[n])
		require.False(t, distinct[n])
		distinct[n] = true
		switch {
		case n.Head == tr.Head:
			require.True(t, seen[place{kg.Tail, n.Relation, n.Tail}])
			tails++
		default:
			require.Equal(t, tr.Tail, n.Tail)
			require.True(t, seen[place{kg.Head, n.Relation, n.Head}])
		}
	}
	assert.Greater(t, tails, 3)
	assert.Less(t, tails, len(negatives)-3)
	again, _, err := Negatives(t.Context(), g, x, test, nil, 1)
	require.NoError(t, err)
	assert.Equal(t, negatives, again)
	other, _, err := Negatives(t.Context(), g, x, test, nil, 2)
	require.NoError(t, err)
	assert.NotEqual(t, negatives, other)
	for _, seed := range []uint64{1, 2} {
		more, _, err := Negatives(t.Context(), g, x, test, negatives, seed)
		require.NoError(t, err)
		for _, n := range more {
			require.False(t, distinct[n], "used before")
		}
	}

	// The false triples have the same labels if the entities are numbered in reverse.
	reverse := func(tr kg.Triple) kg.Triple {
		return kg.Triple{Head: 29 - tr.Head, Relation: tr.Relation, Tail: 29 - tr.Tail}
	}
	reversed := &kg.Graph{Name: "reversed", Entities: kg.NewVocabulary(), Relations: g.Relations}
	for i := range int32(30) {
		reversed.Entities.Add(g.Entities.Label(29 - i))
	}
	for split, triples := range g.Splits {
		for _, tr := range triples {
			reversed.Splits[split] = append(reversed.Splits[split], reverse(tr))
		}
	}
	same, _, err := Negatives(t.Context(), reversed, kgtest.Index(t, reversed), reversed.Splits[kg.Test], nil, 1)
	require.NoError(t, err)
	require.Len(t, same, len(negatives))
	for i, n := range same {
		require.Equal(t, negatives[i], reverse(n))
	}
}
