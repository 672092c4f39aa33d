package train

import (
	"math"
	"slices"

	"github.com/mquine/mquine/kg"
)

// headProbabilities returns tph/(tph + hpt) for each relation, where tph is the mean number of
// tails per head and hpt is the mean number of heads per tail (TransH; Wang et al., 2014).
func headProbabilities(triples []kg.Triple, relations int) []float64 {
	count := make([]float64, relations)
	anchors := [2][]float64{make([]float64, relations), make([]float64, relations)}
	seen := map[kg.Query]bool{}
	for _, t := range triples {
		count[t.Relation]++
		for _, side := range []kg.Side{kg.Tail, kg.Head} {
			if q, _ := t.Query(side); !seen[q] {
				seen[q] = true
				anchors[side][t.Relation]++
			}
		}
	}
	probabilities := make([]float64, relations)
	for r := range probabilities {
		if count[r] > 0 {
			tph, hpt := count[r]/anchors[kg.Tail][r], count[r]/anchors[kg.Head][r]
			probabilities[r] = tph / (tph + hpt)
		}
	}
	return probabilities
}

// subsamplingWeights returns 1/√(n(h, r) + n(r, t)) for each triple. Each count n is 3 plus the
// number of triples that answer the query, as in the RotatE code (dataloader.py, count_frequency).
func subsamplingWeights(triples []kg.Triple) []float64 {
	const start = 3
	counts := map[kg.Query]int{}
	for _, t := range triples {
		for _, side := range []kg.Side{kg.Tail, kg.Head} {
			q, _ := t.Query(side)
			counts[q]++
		}
	}
	weights := make([]float64, len(triples))
	for i, t := range triples {
		tail, _ := t.Query(kg.Tail)
		head, _ := t.Query(kg.Head)
		weights[i] = 1 / math.Sqrt(float64(counts[tail]+counts[head]+2*start))
	}
	return weights
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
