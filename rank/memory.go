package rank

import (
	"cmp"
	"context"
	"fmt"
	"unsafe"

	"github.com/dustin/go-humanize"

	"github.com/mquine/mquine/internal/proc"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank/internal/engine"
)

// leastFeatureMemory is the least memory for features that Fit chooses. Preparing smaller slices
// would take longer than ranking them.
const leastFeatureMemory = 64 << 20

// sliceReserve is the memory that Fit leaves free when it makes slices smaller. It covers
// allocations that Fit does not count, and the growth of the heap, which reserves 64 MiB of address
// space at a time.
const sliceReserve = 128 << 20

// Memory returns the memory that a ranking allocates for features and for its threads, in bytes,
// and the number of slices of the candidates. o must be a result of Fit.
func Memory(m model.Model, o Options) (bytes int64, slices int) {
	if o.Engine != nil {
		j := o.job(m, engine.Plan{})
		if use, err := o.Engine.Memory(j); err == nil {
			return use.Device, (j.Most + use.Slice - 1) / use.Slice
		}
		o.Engine = nil
	}
	j := o.job(m, engine.Plan{})
	n := cpuSlice(j)
	if o.Negatives != nil {
		n = pairSlice(j)
	}
	return proc.Total(featureNeeds(m, o, o.Threads)), (j.Most + n - 1) / n
}

// scoringNeeds lists the memory that a ranking on the processor with the given number of threads
// allocates in addition to its results. The first need is the features.
func scoringNeeds(m model.Model, o Options, threads int) []proc.Need {
	return append(featureNeeds(m, o, threads), hashesNeed(m, o))
}

func hashesNeed(m model.Model, o Options) proc.Need {
	return proc.Need{For: "hashes of the candidates", Bytes: engine.RepresentativeBytes * int64(o.most(m))}
}

// featureNeeds lists the memory for features and for the threads.
func featureNeeds(m model.Model, o Options, threads int) []proc.Need {
	if o.Negatives != nil {
		n := pairSlice(o.job(m, engine.Plan{}))
		return []proc.Need{{For: "features of the candidates", Bytes: rowBytes(engine.WidestTower(m)) * int64(n)}}
	}
	n := cpuSlice(o.job(m, engine.Plan{}))
	_, entries, strips := blockSizes(m, o.Backend, o.Screen)
	threads = min(threads, (n+o.Backend.NR-1)/o.Backend.NR) // at least a panel for each
	return []proc.Need{
		{For: "features of the candidates", Bytes: featureBytes(engine.WidestTower(m)) * int64(n)},
		{For: "scratch memory of the threads", Bytes: 4 * int64(entries+strips) * int64(threads)},
	}
}

// LeastMemory lists the memory that Run certainly allocates for the given number of triples, with
// the smallest slices that Fit chooses. o must have a backend and a number of threads.
func LeastMemory(m model.Model, triples int, o Options) []proc.Need {
	o.FeatureMemory = cmp.Or(o.FeatureMemory, leastFeatureMemory)
	return append(scoringNeeds(m, o, o.Threads), rankNeed(triples, o))
}

// rankNeed returns the memory that Run needs for its results and its plan.
func rankNeed(triples int, o Options) proc.Need {
	sides := 2
	if o.Sides != nil {
		sides = len(o.Sides)
	}
	const perRank = int64(unsafe.Sizeof(Rank{}) + unsafe.Sizeof(engine.Target{}) + unsafe.Sizeof(queryKey{}))
	queries := int64(sides * triples)
	ranks := int64(1+len(o.Tolerances)) * queries
	bytes := ranks * perRank
	if o.Negatives != nil { // the plan refers to the lists once for each query and once for each rank
		bytes += (queries + ranks) * int64(unsafe.Sizeof([]int32{}))
	}
	return proc.Need{For: "ranks", Bytes: bytes}
}

// Fit returns the resolved options with which Run ranks the given number of triples. Unless o sets
// FeatureMemory, Fit chooses as much memory for features as the machine and its limits allow, up to
// DefaultFeatureMemory. It returns an error if the ranking does not fit. Run calls Fit itself.
func Fit(ctx context.Context, m model.Model, triples int, o Options) (Options, error) {
	o, err := o.Resolve(ctx, m)
	if err != nil {
		return o, err
	}
	w := fitted{
		work: "ranking", advice: "use fewer threads, or make more memory available",
		outcome: []proc.Need{rankNeed(triples, o)}, threads: o.Threads, queries: len(o.Sides) * triples,
	}
	return w.fit(m, o)
}

