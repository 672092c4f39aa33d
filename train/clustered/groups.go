package clustered

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/synth"
	"github.com/mquine/mquine/model/initial"
)

const (
	// sketchWidth is the length of the vector that describes an entity.
	sketchWidth = 32
	// sketchRounds is how many steps away the neighbours are that the vector knows of.
	sketchRounds = 8
)

// groupEntities puts the entities of g into about √N groups, and returns the group of each and the
// number of groups: the planted groups if g is a graph of synth.Zipf, else groups of equal sizes
// by the relations that the entities, their neighbours, the neighbours of those and so on occur in.
func groupEntities(ctx context.Context, g *kg.Graph, seed uint64) (groups []int32, count int, err error) {
	count = int(math.Round(math.Sqrt(float64(g.Entities.Len()))))
	if groups, n := planted(g, 2*count); n > 0 {
		return groups, n, nil
	}
	vectors, err := sketch(ctx, g, seed)
	if err != nil {
		return nil, 0, err
	}
	groups = make([]int32, g.Entities.Len())
	ids := make([]int32, len(groups))
	for e := range ids {
		ids[e] = int32(e)
	}
	return groups, count, bisect(ctx, groups, vectors, ids, 0, count)
}

// planted returns the groups that the labels of all entities carry, and their number; 0 if labels
// carry none, or a group beyond limit.
func planted(g *kg.Graph, limit int) (groups []int32, count int) {
	groups = make([]int32, g.Entities.Len())
	for e, label := range g.Entities.Labels() {
		group, ok := synth.Group(label)
		if !ok || group >= limit {
			return nil, 0
		}
		groups[e] = int32(group)
		count = max(count, group+1)
	}
	return groups, count
}

// vector describes an entity.
type vector [sketchWidth]float32

func (v *vector) add(u *vector) {
	for i, x := range u {
		v[i] += x
	}
}

// normalize gives v the norm 1, unless it is zero.
func (v *vector) normalize() {
	var sum float64
	for _, x := range v {
		sum += float64(float64(x) * float64(x))
	}
	if sum == 0 {
		return
	}
	norm := math.Sqrt(sum)
	for i, x := range v {
		v[i] = float32(float64(x) / norm)
	}
}

// sketch returns a vector of norm 1 for each entity. It begins as the sum of the entity's roles, a
// role being a relation and a side, each with a random vector; then every round adds the
// direction of the sum of the neighbours' vectors.
func sketch(ctx context.Context, g *kg.Graph, seed uint64) ([]vector, error) {
	n := initial.NewSource(seed, streamRoles)
	roles := make([][2]vector, g.Relations.Len())
	for r := range roles {
		for side := range roles[r] {
			for i := range sketchWidth {
				roles[r][side][i] = float32(n.Normal())
			}
		}
	}
	vectors := make([]vector, g.Entities.Len())
	err := eachTriple(ctx, g, func(t kg.Triple) {
		vectors[t.Head].add(&roles[t.Relation][kg.Head])
		vectors[t.Tail].add(&roles[t.Relation][kg.Tail])
	})
	if err != nil {
		return nil, err
	}
	for e := range vectors {
		vectors[e].normalize()
	}

	sums := make([]vector, len(vectors))
	for range sketchRounds {
		clear(sums)
		err := eachTriple(ctx, g, func(t kg.Triple) {
			sums[t.Head].add(&vectors[t.Tail])
			sums[t.Tail].add(&vectors[t.Head])
		})
		if err != nil {
			return nil, err
		}
		for e := range sums {
			v := &vectors[e]
			sums[e].normalize()
			for i, x := range sums[e] {
				v[i] = x + v[i]/2
			}
			v.normalize()
		}
	}
	return vectors, nil
}

// eachTriple calls f for the triples of all splits.
func eachTriple(ctx context.Context, g *kg.Graph, f func(kg.Triple)) error {
	for _, triples := range g.Splits {
		for part := range slices.Chunk(triples, 1<<16) {
			if err := ctx.Err(); err != nil {
				return err
			}
			for _, t := range part {
				f(t)
			}
		}
	}
	return ctx.Err()
}

// bisect numbers count groups from first on among the entities ids, which it reorders: it cuts
// them, and then both parts, along the coordinate in which they vary most, into parts as large as
// the groups they are to hold are many.
func bisect(ctx context.Context, groups []int32, vectors []vector, ids []int32, first, count int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if count <= 1 {
		for _, e := range ids {
			groups[e] = int32(first)
		}
		return nil
	}
	axis := widest(vectors, ids)
	slices.SortFunc(ids, func(a, b int32) int {
		return cmp.Or(cmp.Compare(vectors[a][axis], vectors[b][axis]), cmp.Compare(a, b))
	})
	left := count / 2
	at := len(ids) * left / count
	if err := bisect(ctx, groups, vectors, ids[:at], first, left); err != nil {
		return err
	}
	return bisect(ctx, groups, vectors, ids[at:], first+left, count-left)
}

// widest returns the coordinate in which the vectors of the entities vary most.
func widest(vectors []vector, ids []int32) (axis int) {
	var sums, squares [sketchWidth]float64
	for _, e := range ids {
		for i, x := range vectors[e] {
			sums[i] += float64(x)
			squares[i] += float64(float64(x) * float64(x))
		}
	}
	most := math.Inf(-1)
	for i := range sketchWidth {
		if v := squares[i] - float64(sums[i]*sums[i])/float64(len(ids)); v > most {
			axis, most = i, v
		}
	}
	return axis
}
