package metrics

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank"
)

// Clustering says which test triples are resampled and exchanged as one unit: intervals resample
// whole clusters, and permutations exchange whole clusters. docs/intervals.md tells
// what each is for, and how they compare on real splits.
type Clustering uint8

const (
	// ByTriple takes every test triple by itself, with the ranks of both its sides.
	ByTriple Clustering = iota
	// ByQuery takes the triples of a query together. A triple has two, (h, r, ?) and (?, r, t),
	// and goes with the one that has more test triples, (h, r, ?) if they have the same number.
	ByQuery
	// ByEntity takes the triples of an entity together. A triple has two, and goes with the one
	// that is in more test triples, the head if both are in the same number.
	ByEntity
	// ByRelation takes the triples of a relation together.
	ByRelation
)

var clusteringNames = []string{"triple", "query", "entity", "relation"}

// String returns "triple", "query", "entity" or "relation".
func (c Clustering) String() string { return text.Name(clusteringNames, c, "Clustering") }

// MarshalText returns the same as String, for JSON.
func (c Clustering) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText is the inverse of MarshalText.
func (c *Clustering) UnmarshalText(name []byte) (err error) {
	*c, err = text.ParseName[Clustering](clusteringNames, string(name), "clustering")
	return err
}

// ClusterCount tells how many clusters an interval has behind it.
type ClusterCount struct {
	Clusters int `json:"clusters"`
	// Effective is the number of clusters of equal size that say as much about the mean:
	// (Σn)²/Σn² for clusters of n ranks (Kish, Survey Sampling, 1965). There is no interval if
	// it is less than 10.
	Effective Number `json:"effective_clusters"`
}

// leastClusters is the least effective number of clusters that gives an interval: with fewer,
// 95% intervals hold the mean too rarely.
const leastClusters = 10

// cluster names a cluster that is not of a single triple: a query, an entity or a relation,
// whose other fields are −1.
type cluster kg.Query

// of returns the clusters that a triple could go with; it may be the same one twice.
func (c Clustering) of(t kg.Triple) [2]cluster {
	switch c {
	case ByQuery:
		return [2]cluster{{kg.Tail, t.Relation, t.Head}, {kg.Head, t.Relation, t.Tail}}
	case ByEntity:
		return [2]cluster{{Relation: -1, Anchor: t.Head}, {Relation: -1, Anchor: t.Tail}}
	default:
		relation := cluster{Relation: t.Relation, Anchor: -1}
		return [2]cluster{relation, relation}
	}
}

// number returns the number of each rank's cluster and the count of clusters.
func (c Clustering) number(ranks []rank.Rank) (numbers []int32, count int) {
	if c == ByTriple {
		return numberTriples(ranks)
	}
	// A triple has as many ranks as any other, so that ranks can be counted for triples.
	sizes := map[cluster]int{}
	for i := range ranks {
		of := c.of(ranks[i].Triple)
		sizes[of[0]]++
		if of[1] != of[0] {
			sizes[of[1]]++
		}
	}
	known := map[cluster]int32{}
	numbers = make([]int32, len(ranks))
	for i := range ranks {
		of := c.of(ranks[i].Triple)
		larger := of[0]
		if sizes[of[1]] > sizes[of[0]] {
			larger = of[1]
		}
		number, ok := known[larger]
		if !ok {
			number = int32(len(known))
			known[larger] = number
		}
		numbers[i] = number
	}
	return numbers, len(known)
}

// countClusters counts the clusters of the ranks of the given indices.
func countClusters(numbers, of []int32) ClusterCount {
	sizes := map[int32]int{}
	for _, i := range of {
		sizes[numbers[i]]++
	}
	var squares int
	for _, n := range sizes {
		squares += n * n
	}
	return ClusterCount{len(sizes), ratio(float64(len(of))*float64(len(of)), float64(squares))}
}

// tail returns which of 1,000 resampled means, in order, bound a 95% interval: the tail-th and the
// (1,000 − tail)-th. It is 0 if there are too few clusters for an interval. It is 25 for many
// clusters. A resample of n clusters varies less than a sample of them, by the factor
// √((n−1)/n), and the variance of few is not well known, so that quantiles of Student's
// distribution take the place of the normal one's (Hesterberg, What Teachers Should Know about
// the Bootstrap, 2015: the expanded percentile interval), here for the effective number.
func (c ClusterCount) tail() int {
	n := float64(c.Effective)
	if !(n >= leastClusters) {
		return 0
	}
	t := distuv.StudentsT{Sigma: 1, Nu: n - 1}.Quantile(0.975)
	return int(math.Ceil(1000 * distuv.UnitNormal.Survival(t*math.Sqrt(n/(n-1)))))
}
