package metrics

import (
	"context"
	"encoding/binary"
	"math"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank"
)

// This file computes percentile bootstrap intervals of the MRR (Efron and Tibshirani, An
// Introduction to the Bootstrap, 1993, chapter 13). A resample draws whole clusters of test triples
// with replacement, so dependent ranks, such as the two ranks of a triple, stay together. The same
// resamples serve every side, filter, tie rule and group. In a resample, a group consists of the
// ranks that were drawn from it, so its size varies. A resample without any rank of a group does
// not count for that group.
const (
	resamples     = 1000
	bootstrapSeed = 20240521
	// batch is the number of draws for each pass over the ranks.
	batch = 4
	// cachedRanks is the number of ranks whose weights, 32 bytes each, stay in the L1 cache.
	cachedRanks = 512
	// chunkValues limits the values of groups in memory to about 32 MiB. If all groups together have
	// more values, they are resampled or permuted in chunks, and each chunk draws again.
	chunkValues = 4 << 20
)

// intervals holds the interval of each protocol, and the numbers of clusters.
type intervals struct {
	ci       [rank.NumSides][rank.NumFilters][rank.NumTies][2]Number
	clusters [rank.NumSides]ClusterCount
}

// of returns the interval of a protocol and the number of clusters behind the interval.
func (i *intervals) of(p Protocol) ([2]Number, ClusterCount) {
	return i.ci[p.Sides][p.Filter][p.Ties], i.clusters[p.Sides]
}

// begin counts the clusters of a group. It reports whether any selection of sides has enough
// clusters for an interval. The intervals of the selections are undefined until bootstrap has
// resampled the group.
func (i *intervals) begin(clusters []int32, m members, sides rank.Sides) (enough bool) {
	for _, s := range selections(sides) {
		for f := range i.ci[s] {
			for t := range i.ci[s][f] {
				i.ci[s][f][t] = [2]Number{undefined, undefined}
			}
		}
		i.clusters[s] = countClusters(clusters, m.on(s))
		enough = enough || i.clusters[s].tail() > 0
	}
	return enough
}

// weights holds the weight of each cluster in each draw of a batch: how often the resample contains
// the cluster.
type weights [][batch]float64

// bootstrap returns the intervals of each group. They have the same bits for any number of threads.
func bootstrap(ctx context.Context, ranks []rank.Rank, groups []members, o SummaryOptions) ([]intervals, error) {
	out := make([]intervals, len(groups))
	clusters, count := o.CIBy.number(ranks)
	for first := 0; first < len(groups); {
		var chunk []*resampledGroup
		for held := 0; first < len(groups) && held < chunkValues; first++ {
			if !out[first].begin(clusters, groups[first], o.Sides) {
				continue
			}
			g := newResampledGroup(ranks, clusters, groups[first], o, &out[first])
			chunk = append(chunk, g)
			held += g.held()
		}
		means := make([]*drawnMeans, len(chunk))
		for i, g := range chunk {
			means[i] = &g.drawnMeans
		}
		if err := draw(ctx, means, resamples, count, o.Threads, drawClusters, func(int) {}); err != nil {
			return nil, err
		}
		if err := each(ctx, len(chunk), o.Threads, func(i int) { chunk[i].finish() }); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// numberTriples numbers the test triples. It returns the triple of each rank and the number of
// triples. A triple that occurs several times in the split counts each time: its n-th tail rank
// belongs to its n-th head rank.
func numberTriples(ranks []rank.Rank) (numbers []int32, count int) {
	type occurrence struct {
		triple kg.Triple
		nth    int32
	}
	var seen [numSides]map[kg.Triple]int32
	for side := range seen {
		seen[side] = map[kg.Triple]int32{}
	}
	known := make(map[occurrence]int32, len(ranks))
	numbers = make([]int32, len(ranks))
	for i := range ranks {
		r := &ranks[i]
		o := occurrence{r.Triple, seen[r.Side][r.Triple]}
		seen[r.Side][r.Triple]++
		number, ok := known[o]
		if !ok {
			number = int32(len(known))
			known[o] = number
		}
		numbers[i] = number
	}
	return numbers, len(known)
}

// draw computes the means of groups for a number of draws, which must be a multiple of batch. fill
// sets the weights of the draw with the given number, the k-th of its batch. All weights are 0 before
// the call. draw calls progress with the number of draws that it has just computed.
func draw(
	ctx context.Context, groups []*drawnMeans, draws, clusters, threads int, fill func(w weights, k, number int),
	progress func(draws int),
) error {
	if len(groups) == 0 {
		return ctx.Err()
	}
	free := make(chan weights, draws/batch) // weights that later passes reuse, with room for every pass
	return each(ctx, draws/batch, threads, func(pass int) {
		var w weights
		select {
		case w = <-free:
			clear(w)
		default:
			w = make(weights, clusters)
		}
		for k := range batch {
			fill(w, k, pass*batch+k)
		}
		var cached [cachedRanks][batch]float64
		for _, g := range groups {
			g.add(w, pass*batch, &cached)
		}
		free <- w
		progress(batch)
	})
}

// drawClusters draws len(w) clusters with replacement and counts them in draw k of w. Each resample
// has its own random stream.
func drawClusters(w weights, k, resample int) {
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], bootstrapSeed)
	binary.LittleEndian.PutUint64(seed[8:], uint64(resample))
	stream := rand.NewChaCha8(seed)
	for range w {
		cluster, _ := bits.Mul64(stream.Uint64(), uint64(len(w)))
		w[cluster][k]++
	}
}

