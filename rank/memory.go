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

// leastFeatureMemory is how far Fit lowers the memory for features: with smaller slices, making them would take
// longer than ranking.
const leastFeatureMemory = 64 << 20

// sliceReserve is what Fit leaves when it makes slices smaller: for what is not counted, and because the heap takes
// address space 64 MiB at a time.
const sliceReserve = 128 << 20

// Memory tells what a ranking with options from Fit allocates for features and for the scratch memory of its threads,
// and in how many slices it ranks the candidates.
func Memory(m model.Model, o Options) (bytes int64, slices int) {
	j := o.job(m, engine.Plan{})
	if o.Engine != nil {
		if bytes, slices, err := o.Engine.Memory(j); err == nil {
			return bytes, slices
		}
	}
	n := cpuSlice(j)
	return proc.Total(scoringNeeds(m, o, o.Threads)), (j.Last - j.First + n - 1) / n
}

// scoringNeeds is what any ranking on the processor allocates, apart from its outcome, if there is work for so many
// threads.
func scoringNeeds(m model.Model, o Options, threads int) []proc.Need {
	n := cpuSlice(o.job(m, engine.Plan{}))
	_, entries, strips := blockSizes(m, o.Backend, o.Screen)
	threads = min(threads, (n+o.Backend.NR-1)/o.Backend.NR) // a panel at least for each
	return []proc.Need{
		{For: "features of the candidates", Bytes: featureBytes(engine.WidestTower(m)) * int64(n)},
		{For: "scratch memory of the threads", Bytes: 4 * int64(entries+strips) * int64(threads)},
	}
}

// LeastMemory lists what Run is certain to allocate for so many triples and both sides, with slices as small as Fit
// makes them. o must name a backend and the number of threads.
func LeastMemory(m model.Model, triples int, o Options) []proc.Need {
	o.FeatureMemory = cmp.Or(o.FeatureMemory, leastFeatureMemory)
	return append(scoringNeeds(m, o, o.Threads), rankNeed(triples, o))
}

// rankNeed is the outcome of Run, with the plan that leads to it.
func rankNeed(triples int, o Options) proc.Need {
	sides := 2
	if o.Sides != nil {
		sides = len(o.Sides)
	}
	return proc.Need{For: "ranks", Bytes: int64(sides*triples) * int64(unsafe.Sizeof(Rank{})+unsafe.Sizeof(engine.Target{}))}
}

// Fit returns the resolved options that Run ranks so many triples with: unless o sets FeatureMemory, it is what the machine
// and its limits have memory for, at most DefaultFeatureMemory. It is an error if the ranking cannot fit. Run calls Fit
// itself.
func Fit(ctx context.Context, m model.Model, triples int, o Options) (Options, error) {
	o, err := o.Resolve(ctx, m)
	if err != nil {
		return o, err
	}
	return fit(m, o, o.Threads, "ranking", []proc.Need{rankNeed(triples, o)}, "use fewer threads, or give it more memory")
}

// fit is Fit for any work that ends in an outcome and has something to do for so many threads.
func fit(m model.Model, o Options, threads int, work string, outcome []proc.Need, advice string) (Options, error) {
	if o.Engine != nil {
		return o, nil // it has memory of its own
	}
	c := m.Config()
	work = fmt.Sprintf("%s with %s, d = %d, among %s candidates", work, c.Model, c.Dim, humanize.Comma(int64(c.Entities)))
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

// fitPredict is Fit for Predict, which lists k answers of distinct queries.
func fitPredict(m model.Model, x *kg.Index, distinct []kg.Query, k int, filterKnown bool, o Options) (Options, error) {
	panels := o.Backend.Panels(m.Tower(kg.Tail).Compare)
	block := predictBlock(panels.QueryBlock(m.Tower(kg.Tail).Phi), panels.MR, k, len(distinct), o.Threads)
	threads := min(o.Threads, (len(distinct)+block-1)/block)
	return fit(m, o, threads, "predicting", answersNeeds(m, x, distinct, k, block*threads, filterKnown),
		"ask for fewer answers or fewer queries, or give it more memory")
}

// answersNeeds is the outcome of Predict, without the answers that it leaves out, and the lists of so many queries that
// the threads are at.
func answersNeeds(m model.Model, x *kg.Index, distinct []kg.Query, k, listed int, filterKnown bool) []proc.Need {
	var answers int64
	for _, q := range distinct {
		n := m.Config().Entities
		if filterKnown {
			n -= len(x.Answers(q).Entities)
		}
		answers += int64(min(k, n))
	}
	const perContender = int64(unsafe.Sizeof(engine.Contender{})) + 8 // and its lower end
	return []proc.Need{
		{For: "answers", Bytes: answers * int64(unsafe.Sizeof(Prediction{}))},
		{For: "shortlists of the threads", Bytes: int64(min(listed, len(distinct))) * int64(k) * perContender},
	}
}
