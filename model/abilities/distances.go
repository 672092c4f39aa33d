package abilities

import (
	"math"
	"slices"

	"github.com/mquine/mquine/model"
)

// This file contains the constructions of models whose scores are distances. Most of them place the
// entities of a pattern on a grid. A relation moves by a step of the grid, or ignores the second
// coordinate.

// place is a point of the grid.
type place struct{ u, v int }

// step is the effect of a relation on the grid.
type step struct {
	u, v   int
	ignore bool // whether the relation ignores v
}

// grid says how a model represents places and steps.
type grid struct {
	dim   int
	hyper map[string]float64
	// entity returns the row of a place. relation returns the rows of a step, by tensor.
	entity   func(place) []float64
	relation func(step) map[string][]float64
	// half is half the period of the coordinates, or 0 if they have none.
	half int
}

// at returns the construction with the given places of the entities and steps of the relations.
func (g grid) at(places []place, steps ...step) construction {
	return func(*Pattern) parameters {
		x := parameters{dim: g.dim, hyper: g.hyper, rows: map[string][][]float64{}}
		for _, p := range places {
			x.rows["entity"] = append(x.rows["entity"], g.entity(p))
		}
		for _, s := range steps {
			for name, row := range g.relation(s) {
				x.rows[name] = append(x.rows[name], row)
			}
		}
		return x
	}
}

// ignored is a step by u that ignores v.
func ignored(u int) step { return step{u: u, ignore: true} }

// The following methods return the constructions of patterns on a grid. Entities are in the order
// of their letters.

func (g grid) antisymmetry() construction { return g.at([]place{{0, 0}, {1, 0}}, step{u: 1}) }

func (g grid) inversion() construction {
	return g.at([]place{{0, 0}, {1, 0}}, step{u: 1}, step{u: -1})
}

func (g grid) abelian() construction {
	return g.at([]place{{0, 0}, {1, 0}, {3, 0}, {2, 0}}, step{u: 1}, step{u: 2}, step{u: 3})
}

func (g grid) injective() construction {
	return g.at([]place{{0, 0}, {1, 0}, {0, 1}, {1, 1}}, step{u: 1})
}

// halfTurn is a construction of symmetry for coordinates with a period.
func (g grid) halfTurn() construction {
	return g.at([]place{{0, 0}, {g.half, 0}, {1, 0}}, step{u: g.half}, step{u: 1})
}

// sameU and the following constructions need steps that ignore v. sameU is a construction of
// symmetry.
func (g grid) sameU() construction {
	return g.at([]place{{0, 0}, {0, 1}, {1, 1}}, ignored(0), step{u: 1, v: 1})
}

func (g grid) oneToMany() construction {
	return g.at([]place{{0, 0}, {1, 0}, {1, 1}, {5, 0}}, ignored(1), step{u: -4})
}

func (g grid) manyToOne() construction {
	return g.at([]place{{1, 0}, {0, 0}, {0, 1}, {7, 0}}, ignored(1), step{u: 7})
}

func (g grid) manyToMany() construction {
	return g.at([]place{{0, 0}, {0, 1}, {1, 0}, {1, 1}, {7, 0}, {-6, 0}}, ignored(1), step{u: 7})
}

func (g grid) nonInjective() construction {
	return g.at([]place{{0, 0}, {0, 1}, {1, 0}, {5, 0}, {6, 0}, {7, 0}}, ignored(1), step{u: 7})
}

func vector(p place) []float64 { return []float64{float64(p.u), float64(p.v)} }

func (s step) vector() []float64 { return []float64{float64(s.u), float64(s.v)} }

var transE = grid{
	dim: 2, entity: vector,
	relation: func(s step) map[string][]float64 { return map[string][]float64{"relation": s.vector()} },
}

// transH has a third coordinate, which is zero. A step that ignores v projects along v.
var transH = grid{
	dim: 3, entity: func(p place) []float64 { return append(vector(p), 0) },
	relation: func(s step) map[string][]float64 {
		normal := []float64{0, 0, 1}
		if s.ignore {
			normal = []float64{0, 1, 0}
		}
		return map[string][]float64{"relation": append(s.vector(), 0), "relation.normal": normal}
	},
}

var transR = grid{
	dim: 2, entity: vector,
	relation: func(s step) map[string][]float64 {
		projection := []float64{1, 0, 0, 1}
		if s.ignore {
			projection[3] = 0
		}
		return map[string][]float64{"relation": s.vector(), "relation.projection": projection}
	},
}

// transD has the projection vector (0, −1) for all entities. The image of (u, v) is (u, v) − v r_p.
var transD = grid{
	dim: 2, entity: func(p place) []float64 { return append(vector(p), 0, -1) },
	relation: func(s step) map[string][]float64 {
		projection := []float64{0, 0}
		if s.ignore {
			projection[1] = 1
		}
		return map[string][]float64{"relation": s.vector(), "relation.projection": projection}
	},
}

