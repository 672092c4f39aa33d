package abilities

import (
	"maps"
	"math"

	"github.com/mquine/mquine/model"
)

// entries holds the verdicts on every model, by its name. A new model needs an entry here.
var entries = map[string]entry{
	"transe-l1": {distances, transEModel},
	"transe-l2": {distances, transEModel},
	"transh-l1": {distances, projections(transH, plainShapes, difference)},
	"transh-l2": {distances, projections(transH, plainShapes, difference)},
	"transr-l1": {distances, projections(transR, plainShapes, difference)},
	"transr-l2": {distances, projections(transR, plainShapes, difference)},
	"transd-l1": {distances, projections(transD, plainShapes, dynamicDifference)},
	"transd-l2": {distances, projections(transD, plainShapes, dynamicDifference)},
	"rotate":    {distances, rotations(rotatE)},
	"rotate-l2": {distances, rotations(rotatE)},
	"protate":   {distances, rotations(pRotatE)},
	"mode":      {distances, modEModel},
	"ote":       {distances, oteModel},
	"house":     {distances, houseModel},
	"hake":      {distances, hakeModel},
	"mquade":    {squares, mquadEModel},
	"mquine":    {squares, mquinEModel},
	"distmult":  {products, distMultModel},
	"complex":   {products, bilinear(complEx.vectors(nil), plainShapes)},
	"seek":      {products, bilinear(complEx.vectors(twoSegments), segmentShapes)},
	"rescal":    {products, bilinear(rescalParameters, plainShapes)},
	"cp":        {products, cpModel},
	"simple":    {products, bilinear(simplE.vectors(nil), plainShapes)},
	"quate":     {products, bilinear(quatE.vectors(nil), plainShapes)},
	"duale":     {products, bilinear(dualE.vectors(nil), plainShapes)},
	"dihedral":  {products, bilinear(dihEdralParameters, plainShapes)},
	"tucker":    {products, bilinear(tuckERParameters, plainShapes)},
	"conve":     {products, convEModel},

	"boxe":                  {distances, boxEModel},
	"expressive":            {distances, expressiveModel},
	"expressive-functional": {distances, bijectiveLines},
}

// The proofs of a "no" test the models with these dimensions and hyper-parameters.
var (
	plainShapes   = []shape{{dim: 2}, {dim: 5}}
	twoSegments   = map[string]float64{model.Segments: 2}
	segmentShapes = []shape{{2, twoSegments}, {dim: 2}}
	oteShapes     = []shape{
		{4, map[string]float64{model.Group: 2, model.Scale: model.NoScale}},
		{4, map[string]float64{model.Group: 2, model.Scale: model.AbsoluteScale}},
		{6, map[string]float64{model.Group: 3, model.Scale: model.ExponentialScale}},
	}
	houseShapes = []shape{
		{4, map[string]float64{model.Group: 2}},
		{4, map[string]float64{model.Group: 2, model.Projections: 1, model.Translation: 1, model.ProjectionLimit: 2}},
	}
	convEShapes = []shape{{12, map[string]float64{model.Channels: 16}}}
)

// Several models share these reasons.
const (
	oneMore       = "r moves by 1."
	thereAndBack  = "r1 moves by 1, and r2 by −1."
	sumOfSteps    = "r1 moves by 1, r2 by 2, and r3 by 3."
	sameBijection = "Entities with the same image are equal, so q cannot tell them apart."
	sameBothWays  = "The score is the same after exchanging head and tail."
	metric        = "The score is a distance between functions of (h, r) and (r, t), so D(a, r, d) ≤ D(a, r, c) + " +
		"D(b, r, c) + D(b, r, d) (paper, section 3.1)."
	ownCoordinates = "Every true triple has separate coordinates, in which other entities are 0."
	unscaled       = "Some y raises both premises above any bound, but (x, r3, z) does not depend on y."
	permutes       = "r1 and r2 permute three numbers and do not commute; r3 is their product."
	byZero         = "r multiplies a coordinate by 0, and q compares it."
	determined     = "A head and a relation determine the tail."
	commuting      = "The relations commute, so c and e are equal."
)

func yes(reason string, proof construction) cell { return cell{reason, proof} }

func no(reason string, p proof) cell { return cell{reason, p} }

// zParadox returns the cell of models whose scores are distances between a function of (h, r) and a
// function of (r, t).
func zParadox(shapes []shape) cell { return no(metric, bound{shapes: shapes}) }

// with(cells, changes) returns a copy of cells with the cells of changes, which replace cells of
// the same pattern.
func with(cells, changes map[string]cell) map[string]cell {
	cells = maps.Clone(cells)
	maps.Copy(cells, changes)
	return cells
}

// onGrid returns the cells of patterns that need only steps.
func onGrid(g grid) map[string]cell {
	return map[string]cell{
		antisymmetry: yes(oneMore, g.antisymmetry()),
		inversion:    yes(thereAndBack, g.inversion()),
		abelian:      yes(sumOfSteps, g.abelian()),
		injective:    yes(oneMore, g.injective()),
	}
}

