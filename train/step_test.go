package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/kerneltest"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/kgtest"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/initial"
	"github.com/mquine/mquine/model/modeltest"
	"github.com/mquine/mquine/train/internal/traintest"
	"github.com/mquine/mquine/train/recipe"
)

// scorer returns a function that computes a model's reference scores without γ. The scores of a
// network use the statistics of the queries in w. The parameters must not change between calls to
// the returned function.
func scorer(t testing.TB, m model.Model, w *workload) func(q kg.Query, e int32) float64 {
	if network, ok := networks[m.Config().Model]; ok {
		return network(m, w.queries)
	}
	require.NotImplements(t, (*model.Network)(nil), m,
		"%s needs a function in networks (docs/adding-a-model.md, step 6)", m.Config().Model)
	worker := m.NewWorker(kerneltest.Generic(t))
	return func(q kg.Query, e int32) float64 {
		return m.Score(worker.Reference(q, e)) - m.Config().Hyper[model.Gamma]
	}
}

// rootScorer returns a function that computes −√s from the scores −s of another.
func rootScorer(score func(kg.Query, int32) float64) func(kg.Query, int32) float64 {
	return func(q kg.Query, e int32) float64 { return -math.Sqrt(-score(q, e)) }
}

func plainMatrix(d int) [][]float64 {
	m := make([][]float64, d)
	for i := range m {
		m[i] = make([]float64, d)
	}
	return m
}

func plainProduct(a, b [][]float64) [][]float64 {
	c := plainMatrix(len(a))
	for i := range a {
		for j := range a {
			for k := range a {
				c[i][j] += a[i][k] * b[k][j]
			}
		}
	}
	return c
}

// lossByDefinition computes the loss of a workload from the definitions in docs/training.md.
// Self-adversarial weights come from the argument frozen, a copy of the model whose parameters do not
// change, because no gradient flows through the weights.
func lossByDefinition(t testing.TB, c *recipe.Recipe, known *kg.Index, m, frozen model.Model, w *workload) float64 {
	score, frozenScore := scorer(t, m, w), scorer(t, frozen, w)
	if c.Unsquared {
		score, frozenScore = rootScorer(score), rootScorer(frozenScore)
	}
	logSigma := func(x float64) float64 { return -math.Log(1 + math.Exp(-x)) }
	var total float64
	for i, q := range w.queries[:w.main] {
		if c.Negatives == recipe.KvsAll {
			scoreOf := func(e int32) float64 { return score(q, e) }
			requireTargets(t, c, known.Answers(q), w.targets(i))
			total += w.weights[i] * kvsAllByDefinition(c, w.targets(i), m.Config().Entities, scoreOf)
			continue
		}
		var negatives []int32
		if c.Negatives == recipe.IndependentNegatives {
			for _, r := range w.pairRows[w.pairs[i]+1 : w.pairs[i+1]] {
				negatives = append(negatives, w.rows[r])
			}
		} else {
			b := w.matrixOf(i)
			for _, e := range w.rows[b.row:b.lastRow] {
				if e != w.answers[i] && !(c.Filter && isTrainAnswer(known.Answers(q), e)) {
					negatives = append(negatives, e)
				}
			}
		}
		pos := score(q, w.answers[i])
		neg, p := make([]float64, len(negatives)), make([]float64, len(negatives))
		var sum float64
		for j, e := range negatives {
			neg[j] = score(q, e)
			p[j] = math.Exp(c.Adversarial * frozenScore(q, e))
			sum += p[j]
		}
		var loss float64
		switch c.Loss {
		case recipe.Softmax:
			z := math.Exp(pos)
			for _, f := range neg {
				z += math.Exp(f)
			}
			loss = -(1 - c.Smoothing) * (pos - math.Log(z))
			for _, f := range neg {
				loss -= c.Smoothing / float64(len(neg)) * (f - math.Log(z))
			}
		case recipe.NSSA:
			loss = -logSigma(c.Gamma + pos)
			for j, f := range neg {
				loss -= c.LambdaNeg * p[j] / sum * logSigma(-f-c.Gamma)
			}
		case recipe.BCE:
			loss = -(1-c.Smoothing)*logSigma(c.Gamma+pos) - c.Smoothing*logSigma(-c.Gamma-pos)
			for _, f := range neg {
				logOfLabels := c.Smoothing*logSigma(c.Gamma+f) + (1-c.Smoothing)*logSigma(-c.Gamma-f)
				loss -= c.LambdaNeg / float64(len(neg)) * logOfLabels
			}
		case recipe.Margin:
			for j, f := range neg {
				loss += p[j] / sum * max(0, c.Gamma+f-pos)
			}
		}
		total += w.weights[i] * loss
	}
	for i := w.main; i < len(w.queries); i++ {
		for k := w.pairs[i]; k < w.pairs[i+1]; k++ {
			total -= w.zWeights[k-w.pairs[w.main]] * logSigma(c.Gamma+score(w.queries[i], w.rows[w.pairRows[k]]))
		}
	}
	return total + relationLoss(c, score, m.Config().Relations, w) + plainRegulariser(t, c, m, w)
}

// requireTargets checks the targets of a query with kvsall: distinct training answers, and all of them
// unless max_answers is set.
func requireTargets(t testing.TB, c *recipe.Recipe, known kg.Answers, targets []int32) {
	var want []int32
	for _, e := range known.Entities {
		if isTrainAnswer(known, e) {
			want = append(want, e)
		}
	}
	if c.MaxAnswers == 0 {
		require.Equal(t, want, targets)
		return
	}
	require.NotEmpty(t, targets)
	require.Subset(t, want, targets)
	require.LessOrEqual(t, len(targets), c.MaxAnswers)
	distinct := map[int32]bool{}
	for _, e := range targets {
		distinct[e] = true
	}
	require.Len(t, distinct, len(targets))
}

// relationLoss computes the loss of relation prediction from its definition.
func relationLoss(
	c *recipe.Recipe, score func(kg.Query, int32) float64, relations int, w *workload,
) (loss float64) {
	if c.RelationWeight == 0 {
		return 0
	}
	for i, q := range w.queries[:w.main] {
		targets := w.targets(i)
		for _, e := range targets {
			var z float64
			contrast := func(side kg.Side, r int32) {
				candidate := kg.Query{Side: side, Relation: r, Anchor: q.Anchor}
				index := r
				if c.Reciprocal {
					index = 2*r + int32(side)
				}
				if candidate == q || c.RelationNegatives == 0 || slices.Contains(w.relationCandidates, index) {
					z += math.Exp(score(candidate, e))
				}
			}
			for r := range int32(relations) {
				contrast(q.Side, r)
				if c.Reciprocal { // the relation of the query for the other side is a candidate, too
					contrast(1-q.Side, r)
				}
			}
			share := c.RelationWeight * w.weights[i] / float64(len(targets))
			loss -= share * (score(q, e) - math.Log(z))
		}
	}
	return loss
}

