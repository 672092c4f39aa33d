package train

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/train/recipe"
)

// degreePower is the power of the degree to which the distribution degree draws entities.
const degreePower = 0.75

// sampler draws negatives. It does not change and is safe for concurrent use.
type sampler struct {
	entities int
	known    *kg.Index
	// cumulated are the sums of the entities' weights; nil if they are alike.
	cumulated []float64
}

func newSampler(c *recipe.Recipe, entities int, triples []kg.Triple, known *kg.Index) *sampler {
	s := &sampler{entities: entities, known: known}
	if c.Distribution == recipe.Degree {
		weights := make([]float64, entities)
		for _, t := range triples {
			weights[t.Head]++
			weights[t.Tail]++
		}
		sum := 0.0
		for e, n := range weights {
			sum += math.Pow(n, degreePower)
			weights[e] = sum
		}
		s.cumulated = weights
	}
	return s
}

func (s *sampler) draw(rng *rand.Rand) int32 {
	if s.cumulated == nil {
		return rng.Int32N(int32(s.entities))
	}
	x := rng.Float64() * s.cumulated[s.entities-1]
	return int32(min(sort.Search(s.entities, func(i int) bool { return s.cumulated[i] > x }), s.entities-1))
}

// tries is how many draws a wanted negative may take: where almost all entities are known answers,
// or negligible in the distribution, there are fewer negatives.
const tries = 50

// shared appends up to n different entities to dst, in ascending order; all of them if n is no less
// than their number. taken has a false for each entity, and is left so.
func (s *sampler) shared(dst []int32, n int, taken []bool, rng *rand.Rand) []int32 {
	first := len(dst)
	if n >= s.entities {
		for e := range s.entities {
			dst = append(dst, int32(e))
		}
		return dst
	}
	for range n * tries {
		if len(dst)-first == n {
			break
		}
		if e := s.draw(rng); !taken[e] {
			taken[e] = true
			dst = append(dst, e)
		}
	}
	for _, e := range dst[first:] {
		taken[e] = false
	}
	slices.Sort(dst[first:])
	return dst
}

// independent appends up to n negatives of a query, which may repeat, to dst: no answer that train
// knows if filter is set, and never the answer itself.
func (s *sampler) independent(dst []int32, q kg.Query, answer int32, n int, filter bool, rng *rand.Rand) []int32 {
	known := s.known.Answers(q)
	first := len(dst)
	for range n * tries {
		if len(dst)-first == n {
			break
		}
		e := s.draw(rng)
		if e == answer || filter && isTrainAnswer(known, e) {
			continue
		}
		dst = append(dst, e)
	}
	return dst
}

// isTrainAnswer tells whether the training split knows e as an answer.
func isTrainAnswer(known kg.Answers, e int32) bool {
	i, found := slices.BinarySearch(known.Entities, e)
	return found && known.Splits[i].Has(kg.Train)
}