// ignoring returns the cells of a grid whose steps can ignore a coordinate. Their reasons begin
// with condition, which may be empty.
func ignoring(g grid, condition string) map[string]cell {
	ignores := condition + "r ignores a coordinate, and q compares it."
	return with(onGrid(g), map[string]cell{
		symmetry:     yes(condition+"r compares one coordinate and ignores another. It is also reflexive.", g.sameU()),
		oneToMany:    yes(ignores, g.oneToMany()),
		manyToOne:    yes(ignores, g.manyToOne()),
		manyToMany:   yes(ignores, g.manyToMany()),
		nonInjective: yes(ignores, g.nonInjective()),
	})
}

// bijective returns the cells of a grid whose relations are bijections that commute.
func bijective(g grid, shapes []shape) map[string]cell {
	return with(onGrid(g), map[string]cell{
		nonAbelian:     no(commuting, bound{shapes: shapes}),
		oneToMany:      no(sameBijection, bound{shapes: shapes}),
		manyToOne:      no(sameBijection, bound{shapes: shapes}),
		manyToMany:     no(sameBijection, bound{shapes: shapes}),
		nonInjective:   no(sameBijection, bound{falsehood: 2, shapes: shapes}),
		freeOfZParadox: zParadox(shapes),
	})
}

var transEModel = with(bijective(transE, plainShapes), map[string]cell{
	symmetry: no("h + r = t and t + r = h give r = 0 and h = t, so q cannot tell a from b.",
		bound{shapes: plainShapes}),
})

func rotations(g grid) map[string]cell {
	return with(bijective(g, plainShapes), map[string]cell{
		symmetry: yes("r turns by half a period.", g.halfTurn()),
	})
}

// projections returns the cells of TransH, TransR and TransD.
func projections(g grid, shapes []shape, midpoint func(v, a, d, e []float32)) map[string]cell {
	return with(ignoring(g, ""), map[string]cell{
		nonAbelian: no("Images are linear, so v = a + e − d takes the steps in the other order: (a, r1, v) and "+
			"(v, r2, e) are true, and the rule implies (a, r3, e).", detour{shapes, midpoint}),
		freeOfZParadox: zParadox(shapes),
	})
}

// difference sets v to a + e − d.
func difference(v, a, d, e []float32) {
	for i := range v {
		v[i] = a[i] + e[i] - d[i]
	}
}

// dynamicDifference is difference for TransD, whose images are linear in an entity x and in the
// product of x with its projection vector.
func dynamicDifference(v, a, d, e []float32) {
	n := len(v) / 2
	product := func(row []float32) (sum float64) {
		for i, x := range row[:n] {
			sum += float64(x) * float64(row[n+i])
		}
		return sum
	}
	along := product(a) + product(e) - product(d)
	var squares float64
	for i := range n {
		v[i] = a[i] + e[i] - d[i]
		squares += float64(v[i]) * float64(v[i])
	}
	for i := range n {
		v[n+i] = float32(along / squares * float64(v[i]))
	}
}

var modEModel = func() map[string]cell {
	manyToOneScaled, nonInjectiveScaled := nothingToOne(scaled)
	return with(bijective(modE, plainShapes), map[string]cell{
		symmetry: yes("r multiplies by −1.", scaled(1, [][]float64{{1}, {-1}, {2}}, [][]float64{{-1}, {2}})),
		nonAbelian: no("Products commute, so c and e are equal.",
			bound{shapes: plainShapes, factor: largestRelation}),
		oneToMany:    no(determined, bound{shapes: plainShapes}),
		manyToOne:    yes(byZero, manyToOneScaled),
		manyToMany:   no(determined, bound{falsehood: 1, shapes: plainShapes}),
		nonInjective: yes(byZero, nonInjectiveScaled),
	})
}()

// largestRelation returns the largest absolute entry of the relations, or 1 if that is larger. ModE
// stretches distances by at most this factor.
func largestRelation(w *world) float64 {
	largest := 1.0
	for _, v := range w.tensors[1] {
		largest = max(largest, math.Abs(float64(v)))
	}
	return largest
}

var oteModel = func() map[string]cell {
	manyToOneScaled, nonInjectiveScaled := nothingToOne(oteScaled)
	return with(onGrid(ote), map[string]cell{
		symmetry:     yes("r turns by half a period.", ote.halfTurn()),
		nonAbelian:   yes(permutes, otePermutations),
		oneToMany:    no(determined, bound{shapes: oteShapes}),
		manyToOne:    yes("With scale = 1, "+byZero, manyToOneScaled),
		manyToMany:   no(determined, bound{falsehood: 1, shapes: oteShapes}),
		nonInjective: yes("With scale = 1, "+byZero, nonInjectiveScaled),

		freeOfZParadox: zParadox(oteShapes),
	})
}()

var houseModel = with(ignoring(house, "With projection_limit ≥ 1, "), map[string]cell{
	symmetry:       yes("r is the reflection x ↦ −x.", houseNegation),
	nonAbelian:     yes("Reflections permute three numbers; r3 is the product of r1 and r2.", housePermutations),
	freeOfZParadox: zParadox(houseShapes),
})

