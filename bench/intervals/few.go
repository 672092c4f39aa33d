package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"text/tabwriter"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/rank"
)

// sizes describes the simulated clusters.
type sizes struct {
	name     string
	exponent float64 // exponent of the Pareto distribution of sizes, cut off at 1,000; 0 means 10 triples each
	easier   bool    // whether clusters of more than 20 triples have better ranks
	rare     bool    // whether a cluster is one triple, whose rank is seldom good
}

// draw returns the ranks of a cluster. Each is 1 with a probability drawn for the cluster, and 10
// otherwise. If good ranks are rare, it is 1 with the probability 0.05, and 1,000 otherwise.
func (s sizes) draw(rng *rand.Rand, cluster int) []rank.Rank {
	n, worse := 10, int32(9)
	if s.exponent > 0 {
		n = int(min(1000, math.Pow(rng.Float64(), -1/s.exponent)))
	}
	chance := math.Pow(rng.Float64(), 2)
	switch {
	case s.easier && n > 20:
		chance = math.Sqrt(chance)
	case s.rare:
		n, worse, chance = 1, 999, 0.05
	}
	ranks := make([]rank.Rank, n)
	for i := range ranks {
		ranks[i].Triple = kg.Triple{Head: int32(i), Relation: int32(cluster)}
		if rng.Float64() >= chance {
			ranks[i].Better[rank.All] = worse
		}
	}
	return ranks
}

// writeFew prints how often intervals from simulated clusters contain the true mean, both for plain
// bootstrap percentiles and for metrics.Summarize.
func writeFew(ctx context.Context, t *tabwriter.Writer, o options) error {
	fmt.Fprintln(t, "clusters\tsize\teffective\twith an interval\tpercentiles\texpanded\t")
	for _, s := range []sizes{
		{name: "equal"}, {name: "Pareto 2", exponent: 2}, {name: "Pareto 1.2", exponent: 1.2},
		{name: "large ones easier", exponent: 1.2, easier: true}, {name: "one triple, rarely good", rare: true},
	} {
		rng := rand.New(rand.NewPCG(o.seed, 1))
		trueMean := s.mean(rng)
		for _, clusters := range []int{10, 20, 50, 200} {
			var effective []float64
			var have, plain, expanded float64
			for range o.samples {
				var ranks []rank.Rank
				var sums, counts []float64
				for c := range clusters {
					drawn := s.draw(rng, c)
					ranks = append(ranks, drawn...)
					sums, counts = append(sums, reciprocals(drawn)), append(counts, float64(len(drawn)))
				}
				results, _, err := metrics.Summarize(ctx, ranks, metrics.SummaryOptions{
					Sides: rank.TailSide, Filters: []rank.Filter{rank.All}, CIBy: metrics.ByRelation,
				})
				if err != nil {
					return err
				}
				r := results[rank.Realistic]
				effective = append(effective, float64(r.Effective))
				if math.IsNaN(float64(r.MRRCI[0])) {
					continue
				}
				have++
				if float64(r.MRRCI[0]) <= trueMean && trueMean <= float64(r.MRRCI[1]) {
					expanded++
				}
				if low, high := percentiles(rng, sums, counts); low <= trueMean && trueMean <= high {
					plain++
				}
			}
			slices.Sort(effective)
			fmt.Fprintf(t, "%d\t%s\t%.0f\t%.0f\t%s\t%s\t\n", clusters, s.name, effective[len(effective)/2], have,
				share(plain, have), share(expanded, have))
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// mean estimates the true mean of 1/rank from many clusters.
func (s sizes) mean(rng *rand.Rand) float64 {
	var sum, count float64
	for range 400_000 {
		ranks := s.draw(rng, 0)
		sum += reciprocals(ranks)
		count += float64(len(ranks))
	}
	return sum / count
}

// reciprocals returns the sum of 1/rank over the ranks.
func reciprocals(ranks []rank.Rank) (sum float64) {
	for i := range ranks {
		sum += 1 / rank.Realistic.Rank(&ranks[i], rank.All)
	}
	return sum
}

// percentiles returns the plain 95% bootstrap interval that results from resampling clusters.
func percentiles(rng *rand.Rand, sums, counts []float64) (low, high float64) {
	means := make([]float64, 1000)
	for i := range means {
		var sum, count float64
		for range sums {
			c := rng.IntN(len(sums))
			sum += sums[c]
			count += counts[c]
		}
		means[i] = sum / count
	}
	slices.Sort(means)
	return means[24], means[974]
}