// fitted is work that fit fits into memory.
type fitted struct {
	work, advice string      // for errors
	outcome      []proc.Need // memory for the results
	threads      int
	queries      int // the largest number of queries
	// kept, if not nil, returns the number of contenders that the lists of the queries hold between
	// slices, given the number of candidates before the last slice.
	kept func(before int) int64
}

// needs lists the memory that the work allocates.
func (w *fitted) needs(m model.Model, o Options) []proc.Need {
	j := o.job(m, engine.Plan{Unique: max(w.queries, 1)})
	j.Threads = w.threads
	var needs []proc.Need
	var slice int
	if o.Engine == nil {
		needs, slice = scoringNeeds(m, o, w.threads), cpuSlice(j)
	} else {
		use, err := o.Engine.Memory(j)
		if err != nil { // Start returns it too
			use = engine.Memory{Slice: j.Most, Host: make([]proc.Need, 1)}
		}
		needs, slice = append(use.Host, hashesNeed(m, o)), use.Slice
	}
	needs = append(needs, w.outcome...)
	most := j.Most
	if before := (most - 1) / slice * slice; before > 0 && w.kept != nil {
		needs = append(needs, keptNeed(w.kept(before)))
	}
	return needs
}

func keptNeed(contenders int64) proc.Need {
	return proc.Need{For: "lists between slices", Bytes: contenders * int64(unsafe.Sizeof(engine.Contender{}))}
}

// fit is like Fit but serves any work.
func (w *fitted) fit(m model.Model, o Options) (Options, error) {
	c := m.Config()
	candidates := humanize.Comma(int64(o.most(m)))
	work := fmt.Sprintf("%s with %s, d = %d, among %s candidates", w.work, c.Model, c.Dim, candidates)
	if o.FeatureMemory == 0 {
		if o.Engine == nil {
			o.FeatureMemory = DefaultFeatureMemory
		}
		needs := w.needs(m, o)
		if need := proc.Total(needs); need >= proc.Negligible && needs[0].Bytes > 0 {
			if over := need + need/8 + sliceReserve - proc.AvailableMemory().Bytes; over > 0 {
				if w.kept != nil {
					over += keptNeed(w.kept(o.most(m))).Bytes
				}
				smaller := o
				smaller.FeatureMemory = max(needs[0].Bytes-over, leastFeatureMemory)
				if proc.Total(w.needs(m, smaller)) < need { // lists between slices may need more
					o = smaller
				}
			}
		}
	}
	return o, proc.CheckMemory(work, w.advice, w.needs(m, o)...)
}

// fitPredict is like Fit but serves Predict, which lists the top answers to each distinct query.
func fitPredict(m model.Model, x *kg.Index, distinct []kg.Query, top Top, o Options) (Options, error) {
	panels := o.Backend.Panels(m.Tower(kg.Tail).Compare)
	block := predictBlock(panels.QueryBlock(m.Tower(kg.Tail).Psi), panels.MR, top.K, len(distinct), o.Threads)
	threads := min(o.Threads, (len(distinct)+block-1)/block)
	w := fitted{
		work: "predicting", advice: "ask for fewer answers or fewer queries, or make more memory available",
		outcome: answersNeeds(m, x, distinct, top, block*threads), threads: threads,
		queries: len(distinct),
		kept: func(before int) (n int64) {
			for _, q := range distinct {
				least := before
				if top.FilterKnown {
					least = max(0, before-len(x.Answers(q).Entities))
				}
				n += int64(min(2*top.K, least))
			}
			return n
		},
	}
	return w.fit(m, o)
}

// answersNeeds lists the memory for Predict's results and for the shortlists of the queries that the
// threads work on at once. listed is the number of these queries.
func answersNeeds(m model.Model, x *kg.Index, distinct []kg.Query, top Top, listed int) []proc.Need {
	var answers int64
	for _, q := range distinct {
		n := m.Config().Entities
		if top.FilterKnown {
			n -= len(x.Answers(q).Entities)
		}
		answers += int64(min(top.K, n))
	}
	// A list of K answers shrinks when it holds 2K contenders or, for K below 64, K + 64, which few lists
	// reach. Its heap holds K lower ends.
	const perContender = int64(unsafe.Sizeof(engine.Contender{}))
	list := int64(min(2*top.K, m.Config().Entities))*perContender + int64(top.K)*8
	return []proc.Need{
		{For: "answers", Bytes: answers * int64(unsafe.Sizeof(Prediction{}))},
		{For: "shortlists of the threads", Bytes: int64(min(listed, len(distinct))) * list},
	}
}