var hakeModel = with(onGrid(hake), map[string]cell{
	symmetry: yes("r turns the phase by π.", hake.halfTurn()),
	nonAbelian: yes("r1 needs a head of modulus 0 and ignores the tail, r2 does the reverse, and r3 compares moduli.",
		hakeModuli([][]float64{{0, 0}, {1, 5}, {3, 0}, {2, 0}, {3, 1}}, []float64{1, 2, 3},
			[][2]float64{anyTail}, [][2]float64{anyHead}, [][2]float64{sameModulus})),
	oneToMany: yes("The modulus of the head is 0, and r ignores the tail (A m_h = 0, B = 0).",
		hakeModuli([][]float64{{0, 0}, {0, 0}, {0, 1}, {0, 0}}, []float64{0, 0},
			[][2]float64{anyTail}, [][2]float64{sameModulus})),
	manyToOne: yes("The modulus of the tail is 0, and r ignores the head (A = 0).",
		hakeModuli([][]float64{{0, 0}, {0, 0}, {0, 1}, {0, 0}}, []float64{0, 0},
			[][2]float64{anyHead}, [][2]float64{sameModulus})),
	manyToMany: yes("r ignores one modulus of the head and another of the tail.",
		hakeModuli([][]float64{{0, 0, 0}, {0, 1, 0}, {0, 0, 0}, {0, 0, 1}, {0, 0, 0}, {0, 0, 0}}, []float64{0, 0},
			[][2]float64{anyHead, anyTail}, [][2]float64{sameModulus, sameModulus})),
	nonInjective: yes("r turns the phase and ignores the modulus of the head (A = 0).",
		hakeModuli([][]float64{{0, 0}, {0, 1}, {1, 0}, {2, 0}, {3, 0}, {5, 0}}, []float64{1, 5},
			[][2]float64{anyHead}, [][2]float64{sameModulus})),
	freeOfZParadox: zParadox(plainShapes),
})

var mquadEModel = with(ignoring(matrixGrid, ""), map[string]cell{
	symmetry:   yes("Rʰ = −1 and Rᵗ = 1.", matrixNegation),
	nonAbelian: yes("Rʰ = Rᵗ is a permutation P, so T = PᵀHP; Rʰ and Rᵗ of r3 are products.", matrixPermutations),

	freeOfZParadox: zParadox(plainShapes),
})

var mquinEModel = with(mquadEModel, map[string]cell{
	freeOfZParadox: yes("The example in the proof of Theorem 3.3.", mquinEPaper),
})

// bilinear returns the cells of models whose scores are products. The scores of (h, r, t) and
// (t, r, h) can differ, and can be equal for all entities.
func bilinear(c construction, shapes []shape) map[string]cell {
	cells := finite(c)
	cells[symmetry] = yes("r is symmetric: f(x, r, y) = f(y, r, x).", c)
	cells[inversion] = yes("r2 is the adjoint of r1: f(x, r1, y) = f(y, r2, x).", c)
	cells[abelian] = no(unscaled, exception{shapes})
	cells[nonAbelian] = no(unscaled, exception{shapes})
	return cells
}

// finite returns the cells of patterns without rules.
func finite(c construction) map[string]cell {
	cells := map[string]cell{}
	for _, p := range patterns {
		if p.Rules == "" {
			cells[p.Name] = yes(ownCoordinates, c)
		}
	}
	return cells
}

var distMultModel = with(bilinear(distMult.vectors(nil), plainShapes), map[string]cell{
	symmetry:     yes(sameBothWays, distMult.vectors(nil)),
	antisymmetry: no(sameBothWays, swap{plainShapes}),
	inversion:    no(sameBothWays+" So (b, r1, a) is true if (a, r1, b) is.", swap{plainShapes}),
})

var cpModel = func() map[string]cell {
	const separate = "An entity has separate vectors as a head and as a tail, so the scores of a triple and of its " +
		"converse are independent."
	return with(bilinear(cp.vectors(nil), plainShapes), map[string]cell{
		symmetry:  no(separate, exception{plainShapes}),
		inversion: no(separate, exception{plainShapes}),
	})
}()

var convEModel = func() map[string]cell {
	const biases = "The biases β of y and x raise (x, r, y) and lower the converse, for any relations."
	const chain = "r2 depends on its head, so some y and z give (y, r2, z) a larger score than (x, r3, z), and the " +
		"bias β of y does the same for (x, r1, y)."
	cells := finite(convEParameters)
	for name := range cells {
		cells[name] = yes("The output of the network for a tail recognises its heads and relations.", convEParameters)
	}
	return with(cells, map[string]cell{
		symmetry:   no(biases, exception{convEShapes}),
		inversion:  no(biases, exception{convEShapes}),
		abelian:    no(chain, exception{convEShapes}),
		nonAbelian: no(chain, exception{convEShapes}),
	})
}()
