package rank

import (
	"cmp"
	"fmt"
	"unsafe"

	"github.com/dustin/go-humanize"

	"github.com/mquine/mquine/internal/proc"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
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
	if len(o.Devices) > 0 {
		if x, err := newSlicing(m, o, false); err == nil {
			bytes = int64(x.buffers) * int64(x.size) * candidateBytes(devicePad(widestTower(m)))
			return bytes, (m.Config().Entities + x.size - 1) / x.size
		}
	}
	n := sliceSize(m, o)
	return proc.Total(scoringNeeds(m, o, o.Threads)), (m.Config().Entities + n - 1) / n
}

// scoringNeeds is what any ranking allocates, apart from its outcome, if there is work for so many threads.
func scoringNeeds(m model.Model, o Options, threads int) []proc.Need {
	n := sliceSize(m, o)
	_, terms, strips := blockSizes(m, o.Backend, o.Screen)
	threads = min(threads, (n+o.Backend.NR-1)/o.Backend.NR) // a panel at least for each
	return []proc.Need{
		{For: "features of the candidates", Bytes: featureBytes(widestTower(m)) * int64(n)},
		{For: "scratch memory of the threads", Bytes: 4 * int64(terms+strips) * int64(threads)},
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
	return proc.Need{For: "ranks", Bytes: int64(sides*triples) * int64(unsafe.Sizeof(Rank{})+unsafe.Sizeof(truth{}))}
}

// Fit returns the options that Run ranks so many triples with: without zero values, and with the FeatureMemory for which
// the machine and its limits have memory, less than DefaultFeatureMemory where needed, unless o sets it. It is an error
// if the ranking cannot fit. Run calls Fit itself.
func Fit(m model.Model, triples int, o Options) (Options, error) {
	o, err := o.withDefaults()
	if err != nil {
		return o, err
	}
	return fit(m, o, o.Threads, "ranking", []proc.Need{rankNeed(triples, o)}, "use fewer threads, or give it more memory")
}

// fit is Fit for any work that ends in an outcome and has something to do for so many threads.
func fit(m model.Model, o Options, threads int, work string, outcome []proc.Need, advice string) (Options, error) {
	if len(o.Devices) > 0 {
		return o, nil // which have memory of their own
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
func fitPredict(m model.Model, x *kg.Index, distinct []query, k int, filterKnown bool, o Options) (Options, error) {
	block := predictBlock(o.Backend, m.Tower(kg.Tail), k, len(distinct), o.Threads)
	threads := min(o.Threads, (len(distinct)+block-1)/block)
	return fit(m, o, threads, "predicting", answersNeeds(m, x, distinct, k, block*threads, filterKnown),
		"ask for fewer answers or fewer queries, or give it more memory")
}

// answersNeeds is the outcome of Predict, without the answers that it leaves out, and the lists of so many queries that
// the threads are at.
func answersNeeds(m model.Model, x *kg.Index, distinct []query, k, listed int, filterKnown bool) []proc.Need {
	var answers int64
	for _, q := range distinct {
		n := m.Config().Entities
		if filterKnown {
			n -= len(x.Answers(q.Query).Entities)
		}
		answers += int64(min(k, n))
	}
	const perContender = int64(unsafe.Sizeof(contender{})) + 8 // and its lower end
	return []proc.Need{
		{For: "answers", Bytes: answers * int64(unsafe.Sizeof(Prediction{}))},
		{For: "shortlists of the threads", Bytes: int64(min(listed, len(distinct))) * int64(k) * perContender},
	}
}