// kvsAllByDefinition computes the loss of a query with several targets.
func kvsAllByDefinition(c *recipe.Recipe, targets []int32, entities int, score func(int32) float64) (loss float64) {
	var answers, negatives []float64
	var z float64
	for e := range int32(entities) {
		f := score(e)
		z += math.Exp(f)
		if slices.Contains(targets, e) {
			answers = append(answers, f)
		} else {
			negatives = append(negatives, f)
		}
	}
	n, m := float64(len(answers)), float64(len(negatives))
	smoothing := c.Smoothing
	if m == 0 && c.Loss == recipe.Softmax {
		smoothing = 0
	}
	logSigma := func(x float64) float64 { return -math.Log(1 + math.Exp(-x)) }
	for _, f := range answers {
		if c.Loss == recipe.Softmax {
			loss -= (1 - smoothing) / n * (f - math.Log(z))
		} else {
			loss -= ((1-smoothing)*logSigma(c.Gamma+f) + smoothing*logSigma(-c.Gamma-f)) / n
		}
	}
	for _, f := range negatives {
		if c.Loss == recipe.Softmax {
			loss -= smoothing / m * (f - math.Log(z))
		} else {
			loss -= c.LambdaNeg / m * (smoothing*logSigma(c.Gamma+f) + (1-smoothing)*logSigma(-c.Gamma-f))
		}
	}
	return loss
}

// plainRegulariser computes the regulariser of the first epoch from the definitions.
func plainRegulariser(t testing.TB, c *recipe.Recipe, m model.Model, w *workload) (sum float64) {
	if c.Orthogonality > 0 {
		for _, p := range w.positives {
			sum += c.Orthogonality * plainOrthogonality(c, m, p.Relation) / float64(len(w.positives))
		}
	}
	if c.Regulariser == model.NoPenalty {
		return sum
	}
	return sum + plainPenalties(t, c, m, w)
}

// plainOrthogonality is Σ‖MᵀM − I‖² over the matrices of a relation that map entities.
func plainOrthogonality(c *recipe.Recipe, m model.Model, relation int32) (sum float64) {
	d := c.Dim
	for i, p := range parametersOf(m) {
		if p.Axis != model.PerRelation || p.Name == "relation.cross" {
			continue
		}
		row := m.Tensors()[i][int(relation)*p.Width():][:p.Width()]
		for x := range slices.Chunk(row, d*d) {
			for j := range d {
				for k := range d {
					var product float64
					for l := range d {
						product += float64(x[l*d+j]) * float64(x[l*d+k])
					}
					if j == k {
						product--
					}
					sum += product * product
				}
			}
		}
	}
	return sum
}

// plainPenalties is plainRegulariser without the penalty of orthogonality.
func plainPenalties(t testing.TB, c *recipe.Recipe, m model.Model, w *workload) (sum float64) {
	tensors := m.Tensors()
	// halves returns the weights of a positive's tail query and head query. With kvsall, a positive
	// comes from one query, which has weight 2; the other query has weight 0.
	halves := func(int) (tail, head float64) { return 1, 1 }
	if c.Negatives == recipe.KvsAll {
		var sides []kg.Side
		for q, n := range w.penaltyCounts {
			for range int(n / 2) {
				sides = append(sides, w.queries[q].Side)
			}
		}
		halves = func(i int) (tail, head float64) {
			if sides[i] == kg.Tail {
				return 2, 0
			}
			return 0, 2
		}
	}
	for i, p := range w.positives {
		tail, head := halves(i)
		tail, head = c.DuraProducts*tail, c.DuraProducts*head
		switch {
		case c.Model == "mquine" || c.Model == "mquade":
			sum += matrixPenalty(c, tensors, p, tail, head)
		case slices.ContainsFunc(parametersOf(m)[2:], isRow): // such as TransH, TransR and TransD
			sum += rowPenalty(c, m, p)
		default:
			sum += vectorPenalty(t, c, m, p, tail, head)
		}
	}
	if c.DuraPair > 0 {
		sum += c.DuraPair * thirdPair(t, c, m, w.positives, halves)
	}
	return c.LambdaReg / float64(max(c.RegWarmup, 1)) * sum / float64(len(w.positives))
}

// thirdPair is the sum over positives of dura's third pair, ‖r‖² + products·‖ρ‖². Entry k of ρ is the score
// of the triple's entities with the relation e_k, because the score is linear in the relation.
// The function halves returns twice the weights of ρ in the two directions of a positive.
func thirdPair(
	t testing.TB, c *recipe.Recipe, m model.Model, positives []kg.Triple, halves func(int) (tail, head float64),
) (sum float64) {
	config, width := m.Config(), m.(model.Trainable).Training().Relations.Width
	config.Relations, config.Reciprocal = width, false
	units := make([]float32, width*width)
	for k := range width {
		units[k*width+k] = 1
	}
	linear, err := model.New(config, [][]float32{m.Tensors()[0], units})
	require.NoError(t, err)
	score := scorer(t, linear, nil)
	for i, p := range positives {
		rows := relationRows(c, p.Relation)
		for _, r := range rows {
			for _, v := range m.Tensors()[1][int(r)*width:][:width] {
				sum += float64(v) * float64(v) / float64(len(rows))
			}
		}
		tail, head := halves(i)
		for k := range int32(width) {
			rho := score(kg.Query{Side: kg.Tail, Relation: k, Anchor: p.Head}, p.Tail)
			inverse := rho
			if c.Reciprocal {
				inverse = score(kg.Query{Side: kg.Tail, Relation: k, Anchor: p.Tail}, p.Head)
			}
			sum += c.DuraProducts / 2 * (tail*rho*rho + head*inverse*inverse)
		}
	}
	return sum
}

func mapsEntities(p model.Parameter) bool { return p.Maps }

func isRow(p model.Parameter) bool { return p.Axis != model.Global }

// rowPenalty is the penalty on a triple in models whose penalties are sums over all parameters.
func rowPenalty(c *recipe.Recipe, m model.Model, t kg.Triple) (sum float64) {
	n := map[model.Penalty]float64{model.Frobenius: 2, model.N3: 3}[c.Regulariser]
	for i, p := range parametersOf(m) {
		rows := []int32{t.Relation}
		if p.Axis == model.PerEntity {
			rows = []int32{t.Head, t.Tail}
		}
		for _, row := range rows {
			for _, v := range m.Tensors()[i][int(row)*p.Width():][:p.Width()] {
				sum += math.Pow(math.Abs(float64(v)), n)
			}
		}
	}
	return sum
}

