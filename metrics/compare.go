package metrics

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank"
)

// CompareOptions says what Compare reports.
type CompareOptions struct {
	// Sides are the sides that were ranked; BothSides gives tail, head and both.
	Sides  rank.Sides
	Filter rank.Filter
	Ties   rank.Ties
	// Hits are the cut-offs k of Hits@k, at least 1.
	Hits []int
	// Keys are the groups to report, of the base's ranks.
	Keys []Key
	// Changed bounds the list of changed queries.
	Changed int
	// CIBy says what the intervals resample and what the permutations exchange.
	CIBy Clustering
	// Threads bounds the threads; 0 takes one for each processor.
	Threads int
}

// Comparison tells how a checkpoint's ranks differ from those of another, the base, on the same
// queries.
type Comparison struct {
	// Whole has a contrast for each selection of sides, Groups for each group and selection.
	Whole  []Contrast
	Groups []Contrast
	// Changed lists the queries whose 1/rank changed most, the largest change first.
	Changed []Change
}

// Contrast compares the ranks of a group of queries.
type Contrast struct {
	// By and Group name the group; they are empty for all queries.
	By    string     `json:"by,omitempty"`
	Group string     `json:"group,omitempty"`
	Side  rank.Sides `json:"side"`
	N     int        `json:"n"`
	ClusterCount
	// Wins counts the queries whose rank is better than the base's, Losses those whose rank is
	// worse, Equal the others.
	Wins    int                `json:"wins"`
	Losses  int                `json:"losses"`
	Equal   int                `json:"equal"`
	Metrics []MetricDifference `json:"metrics"`
}

// MetricDifference compares one metric: MRR, MR or Hits@k.
type MetricDifference struct {
	Metric string `json:"metric"`
	Base   Number `json:"base"`
	Other  Number `json:"other"`
	// Difference is Other − Base, and CI its bootstrap 95% interval, undefined where there are
	// too few clusters.
	Difference Number    `json:"difference"`
	CI         [2]Number `json:"ci"`
	// P is the two-sided p-value of the permutation test.
	P Number `json:"p"`
}

// Change is a query with two ranks.
type Change struct {
	Triple      kg.Triple
	Side        kg.Side
	Base, Other float64
}

const (
	permutations    = 10_000
	permutationSeed = 20240522
)

// Compare compares the ranks of another checkpoint with those of a base. Both must be of the same
// queries in the same order; they may be in the identifiers of different vocabularies, and those
// of the base are used.
//
// The intervals are those of Summarize, for the differences: from 1,000 resamples of the clusters
// of test triples, each with all its ranks of both checkpoints. The test is a
// permutation test (Noreen, Computer-Intensive Methods for Testing Hypotheses, 1989): in each of
// 10,000 permutations every cluster's ranks of the two checkpoints are exchanged or not, by
// the toss of a coin, and the p-value is the share of the permutations, the observation counted
// as one more, whose difference is as far from 0. Seeds are fixed, and results do not depend on
// the number of threads. P-values are not adjusted for the number of tests.
func Compare(ctx context.Context, base, other []rank.Rank, o CompareOptions) (Comparison, error) {
	if len(base) != len(other) {
		return Comparison{}, fmt.Errorf(
			"the ranks of %d queries cannot be compared with those of %d others", len(base), len(other))
	}
	for i := range base {
		if base[i].Side != other[i].Side {
			return Comparison{}, fmt.Errorf(
				"query %d asks for the %v in one ranking and for the %v in the other", i+1, base[i].Side, other[i].Side)
		}
	}
	p := pairing{o: o, base: base, other: other, metrics: comparedMetrics(o.Hits)}
	p.clusters, p.count = o.CIBy.number(base)

	groups, names := groupsOf(base, o.Keys)
	var contrasts []Contrast
	sides := selections(o.Sides)
	for i, m := range groups {
		for _, s := range sides {
			c := Contrast{By: names[i].by, Group: names[i].group, Side: s}
			p.observe(&c, m.on(s))
			contrasts = append(contrasts, c)
		}
	}
	if err := p.infer(ctx, groups, contrasts); err != nil {
		return Comparison{}, err
	}
	return Comparison{contrasts[:len(sides)], contrasts[len(sides):], p.changed()}, nil
}

// comparedMetric is a mean over queries of a number that depends on the rank.
type comparedMetric struct {
	name string
	of   func(rank float64) float64
}

func comparedMetrics(hits []int) []comparedMetric {
	metrics := []comparedMetric{
		{"MRR", func(r float64) float64 { return 1 / r }},
		{"MR", func(r float64) float64 { return r }},
	}
	for _, k := range hits {
		metrics = append(metrics, comparedMetric{fmt.Sprintf("Hits@%d", k), func(r float64) float64 {
			if r <= float64(k) {
				return 1
			}
			return 0
		}})
	}
	return metrics
}

