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
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank"
)

// CompareOptions selects what Compare reports.
type CompareOptions struct {
	// Sides are the sides of the ranked queries. BothSides gives results for tail, head and both.
	Sides  rank.Sides
	Filter rank.Filter
	Ties   rank.Ties
	// Hits are the cut-offs k of Hits@k, which must be distinct and at least 1.
	Hits []int
	// Keys divide the queries of the base into groups to report.
	Keys []Key
	// Changed bounds the number of listed queries whose ranks changed. It must not be negative.
	Changed int
	// CIBy is the unit that intervals resample and permutations swap.
	CIBy Clustering
	// Threads bounds the number of threads; 0 means GOMAXPROCS.
	Threads int
	// Compare calls Progress, if not nil, with the number of draws done so far and in total. Calls
	// do not overlap.
	Progress func(done, total int)
}

// check returns an error if Compare cannot use the options.
func (o CompareOptions) check() error {
	if o.Changed < 0 {
		return fmt.Errorf("cannot list %d changed queries: choose at least 0", o.Changed)
	}
	return cmp.Or(checkSides(o.Sides), checkFilters([]rank.Filter{o.Filter}), checkTies([]rank.Ties{o.Ties}),
		checkHits(o.Hits), checkClustering(o.CIBy), checkThreads(o.Threads))
}

// Comparison compares the ranks of a checkpoint with the ranks of a base for the same queries.
type Comparison struct {
	// Whole contains a contrast for each selection of sides, and Groups contains one for each group
	// and selection.
	Whole  []Contrast
	Groups []Contrast
	// Changed lists the queries whose 1/rank changed most, the largest change first.
	Changed []Change
}

// Contrast compares the ranks of a group of queries.
type Contrast struct {
	// By and Group name the key and the group. They are empty for all queries. Label is the
	// readable label of the group's identifier, if there is one.
	By    string     `json:"by,omitempty"`
	Group string     `json:"group,omitempty"`
	Label string     `json:"label,omitempty"`
	Side  rank.Sides `json:"side"`
	N     int        `json:"n"`
	ClusterCount
	// Wins counts the queries with a better rank than the base's, Losses counts the queries with a
	// worse rank, and Equal counts all others.
	Wins    int                `json:"wins"`
	Losses  int                `json:"losses"`
	Equal   int                `json:"equal"`
	Metrics []MetricDifference `json:"metrics"`
}

// MetricDifference compares one metric: MRR, MR or Hits@k.
type MetricDifference struct {
	// Metric is the key of the metric in Result's JSON, such as mrr, mr or hits@10.
	Metric      string
	Base, Other Number
	// Difference is Other − Base. CI is its 95% bootstrap interval, which is undefined if there are
	// too few clusters.
	Difference Number
	CI         [2]Number
	// P is the two-sided p-value of the permutation test.
	P Number
}

// Change is a query whose two ranks differ.
type Change struct {
	Triple      kg.Triple
	Side        kg.Side
	Base, Other float64
}

const (
	permutations    = 10_000
	permutationSeed = 20240522
)

// Compare compares the ranks of another checkpoint with the ranks of a base. The two rankings must
// contain the same queries in the same order. Their identifiers may differ, as between checkpoints
// with vocabularies in different orders, if each entity and each relation of one ranking stands for one
// of the other. The result uses the base's.
//
// Intervals are as in Summarize, for differences: each of 1,000 resamples draws clusters with the
// ranks of both checkpoints. The p-value comes from a permutation test (Noreen, Computer-Intensive
// Methods for Testing Hypotheses, 1989). Each of 10,000 permutations swaps the two checkpoints'
// ranks of a cluster with probability ½. The p-value is the share of permutations whose difference
// is at least as far from 0 as the observed one. The observation itself counts as one of the
// permutations. The p-value is not corrected for multiple testing. Seeds are fixed, and results do
// not depend on the number of threads.
//
// Compare returns an error if the queries differ in number or in their sides, if their identifiers do not
// correspond one to one, if no rank is on a selected side, if a rank has no counts under
// the filter (ReadRanks), or if the options contain a value that their comments do not allow.
func Compare(ctx context.Context, base, other []rank.Rank, o CompareOptions) (Comparison, error) {
	if err := o.check(); err != nil {
		return Comparison{}, err
	}
	if len(base) != len(other) {
		return Comparison{}, fmt.Errorf(
			"cannot compare the ranks of %d and of %d queries: rank the same split", len(base), len(other))
	}
	for i := range base {
		if base[i].Side != other[i].Side {
			return Comparison{}, fmt.Errorf(
				"query %d has side %v in one ranking and side %v in the other: rank the same sides",
				i+1, base[i].Side, other[i].Side)
		}
	}
	if err := checkSameQueries(base, other); err != nil {
		return Comparison{}, err
	}
	filters := []rank.Filter{o.Filter}
	err := cmp.Or(checkCounted(base, filters), checkCounted(other, filters), checkRanked(base, o.Sides))
	if err != nil {
		return Comparison{}, err
	}
	p := pairing{o: o, base: base, other: other, metrics: comparedMetrics(o.Hits)}
	p.clusters, p.count = o.CIBy.number(base)

	groups, names := groupsOf(base, o.Keys)
	var contrasts []Contrast
	sides := selections(o.Sides)
	for i, m := range groups {
		for _, s := range sides {
			c := Contrast{By: names[i].by, Group: names[i].group, Side: s}
			p.sizes = append(p.sizes, p.observe(&c, m.on(s)))
			contrasts = append(contrasts, c)
		}
	}
	if err := p.infer(ctx, groups, contrasts); err != nil {
		return Comparison{}, err
	}
	return Comparison{contrasts[:len(sides)], contrasts[len(sides):], p.changed()}, nil
}