// matrixPenalty is the penalty on a triple in MQuinE and MQuadE.
func matrixPenalty(c *recipe.Recipe, tensors [][]float32, t kg.Triple, tail, head float64) (sum float64) {
	d := c.Dim
	entity := func(e int32) [][]float64 {
		m, at := plainMatrix(d), int(e)*d*(d+1)/2
		for i := range d {
			for j := range i + 1 {
				m[i][j] += float64(tensors[0][at])
				m[j][i] += float64(tensors[0][at])
				at++
			}
		}
		return m
	}
	relations := relationRows(c, t.Relation)
	relation := func(i int, r int32) [][]float64 {
		m := plainMatrix(d)
		for row := range d {
			for col := range d {
				m[row][col] = float64(tensors[i][(int(r)*d+row)*d+col])
			}
		}
		return m
	}
	power := func(m [][]float64, n float64) (sum float64) {
		for _, row := range m {
			for _, v := range row {
				sum += math.Pow(math.Abs(v), n)
			}
		}
		return sum
	}
	n := 2.0
	switch c.Regulariser {
	case model.Dura, model.Dura3:
		norm := func(m [][]float64) float64 { return power(m, 2) } // its square or its cube
		if c.Regulariser == model.Dura3 {
			norm = func(m [][]float64) float64 { return math.Pow(power(m, 2), 1.5) }
		}
		sum = duraProducts(c, tail, head,
			func(r int) float64 { return norm(plainProduct(entity(t.Head), relation(1, relations[r]))) },
			func(r int) float64 { return norm(plainProduct(relation(2, relations[r]), entity(t.Tail))) },
			func(r int) float64 { return norm(plainProduct(entity(t.Tail), relation(1, relations[r]))) },
			func(r int) float64 { return norm(plainProduct(relation(2, relations[r]), entity(t.Head))) })
		sum += norm(entity(t.Head)) + norm(entity(t.Tail))
		if c.Model == "mquine" {
			for _, r := range relations {
				sum += norm(relation(3, r))
			}
		}
		return sum
	case model.N3:
		n = 3
	}
	sum = power(entity(t.Head), n) + power(entity(t.Tail), n)
	for i := range tensors[1:] {
		for _, r := range relations {
			sum += power(relation(i+1, r), n)
		}
	}
	return sum
}

// relationRows returns the rows of the relation tensors that belong to a relation: its own and, with
// reciprocal relations, the row of its inverse.
func relationRows(c *recipe.Recipe, r int32) []int32 {
	if c.Reciprocal {
		return []int32{2 * r, 2*r + 1}
	}
	return []int32{r}
}

// vectorPenalty is the penalty on a triple in all other models, whose entities are vectors.
func vectorPenalty(t testing.TB, c *recipe.Recipe, m model.Model, x kg.Triple, tail, head float64) float64 {
	parameters := parametersOf(m)[:2]
	relations := relationRows(c, x.Relation)
	row := func(table int, i int32) []float32 {
		width := parameters[table].Width()
		if parameters[table].Axis == model.PerRelation {
			width /= len(relations)
		}
		return m.Tensors()[table][int(i)*width:][:width]
	}
	n := 2.0
	if c.Regulariser == model.N3 {
		n = 3
	}
	power := func(table int, i int32) (sum float64) {
		values := row(table, i)
		half := len(values) / 2
		for k, v := range values {
			switch {
			case !parameters[table].Pairs:
				sum += math.Pow(math.Abs(float64(v)), n)
			case k < half:
				sum += math.Pow(math.Hypot(float64(v), float64(values[half+k])), n)
			}
		}
		return sum
	}
	sum := power(0, x.Head) + power(0, x.Tail)
	if c.Regulariser != model.Dura {
		if slices.Contains(freeRelations, c.Model) {
			return sum
		}
		for _, r := range relations {
			sum += power(1, r)
		}
		return sum
	}
	norm := querySquares(t, c, m)
	vector := func(e int32, side kg.Side) func(r int) float64 {
		return func(r int) float64 { return norm(kg.Query{Side: side, Relation: relations[r], Anchor: e}) }
	}
	return sum + duraProducts(c, tail, head,
		vector(x.Head, kg.Tail), vector(x.Tail, kg.Head), vector(x.Tail, kg.Tail), vector(x.Head, kg.Head))
}

// freeRelations are the models whose penalties leave out the relation: its phases, weights or
// rotations do not grow.
var freeRelations = []string{"rotate", "rotate-l2", "dihedral", "ote", "house"}

// querySquares returns a function that computes the squares ‖ψ‖² of query vectors from reference
// scores alone. The score f(q, x) of a candidate with row x is ψ·x plus a constant of the query, so
// entry j of ψ is the difference of the scores of the j-th unit vector and of the zero vector. With
// reciprocal relations, Query.Relation is the row of the relation, and both sides are defined.
func querySquares(t testing.TB, c *recipe.Recipe, m model.Model) func(q kg.Query) float64 {
	config, tensors := m.Config(), slices.Clone(m.Tensors())
	n, width := int32(config.Entities), parametersOf(m)[0].Width()
	// Entity n is the zero vector, and entity n + 1 + j the j-th unit vector.
	units := make([]float32, (width+1)*width)
	for j := range width {
		units[(j+1)*width+j] = 1
	}
	tensors[0] = slices.Concat(tensors[0], units)
	config.Entities += width + 1
	if config.Reciprocal {
		config.Relations, config.Reciprocal = 2*config.Relations, false
	}
	linear, err := model.New(config, tensors)
	require.NoError(t, err)
	score := scorer(t, linear, nil)
	return func(q kg.Query) (sum float64) {
		constant := score(q, n)
		product := constant // with the anchor as a candidate
		for j, x := range tensors[0][int(q.Anchor)*width:][:width] {
			psi := score(q, n+1+int32(j)) - constant
			sum += psi * psi
			product += psi * float64(x)
		}
		want := score(q, q.Anchor)
		require.InDelta(t, want, product, 1e-9*(1+math.Abs(want)),
			"the score of %s is not linear in the row of a candidate: compute its dura in plainPenalties, as "+
				"matrixPenalty does (docs/adding-a-model.md, step 6)", c.Model)
		return sum
	}
}

// duraProducts returns the terms of dura that contain the relation, given the weights of the tail query and
// of the head query. The functions return the squares of the vectors of one entity with relation 0
// or, for reciprocal relations, with its inverse 1: the head and the tail of the triple, and the
// head and the tail of its inverse.
func duraProducts(
	c *recipe.Recipe, tail, head float64, ofHead, ofTail, ofInverseHead, ofInverseTail func(r int) float64,
) float64 {
	if !c.Reciprocal {
		return tail*ofHead(0) + head*ofTail(0)
	}
	return (tail*(ofHead(0)+ofTail(0)) + head*(ofInverseHead(1)+ofInverseTail(1))) / 2
}