// pairing is one comparison.
type pairing struct {
	o           CompareOptions
	base, other []rank.Rank
	metrics     []comparedMetric
	clusters    []int32 // of each rank
	count       int     // of clusters
}

func (p *pairing) ranks(i int32) (base, other float64) {
	return p.o.Ties.Rank(&p.base[i], p.o.Filter), p.o.Ties.Rank(&p.other[i], p.o.Filter)
}

// observe fills in what the ranks of the given queries say.
func (p *pairing) observe(c *Contrast, of []int32) {
	c.N, c.ClusterCount = len(of), countClusters(p.clusters, of)
	sums := make([]struct{ base, other, difference float64 }, len(p.metrics))
	for _, i := range of {
		base, other := p.ranks(i)
		switch {
		case other < base:
			c.Wins++
		case other > base:
			c.Losses++
		default:
			c.Equal++
		}
		for m, metric := range p.metrics {
			b, o := metric.of(base), metric.of(other)
			sums[m].base += b
			sums[m].other += o
			sums[m].difference += o - b
		}
	}
	n := float64(c.N)
	for m, metric := range p.metrics {
		c.Metrics = append(c.Metrics, MetricDifference{
			Metric: metric.name, Base: ratio(sums[m].base, n), Other: ratio(sums[m].other, n),
			Difference: ratio(sums[m].difference, n), CI: [2]Number{undefined, undefined}, P: undefined,
		})
	}
}

// infer fills in the intervals and p-values; the contrasts follow the groups, a selection of
// sides each.
func (p *pairing) infer(ctx context.Context, groups []members, contrasts []Contrast) error {
	sides := selections(p.o.Sides)
	for _, method := range []struct {
		draws  int
		signed bool
		fill   func(w weights, lane, draw int)
		finish func(c *Contrast, d *MetricDifference, means []float64)
	}{
		{resamples, false, drawClusters, func(c *Contrast, d *MetricDifference, means []float64) {
			d.CI = percentileInterval(means, c.tail())
		}},
		{permutations, true, drawSigns, func(_ *Contrast, d *MetricDifference, means []float64) {
			d.P = pValue(means, float64(d.Difference))
		}},
	} {
		for first := 0; first < len(groups); {
			var chunk []*drawnMeans
			start := first
			for held := 0; first < len(groups) && held < chunkValues; first++ {
				d := newDrawnMeans(p.clusters, groups[first], sides, method.draws, len(p.metrics), p.differences)
				d.signed = method.signed
				chunk = append(chunk, &d)
				held += len(d.means) * method.draws
			}
			if err := draw(ctx, chunk, p.count, p.o.Threads, method.fill); err != nil {
				return err
			}
			err := each(ctx, len(chunk), p.o.Threads, func(i int) {
				for s := range sides {
					c := &contrasts[(start+i)*len(sides)+s]
					if c.N == 0 {
						continue
					}
					for m := range p.metrics {
						method.finish(c, &c.Metrics[m], chunk[i].means[s*len(p.metrics)+m])
					}
				}
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// differences returns by how much the other checkpoint changes a metric of each query.
func (p *pairing) differences(of []int32, metric int) []float64 {
	values := make([]float64, len(of))
	for i, q := range of {
		base, other := p.ranks(q)
		values[i] = p.metrics[metric].of(other) - p.metrics[metric].of(base)
	}
	return values
}

// drawSigns gives each cluster the weight 1 or −1, from the permutation's own stream.
func drawSigns(w weights, lane, permutation int) {
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], permutationSeed)
	binary.LittleEndian.PutUint64(seed[8:], uint64(permutation))
	stream := rand.NewChaCha8(seed)
	var signs uint64
	for i := range w {
		if i%64 == 0 {
			signs = stream.Uint64()
		}
		w[i][lane] = 1 - 2*float64(bits.RotateLeft64(signs, -(i%64))&1)
	}
}

// pValue returns the share of the permuted means, with the observed one among them, that are at
// least as far from 0 as it is. Rounding must not set equal ones apart.
func pValue(means []float64, observed float64) Number {
	const rounding = 1e-9
	least := math.Abs(observed) * (1 - rounding)
	extreme := 1
	for _, m := range means {
		if math.Abs(m) >= least {
			extreme++
		}
	}
	return ratio(float64(extreme), float64(len(means)+1))
}

// changed lists the queries that changed most.
func (p *pairing) changed() []Change {
	var all []Change
	for i := range p.base {
		c := Change{Triple: p.base[i].Triple, Side: p.base[i].Side}
		if c.Base, c.Other = p.ranks(int32(i)); c.Base != c.Other {
			all = append(all, c)
		}
	}
	slices.SortStableFunc(all, func(a, b Change) int {
		return cmp.Compare(math.Abs(1/b.Other-1/b.Base), math.Abs(1/a.Other-1/a.Base))
	})
	return all[:min(len(all), p.o.Changed)]
}
