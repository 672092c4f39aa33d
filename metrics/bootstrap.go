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

// Percentile bootstrap of the MRR (Efron and Tibshirani, An Introduction to the Bootstrap,
// 1993, chapter 13). What is drawn, with replacement, is clusters of test triples, whole: ranks
// that depend on each other, at least the two of a triple, are drawn together. The same
// resamples serve every side, filter, tie rule and group. In a resample a group consists of its
// drawn ranks, so its size varies; a resample without a triple of the group is left out.
const (
	resamples     = 1000
	bootstrapSeed = 20240521
	// lanes is the number of resamples that share a pass over the ranks.
	lanes = 4
	// blockRanks keeps the weights of a block of ranks, 32 bytes each, in the L1 cache.
	blockRanks = 512
	// chunkValues bounds the resampled values that are held at a time: 32 MiB. A resample is
	// drawn again for each chunk of groups.
	chunkValues = 4 << 20
)

// intervals holds an interval for each protocol, and what it rests on.
type intervals struct {
	ci       [rank.NumSides][rank.NumFilters][rank.NumTies][2]Number
	clusters [rank.NumSides]ClusterCount
}

// of returns the interval of a protocol and the clusters behind it.
func (i *intervals) of(p Protocol) ([2]Number, ClusterCount) {
	return i.ci[p.Sides][p.Filter][p.Ties], i.clusters[p.Sides]
}

// weights says how often each cluster occurs in each lane's resample.
type weights [][lanes]float64