// quarter returns the cosine and the sine of n quarter turns.
func quarter(n int) (cos, sin float64) {
	sin, cos = math.Sincos(math.Pi / 2 * float64(n))
	return math.Round(cos), math.Round(sin)
}

// rotatE rotates complex numbers by quarter turns.
var rotatE = grid{
	dim: 2, hyper: map[string]float64{model.EmbeddingRange: 2}, half: 2,
	entity: func(p place) []float64 {
		re1, im1 := quarter(p.u)
		re2, im2 := quarter(p.v)
		return []float64{re1, re2, im1, im2}
	},
	relation: func(s step) map[string][]float64 { return map[string][]float64{"relation": s.vector()} },
}

// pRotatE has the period π: a step is an eighth of it.
var pRotatE = grid{
	dim: 2, hyper: map[string]float64{model.EmbeddingRange: 8}, half: 4, entity: vector,
	relation: transE.relation,
}

// ote rotates two groups by quarter turns.
var ote = grid{
	dim: 4, hyper: map[string]float64{model.Group: 2, model.Scale: model.NoScale}, half: 2,
	entity: func(p place) []float64 {
		x1, y1 := quarter(p.u)
		x2, y2 := quarter(p.v)
		return []float64{x1, y1, x2, y2}
	},
	relation: func(s step) map[string][]float64 {
		turn := func(n int) []float64 {
			cos, sin := quarter(n)
			return []float64{cos, sin, -sin, cos}
		}
		return map[string][]float64{"relation": append(turn(s.u), turn(s.v)...)}
	},
}

// house is HousE+ with groups of one coordinate. Two reflections cancel, and projections may remove
// the second coordinate.
var house = grid{
	dim: 2, entity: vector,
	hyper: map[string]float64{
		model.Group: 1, model.Reflections: 2, model.Projections: 1, model.Translation: 1, model.ProjectionLimit: 1,
	},
	relation: func(s step) map[string][]float64 {
		coefficients := []float64{0, 0}
		if s.ignore {
			coefficients[1] = 1
		}
		return map[string][]float64{
			"relation": slices.Repeat([]float64{1}, 8), "translation": s.vector(),
			"head_direction": {1}, "head_scale": coefficients, "tail_direction": {1}, "tail_scale": coefficients,
		}
	},
}

// modE multiplies by powers of two.
var modE = grid{
	dim: 2, entity: func(p place) []float64 { return powers(p.u, p.v) },
	relation: func(s step) map[string][]float64 { return map[string][]float64{"relation": powers(s.u, s.v)} },
}

// powers returns 2ⁿ for each exponent n.
func powers(exponents ...int) []float64 {
	list := make([]float64, len(exponents))
	for i, n := range exponents {
		list[i] = math.Ldexp(1, n)
	}
	return list
}

// hake uses phases for both coordinates, in steps of a quarter of π, and all moduli are 1.
var hake = grid{
	dim: 2, hyper: map[string]float64{model.EmbeddingRange: 4}, half: 4,
	entity: func(p place) []float64 { return append(vector(p), 1, 1) },
	relation: func(s step) map[string][]float64 {
		return map[string][]float64{"relation": append(s.vector(), 1, 1, 0, 0)}
	},
}

// matrixGrid is the grid of MQuadE, with diagonal matrices of powers of two. A relation ignores a
// coordinate if the coordinate's entries of Rʰ and Rᵗ are zero.
var matrixGrid = grid{
	dim: 2, entity: func(p place) []float64 {
		x := powers(p.u, p.v)
		return []float64{x[0] / 2, 0, x[1] / 2}
	},
	relation: func(s step) map[string][]float64 {
		head, tail := powers(max(s.u, 0), max(s.v, 0)), powers(max(-s.u, 0), max(-s.v, 0))
		if s.ignore {
			head[1], tail[1] = 0, 0
		}
		return map[string][]float64{
			"relation.head": {head[0], 0, 0, head[1]}, "relation.tail": {tail[0], 0, 0, tail[1]},
		}
	},
}

// literal returns the construction with the given rows.
func literal(dim int, hyper map[string]float64, rows map[string][][]float64) construction {
	return func(*Pattern) parameters { return parameters{dim: dim, hyper: hyper, rows: rows} }
}

// scaled returns the construction t = h∘r of ModE.
func scaled(dim int, entities, relations [][]float64) construction {
	return literal(dim, nil, map[string][][]float64{"entity": entities, "relation": relations})
}

// oteScaled is like scaled for OTE, with groups of one coordinate and absolute scales.
func oteScaled(dim int, entities, relations [][]float64) construction {
	rows := make([][]float64, len(relations))
	for i, r := range relations {
		for _, v := range r {
			rows[i] = append(rows[i], math.Copysign(1, v), math.Abs(v))
		}
	}
	return literal(dim, map[string]float64{model.Group: 1, model.Scale: model.AbsoluteScale},
		map[string][][]float64{"entity": entities, "relation": rows})
}