// checkSameQueries returns an error unless the identifiers of base and of other correspond one to one.
// The lists have the same length.
func checkSameQueries(base, other []rank.Rank) error {
	entities, relations := correspondence{{}, {}}, correspondence{{}, {}}
	for i := range base {
		b, o := base[i].Triple, other[i].Triple
		if entities.add(b.Head, o.Head) && relations.add(b.Relation, o.Relation) && entities.add(b.Tail, o.Tail) {
			continue
		}
		return fmt.Errorf("query %d is of triple (%d, %d, %d) in one ranking and of (%d, %d, %d) in the other, and "+
			"these identifiers do not correspond one to one: rank the same triples in the same order, or use "+
			"metrics.Align", i+1, b.Head, b.Relation, b.Tail, o.Head, o.Relation, o.Tail)
	}
	return nil
}

// correspondence maps the identifiers of the base to identifiers of the other ranking, and vice versa.
type correspondence [2]map[int32]int32

// add adds a pair. It reports whether the correspondence is still one to one.
func (c correspondence) add(base, other int32) bool {
	to, known := c[0][base]
	from, knownOther := c[1][other]
	if !known && !knownOther {
		c[0][base], c[1][other] = other, base
		return true
	}
	return known && knownOther && to == other && from == base
}

// comparedMetric is a metric to compare: the mean, over queries, of a function of the rank.
type comparedMetric struct {
	name string
	of   func(rank float64) float64
}

func comparedMetrics(hits []int) []comparedMetric {
	metrics := []comparedMetric{
		{"mrr", func(r float64) float64 { return 1 / r }},
		{"mr", func(r float64) float64 { return r }},
	}
	for _, k := range hits {
		metrics = append(metrics, comparedMetric{hitsKey + strconv.Itoa(k), func(r float64) float64 {
			if r <= float64(k) {
				return 1
			}
			return 0
		}})
	}
	return metrics
}

// pairing is the state of a comparison of two rankings.
type pairing struct {
	o           CompareOptions
	base, other []rank.Rank
	metrics     []comparedMetric
	clusters    []int32 // the cluster of each rank
	count       int     // the number of clusters
	// sizes are the means of the absolute differences, by contrast and metric.
	sizes [][]float64
}

func (p *pairing) ranks(i int32) (base, other float64) {
	return p.o.Ties.Rank(&p.base[i], p.o.Filter), p.o.Ties.Rank(&p.other[i], p.o.Filter)
}

// observe fills in the counts and the observed metrics of the given queries. It returns the mean of the
// absolute differences of each metric.
func (p *pairing) observe(c *Contrast, of []int32) (sizes []float64) {
	c.N, c.ClusterCount = len(of), countClusters(p.clusters, of)
	sums := make([]struct{ base, other, difference, size float64 }, len(p.metrics))
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
			sums[m].size += math.Abs(o - b)
		}
	}
	n := float64(c.N)
	for m, metric := range p.metrics {
		c.Metrics = append(c.Metrics, MetricDifference{
			Metric: metric.name, Base: ratio(sums[m].base, n), Other: ratio(sums[m].other, n),
			Difference: ratio(sums[m].difference, n), CI: [2]Number{undefined, undefined}, P: undefined,
		})
		sizes = append(sizes, sums[m].size/n)
	}
	return sizes
}

// infer fills in the intervals and p-values of the contrasts. The contrasts are sorted by group,
// then by selection of sides.
func (p *pairing) infer(ctx context.Context, groups []members, contrasts []Contrast) error {
	var tested, estimated []*pairedGroup
	n := len(contrasts) / len(groups)
	for i, m := range groups {
		g := &pairedGroup{p, m, contrasts[i*n : (i+1)*n], p.sizes[i*n : (i+1)*n]}
		tested = append(tested, g)
		if slices.ContainsFunc(g.contrasts, func(c Contrast) bool { return c.tail() > 0 }) {
			estimated = append(estimated, g)
		}
	}
	progress := p.progress(resamples*len(estimated) + permutations*len(tested))
	if err := p.draw(ctx, estimated, resamples, drawClusters, (*pairedGroup).estimate, progress); err != nil {
		return err
	}
	return p.draw(ctx, tested, permutations, drawSigns, (*pairedGroup).test, progress)
}