// bootstrap returns the intervals of each group for the given selections and filters. They are
// the same bits for any number of threads.
func bootstrap(ctx context.Context, ranks []rank.Rank, groups []members, o SummaryOptions) ([]intervals, error) {
	out := make([]intervals, len(groups))
	clusters, count := o.CIBy.number(ranks)
	for first := 0; first < len(groups); {
		var chunk []*resampledGroup
		for held := 0; first < len(groups) && held < chunkValues; first++ {
			g := newResampledGroup(ranks, clusters, groups[first], o, &out[first])
			chunk = append(chunk, g)
			held += len(g.means) * resamples
		}
		means := make([]*drawnMeans, len(chunk))
		for i, g := range chunk {
			means[i] = &g.drawnMeans
		}
		if err := draw(ctx, means, count, o.Threads, drawClusters); err != nil {
			return nil, err
		}
		if err := each(ctx, len(chunk), o.Threads, func(i int) { chunk[i].finish() }); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// numberTriples returns the number of each rank's test triple and the count of test triples.
// A triple that occurs several times in the split is as many test triples: its first tail rank
// belongs with its first head rank, and so on.
func numberTriples(ranks []rank.Rank) (numbers []int32, count int) {
	type occurrence struct {
		triple kg.Triple
		nth    int32
	}
	var seen [2]map[kg.Triple]int32
	seen[kg.Tail], seen[kg.Head] = map[kg.Triple]int32{}, map[kg.Triple]int32{}
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

// draw fills the means of groups of the given number of clusters. fill sets the weights of one draw
// in a lane that is 0; the groups say how many draws there are, a multiple of lanes.
func draw(
	ctx context.Context, groups []*drawnMeans, clusters, threads int, fill func(w weights, lane, draw int),
) error {
	if len(groups) == 0 {
		return ctx.Err()
	}
	draws := len(groups[0].means[0])
	free := make(chan weights, draws/lanes) // for the next pass to use; never full
	return each(ctx, draws/lanes, threads, func(pass int) {
		var w weights
		select {
		case w = <-free:
			clear(w)
		default:
			w = make(weights, clusters)
		}
		for lane := range lanes {
			fill(w, lane, pass*lanes+lane)
		}
		var block [blockRanks][lanes]float64
		for _, g := range groups {
			g.add(w, pass*lanes, &block)
		}
		free <- w
	})
}

// drawClusters draws len(w) clusters with replacement, from the resample's own stream.
func drawClusters(w weights, lane, resample int) {
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], bootstrapSeed)
	binary.LittleEndian.PutUint64(seed[8:], uint64(resample))
	stream := rand.NewChaCha8(seed)
	for range w {
		cluster, _ := bits.Mul64(stream.Uint64(), uint64(len(w)))
		w[cluster][lane]++
	}
}

// drawnMeans collects means over one group of ranks: for each draw, of each series of numbers,
// for each selection of sides.
type drawnMeans struct {
	sides []rank.Sides
	// clusters has the cluster of each rank, and series[side][i] its i-th number.
	clusters [2][]int32
	series   [2][][]float64
	// signed says that a weight is a sign: means are then over the whole group.
	signed bool
	// means[side*number of series+i][draw], for the sides above; NaN where a draw has none.
	means [][]float64
}

// newDrawnMeans returns the means of some numbers of each member of a group, which series gives
// for members of one side.
func newDrawnMeans(
	clusters []int32, m members, sides []rank.Sides, draws, count int, series func(of []int32, i int) []float64,
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
	d.means = make([][]float64, len(sides)*count)
	for i := range d.means {
		d.means[i] = make([]float64, draws)
	}
	return d
}

// add computes the group's means in the draws from first on, one for each lane of w.
func (d *drawnMeans) add(w weights, first int, block *[blockRanks][lanes]float64) {
	count := len(d.series[kg.Tail])
	var drawn [2][lanes]float64
	sums := make([][2][lanes]float64, count)
	for side, clusters := range d.clusters {
		for start := 0; start < len(clusters); start += blockRanks {
			end := min(start+blockRanks, len(clusters))
			for i, c := range clusters[start:end] {
				block[i] = w[c]
				for lane, n := range w[c] {
					drawn[side][lane] += n
				}
			}
			for i := range count {
				addWeighted(&sums[i][side], block[:end-start], d.series[side][i][start:end])
			}
		}
		if d.signed {
			for lane := range lanes {
				drawn[side][lane] = float64(len(clusters))
			}
		}
	}
	for s, selected := range d.sides {
		sides := selected.List()
		for i := range count {
			for lane := range lanes {
				var sum, n float64
				for _, side := range sides {
					sum += sums[i][side][lane]
					n += drawn[side][lane]
				}
				d.means[s*count+i][first+lane] = float64(ratio(sum, n))
			}
		}
	}
}

// resampledGroup collects the MRRs of one group.
type resampledGroup struct {
	drawnMeans
	// rules are the protocols to compute, sides apart. Under a filter that leaves the group
	// no ties, which is the ordinary case, the tie rules agree and one stands for all.
	rules []rule
	out   *intervals
}

type rule struct {
	filter rank.Filter
	ties   rank.Ties
	only   bool // stands for every tie rule
}

func newResampledGroup(
	ranks []rank.Rank, clusters []int32, m members, o SummaryOptions, out *intervals,
) *resampledGroup {
	g := &resampledGroup{out: out}
	sides := selections(o.Sides)
	for _, s := range sides {
		out.clusters[s] = countClusters(clusters, m.on(s))
	}
	used := m.on(rank.BothSides)
	for _, f := range o.Filters {
		if slices.ContainsFunc(used, func(i int32) bool { return ranks[i].Equal[f] != 0 }) {
			for ties := range rank.NumTies {
				g.rules = append(g.rules, rule{f, ties, false})
			}
		} else {
			g.rules = append(g.rules, rule{f, rank.Realistic, true})
		}
	}
	g.drawnMeans = newDrawnMeans(clusters, m, sides, resamples, len(g.rules), func(of []int32, i int) []float64 {
		values := rankValues(ranks, of, g.rules[i].filter, g.rules[i].ties)
		for i := range values {
			values[i] = 1 / values[i]
		}
		return values
	})
	return g
}

// addWeighted adds Σ_i w[i]·values[i] to every lane, in order. The conversions keep the compiler
// from fusing the product with the sum on some machines only.
func addWeighted(sums *[lanes]float64, w [][lanes]float64, values []float64) {
	w = w[:len(values)]
	s0, s1, s2, s3 := sums[0], sums[1], sums[2], sums[3]
	for i, v := range values {
		lane := &w[i]
		s0 += float64(lane[0] * v)
		s1 += float64(lane[1] * v)
		s2 += float64(lane[2] * v)
		s3 += float64(lane[3] * v)
	}
	*sums = [lanes]float64{s0, s1, s2, s3}
}

// finish takes the intervals from the means.
func (g *resampledGroup) finish() {
	for s, sides := range g.sides {
		tail := g.out.clusters[sides].tail()
		for r, rule := range g.rules {
			ci := percentileInterval(g.means[s*len(g.rules)+r], tail)
			of := &g.out.ci[sides][rule.filter]
			if rule.only {
				of[rank.Optimistic], of[rank.Pessimistic], of[rank.Realistic] = ci, ci, ci
			} else {
				of[rule.ties] = ci
			}
		}
	}
}

// percentileInterval returns the quantiles of tail and 1,000 − tail thousandths of the values
// that are not NaN, for 25 the 25th and the 975th of 1,000, and sorts values. There is no
// interval for tail 0.
func percentileInterval(values []float64, tail int) [2]Number {
	values = slices.DeleteFunc(values, math.IsNaN)
	n := len(values)
	if n == 0 || tail == 0 {
		return [2]Number{undefined, undefined}
	}
	slices.Sort(values)
	// In whole numbers, for 0.975·n may be rounded up past an integer.
	lo, hi := (tail*n+999)/1000, ((1000-tail)*n+999)/1000
	return [2]Number{Number(values[lo-1]), Number(values[hi-1])}
}

// each calls do for 0 … n−1 on some threads (0: one for each processor) until ctx ends.
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
