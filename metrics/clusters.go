package metrics

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank"
)

// Clustering groups test triples into clusters. Intervals resample whole clusters, and permutations
// swap whole clusters. docs/intervals.md says which clustering answers which question, and compares
// the clusterings on real splits.
type Clustering uint8

const (
	// ByTriple makes each test triple a cluster, with the ranks of both sides.
	ByTriple Clustering = iota
	// ByQuery makes the triples of a query a cluster. A triple belongs to its query (h, r, ?) or
	// (?, r, t), whichever has more test triples, or to (h, r, ?) if both have the same number. If
	// relations are ranked, it belongs to (h, ?, t).
	ByQuery
	// ByEntity makes the triples of an entity a cluster. A triple belongs to its head or its tail,
	// whichever has more test triples, or to the head if both have the same number.
	ByEntity
	// ByRelation makes the triples of a relation a cluster.
	ByRelation
)

var clusteringNames = []string{"triple", "query", "entity", "relation"}

// String returns "triple", "query", "entity" or "relation".
func (c Clustering) String() string { return text.Name(clusteringNames, c, "Clustering") }

// MarshalText returns the text of String, for JSON.
func (c Clustering) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText is the inverse of MarshalText.
func (c *Clustering) UnmarshalText(name []byte) (err error) {
	*c, err = text.ParseName[Clustering](clusteringNames, string(name), "clustering")
	return err
}

// ClusterCount is the number of clusters behind an interval.
type ClusterCount struct {
	Clusters int `json:"clusters"`
	// Effective is the number of clusters of equal size that would estimate the mean equally well:
	// (Σn)²/Σn² for clusters of n ranks (Kish, Survey Sampling, 1965). There is no interval if it
	// is less than 10.
	Effective Number `json:"effective_clusters"`
}

// EffectiveText formats the effective number with one decimal. It rounds down, so that a number that is too
// small for an interval does not look like one that is large enough.
func (c ClusterCount) EffectiveText() string {
	return Number(math.Floor(10*float64(c.Effective)) / 10).Format(1)
}

// leastClusters is the least effective number of clusters for an interval. With fewer clusters, 95%
// intervals contain the mean too rarely.
const leastClusters = 10

// cluster identifies a cluster by its query, entity or relation. Relation and Anchor are −1 if the
// clustering does not need them.
type cluster kg.Query

// of returns the two clusters to which the triple of a rank could belong. They may be equal.
func (c Clustering) of(r *rank.Rank) [2]cluster {
	t := r.Triple
	switch c {
	case ByQuery:
		if r.Side == kg.Relation {
			pair := cluster{r.Side, t.Tail, t.Head} // the field Relation holds the tail
			return [2]cluster{pair, pair}
		}
		return [2]cluster{{kg.Tail, t.Relation, t.Head}, {kg.Head, t.Relation, t.Tail}}
	case ByEntity:
		return [2]cluster{{Relation: -1, Anchor: t.Head}, {Relation: -1, Anchor: t.Tail}}
	default:
		relation := cluster{Relation: t.Relation, Anchor: -1}
		return [2]cluster{relation, relation}
	}
}

// number numbers the clusters of ranks. It returns the number of each rank's cluster, and how many
// clusters there are.
func (c Clustering) number(ranks []rank.Rank) (numbers []int32, count int) {
	if c == ByTriple {
		return numberTriples(ranks)
	}
	// Count ranks instead of triples: unless queries are left out, all triples have the same number
	// of ranks.
	sizes := map[cluster]int{}
	for i := range ranks {
		of := c.of(&ranks[i])
		sizes[of[0]]++
		if of[1] != of[0] {
			sizes[of[1]]++
		}
	}
	known := map[cluster]int32{}
	numbers = make([]int32, len(ranks))
	for i := range ranks {
		of := c.of(&ranks[i])
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

// countClusters counts the clusters of the ranks with the given indices.
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

// tail returns the percentile of a 95% interval in thousandths: the tail-th and the (1,000 −
// tail)-th of 1,000 sorted means bound it. It is 25 for many clusters, and 0 if there are too few
// for an interval.
//
// For few clusters it is smaller, which gives the expanded percentile interval (Hesterberg, What
// Teachers Should Know about the Bootstrap, 2015) for the effective number n of clusters. Resamples
// vary less than samples, by the factor √((n−1)/n), and the variance is itself an estimate, for
// which Student's distribution replaces the normal one.
func (c ClusterCount) tail() int {
	n := float64(c.Effective)
	if !(n >= leastClusters) {
		return 0
	}
	t := distuv.StudentsT{Sigma: 1, Nu: n - 1}.Quantile(0.975)
	return int(math.Ceil(1000 * distuv.UnitNormal.Survival(t*math.Sqrt(n/(n-1)))))
}