// trainerFor returns a trainer whose parameters have no symmetry.
func trainerFor(t testing.TB, c recipe.Recipe, g *kg.Graph, b *kernel.Backend, threads int) *Trainer {
	t.Helper()
	tr, err := NewTrainer(t.Context(), c, g, Machine{Backend: b, Threads: threads})
	require.NoError(t, err)
	draws := initial.NewSource(c.Seed, 99)
	for _, tensor := range tr.model.Tensors() {
		for i := range tensor {
			tensor[i] += float32(0.15 * draws.Normal())
		}
	}
	return tr
}

// gradientTests are recipes whose gradients are checked, with d = 3 unless they set a different
// dimension.
var gradientTests = []struct {
	name   string
	change func(*recipe.Recipe)
}{
	{"softmax over all", func(c *recipe.Recipe) {}},
	{"softmax over all, filtered, smoothed", func(c *recipe.Recipe) { c.Filter, c.Smoothing = true, 0.2 }},
	{"more rows than a vector has", func(c *recipe.Recipe) { c.Dim, c.Batch = 9, 4 }},
	{"pairs of more numbers than a vector has", func(c *recipe.Recipe) {
		c.Batch, c.Negatives, c.NegativeCount, c.Loss, c.Gamma = 4, recipe.IndependentNegatives, 3, recipe.Margin, 140
		if c.Dim = 9; c.Model != "mquine" && c.Model != "mquade" && networks[c.Model] == nil {
			c.Dim = 70
			if strings.HasPrefix(c.Model, "transr") {
				c.Dim = 20 // each of its parameters moves many coordinates, so differences cross kinks if d = 70
			}
		}
	}},
	{"one dimension", func(c *recipe.Recipe) { c.Dim = 1 }},
	{"shared softmax", func(c *recipe.Recipe) { c.Negatives, c.NegativeCount = recipe.SharedNegatives, 5 }},
	{"shared softmax, anchors", func(c *recipe.Recipe) {
		c.Negatives, c.NegativeCount, c.AnchorNegatives = recipe.SharedNegatives, 4, true
	}},
	{"more shared negatives than entities", func(c *recipe.Recipe) {
		c.Negatives, c.NegativeCount = recipe.SharedNegatives, 50
	}},
	{"bce over all", func(c *recipe.Recipe) { c.Loss, c.Gamma, c.Smoothing = recipe.BCE, 2, 0.1 }},
	{"margin, shared, adversarial", func(c *recipe.Recipe) {
		c.Negatives, c.NegativeCount, c.Filter = recipe.SharedNegatives, 6, true
		c.Loss, c.Gamma, c.Adversarial = recipe.Margin, 3, 0.7
	}},
	{"dura", func(c *recipe.Recipe) { c.Regulariser, c.LambdaReg = model.Dura, 0.3 }},
	{"dura, rising", func(c *recipe.Recipe) { c.Regulariser, c.LambdaReg, c.RegWarmup = model.Dura, 0.9, 3 }},
	{"dura, weighted products", func(c *recipe.Recipe) {
		c.Regulariser, c.LambdaReg, c.DuraProducts = model.Dura, 0.3, 1.7
	}},
	{"dura3", func(c *recipe.Recipe) { c.Regulariser, c.LambdaReg = model.Dura3, 0.1 }},
	{"dura3, weighted products, kvsall", func(c *recipe.Recipe) {
		c.Regulariser, c.LambdaReg, c.DuraProducts, c.Negatives = model.Dura3, 0.1, 1.7, recipe.KvsAll
	}},
	{"dura3, weighted products, reciprocal", func(c *recipe.Recipe) {
		c.Regulariser, c.LambdaReg, c.DuraProducts, c.Reciprocal = model.Dura3, 0.1, 2, true
	}},
	{"dura, pair", func(c *recipe.Recipe) {
		c.Regulariser, c.LambdaReg, c.DuraProducts, c.DuraPair = model.Dura, 0.3, 0.4, 1.3
	}},
	{"dura, pair, kvsall, relations, reciprocal", func(c *recipe.Recipe) {
		c.Regulariser, c.LambdaReg, c.DuraProducts, c.DuraPair = model.Dura, 0.3, 3, 0.8
		c.Negatives, c.RelationWeight, c.Reciprocal = recipe.KvsAll, 0.5, true
	}},
	{"orthogonality", func(c *recipe.Recipe) { c.Orthogonality = 0.4 }},
	{"orthogonality, dura, reciprocal, kvsall", func(c *recipe.Recipe) {
		c.Orthogonality, c.Dim, c.Reciprocal, c.Negatives = 0.1, 9, true, recipe.KvsAll
		c.Regulariser, c.LambdaReg, c.Batch = model.Dura, 0.1, 5
	}},
	{"n3", func(c *recipe.Recipe) { c.Regulariser, c.LambdaReg = model.N3, 0.3 }},
	{"n3, rising", func(c *recipe.Recipe) { c.Regulariser, c.LambdaReg, c.RegWarmup = model.N3, 0.6, 2 }},
	{"paper", func(c *recipe.Recipe) {
		applyPaper("fb15k-237", c)
		c.Dim, c.Batch, c.NegativeCount, c.ZSamples, c.Gamma = 4, 14, 7, 5, 2
	}},
	{"paper, without Z", func(c *recipe.Recipe) {
		applyPaper("wn18", c)
		c.Dim, c.Batch, c.NegativeCount, c.ZSamples, c.LambdaNeg = 3, 14, 4, 0, 0.5
	}},
	{"unsquared", func(c *recipe.Recipe) { c.Unsquared, c.Smoothing, c.Filter = true, 0.2, true }},
	{"unsquared, paper", func(c *recipe.Recipe) {
		applyPaper("codex-s", c)
		c.Unsquared, c.Dim, c.Batch, c.NegativeCount, c.ZSamples, c.Gamma = true, 4, 14, 7, 5, 2
	}},
	{"unsquared, kvsall, smoothed, Z, dura", func(c *recipe.Recipe) {
		c.Unsquared, c.Negatives, c.Smoothing, c.ZSamples, c.Gamma = true, recipe.KvsAll, 0.2, 3, 1
		c.Regulariser, c.LambdaReg = model.Dura, 0.3
	}},
	{"unsquared, kvsall, bce, reciprocal", func(c *recipe.Recipe) {
		c.Unsquared, c.Negatives, c.Loss, c.Gamma, c.Reciprocal = true, recipe.KvsAll, recipe.BCE, 1, true
	}},
	{"unsquared, shared, margin", func(c *recipe.Recipe) {
		c.Unsquared, c.Negatives, c.NegativeCount, c.Filter = true, recipe.SharedNegatives, 6, true
		c.Loss, c.Gamma, c.Adversarial = recipe.Margin, 1, 0.7
	}},
	{"shared, Z, degree, subsampling", func(c *recipe.Recipe) {
		c.Negatives, c.NegativeCount, c.ZSamples, c.LambdaZ, c.Filter = recipe.SharedNegatives, 8, 3, 0.4, true
		c.Distribution, c.Subsampling, c.Gamma = recipe.Degree, true, 4
	}},
	{"kvsall", func(c *recipe.Recipe) { c.Negatives = recipe.KvsAll }},
	{"kvsall, weighted", func(c *recipe.Recipe) { c.Negatives, c.AnswerWeights = recipe.KvsAll, true }},
	{"kvsall, smoothed, frobenius, Z", func(c *recipe.Recipe) {
		c.Negatives, c.Smoothing, c.ZSamples, c.Gamma = recipe.KvsAll, 0.2, 3, 3
		c.Regulariser, c.LambdaReg = model.Frobenius, 0.3
	}},
	{"kvsall in parts, weighted, smoothed", func(c *recipe.Recipe) {
		c.Negatives, c.MaxAnswers, c.AnswerWeights, c.Smoothing = recipe.KvsAll, 2, true, 0.2
	}},
	{"kvsall in parts, dura, pair", func(c *recipe.Recipe) {
		c.Negatives, c.MaxAnswers, c.Regulariser, c.LambdaReg = recipe.KvsAll, 3, model.Dura, 0.3
		c.DuraPair = 0.8
	}},
	{"kvsall in parts, dura, relations, reciprocal, Z", func(c *recipe.Recipe) {
		c.Negatives, c.MaxAnswers, c.Regulariser, c.LambdaReg = recipe.KvsAll, 1, model.Dura, 0.3
		c.RelationWeight, c.Reciprocal, c.ZSamples, c.Gamma = 2, true, 3, 3
	}},
	{"kvsall, dura", func(c *recipe.Recipe) {
		c.Negatives, c.Regulariser, c.LambdaReg = recipe.KvsAll, model.Dura, 0.3
	}},
	{"kvsall, bce, smoothed", func(c *recipe.Recipe) {
		c.Negatives, c.Loss, c.Gamma, c.Smoothing, c.LambdaNeg = recipe.KvsAll, recipe.BCE, 2, 0.1, 0.7
	}},
	{"bf16x2", func(c *recipe.Recipe) { c.Products = recipe.SplitBF16 }},
	{"reciprocal", func(c *recipe.Recipe) { c.Reciprocal = true }},
	{"reciprocal, kvsall, dura", func(c *recipe.Recipe) {
		c.Reciprocal, c.Negatives, c.Regulariser, c.LambdaReg = true, recipe.KvsAll, model.Dura, 0.3
	}},
	{"reciprocal, shared, Z, dura", func(c *recipe.Recipe) {
		c.Reciprocal, c.Regulariser, c.LambdaReg, c.DuraProducts = true, model.Dura, 0.3, 2
		c.Negatives, c.NegativeCount, c.ZSamples, c.Gamma = recipe.SharedNegatives, 6, 3, 3
	}},
	{"reciprocal, n3, Z, shared", func(c *recipe.Recipe) {
		c.Reciprocal, c.Regulariser, c.LambdaReg, c.ZSamples, c.Gamma = true, model.N3, 0.3, 3, 3
		c.Negatives, c.NegativeCount, c.Filter = recipe.SharedNegatives, 6, true
	}},
	{"degree weights, subsampling", func(c *recipe.Recipe) { c.DegreeWeights, c.Subsampling = true, true }},
	{"relations", func(c *recipe.Recipe) { c.RelationWeight = 4 }},
	{"relations, shared, margin, dura", func(c *recipe.Recipe) {
		c.RelationWeight, c.Negatives, c.NegativeCount, c.Loss = 0.5, recipe.SharedNegatives, 5, recipe.Margin
		c.Regulariser, c.LambdaReg, c.Dim = model.Dura, 0.3, 5
	}},
	{"relations, kvsall, reciprocal", func(c *recipe.Recipe) {
		c.RelationWeight, c.Negatives, c.Reciprocal = 2, recipe.KvsAll, true
	}},
	{"relations, sampled", func(c *recipe.Recipe) { c.RelationWeight, c.RelationNegatives = 3, 2 }},
	{"relations, sampled, kvsall, weighted, dura", func(c *recipe.Recipe) {
		c.RelationWeight, c.RelationNegatives, c.Negatives, c.AnswerWeights = 2, 1, recipe.KvsAll, true
		c.Regulariser, c.LambdaReg = model.Dura, 0.3
	}},
	{"relations, sampled, shared, reciprocal", func(c *recipe.Recipe) {
		c.RelationWeight, c.RelationNegatives, c.Reciprocal = 1.5, 3, true
		c.Negatives, c.NegativeCount = recipe.SharedNegatives, 4
	}},
	{"relations, bernoulli", func(c *recipe.Recipe) {
		c.Negatives, c.NegativeCount, c.Distribution = recipe.IndependentNegatives, 4, recipe.Bernoulli
		c.RelationWeight, c.RelationNegatives, c.Dim = 0.7, 2, 9
	}},
	{"relations, independent, reciprocal, Z, n3", func(c *recipe.Recipe) {
		c.RelationWeight, c.Negatives, c.NegativeCount, c.Reciprocal = 1, recipe.IndependentNegatives, 3, true
		c.ZSamples, c.Filter, c.Gamma, c.Regulariser, c.LambdaReg = 3, true, 3, model.N3, 0.3
	}},
	{"bernoulli", func(c *recipe.Recipe) {
		c.Negatives, c.NegativeCount, c.Distribution = recipe.IndependentNegatives, 8, recipe.Bernoulli
		c.Loss = recipe.NSSA
		c.Gamma = 3
	}},
}

