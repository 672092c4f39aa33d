package train

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/train/recipe"
)

// degreePower is the exponent of the distribution called degree.
const degreePower = 0.75

// sampler draws negative samples. It is safe for concurrent use.
type sampler struct {
	entities int
	known    *kg.Index
	// cumulative holds the cumulative weights of the entities. It is nil if all weights are equal.
	cumulative []float64
	// guide divides the range of the cumulative weights into equal parts. guide[p] is the first entity
	// whose cumulative weight is in part p or a later part, so a draw in part p finds its entity there
	// or a little further on. (Chen and Asau, 1974)
	guide []int32
	// parts is the number of parts per unit of weight.
	parts float64
}

func newSampler(c *recipe.Recipe, entities int, triples []kg.Triple, known *kg.Index) *sampler {
	s := &sampler{entities: entities, known: known}
	if c.Distribution == recipe.Degree {
		weights, sum := degrees(entities, triples), 0.0
		for e, n := range weights {
			sum += math.Pow(n, degreePower)
			weights[e] = sum
		}
		s.cumulative = weights
		s.makeGuide()
	}
	return s
}

// makeGuide fills guide, with as many parts as entities.
func (s *sampler) makeGuide() {
	s.guide = make([]int32, s.entities)
	s.parts = float64(s.entities) / s.cumulative[s.entities-1]
	p := 0
	for e, c := range s.cumulative {
		for last := s.part(c); p <= last; p++ {
			s.guide[p] = int32(e)
		}
	}
	for ; p < s.entities; p++ { // rounding may leave the last part empty
		s.guide[p] = int32(s.entities - 1)
	}
}

// part returns the part of guide that contains x. Rounding moves the borders of the parts but keeps their
// order: if x < y, the part of x is not after the part of y. So no entity before guide[part(x)] has a
// cumulative weight above x.
func (s *sampler) part(x float64) int { return min(int(x*s.parts), s.entities-1) }

// degrees returns how many times each entity is the head or the tail of a triple.
func degrees(entities int, triples []kg.Triple) []float64 {
	degrees := make([]float64, entities)
	for _, t := range triples {
		degrees[t.Head]++
		degrees[t.Tail]++
	}
	return degrees
}

// draw returns a random entity.
func (s *sampler) draw(rng *rand.Rand) int32 {
	if s.cumulative == nil {
		return rng.Int32N(int32(s.entities))
	}
	x := rng.Float64() * s.cumulative[s.entities-1]
	return s.at(x)
}

// at returns the first entity with a cumulative weight above x, or the last entity if none has. On average
// over x, the loop ends after at most two entities.
func (s *sampler) at(x float64) int32 {
	e := s.guide[s.part(x)]
	for last := int32(s.entities - 1); e < last && s.cumulative[e] <= x; {
		e++
	}
	return e
}

// tries is the largest number of draws per requested negative. A sampler returns fewer negatives
// than requested if almost all entities are known answers or have negligible weights.
const tries = 50

// shared appends up to n distinct entities to dst, in ascending order, or all entities if there are
// at most n. taken contains one value for each entity; all values are false before and after the
// call.
func (s *sampler) shared(dst []int32, n int, taken []bool, rng *rand.Rand) []int32 {
	first := len(dst)
	if n >= s.entities {
		return appendRange(dst, s.entities)
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

// independent appends up to n negatives of a query to dst, possibly with repeats. It leaves out the
// target and, with filter, all training answers.
func (s *sampler) independent(dst []int32, q kg.Query, target int32, n int, filter bool, rng *rand.Rand) []int32 {
	known := s.known.Answers(q)
	first := len(dst)
	for range n * tries {
		if len(dst)-first == n {
			break
		}
		e := s.draw(rng)
		if e == target || filter && isTrainAnswer(known, e) {
			continue
		}
		dst = append(dst, e)
	}
	return dst
}

// isTrainAnswer reports whether e is an answer in the training split.
func isTrainAnswer(known kg.Answers, e int32) bool {
	i, found := slices.BinarySearch(known.Entities, e)
	return found && known.Splits[i].Has(kg.Train)
}