// drawnMeans computes means over a group of ranks, for each draw, each series of numbers and each
// selection of sides.
type drawnMeans struct {
	sides []rank.Sides
	// clusters[side] holds the cluster of each rank, and series[side][i] the number of each rank in
	// series i.
	clusters [numSides][]int32
	series   [numSides][][]float64
	// signed means that the weights are signs. Each mean then includes the whole group.
	signed bool
	// With n series, keep(s·n+i, first, means) receives the means of series i over the ranks on
	// sides[s], for the batch of draws that begins at first. A mean is NaN if the draw contains none of
	// these ranks. Several threads call keep.
	keep func(i, first int, means [batch]float64)
	// means[i][draw] are all means, if keep stores them.
	means [][]float64
}

// newDrawnMeans prepares means over group m; add computes them. The argument count is the number of
// series, and series returns the numbers of series i for the ranks of one side. The caller sets keep
// or calls store.
func newDrawnMeans(
	clusters []int32, m members, sides []rank.Sides, count int, series func(of []int32, i int) []float64,
) drawnMeans {
	d := drawnMeans{sides: sides}
	for side, of := range m {
		for _, i := range of {
			d.clusters[side] = append(d.clusters[side], clusters[i])
		}
		for i := range count {
			d.series[side] = append(d.series[side], series(of, i))
		}
	}
	return d
}

// store allocates the means of a number of draws and stores them.
func (d *drawnMeans) store(draws int) {
	d.means = make([][]float64, len(d.sides)*len(d.series[kg.Tail]))
	for i := range d.means {
		d.means[i] = make([]float64, draws)
	}
	d.keep = func(i, first int, means [batch]float64) { copy(d.means[i][first:], means[:]) }
}

// held returns the number of values in memory.
func (d *drawnMeans) held() (n int) {
	for _, values := range d.means {
		n += len(values)
	}
	for _, side := range d.series {
		for _, values := range side {
			n += len(values)
		}
	}
	return n
}

// add computes the group's means for the batch of draws that begins at first, and calls keep. cached
// is scratch memory.
func (d *drawnMeans) add(w weights, first int, cached *[cachedRanks][batch]float64) {
	count := len(d.series[kg.Tail])
	var drawn [numSides][batch]float64
	sums := make([][numSides][batch]float64, count)
	for side, clusters := range d.clusters {
		for start := 0; start < len(clusters); start += cachedRanks {
			end := min(start+cachedRanks, len(clusters))
			for i, c := range clusters[start:end] {
				cached[i] = w[c]
				for k, n := range w[c] {
					drawn[side][k] += n
				}
			}
			for i := range count {
				addWeighted(&sums[i][side], cached[:end-start], d.series[side][i][start:end])
			}
		}
		if d.signed {
			for k := range batch {
				drawn[side][k] = float64(len(clusters))
			}
		}
	}
	for s, selected := range d.sides {
		sides := selected.List()
		for i := range count {
			var means [batch]float64
			for k := range means {
				var sum, n float64
				for _, side := range sides {
					sum += sums[i][side][k]
					n += drawn[side][k]
				}
				means[k] = float64(ratio(sum, n))
			}
			d.keep(s*count+i, first, means)
		}
	}
}