// applyPaper applies the paper's preset, except for the model and the initial cross matrix, which
// only MQuinE has.
func applyPaper(row string, c *recipe.Recipe) {
	paper, err := recipe.Preset("paper", row)
	if err != nil {
		panic(err) // the row exists
	}
	paper.Model, paper.InitCross = c.Model, c.InitCross
	*c = paper
}

// The gradients of every model equal central differences of the loss in float64. Dihedral's weights
// are an exception.
func TestGradients(t *testing.T) {
	for _, name := range model.Names() {
		t.Run(name, func(t *testing.T) {
			for _, test := range gradientTests {
				c := recipe.Default()
				c.Model, c.Dim, c.Batch, c.Dropout = name, 3, 14, 0
				spec, err := model.Lookup(name)
				require.NoError(t, err)
				if spec.Start.Cross != "" {
					c.InitCross = recipe.IdentityCross
				}
				test.change(&c)
				c.Reciprocal = c.Reciprocal || spec.TrainReciprocal
				config, err := model.StartConfig(c.ModelConfig(1, 1), c.Start())
				require.NoError(t, err)
				m, err := model.Unfilled(config)
				require.NoError(t, err)
				if c.Products == recipe.SplitBF16 && (m.Training().Distance != nil || m.Training().Region != nil) {
					require.ErrorContains(t, c.Check(), "computes distances")
					continue
				}
				if !slices.Contains(m.Training().Penalties, c.Regulariser) {
					require.ErrorContains(t, c.Check(), fmt.Sprintf("does not support %s", c.Regulariser))
					continue
				}
				if c.Unsquared && !m.Training().Squared {
					require.ErrorContains(t, c.Check(), "is not a squared norm")
					continue
				}
				parameters, err := model.Parameters(config)
				require.NoError(t, err)
				if c.Orthogonality > 0 && !slices.ContainsFunc(parameters, mapsEntities) {
					require.Error(t, c.Check())
					continue
				}
				if c.DuraPair > 0 && m.Training().Relations == nil {
					require.ErrorContains(t, c.Check(), "is not linear in the relation's parameters")
					continue
				}
				if err := c.Check(); c.RelationWeight > 0 && err != nil {
					require.Nil(t, m.Training().Relations)
					require.ErrorContains(t, err, "relation_weight: ")
					require.True(t, networks[name] != nil || model.DependenceOf(m) != model.OnEntity)
					continue
				}
				t.Run(test.name, func(t *testing.T) { checkAllGradients(t, c) })
			}
		})
	}
}