// draw computes means of groups for a number of draws, and calls what begin returns: the means to
// compute, and a function to call after the last draw.
func (p *pairing) draw(
	ctx context.Context, groups []*pairedGroup, draws int, fill func(w weights, k, number int),
	begin func(*pairedGroup) (*drawnMeans, func()), progress func(draws int),
) error {
	for len(groups) > 0 {
		var chunk []*drawnMeans
		var finish []func()
		for held := 0; len(groups) > 0 && held < chunkValues; groups = groups[1:] {
			d, end := begin(groups[0])
			chunk, finish = append(chunk, d), append(finish, end)
			held += d.held()
		}
		err := draw(ctx, chunk, draws, p.count, p.o.Threads, fill, func(draws int) { progress(draws * len(chunk)) })
		if err != nil {
			return err
		}
		if err := each(ctx, len(finish), p.o.Threads, func(i int) { finish[i]() }); err != nil {
			return err
		}
	}
	return nil
}

// progress returns a function that adds draws of groups and reports the progress towards the total.
func (p *pairing) progress(total int) func(draws int) {
	if p.o.Progress == nil {
		return func(int) {}
	}
	var mu sync.Mutex
	drawn := 0
	return func(draws int) {
		mu.Lock()
		defer mu.Unlock()
		drawn += draws
		p.o.Progress(drawn, total)
	}
}

// pairedGroup is a group of queries with its contrasts, one for each selection of sides, and their
// sizes (pairing).
type pairedGroup struct {
	*pairing
	members
	contrasts []Contrast
	sizes     [][]float64
}

// means returns means of the differences of each metric over the group.
func (g *pairedGroup) means() *drawnMeans {
	d := newDrawnMeans(g.clusters, g.members, selections(g.o.Sides), len(g.metrics), g.differences)
	return &d
}

// estimate returns the means for a bootstrap, and a function that sets the intervals.
func (g *pairedGroup) estimate() (*drawnMeans, func()) {
	d := g.means()
	d.store(resamples)
	return d, func() {
		for i, means := range d.means {
			c := &g.contrasts[i/len(g.metrics)]
			c.Metrics[i%len(g.metrics)].CI = percentileInterval(means, c.tail())
		}
	}
}

// test returns the means for a permutation test, and a function that sets the p-values. Only the
// numbers of extreme means stay in memory, so one pass of draws serves many groups.
func (g *pairedGroup) test() (*drawnMeans, func()) {
	d := g.means()
	d.signed = true
	extreme := make([]extremeMeans, len(g.contrasts)*len(g.metrics))
	for i := range extreme {
		s, m := i/len(g.metrics), i%len(g.metrics)
		extreme[i].begin(float64(g.contrasts[s].Metrics[m].Difference), g.sizes[s][m])
	}
	d.keep = func(i, _ int, means [batch]float64) { extreme[i].add(means[:]) }
	return d, func() {
		for i := range extreme {
			if c := &g.contrasts[i/len(g.metrics)]; c.N > 0 {
				c.Metrics[i%len(g.metrics)].P = extreme[i].pValue(permutations)
			}
		}
	}
}

// differences returns the difference of a metric for each query: the other checkpoint's value minus
// the base's.
func (p *pairing) differences(of []int32, metric int) []float64 {
	values := make([]float64, len(of))
	for i, q := range of {
		base, other := p.ranks(q)
		values[i] = p.metrics[metric].of(other) - p.metrics[metric].of(base)
	}
	return values
}

// drawSigns gives each cluster the weight 1 or −1. Each permutation has its own random stream.
func drawSigns(w weights, k, permutation int) {
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], permutationSeed)
	binary.LittleEndian.PutUint64(seed[8:], uint64(permutation))
	stream := rand.NewChaCha8(seed)
	var signs uint64
	for i := range w {
		if i%64 == 0 {
			signs = stream.Uint64()
		}
		w[i][k] = 1 - 2*float64(bits.RotateLeft64(signs, -(i%64))&1)
	}
}

// extremeMeans counts the means that are at least as far from 0 as the observed one. Several threads may
// add means.
type extremeMeans struct {
	least float64
	count atomic.Int64
}

// begin sets the observed mean. size is the mean of the absolute differences.
func (e *extremeMeans) begin(observed, size float64) {
	// Equal means may differ by rounding errors, and a mean of 0 may consist of nothing else. These errors
	// are proportional to size.
	const relative, ofSize = 1e-9, 1e-12
	e.least = math.Abs(observed)*(1-relative) - ofSize*size
}

// add counts the extreme means among means.
func (e *extremeMeans) add(means []float64) {
	extreme := int64(0)
	for _, m := range means {
		if math.Abs(m) >= e.least {
			extreme++
		}
	}
	if extreme > 0 {
		e.count.Add(extreme)
	}
}

// pValue returns the share of the extreme means among n, where the observed one counts as one more
// mean.
func (e *extremeMeans) pValue(n int) Number {
	return ratio(float64(e.count.Load()+1), float64(n+1))
}

// changed returns the queries whose 1/rank changed most.
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
