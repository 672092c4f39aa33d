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
	j := o.job(m, engine.Plan{})
	if o.Engine != nil {
		if bytes, slices, err := o.Engine.Memory(j); err == nil {
			return bytes, slices
		}
	}
	n := cpuSlice(j)
	if o.Negatives != nil {
		n = pairSlice(j)
	}
	return proc.Total(scoringNeeds(m, o, o.Threads)), (j.Most + n - 1) / n
}

// scoringNeeds lists the memory that a ranking on the processor with the given number of threads
// allocates in addition to its results.
func scoringNeeds(m model.Model, o Options, threads int) []proc.Need {
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
	return proc.Need{For: "ranks", Bytes: int64((1+len(o.Tolerances))*sides*triples) * perRank}
}

// Fit returns the resolved options with which Run ranks the given number of triples. Unless o sets
// FeatureMemory, Fit chooses as much memory for features as the machine and its limits allow, up to
// DefaultFeatureMemory. It returns an error if the ranking does not fit. Run calls Fit itself.
func Fit(ctx context.Context, m model.Model, triples int, o Options) (Options, error) {
	o, err := o.Resolve(ctx, m)
	if err != nil {
		return o, err
	}
	needs := []proc.Need{rankNeed(triples, o)}
	return fit(m, o, o.Threads, "ranking", needs, "use fewer threads, or make more memory available")
}

// fit is like Fit but serves any work on the given number of threads. outcome is the memory for the
// results.
func fit(m model.Model, o Options, threads int, work string, outcome []proc.Need, advice string) (Options, error) {
	if o.Engine != nil {
		return o, nil // features are in the engine's memory
	}
	c := m.Config()
	candidates := humanize.Comma(int64(o.most(m)))
	work = fmt.Sprintf("%s with %s, d = %d, among %s candidates", work, c.Model, c.Dim, candidates)
	if o.FeatureMemory == 0 {
		o.FeatureMemory = DefaultFeatureMemory
		needs := append(scoringNeeds(m, o, threads), outcome...)
		if need := proc.Total(needs); need >= proc.Negligible {
			if over := need + need/8 + sliceReserve - proc.AvailableMemory().Bytes; over > 0 {
				o.FeatureMemory = max(needs[0].Bytes-over, leastFeatureMemory)
			}
		}
	}
	return o, proc.CheckMemory(work, advice, append(scoringNeeds(m, o, threads), outcome...)...)
}

// fitPredict is like Fit but serves Predict, which lists k answers to each distinct query.
func fitPredict(m model.Model, x *kg.Index, distinct []kg.Query, k int, filterKnown bool, o Options) (Options, error) {
	panels := o.Backend.Panels(m.Tower(kg.Tail).Compare)
	block := predictBlock(panels.QueryBlock(m.Tower(kg.Tail).Psi), panels.MR, k, len(distinct), o.Threads)
	threads := min(o.Threads, (len(distinct)+block-1)/block)
	return fit(m, o, threads, "predicting", answersNeeds(m, x, distinct, k, block*threads, filterKnown),
		"ask for fewer answers or fewer queries, or make more memory available")
}

// answersNeeds lists the memory for Predict's results and for the shortlists of the queries that the
// threads work on at once. listed is the number of these queries.
func answersNeeds(m model.Model, x *kg.Index, distinct []kg.Query, k, listed int, filterKnown bool) []proc.Need {
	var answers int64
	for _, q := range distinct {
		n := m.Config().Entities
		if filterKnown {
			n -= len(x.Answers(q).Entities)
		}
		answers += int64(min(k, n))
	}
	const perContender = int64(unsafe.Sizeof(engine.Contender{})) + 8 // and its lower end in the heap
	return []proc.Need{
		{For: "answers", Bytes: answers * int64(unsafe.Sizeof(Prediction{}))},
		{For: "shortlists of the threads", Bytes: int64(min(listed, len(distinct))) * int64(k) * perContender},
	}
}