func checkAllGradients(t *testing.T, c recipe.Recipe) {
	g := traintest.RandomGraph(8, 3, 40, 3)
	backends, err := kernel.Available()
	require.NoError(t, err)
	for _, b := range backends {
		if c.CheckBackend(b) != nil {
			continue
		}
		tr := trainerFor(t, c, g, b, 2)
		w, err := tr.prepare(t.Context(), firstItems(c.Batch), 0)
		require.NoError(t, err)
		checkGradients(t, tr, w)
		// With at least 7 negatives, there are enough pairs for slices of 4 of the 8 rows.
		enough := c.Negatives == recipe.IndependentNegatives && c.NegativeCount >= 7
		if enough && model.DependenceOf(tr.model) == model.OnEntity {
			tr.stepper.sliceRows, tr.stepper.fewestSlices = 4, 2
			checkGradients(t, tr, w)
			require.True(t, tr.stepper.sliced)
		}
	}
}

// Steps with products in bfloat16 have nearly the same loss and the same gradients as steps in float32.
// TestGradients checks the latter.
func TestBFloat16Step(t *testing.T) {
	for _, products := range []recipe.Products{recipe.BF16, recipe.TileBF16} {
		t.Run(string(products), func(t *testing.T) { testBFloat16Step(t, products) })
	}
}

func testBFloat16Step(t *testing.T, products recipe.Products) {
	backend := kerneltest.Best(t)
	g := traintest.RandomGraph(50, 3, 200, 3)
	for _, name := range []string{"mquine", "complex", "rescal", "complex with relation prediction"} {
		c := recipe.Default()
		c.Model, c.Dim, c.Batch, c.Dropout = strings.Fields(name)[0], 12, 64, 0
		c.Negatives, c.NegativeCount = recipe.SharedNegatives, 30
		if strings.Contains(name, "relation") {
			c.RelationWeight = 4
		}
		step := func(products recipe.Products) (Loss, []float32) {
			c.Products = products
			if err := c.CheckBackend(backend); err != nil {
				t.Skip(err)
			}
			tr := trainerFor(t, c, g, backend, 2)
			w, err := tr.prepare(t.Context(), firstItems(c.Batch), 0)
			require.NoError(t, err)
			loss := runStep(t, tr, w)
			return loss, slices.Concat(entries(tr.kept.entities), entries(tr.kept.relations))
		}
		want, exact := step(recipe.Float32)
		loss, rounded := step(products)
		assert.InEpsilon(t, want.Total, loss.Total, 0x1p-8, name)
		if c.RelationWeight > 0 {
			assert.NotEqual(t, want.Relations, loss.Relations, name)
		}
		var errors, squares float64
		for i, x := range exact {
			errors += math.Pow(float64(x)-float64(rounded[i]), 2)
			squares += float64(x) * float64(x)
		}
		assert.NotZero(t, errors, name)
		assert.Less(t, math.Sqrt(errors/squares), 0x1p-7, name)
	}
}

// A step in slices of rows has the same loss and the same gradients, bit for bit, if the score is a
// dot product.
func TestPairSlices(t *testing.T) {
	c := recipe.Default()
	c.Model, c.Dim, c.Batch, c.ZSamples, c.Filter = "distmult", 33, 30, 2, true
	c.Negatives, c.NegativeCount, c.Loss, c.Gamma = recipe.IndependentNegatives, 20, recipe.NSSA, 3
	g := traintest.RandomGraph(50, 3, 200, 3)
	backend := kerneltest.Best(t)
	for _, threads := range []int{1, 3} {
		tr := trainerFor(t, c, g, backend, threads)
		w, err := tr.prepare(t.Context(), firstItems(c.Batch), 0)
		require.NoError(t, err)
		tr.stepper.sortPairs(w) // so the order of the sums is the same
		loss := runStep(t, tr, w)
		want := slices.Concat(entries(tr.kept.entities), entries(tr.kept.relations))
		require.False(t, tr.stepper.sliced)
		for _, rows := range []int{10, 17, len(w.rows) - 1} {
			tr.stepper.sliceRows, tr.stepper.fewestSlices = rows, 2
			assert.Equal(t, loss, runStep(t, tr, w), "%d rows", rows)
			require.True(t, tr.stepper.sliced)
			assert.Equal(t, want, slices.Concat(entries(tr.kept.entities), entries(tr.kept.relations)), "%d rows", rows)
		}
	}
}

func entries(m linalg.Matrix) (all []float32) {
	for i := range m.Rows {
		all = append(all, m.Row(i)...)
	}
	return all
}

func firstItems(n int) []int32 {
	items := make([]int32, n)
	for i := range items {
		items[i] = int32(i)
	}
	return items
}

