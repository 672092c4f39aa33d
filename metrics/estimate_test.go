package metrics

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank"
)

// The interval of the MR contains the exact MR for about 95% of the samples, under each tie rule
// except rounded. The ranks come from targets with known numbers of better and equal candidates.
func TestEstimateInterval(t *testing.T) {
	const queries, population, drawn, rounds = 40, 120, 25, 500
	rng := rand.New(rand.NewPCG(50, 7))
	exact, sampled := make([]rank.Rank, queries), make([]rank.Rank, queries)
	for i := range exact {
		k := rank.Rank{Triple: kg.Triple{Head: int32(i)}, Side: kg.Tail}
		k.Better[rank.All], k.Equal[rank.All] = int32(rng.IntN(60)), int32(rng.IntN(20))
		k.Candidates[rank.All] = population + 1
		exact[i] = k
	}
	for _, ties := range []rank.Ties{rank.Optimistic, rank.Realistic, rank.Pessimistic} {
		want := Measure(exact, rank.TailSide, rank.All, ties, []int{1, 10})
		covered := 0
		for range rounds {
			for i, k := range exact {
				sampled[i] = k
				sampled[i].Better[rank.All], sampled[i].Equal[rank.All] = 0, 0
				for _, c := range rng.Perm(population)[:drawn] {
					switch {
					case int32(c) < k.Better[rank.All]:
						sampled[i].Better[rank.All]++
					case int32(c) < k.Better[rank.All]+k.Equal[rank.All]:
						sampled[i].Equal[rank.All]++
					}
				}
				sampled[i].Scale = float64(population) / drawn
			}
			r := Report{Results: []Result{Measure(sampled, rank.TailSide, rank.All, ties, []int{1, 10})}}
			r.SetEstimate(sampled)
			e := r.Estimate
			if e.MRLow <= want.MR && want.MR <= e.MRHigh {
				covered++
			}
			require.GreaterOrEqual(t, e.Within.MRR, want.MRR)
			require.GreaterOrEqual(t, e.Within.Hits[1].Share, want.Hits[1].Share)
			require.InDelta(t, float64(r.Results[0].MR-1)*drawn/population, float64(e.Within.MR-1), 1e-9)
		}
		// The standard deviation of the share is 0.01.
		assert.InDelta(t, 0.95, float64(covered)/rounds, 0.035, "%v", ties)
	}
}

// TestRankVariance computes the variance from the values of the drawn candidates, one by one.
func TestRankVariance(t *testing.T) {
	const population, drawn, better, equal = 50.0, 10, 3, 4
	for ties, value := range map[rank.Ties]float64{rank.Optimistic: 0, rank.Realistic: 0.5, rank.Pessimistic: 1} {
		values := make([]float64, drawn) // the others stay 0
		for i := range better {
			values[i] = 1
		}
		for i := range equal {
			values[better+i] = value
		}
		mean, squares := 0.0, 0.0
		for _, v := range values {
			mean += v / drawn
		}
		for _, v := range values {
			squares += (v - mean) * (v - mean)
		}
		ofMean := squares / (drawn - 1) / drawn * (1 - drawn/population)
		k := rank.Rank{}
		k.Better[rank.Train], k.Equal[rank.Train] = better, equal
		assert.InDelta(t, population*population*ofMean, float64(rankVariance(&k, rank.Train, ties, population, drawn)),
			1e-9, "%v", ties)
	}
}

// A sample of all candidates has no error, and a sample of one has no interval.
func TestEstimateLimits(t *testing.T) {
	k := rank.Rank{Scale: 1}
	k.Better[rank.None], k.Candidates[rank.None] = 3, 11
	estimate := func() *Estimate {
		ranks := []rank.Rank{k}
		r := Report{Results: []Result{Measure(ranks, rank.TailSide, rank.None, rank.Realistic, nil)}}
		r.Results[0].ClusterCount = ClusterCount{Clusters: 1, Effective: 1}
		r.SetEstimate(ranks)
		return r.Estimate
	}
	e := estimate()
	assert.EqualValues(t, 4, e.MRLow)
	assert.EqualValues(t, 4, e.MRHigh)
	assert.Equal(t, ClusterCount{Clusters: 1, Effective: 1}, e.Within.ClusterCount)
	assert.True(t, e.Exact)
	assert.Equal(t, "Every candidate was drawn for every query, so the metrics are exact.",
		e.Notes(&Sample{Candidates: 10}, TableOptions{}))
	k.Scale, k.Better[rank.None] = 10, 1
	e = estimate()
	text, err := json.Marshal(e)
	require.NoError(t, err)
	assert.Contains(t, string(text), `"mr_ci_low":null,"mr_ci_high":null`)
	assert.EqualValues(t, 2, e.Within.MR)
	assert.False(t, e.Exact)
	notes := strings.ReplaceAll(e.Notes(&Sample{Candidates: 1}, TableOptions{}), "\n", " ")
	assert.Contains(t, notes, "1 candidate drawn for each query stands for all candidates. ")
	assert.Contains(t, notes, "the exact MR has no interval, because the spread of one drawn candidate is unknown. ")
	notes = strings.ReplaceAll(e.Notes(&Sample{Candidates: 1}, TableOptions{NoCI: true}), "\n", " ")
	assert.Contains(t, notes, "AMRI are unbiased. MRR is too high on average, and Hits@k, the median and GMR are "+
		"biased too. Ranks within the samples: ")
	assert.NotContains(t, notes, "interval")
}
