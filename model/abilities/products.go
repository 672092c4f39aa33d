package abilities

import "slices"

// This file contains the constructions of models whose scores are products. Each true triple has a
// separate block of coordinates, in which its head and its tail have fixed numbers and all other
// entities have zeros. The triple scores at least 1 and every listed false triple at most 0.

// role is the part that a relation plays in a block.
type role uint8

const (
	other   role = iota // relation of neither the triple nor its inverse
	own                 // relation of the triple
	reverse             // inverse of the relation of the triple
)

// block is the block of coordinates of a true triple.
type block struct {
	head, tail int
	symmetric  bool   // whether the relation of the triple is symmetric
	roles      []role // by relation
}

// blocks returns the blocks for the true triples of a pattern. A symmetric relation needs only one
// block for a triple and its converse. The triples of an inverse relation need no blocks.
func blocks(p *Pattern) []block {
	var list []block
	for _, t := range p.truths {
		converse := p.converse(t.relation)
		if converse >= 0 && converse < t.relation {
			continue
		}
		symmetric := converse == t.relation
		if symmetric && slices.ContainsFunc(list, func(b block) bool {
			return b.roles[t.relation] == own && b.head == t.tail && b.tail == t.head
		}) {
			continue
		}
		b := block{t.head, t.tail, symmetric, make([]role, p.relations)}
		b.roles[t.relation] = own
		if converse > t.relation {
			b.roles[converse] = reverse
		}
		list = append(list, b)
	}
	return list
}

// code holds the numbers of the head and of the tail in a block, and of a relation by its role.
type code struct {
	head, tail []float64
	relation   [3][]float64
}

// codes holds the codes of blocks: symmetric for symmetric relations, and plain for all others.
type codes struct{ plain, symmetric code }

func (c codes) of(b block) code {
	if b.symmetric {
		return c.symmetric
	}
	return c.plain
}

// entityRows returns the rows of the entities. A row lists the values of the first number of a code
// in all blocks, then the values of the second number, and so on.
func (c codes) entityRows(p *Pattern, list []block) [][]float64 {
	rows, k := zeros(p.entities, len(c.plain.head)*len(list)), len(list)
	for i, b := range list {
		for n := range c.plain.head {
			rows[b.head][n*k+i] = c.of(b).head[n]
			rows[b.tail][n*k+i] = c.of(b).tail[n]
		}
	}
	return rows
}

// relationRows returns the rows of the relations. Their entries are ordered number by number, as in
// the rows of entities, or block by block if blockwise is set.
func (c codes) relationRows(p *Pattern, list []block, blockwise bool) [][]float64 {
	width, k := len(c.plain.relation[own]), len(list)
	rows := zeros(p.relations, width*k)
	for i, b := range list {
		for r, role := range b.roles {
			for n, v := range c.of(b).relation[role] {
				at := n*k + i
				if blockwise {
					at = i*width + n
				}
				rows[r][at] = v
			}
		}
	}
	return rows
}

// vectors returns the construction of a model with one tensor for entities and one for relations.
func (c codes) vectors(hyper map[string]float64) construction {
	return func(p *Pattern) parameters {
		list := blocks(p)
		return parameters{dim: len(list), hyper: hyper, rows: map[string][][]float64{
			"entity": c.entityRows(p, list), "relation": c.relationRows(p, list, false),
		}}
	}
}

// zeros returns rows of zeros.
func zeros(rows, width int) [][]float64 {
	all := make([][]float64, rows)
	for i := range all {
		all[i] = make([]float64, width)
	}
	return all
}

var (
	distMultCode = code{[]float64{1}, []float64{1}, [3][]float64{other: {0}, own: {1}}}
	distMult     = codes{distMultCode, distMultCode}

	// Re(1·i·conj(i)) = 1, and Re(1·1·1) = 1.
	complEx = codes{
		code{[]float64{1, 0}, []float64{0, 1}, [3][]float64{other: {0, 0}, own: {0, 1}, reverse: {0, -1}}},
		code{[]float64{1, 0}, []float64{1, 0}, [3][]float64{other: {0, 0}, own: {1, 0}}},
	}

	cp = codes{plain: code{[]float64{1, 0}, []float64{0, 1}, [3][]float64{other: {0}, own: {1}}}}

	simplE = codes{
		code{[]float64{1, 0}, []float64{0, 1}, [3][]float64{other: {0, 0}, own: {2, 0}, reverse: {0, 2}}},
		code{[]float64{1, 0}, []float64{0, 1}, [3][]float64{other: {0, 0}, own: {2, 2}}},
	}

	// ⟨1 ⊗ i, i⟩ = 1 and ⟨1 ⊗ 1, i⟩ = 0; ⟨1 ⊗ 1, 1⟩ = 1 and ⟨1 ⊗ j, 1⟩ = 0. All relations are unit
	// quaternions.
	quatE = codes{
		code{[]float64{1, 0, 0, 0}, []float64{0, 1, 0, 0}, [3][]float64{
			other: {1, 0, 0, 0}, own: {0, 1, 0, 0}, reverse: {0, -1, 0, 0},
		}},
		code{[]float64{1, 0, 0, 0}, []float64{1, 0, 0, 0}, [3][]float64{other: {0, 0, 1, 0}, own: {1, 0, 0, 0}}},
	}
	dualE = codes{quatE.plain.dual(), quatE.symmetric.dual()}

	// The elements are the rotations by 0 and by quarter turns.
	dihEdral = codes{
		code{[]float64{1, 0}, []float64{0, 1}, [3][]float64{
			other: {1, 0, 0, 0, 0, 0, 0, 0}, own: {0, 0, 0, 1, 0, 0, 0, 0}, reverse: {0, 1, 0, 0, 0, 0, 0, 0},
		}},
		code{[]float64{1, 0}, []float64{1, 0}, [3][]float64{
			other: {0, 1, 0, 0, 0, 0, 0, 0}, own: {1, 0, 0, 0, 0, 0, 0, 0},
		}},
	}

	// An entity of RESCAL and TuckER has two coordinates in each block: one as the head and one as the
	// tail.
	headAndTail = codes{
		plain:     code{head: []float64{1, 0}, tail: []float64{0, 1}},
		symmetric: code{head: []float64{1, 0}, tail: []float64{0, 1}},
	}
)