// runStep computes the loss of a workload and its gradients, and leaves the gradients in tr.kept.
func runStep(t *testing.T, tr *Trainer, w *workload) Loss {
	t.Helper()
	tr.kept.begin(tr.stepper.begin(w), tr.stepper.tables)
	loss, err := tr.stepper.compute(t.Context(), w, &tr.kept)
	require.NoError(t, err)
	return loss
}

// λ_reg rises linearly during its warm-up.
func TestRegWarmup(t *testing.T) {
	g := traintest.RandomGraph(8, 3, 40, 3)
	penalty := func(warmup, epoch int) float64 {
		c := recipe.Default()
		c.Dim, c.Batch, c.Regulariser, c.RegWarmup = 3, 14, model.Dura, warmup
		tr := trainerFor(t, c, g, machineOf(t, 1).Backend, 1)
		w, err := tr.prepare(t.Context(), firstItems(4), 0)
		require.NoError(t, err)
		w.epoch = epoch
		return runStep(t, tr, w).Regulariser
	}
	whole := penalty(0, 0)
	require.NotZero(t, whole)
	for epoch, share := range []float64{0.25, 0.5, 0.75, 1, 1, 1} {
		assert.InEpsilon(t, share*whole, penalty(4, epoch), 1e-12)
	}
	assert.Equal(t, whole, penalty(1, 0))
}

// With kvsall, an epoch uses every training answer to every distinct query once. Queries with more than
// max_answers are divided into parts, and the positives of a batch are the triples of its parts.
func TestKvsAllWorkload(t *testing.T) {
	for _, weighted := range []bool{false, true} {
		for _, most := range []int{0, 1, 2, 3, 100} {
			t.Run(fmt.Sprintf("answer weights %v, at most %d", weighted, most), func(t *testing.T) {
				checkKvsAllWorkload(t, weighted, most)
			})
		}
	}
}

func checkKvsAllWorkload(t *testing.T, weighted bool, most int) {
	g := traintest.RandomGraph(12, 3, 60, 3)
	c := recipe.Default()
	c.Dim, c.Batch, c.Negatives, c.AnswerWeights, c.MaxAnswers = 3, 7, recipe.KvsAll, weighted, most
	tr := trainerFor(t, c, g, kerneltest.Best(t), 2)
	want, answers, positives := map[kg.Query]int{}, map[kg.Query]int{}, map[kg.Triple]int{}
	for _, triple := range g.Splits[kg.Train] {
		if positives[triple] > 0 {
			continue
		}
		positives[triple] = 2
		for _, side := range []kg.Side{kg.Tail, kg.Head} {
			q, _ := triple.Query(side)
			answers[q]++
		}
	}
	items := 0
	for q, n := range answers {
		want[q] = 1
		if most > 0 {
			want[q] = (n + most - 1) / most
		}
		items += want[q]
	}
	require.Equal(t, items, tr.items())
	tr.shuffle()
	asked := map[kg.Query]int{}
	for batch := range slices.Chunk(tr.order, c.Batch) {
		w, err := tr.prepare(t.Context(), batch, 0)
		require.NoError(t, err)
		require.Len(t, w.weights, len(batch))
		shares, sum := make([]float64, len(batch)), 0.0
		var triples []kg.Triple
		for i, q := range w.queries {
			n := len(w.targets(i))
			require.GreaterOrEqual(t, n, answers[q]/want[q])
			require.LessOrEqual(t, n, (answers[q]+want[q]-1)/want[q])
			require.EqualValues(t, 2*n, w.penaltyCounts[i])
			shares[i] = float64(n)
			if !weighted {
				shares[i] /= float64(answers[q])
			}
			sum += shares[i]
			asked[q]++
			for _, e := range w.targets(i) {
				triples = append(triples, q.Triple(e))
			}
		}
		for i := range shares {
			require.InEpsilon(t, shares[i]/sum, w.weights[i], 1e-14)
		}
		require.Equal(t, triples, w.positives)
		for _, triple := range w.positives {
			positives[triple]--
		}
	}
	assert.Equal(t, want, asked)
	for triple, left := range positives {
		assert.Zero(t, left, triple)
	}
	e, err := tr.Epoch(t.Context())
	require.NoError(t, err)
	assert.Equal(t, (items+c.Batch-1)/c.Batch, tr.optimiser.step)
	assert.Positive(t, e.Loss.Total)
}

// The parts of a query depend on the epoch and the seed alone, and differ between epochs and queries.
func TestQueryPartsShuffle(t *testing.T) {
	// Entity 0 and entity 1 have the same 30 tails, and entity 2 has one.
	g := &kg.Graph{Name: "popular", Entities: kg.NewVocabulary(), Relations: kg.NewVocabulary()}
	g.Relations.Add("r")
	for i := range int32(33) {
		g.Entities.Add(fmt.Sprint(i))
		if i >= 3 {
			g.Splits[kg.Train] = append(g.Splits[kg.Train], kg.Triple{Head: 0, Tail: i}, kg.Triple{Head: 1, Tail: i})
		}
	}
	g.Splits[kg.Train] = append(g.Splits[kg.Train], kg.Triple{Head: 2, Tail: 3})
	known := kgtest.Index(t, g)
	answersIn := func(seed uint64, epochs ...int) map[kg.Query][]int32 {
		p, err := newQueryParts(t.Context(), g.Splits[kg.Train], known, 4, seed)
		require.NoError(t, err)
		for _, epoch := range epochs {
			p.shuffle(epoch)
		}
		answers := map[kg.Query][]int32{}
		for _, item := range p.items {
			answers[item.Query] = append(answers[item.Query], p.targets(item)...)
		}
		return answers
	}
	first, second := answersIn(1, 0), answersIn(1, 1)
	assert.Equal(t, second, answersIn(1, 0, 1))
	tailsOf := func(e int32) kg.Query { return kg.Query{Side: kg.Tail, Anchor: e} }
	zero, one := tailsOf(0), tailsOf(1)
	for _, q := range []kg.Query{zero, one} {
		assert.NotEqual(t, first[q], second[q])
		assert.NotEqual(t, answersIn(2, 1)[q], second[q])
		assert.ElementsMatch(t, answersIn(1)[q], second[q])
	}
	assert.NotEqual(t, second[zero], second[one])
	assert.Equal(t, []int32{3}, second[tailsOf(2)])
}

