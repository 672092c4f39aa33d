package kg

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/mquine/mquine/internal/input"
	"github.com/mquine/mquine/internal/text"
)

// OpenTriples reads a file of triples, which may have any name. It is N-Triples if the name ends
// with .nt, and otherwise tab-separated text. Either may be compressed (.gz, .zst). The graph has
// only a train split, with the triples of all lines. Notes says if the first line may be a header, if the
// columns may be in another order, and if labels differ only in spaces at their ends.
func OpenTriples(ctx context.Context, path string, options ...OpenOption) (*Graph, error) {
	o := newOpening(options...)
	size, err := input.Await(ctx, func() (int64, error) {
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return 0, fmt.Errorf("reading %s: %w", path, text.Cause(err))
		case info.IsDir():
			return 0, fmt.Errorf("%s is a folder: give a file of triples", path)
		case info.Mode().IsRegular():
			return info.Size(), nil
		}
		return 0, nil // a pipe
	})
	if err != nil {
		return nil, err
	}
	o.progress.start(size)
	table, err := o.readTripleFile(ctx, path, nil, nil)
	if err != nil {
		return nil, err
	}
	if len(table.triples) == 0 {
		return nil, fmt.Errorf("%s has no triples: give a file with lines head, relation, tail", path)
	}
	g := &Graph{Name: filepath.Base(path), Entities: table.entities, Relations: table.relations}
	g.Splits[Train] = table.triples
	g.Notes, err = input.Await(ctx, func() (notes []string, _ error) {
		if header := g.header(Train); header != "" {
			notes = append(notes, header)
		}
		return append(notes, g.doubtfulLabels()...), nil
	})
	if err != nil {
		return nil, err
	}
	return g, nil
}

// DropRepeats removes the training triples that repeat an earlier one, and returns their number. A
// graph without a train split does not change.
func (g *Graph) DropRepeats(ctx context.Context) (int, error) {
	if !g.Has(Train) {
		return 0, nil
	}
	distinct, err := input.Await(ctx, func() ([]Triple, error) { return distinctTriples(g.Splits[Train]), nil })
	if err != nil {
		return 0, err
	}
	repeats := len(g.Splits[Train]) - len(distinct)
	g.Splits[Train] = distinct
	return repeats, nil
}

// distinctTriples returns the distinct triples in the order of their first appearance.
func distinctTriples(triples []Triple) []Triple {
	order := make([]int32, len(triples))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(i, j int32) int {
		a, b := triples[i], triples[j]
		return cmp.Or(cmp.Compare(a.Head, b.Head), cmp.Compare(a.Relation, b.Relation), cmp.Compare(a.Tail, b.Tail),
			cmp.Compare(i, j))
	})
	repeats := make([]bool, len(triples))
	for k := 1; k < len(order); k++ {
		repeats[order[k]] = triples[order[k]] == triples[order[k-1]]
	}
	distinct := make([]Triple, 0, len(triples))
	for i, t := range triples {
		if !repeats[i] {
			distinct = append(distinct, t)
		}
	}
	return distinct
}

// Division says how to divide the triples of a graph.
type Division struct {
	// Valid and Test are the numbers of triples to hold out.
	Valid, Test int
	Seed        uint64
	// KeepPairs keeps all triples between the same two entities in one split, in both directions and
	// for all relations. A model then cannot answer a test query with an inverse or a duplicate of
	// the test triple that it has seen in training.
	KeepPairs bool
}

// Divide returns a graph with the splits that d describes, from the distinct training triples of g.
// Every entity and relation of a held-out triple also has a training triple.
//
// Divide visits the triples in random order, or with KeepPairs the pairs of entities. It holds out
// each that leaves a training triple to all of its entities and relations and that fits into a
// split, until both splits are full. It chooses the split at random, in proportion to the sizes. A
// split may thus be smaller than d asks for; it is nil if it would be empty.
//
// The seed and the labels of a triple determine its place in the random order, and its split. So
// the splits have the same triples for any order of lines, and if a graph grows, most triples stay
// in their split. Every split keeps the order of g, and the labels are numbered as Open numbers them.
// A negative size is an error.
func (g *Graph) Divide(ctx context.Context, d Division) (*Graph, error) {
	if d.Valid < 0 || d.Test < 0 {
		return nil, fmt.Errorf("dividing data set %s: the sizes of valid and test are %d and %d: "+
			"neither may be negative", g.Name, d.Valid, d.Test)
	}
	return input.Await(ctx, func() (*Graph, error) { return newDivider(g, d).divide(), nil })
}

// divider divides the distinct training triples of a graph.
type divider struct {
	Division
	graph   *Graph
	triples []Triple
	draws   []draw
	// split is the split of every triple.
	split []Split
	// entities and relations count the training triples of every entity and relation.
	entities, relations []int
	// room is the number of triples that a split still lacks.
	room [NumSplits]int
}

// draw is a triple with random numbers: its place in the order, and a chance from 0 to 1 that chooses
// between valid and test.
type draw struct {
	key    uint64
	chance float64
	triple int32
}