// dual returns the code for dual quaternions a + 0ε.
func (c code) dual() code {
	extended := func(q []float64) []float64 {
		if q == nil {
			return nil
		}
		return append(slices.Clone(q), 0, 0, 0, 0)
	}
	d := code{head: extended(c.head), tail: extended(c.tail)}
	for i, q := range c.relation {
		d.relation[i] = extended(q)
	}
	return d
}

func dihEdralParameters(p *Pattern) parameters {
	list := blocks(p)
	return parameters{dim: len(list), rows: map[string][][]float64{
		"entity": dihEdral.entityRows(p, list), "relation": dihEdral.relationRows(p, list, true),
	}}
}

// matrices returns the matrices of the relations for entities of headAndTail.
func matrices(p *Pattern, list []block) [][]float64 {
	k := len(list)
	rows := zeros(p.relations, 4*k*k)
	for i, b := range list {
		forward, backward := i*2*k+k+i, (k+i)*2*k+i
		for r, role := range b.roles {
			if role == own {
				rows[r][forward] = 1
			}
			if role == reverse || role == own && b.symmetric {
				rows[r][backward] = 1
			}
		}
	}
	return rows
}

func rescalParameters(p *Pattern) parameters {
	list := blocks(p)
	return parameters{dim: 2 * len(list), rows: map[string][][]float64{
		"entity": headAndTail.entityRows(p, list), "relation": matrices(p, list),
	}}
}

// tuckERParameters makes each slice of the core the matrix of one relation.
func tuckERParameters(p *Pattern) parameters {
	list := blocks(p)
	return parameters{
		dim: 2 * len(list), hyper: map[string]float64{"batch_norm": 0, "relation_dim": float64(p.relations)},
		rows: map[string][][]float64{
			"entity": headAndTail.entityRows(p, list), "relation": identity(p.relations),
			"core": {slices.Concat(matrices(p, list)...)},
		},
	}
}

// identity returns the rows of the n × n identity matrix.
func identity(n int) [][]float64 {
	rows := zeros(n, n)
	for i, row := range rows {
		row[i] = 1
	}
	return rows
}

// convEParameters has one-hot embeddings. Two filters copy the image, and output t of the dense layer
// is positive only if the head and the relation both occur in true triples with the tail t.
func convEParameters(p *Pattern) parameters {
	d := max(p.entities, p.relations, 2)
	entities, relations := zeros(p.entities, d+1), zeros(p.relations, d)
	for i, row := range entities {
		row[1+i] = 1
	}
	for i, row := range relations {
		row[i] = 1
	}
	const filter = 3
	rows := 2*d - filter + 1 // rows of a feature map; the image is 2d × 1
	dense, bias := make([]float64, d*2*rows), make([]float64, d)
	input := func(pixel int) int {
		if pixel < rows {
			return pixel // the first map begins with the first pixel
		}
		return rows + pixel - (filter - 1) // the second map ends with the last pixel
	}
	for i := range bias {
		bias[i] = -1.5
	}
	for _, t := range p.truths {
		dense[t.tail*2*rows+input(t.head)] = 1
		dense[t.tail*2*rows+input(d+t.relation)] = 1
	}
	tensors := map[string][][]float64{
		"entity": entities, "relation": relations, "filters": {{1, 0, 0, 0, 0, 1}},
		"dense": {dense}, "dense.bias": {bias},
	}
	for name, channels := range map[string]int{"norm1": 2, "norm2": d} {
		tensors[name+".scale"] = [][]float64{slices.Repeat([]float64{1}, channels)}
		tensors[name+".variance"] = [][]float64{slices.Repeat([]float64{1}, channels)}
	}
	hyper := map[string]float64{"image_height": float64(d), "channels": 2, "input_norm": 0}
	return parameters{dim: d, hyper: hyper, rows: tensors}
}