// In a step with all triples, parts with one answer have the loss and the gradients of 1-vs-all.
func TestPartsOfOneAnswer(t *testing.T) {
	g := traintest.RandomGraph(20, 3, 90, 3)
	backend := kerneltest.Best(t)
	for _, penalty := range []model.Penalty{model.Frobenius, model.N3, model.Dura} {
		for _, reciprocal := range []bool{false, true} {
			var losses []Loss
			var steps []gradients
			for _, negatives := range []recipe.Negatives{recipe.OneVsAll, recipe.KvsAll} {
				c := recipe.Default()
				c.Model, c.Dim, c.Dropout, c.Negatives, c.Batch = "complex", 5, 0, negatives, len(g.Splits[kg.Train])
				c.Regulariser, c.LambdaReg, c.RelationWeight, c.Reciprocal = penalty, 0.3, 0.7, reciprocal
				if negatives == recipe.KvsAll {
					c.Batch, c.MaxAnswers, c.AnswerWeights = 2*c.Batch, 1, true
				}
				tr := trainerFor(t, c, g, backend, 1)
				w, err := tr.prepare(t.Context(), firstItems(tr.items()), 0)
				require.NoError(t, err)
				losses, steps = append(losses, runStep(t, tr, w)), append(steps, tr.kept)
			}
			assert.InEpsilon(t, losses[0].Fit, losses[1].Fit, 1e-6)
			assert.InEpsilon(t, losses[0].Relations, losses[1].Relations, 1e-6)
			assert.InEpsilon(t, losses[0].Regulariser, losses[1].Regulariser, 1e-6)
			for k := range steps[0].entities.Rows {
				assert.InDeltaSlice(t, steps[0].entities.Row(k), steps[1].entities.Row(k), 1e-6)
			}
			for k := range steps[0].relations.Rows {
				assert.InDeltaSlice(t, steps[0].relations.Row(k), steps[1].relations.Row(k), 1e-6)
			}
		}
	}
}

// Queries to which every entity is an answer have no negatives.
func TestKvsAllWithoutNegatives(t *testing.T) {
	for _, loss := range []recipe.Loss{recipe.Softmax, recipe.BCE} {
		g := &kg.Graph{Name: "full", Entities: kg.NewVocabulary(), Relations: kg.NewVocabulary()}
		g.Relations.Add("r")
		for i := range int32(3) {
			g.Entities.Add(string(rune('a' + i)))
			for j := range int32(3) {
				g.Splits[kg.Train] = append(g.Splits[kg.Train], kg.Triple{Head: i, Relation: 0, Tail: j})
			}
		}
		c := recipe.Default()
		c.Dim, c.Batch, c.Dropout, c.Negatives, c.Loss, c.Smoothing, c.Gamma = 2, 6, 0, recipe.KvsAll, loss, 0.2, 1
		tr := trainerFor(t, c, g, kerneltest.Best(t), 1)
		w, err := tr.prepare(t.Context(), firstItems(6), 0)
		require.NoError(t, err)
		checkGradients(t, tr, w)
	}
}

// With unsquared, the gradients of triples whose norm is 0 are finite.
func TestUnsquaredAtZero(t *testing.T) {
	c := recipe.Default()
	c.Dim, c.Batch, c.Unsquared, c.Dropout = 3, 14, true, 0
	c.Negatives, c.NegativeCount, c.ZSamples, c.Filter = recipe.SharedNegatives, 4, 3, true
	tr := trainerFor(t, c, traintest.RandomGraph(8, 3, 40, 3), machineOf(t, 1).Backend, 1)
	w, err := tr.prepare(t.Context(), firstItems(14), 0)
	require.NoError(t, err)
	clear(tr.model.Tensors()[0])
	loss := runStep(t, tr, w)
	require.True(t, loss.finite())
	require.NotZero(t, loss.Z)
	for _, gradients := range [][]float32{tr.kept.entities.Data, tr.kept.relations.Data} {
		for _, v := range gradients {
			require.Zero(t, v)
		}
	}
}

func checkGradients(t *testing.T, tr *Trainer, w *workload) {
	t.Helper()
	tensors := tr.model.Tensors()
	c, s := &tr.config, tr.stepper
	copies := make([][]float32, len(tensors))
	for i := range tensors {
		copies[i] = append([]float32(nil), tensors[i]...)
	}
	frozen, err := model.New(tr.model.Config(), copies)
	require.NoError(t, err)
	byDefinition := func() float64 { return lossByDefinition(t, c, tr.known, tr.model, frozen, w) }
	loss := runStep(t, tr, w)
	want := byDefinition()
	require.InEpsilon(t, want, loss.Total, 1e-5, "loss")
	assert.NotZero(t, want)
	if c.ZSamples > 0 {
		assert.NotZero(t, loss.Z)
	}

	got := make([][]float32, len(tensors))
	for i := range tensors {
		got[i] = make([]float32, len(tensors[i]))
	}
	for k, e := range s.used.entities {
		copy(got[0][int(e)*s.tables[0].width:], tr.kept.entities.Row(k))
	}
	for k, r := range s.used.relations {
		row := tr.kept.relations.Row(k)
		for i, table := range s.tables {
			if table.axis == model.PerRelation {
				copy(got[i][int(r)*table.width:], row[:table.width])
				row = row[table.width:]
			}
		}
	}
	globals := tr.kept.globals
	for i, table := range s.tables {
		if table.axis == model.Global && !table.frozen {
			globals = globals[copy(got[i], globals):]
		}
	}
	for k, tensor := range tensors {
		if s.tables[k].frozen || k == 1 && c.Model == "dihedral" {
			continue // dihedral's weights have straight-through gradients: see model.TestStraightThrough
		}
		checks := 100 // enough to reach every position in a matrix
		if networks[c.Model] != nil {
			checks = 15 // their losses are slow, and all positions of a tensor share the same code
		}
		every := 1 + len(tensor)/checks
		for i := 0; i < len(tensor); i += every {
			modeltest.RequireDerivative(t, got[k][i], &tensor[i], byDefinition, "tensor %d, element %d", k, i)
		}
	}
}

// failingComparer is a comparer whose scores fail.
type failingComparer struct{ comparer }

func (failingComparer) scores(context.Context, linalg.Matrix, linalg.Matrix, linalg.Matrix) error {
	return errors.New("no scores")
}

// An error in a score matrix is the error of the step, with one pool and with two.
func TestErrorOfScoreMatrix(t *testing.T) {
	c := recipe.Default()
	c.Dim, c.Batch, c.Negatives, c.NegativeCount = 3, 14, recipe.SharedNegatives, 4
	for threads := 1; threads <= 2; threads++ {
		tr := trainerFor(t, c, traintest.RandomGraph(8, 3, 40, 3), machineOf(t, 1).Backend, threads)
		for _, p := range append(tr.stepper.halves, tr.stepper.pool) {
			p.comparer = failingComparer{p.comparer}
		}
		_, err := tr.Epoch(t.Context())
		require.EqualError(t, err, "no scores")
	}
}
