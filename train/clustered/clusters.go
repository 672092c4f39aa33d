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
	// sketchRounds is the largest distance at which other entities influence the vector.
	sketchRounds = 8
)

// clusterEntities divides the N entities of g into about √N clusters. It returns the cluster of
// each entity and the number of clusters. In a graph from synth.Zipf, the clusters are the planted
// ones. In other graphs, they have almost equal sizes, and entities with similar relations and
// neighbours share a cluster.
func clusterEntities(ctx context.Context, g *kg.Graph, seed uint64) (clusters []int32, count int, err error) {
	count = int(math.Round(math.Sqrt(float64(g.Entities.Len()))))
	if clusters, n := planted(g, 2*count); n > 0 {
		return clusters, n, nil
	}
	vectors, err := sketch(ctx, g, seed)
	if err != nil {
		return nil, 0, err
	}
	clusters = make([]int32, g.Entities.Len())
	ids := make([]int32, len(clusters))
	for e := range ids {
		ids[e] = int32(e)
	}
	return clusters, count, bisect(ctx, clusters, vectors, ids, 0, count)
}

// planted returns the clusters that the labels of the entities name, and the number of clusters.
// The number of clusters is 0 if a label does not name a cluster, or names a cluster whose index is
// at least limit.
func planted(g *kg.Graph, limit int) (clusters []int32, count int) {
	clusters = make([]int32, g.Entities.Len())
	for e, label := range g.Entities.Labels() {
		cluster, ok := synth.Group(label)
		if !ok || cluster >= limit {
			return nil, 0
		}
		clusters[e] = int32(cluster)
		count = max(count, cluster+1)
	}
	return clusters, count
}

// vector describes an entity.
type vector [sketchWidth]float32

func (v *vector) add(u *vector) {
	for i, x := range u {
		v[i] += x
	}
}

// normalise scales v to norm 1, unless it is zero.
func (v *vector) normalise() {
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

// sketch returns a vector of norm 1 for each entity that occurs in a triple, and zero for all other
// entities. The vector starts as the vector of the entity from roleVectors. Each round halves the
// vector, adds the direction of the sum of the neighbours' vectors, and normalises the result.
func sketch(ctx context.Context, g *kg.Graph, seed uint64) ([]vector, error) {
	vectors, err := roleVectors(ctx, g, seed)
	if err != nil {
		return nil, err
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
			sums[e].normalise()
			for i, x := range sums[e] {
				v[i] = x + v[i]/2
			}
			v.normalise()
		}
	}
	return vectors, nil
}

// roleVectors returns, for each entity, the normalised sum of random vectors, one for each
// occurrence of the entity in a triple. The relation and the side of the occurrence determine the
// random vector.
func roleVectors(ctx context.Context, g *kg.Graph, seed uint64) ([]vector, error) {
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
	for e := range vectors {
		vectors[e].normalise()
	}
	return vectors, err
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

// bisect divides the entities in ids among clusters first ≤ c < first+count, and reorders ids. It
// sorts ids by the coordinate with the largest variance and cuts them into two parts, whose sizes are
// in proportion to their numbers of clusters. Then it bisects each part.
func bisect(ctx context.Context, clusters []int32, vectors []vector, ids []int32, first, count int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if count <= 1 {
		for _, e := range ids {
			clusters[e] = int32(first)
		}
		return nil
	}
	axis := widest(vectors, ids)
	slices.SortFunc(ids, func(a, b int32) int {
		return cmp.Or(cmp.Compare(vectors[a][axis], vectors[b][axis]), cmp.Compare(a, b))
	})
	left := count / 2
	at := len(ids) * left / count
	if err := bisect(ctx, clusters, vectors, ids[:at], first, left); err != nil {
		return err
	}
	return bisect(ctx, clusters, vectors, ids[at:], first+left, count-left)
}

// widest returns the coordinate in which the vectors of the entities in ids have the largest
// variance.
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