func newDivider(g *Graph, d Division) *divider {
	triples := distinctTriples(g.Splits[Train])
	v := &divider{
		Division: d, graph: g, triples: triples,
		draws: make([]draw, len(triples)), split: make([]Split, len(triples)),
		entities: make([]int, g.Entities.Len()), relations: make([]int, g.Relations.Len()),
		room: [NumSplits]int{Valid: d.Valid, Test: d.Test},
	}
	buffer := binary.LittleEndian.AppendUint64(nil, d.Seed)
	for i, t := range triples {
		sum := sha256.Sum256(v.appendUnit(buffer[:8], t))
		chance := float64(binary.LittleEndian.Uint64(sum[8:])>>11) / (1 << 53)
		v.draws[i] = draw{binary.LittleEndian.Uint64(sum[:]), chance, int32(i)}
		v.count(t, 1)
	}
	slices.SortFunc(v.draws, v.compare)
	return v
}

// labels returns the labels of what Divide draws: of a triple or, with KeepPairs, of its entities in
// alphabetical order.
func (v *divider) labels(t Triple) [3]string {
	head, tail := v.graph.Entities.Label(t.Head), v.graph.Entities.Label(t.Tail)
	if v.KeepPairs {
		return [3]string{min(head, tail), max(head, tail)}
	}
	return [3]string{head, v.graph.Relations.Label(t.Relation), tail}
}

// appendUnit appends the labels of what Divide draws, separated by tabs, which labels lack.
func (v *divider) appendUnit(to []byte, t Triple) []byte {
	for _, label := range v.labels(t) {
		to = append(append(to, label...), '\t')
	}
	return to
}

// compare orders draws by key. Equal keys of different labels are very rare, but the order must not
// depend on the order of lines even then.
func (v *divider) compare(a, b draw) int {
	if a.key != b.key {
		return cmp.Compare(a.key, b.key)
	}
	if !v.together(a, b) {
		x, y := v.labels(v.triples[a.triple]), v.labels(v.triples[b.triple])
		return slices.Compare(x[:], y[:])
	}
	return cmp.Compare(a.triple, b.triple)
}

// together reports whether two triples must be in the same split.
func (v *divider) together(a, b draw) bool {
	return a.triple == b.triple || v.KeepPairs && pairOf(v.triples[a.triple]) == pairOf(v.triples[b.triple])
}

// pairOf returns the entities of a triple, the smaller identifier first.
func pairOf(t Triple) [2]int32 { return [2]int32{min(t.Head, t.Tail), max(t.Head, t.Tail)} }

// count adds n to the number of training triples of the entities and the relation of t.
func (v *divider) count(t Triple, n int) {
	v.relations[t.Relation] += n
	v.entities[t.Head] += n
	if t.Tail != t.Head {
		v.entities[t.Tail] += n
	}
}

func (v *divider) divide() *Graph {
	for rest := v.draws; len(rest) > 0 && (v.room[Valid] > 0 || v.room[Test] > 0); {
		n := 1
		for n < len(rest) && v.together(rest[0], rest[n]) {
			n++
		}
		if s := v.place(rest[0], n); s != Train && v.release(rest[:n]) {
			v.room[s] -= n
			for _, d := range rest[:n] {
				v.split[d.triple] = s
			}
		}
		rest = rest[n:]
	}
	divided := &Graph{Name: v.graph.Name, Entities: NewVocabulary(), Relations: NewVocabulary()}
	for s := range NumSplits {
		for i, t := range v.triples {
			if v.split[i] == s {
				divided.Splits[s] = append(divided.Splits[s], Triple{
					Head:     divided.Entities.Add(v.graph.Entities.Label(t.Head)),
					Relation: divided.Relations.Add(v.graph.Relations.Label(t.Relation)),
					Tail:     divided.Entities.Add(v.graph.Entities.Label(t.Tail)),
				})
			}
		}
	}
	return divided
}

// place returns the split for n triples with a draw: the split that the draw chose or, if it lacks
// room, the other one. Without room in either, place returns Train.
func (v *divider) place(d draw, n int) Split {
	order := [2]Split{Valid, Test}
	if d.chance < float64(v.Test)/(float64(v.Valid)+float64(v.Test)) {
		order = [2]Split{Test, Valid}
	}
	for _, s := range order {
		if v.room[s] >= n {
			return s
		}
	}
	return Train
}

// release removes triples from the training triples, unless an entity or a relation would be left
// without one.
func (v *divider) release(draws []draw) bool {
	for _, d := range draws {
		v.count(v.triples[d.triple], -1)
	}
	for _, d := range draws {
		t := v.triples[d.triple]
		if v.entities[t.Head] == 0 || v.entities[t.Tail] == 0 || v.relations[t.Relation] == 0 {
			for _, d := range draws {
				v.count(v.triples[d.triple], 1)
			}
			return false
		}
	}
	return true
}

// Linked counts the triples of a split whose two entities also have a training triple together, with
// any relation and in either direction. Such triples are often inverses or duplicates of training
// triples, so a model may know their answers from training.
func (g *Graph) Linked(s Split) int {
	held := map[[2]int32]int{}
	for _, t := range g.Splits[s] {
		held[pairOf(t)]++
	}
	linked := 0
	for _, t := range g.Splits[Train] {
		if n := held[pairOf(t)]; n > 0 {
			linked += n
			delete(held, pairOf(t))
		}
	}
	return linked
}
