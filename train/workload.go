package train

import (
	"fmt"
	"sort"

	"github.com/mquine/mquine/kg"
)

// workload lists the queries and feature rows of a step, and the (query, feature row) pairs to
// score. A feature row is the feature vector φ of one entity.
type workload struct {
	epoch, step int
	positives   []kg.Triple // the batch; with kvsall, a triple for each target of each main query

	// queries holds the main queries, whose targets complete the positives, and then the distinct
	// queries of the Z-samples. The main queries are ordered by side and then by relation.
	queries []kg.Query
	main    int // number of main queries
	// The targets of main query i are answers[k] for firstAnswer[i] ≤ k < firstAnswer[i+1]. Only with
	// kvsall does a query have more than one, so otherwise the target is answers[i].
	answers, firstAnswer []int32
	// weights holds the weight of each main query in the loss. The weights add up to 1.
	weights []float64
	// penaltyCounts holds how many times the penalty of each main query counts: once or, with
	// kvsall, twice for each answer, because the query for the other side may be in a different
	// batch.
	penaltyCounts []float64

	// matrices lists the score matrices in the order of their queries. Together they cover the first
	// feature rows and all main queries. With independent negatives there are none.
	matrices []scoreMatrix
	rows     []int32 // the entity of each feature row
	// rowSegments divides the feature rows by the side and the relation of their queries, if the model's
	// features depend on one of them. Otherwise it is empty.
	rowSegments []rowSegment

	// The pairs of query i are pairs[i] ≤ k < pairs[i+1], and pair k has feature row pairRows[k]. A
	// main query has no pairs if its score matrix contains all entities. Otherwise its pairs are its
	// target and then its independent negatives.
	pairs    []int32
	pairRows []int32
	zWeights []float64 // the weight of each pair of the Z-samples' queries

	// relationCandidates holds the relations of the model that relation prediction contrasts with the
	// relation of a target, in ascending order. The model has two of them for each relation of the data
	// set if relations are reciprocal.
	relationCandidates []int32
}

// rowSegment is a range of feature rows for queries of one side and relation. If features depend on
// the side alone, relation is any relation of these queries.
type rowSegment struct {
	side        kg.Side
	relation    int32
	first, last int
}

// scoreMatrix is a range of main queries and a range of feature rows. Every query in it is scored
// against every row in it.
type scoreMatrix struct{ query, lastQuery, row, lastRow int }

// denseQueries returns the number of queries in score matrices. They are the first queries.
func (w *workload) denseQueries() int {
	if len(w.matrices) == 0 {
		return 0
	}
	return w.matrices[len(w.matrices)-1].lastQuery
}

// scoresAllEntities reports whether the feature rows are all entities in ascending order, and all of them
// belong to score matrices.
func (w *workload) scoresAllEntities(entities int) bool {
	if w.denseRows() != entities || len(w.rows) != entities {
		return false
	}
	for i, e := range w.rows {
		if int(e) != i {
			return false
		}
	}
	return true
}

// targets returns the targets of main query i.
func (w *workload) targets(i int) []int32 {
	return w.answers[w.firstAnswer[i]:w.firstAnswer[i+1]]
}

// denseRows returns the number of feature rows in score matrices. They are the first rows.
func (w *workload) denseRows() int {
	if len(w.matrices) == 0 {
		return 0
	}
	return w.matrices[len(w.matrices)-1].lastRow
}

// pairsOf returns the range of the pairs of query i.
func (w *workload) pairsOf(i int) (first, last int32) { return w.pairs[i], w.pairs[i+1] }

// matrixOf returns the score matrix of main query i. The query must be in a score matrix.
func (w *workload) matrixOf(i int) scoreMatrix {
	k := sort.Search(len(w.matrices), func(k int) bool { return i < w.matrices[k].lastQuery })
	if k == len(w.matrices) || i < w.matrices[k].query {
		panic(fmt.Sprintf("train: query %d is in no score matrix", i))
	}
	return w.matrices[k]
}

// extendSegment adds the last feature row to the segment of a query.
func (w *workload) extendSegment(q kg.Query) {
	last := len(w.rows)
	if n := len(w.rowSegments); n > 0 {
		if g := &w.rowSegments[n-1]; g.side == q.Side && g.relation == q.Relation {
			g.last = last
			return
		}
	}
	w.rowSegments = append(w.rowSegments, rowSegment{q.Side, q.Relation, last - 1, last})
}