// In these constructions, r multiplies the second coordinate by 0.

func nothingToOne(
	build func(dim int, entities, relations [][]float64) construction,
) (manyToOne, nonInjective construction) {
	return build(2, [][]float64{{2, 0}, {1, 1}, {1, 2}, {4, 1}}, [][]float64{{2, 0}, {4, 1}}),
		build(2, [][]float64{{1, 1}, {1, 2}, {2, 0}, {3, 1}, {6, 0}, {4, 1}}, [][]float64{{2, 0}, {4, 1}})
}

// Each of these holds the modulus and the bias of a relation in HAKE. sameModulus makes a triple
// true if head and tail have the same modulus, anyHead if the tail has the modulus 0, and anyTail
// if the head has the modulus 0.
var (
	sameModulus = [2]float64{1, 0}
	anyHead     = [2]float64{1, -1}
	anyTail     = [2]float64{1, 1}
)

// hakeModuli returns a construction of HAKE with one phase and moduli. The row of an entity holds
// its phase and its moduli.
func hakeModuli(entities [][]float64, phases []float64, moduli ...[][2]float64) construction {
	k := len(entities[0]) - 1
	rows := zeros(len(entities), 2*k)
	for i, e := range entities {
		rows[i][0] = e[0]
		copy(rows[i][k:], e[1:])
	}
	relations := zeros(len(moduli), 3*k)
	for r, list := range moduli {
		relations[r][0] = phases[r]
		for j, m := range list {
			relations[r][k+j], relations[r][2*k+j] = m[0], m[1]
		}
	}
	return literal(k, hake.hyper, map[string][][]float64{"entity": rows, "relation": relations})
}

// permuted holds the entities that the relations in permutations permute. r1 exchanges the first
// two numbers, r2 exchanges the last two, and r3 is r1 followed by r2.
var permuted = [][]float64{{1, 2, 3}, {2, 1, 3}, {2, 3, 1}, {1, 3, 2}, {3, 1, 2}}

var permutations = [][]float64{
	{0, 1, 0, 1, 0, 0, 0, 0, 1},
	{1, 0, 0, 0, 0, 1, 0, 1, 0},
	{0, 0, 1, 1, 0, 0, 0, 1, 0},
}

// otePermutations permutes row vectors: (hU)_j = Σ_i h_i U_ij.
var otePermutations = literal(3, map[string]float64{model.Group: 3, model.Scale: model.NoScale},
	map[string][][]float64{"entity": permuted, "relation": permutations})

// housePermutations reflects at e_i − e_j. The fourth coordinate is zero; a reflection there leaves
// the entities unchanged.
var housePermutations = literal(4, map[string]float64{model.Group: 4, model.Reflections: 2},
	map[string][][]float64{
		"entity": {{1, 2, 3, 0}, {2, 1, 3, 0}, {2, 3, 1, 0}, {1, 3, 2, 0}, {3, 1, 2, 0}},
		"relation": {
			{0, 0, 0, 1, 1, -1, 0, 0},
			{0, 0, 0, 1, 0, 1, -1, 0},
			{0, 1, -1, 0, 1, -1, 0, 0},
		},
	})

// matrixPermutations represents entities as diagonal matrices. With Rʰ = Rᵗ = P for a permutation
// matrix P, a true triple has T = PᵀHP.
var matrixPermutations = func() construction {
	rows := map[string][][]float64{"relation.head": permutations, "relation.tail": permutations}
	for _, x := range permuted {
		rows["entity"] = append(rows["entity"], []float64{x[0] / 2, 0, x[1] / 2, 0, 0, x[2] / 2})
	}
	return literal(3, nil, rows)
}()

// houseNegation is t = −(h + w), and matrixNegation is −h = t for r and 2h = t for q.
var (
	houseNegation = literal(1, map[string]float64{model.Group: 1, model.Reflections: 1, model.Translation: 1},
		map[string][][]float64{
			"entity": {{1}, {-1}, {-2}}, "relation": {{1}, {1}}, "translation": {{0}, {1}},
		})
	matrixNegation = literal(1, nil, map[string][][]float64{
		"entity": {{0.5}, {-0.5}, {1}}, "relation.head": {{-1}, {2}}, "relation.tail": {{1}, {1}},
	})
)

// mquinEPaper is the example of Theorem 3.3 in the MQuinE paper; a, b, c and d are e₁, e₃, e₂ and e₄.
var mquinEPaper = literal(2, nil, map[string][][]float64{
	"entity":        {{0.5, 0, 0.5}, {0, 0, 0.5}, {0.5, 0, 0}, {0.5, 1, 0}},
	"relation.head": {{1, 0, 0, 0}}, "relation.tail": {{0, 0, 0, -1}}, "relation.cross": {{-1, 0, 0, -1}},
})