// resampledGroup holds the resampled MRRs of one group.
type resampledGroup struct {
	drawnMeans
	// rules holds the filter and the tie rule of each series. Usually a group has no ties under a
	// filter, and one tie rule then represents all.
	rules []rule
	out   *intervals
}

type rule struct {
	filter rank.Filter
	ties   rank.Ties
	only   bool // represents all tie rules
}

func newResampledGroup(
	ranks []rank.Rank, clusters []int32, m members, o SummaryOptions, out *intervals,
) *resampledGroup {
	g := &resampledGroup{out: out}
	sides := selections(o.Sides)
	used := m.on(o.Sides)
	for _, f := range o.Filters {
		if slices.ContainsFunc(used, func(i int32) bool { return ranks[i].Equal[f] != 0 }) {
			for _, ties := range o.ties() {
				g.rules = append(g.rules, rule{f, ties, false})
			}
		} else {
			g.rules = append(g.rules, rule{f, rank.Realistic, true})
		}
	}
	g.drawnMeans = newDrawnMeans(clusters, m, sides, len(g.rules), func(of []int32, i int) []float64 {
		values := rankValues(ranks, of, g.rules[i].filter, g.rules[i].ties)
		for i := range values {
			values[i] = 1 / values[i]
		}
		return values
	})
	g.store(resamples)
	return g
}

// addWeighted adds Σ_i w[i]·values[i] to the sum of each draw, in order. The conversions prevent
// fused multiply-adds, which only some machines have.
func addWeighted(sums *[batch]float64, w [][batch]float64, values []float64) {
	w = w[:len(values)]
	s0, s1, s2, s3 := sums[0], sums[1], sums[2], sums[3]
	for i, v := range values {
		weight := &w[i]
		s0 += float64(weight[0] * v)
		s1 += float64(weight[1] * v)
		s2 += float64(weight[2] * v)
		s3 += float64(weight[3] * v)
	}
	*sums = [batch]float64{s0, s1, s2, s3}
}

// finish computes the intervals of the group from its resampled means.
func (g *resampledGroup) finish() {
	for s, sides := range g.sides {
		tail := g.out.clusters[sides].tail()
		for r, rule := range g.rules {
			ci := percentileInterval(g.means[s*len(g.rules)+r], tail)
			of := &g.out.ci[sides][rule.filter]
			if rule.only {
				for ties := range of {
					of[ties] = ci
				}
			} else {
				of[rule.ties] = ci
			}
		}
	}
}

// percentileInterval returns the tail/1,000 and the 1 − tail/1,000 quantiles of the values that are
// not NaN: the 25th and the 975th of 1,000 for tail 25. It sorts values. If tail is 0, the interval
// is undefined.
func percentileInterval(values []float64, tail int) [2]Number {
	values = slices.DeleteFunc(values, math.IsNaN)
	n := len(values)
	if n == 0 || tail == 0 {
		return [2]Number{undefined, undefined}
	}
	slices.Sort(values)
	// Compute in integers, because 0.975·n in floating point may exceed an integer that it should
	// equal.
	lo, hi := (tail*n+999)/1000, ((1000-tail)*n+999)/1000
	return [2]Number{Number(values[lo-1]), Number(values[hi-1])}
}

// each calls do(i) for 0 ≤ i < n on the given number of threads, or on GOMAXPROCS threads if
// threads is 0. It stops when ctx is done.
func each(ctx context.Context, n, threads int, do func(i int)) error {
	if threads <= 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	var next atomic.Int64
	var group errgroup.Group
	for range min(threads, n) {
		group.Go(func() error {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				if err := ctx.Err(); err != nil {
					return err
				}
				do(int(i))
			}
			return nil
		})
	}
	return group.Wait()
}
