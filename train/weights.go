package train

import (
	"context"
	"math"
	"slices"

	"github.com/mquine/mquine/kg"
)

// headProbabilities returns tph/(tph + hpt) for each relation, where tph is the mean number of
// tails per head and hpt is the mean number of heads per tail (TransH; Wang et al., 2014).
func headProbabilities(ctx context.Context, triples []kg.Triple, known *kg.Index) ([]float64, error) {
	_, relations := known.Sizes()
	count := make([]float64, relations)
	anchors := [2][]float64{make([]float64, relations), make([]float64, relations)}
	seen := make([]bool, known.Queries())
	err := forQueries(ctx, triples, known, func(_, number int, q kg.Query) {
		if q.Side == kg.Tail {
			count[q.Relation]++
		}
		if !seen[number] {
			seen[number] = true
			anchors[q.Side][q.Relation]++
		}
	})
	probabilities := make([]float64, relations)
	for r := range probabilities {
		if count[r] > 0 {
			tph, hpt := count[r]/anchors[kg.Tail][r], count[r]/anchors[kg.Head][r]
			probabilities[r] = tph / (tph + hpt)
		}
	}
	return probabilities, err
}

// subsamplingWeights returns 1/√(n(h, r) + n(r, t)) for each triple. Each count n is 3 plus the
// number of triples that answer the query, as in the RotatE code (dataloader.py, count_frequency).
func subsamplingWeights(ctx context.Context, triples []kg.Triple, known *kg.Index) ([]float64, error) {
	const start = 3
	counts := make([]int32, known.Queries())
	err := forQueries(ctx, triples, known, func(_, number int, _ kg.Query) { counts[number]++ })
	if err != nil {
		return nil, err
	}
	weights := make([]float64, len(triples))
	err = forQueries(ctx, triples, known, func(i, number int, _ kg.Query) {
		weights[i] += float64(counts[number] + start)
	})
	for i, n := range weights {
		weights[i] = 1 / math.Sqrt(n)
	}
	return weights, err
}

// degreeWeights returns 0.1 + 0.9·n/max n for each entity, where n is its degree (DURA; Zhang et al.,
// 2020; the option -weight of its code, datasets.py, get_weight). Such a weight multiplies the loss of
// a query with this target.
func degreeWeights(degrees []float64) []float64 {
	largest := slices.Max(degrees)
	weights := make([]float64, len(degrees))
	for e, n := range degrees {
		weights[e] = 0.1 + 0.9*n/largest
	}
	return weights
}
