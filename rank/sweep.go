package rank

import (
	"cmp"
	"context"
	"math"
	"math/bits"
	"slices"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
)

// maxBlockTruths bounds the truths of a block of queries and with them the scratch memory.
const maxBlockTruths = 4096

// maxPending bounds the candidates that wait for their reference scores.
const maxPending = 1 << 16

// sweeper ranks blocks of queries: it is one goroutine's scratch memory.
type sweeper struct {
	*run
	f      *features
	worker model.Worker
	tile   *kernel.Tile

	// Of the block's queries, by row.
	queries []query
	psi     []float32 // [row][stride]
	strips  []float32 // packed, [row/MR][width][MR]
	norms   []float64 // ‖ψ‖
	slacks  []model.Slack
	ids     []int32 // 0, 1, 2, …

	// Of the block's truths, numbered from the block's first.
	truths    []truth
	rowOf     []int32
	rows      []int32 // first truth of each row and one more
	low, high []float64
	ends      []float32 // lo, hi for the tiles
	better    []int32   // unfiltered, certainly better in the tiles
	tally     []tally
	reference []float64
	scored    []bool // reference is known

	known   []knownAnswer // sorted by panel
	byPanel []int32       // first known answer of each panel
	scratch []knownAnswer

	phi     []float32
	rescore []int32 // rows of features to score in float64
	scores  []float64
	pending []candidate
}

// tally is what the tiles' count of better candidates misses, by filter.
type tally struct {
	better, equal [NumFilters]int32
}

// knownAnswer is a candidate that some filter removes for a row's query.
type knownAnswer struct {
	panel   int32
	row     uint16
	lane    uint8
	filters uint8 // bit f: filter f removes it
}

// candidate is a pair that only the reference can decide.
type candidate struct {
	row, truth, entity int32
}

func newSweeper(r *run, f *features, w model.Worker) *sweeper {
	b := r.backend
	block, truths := r.block, maxBlockTruths+maxTruths
	s := &sweeper{
		run: r, f: f, worker: w, tile: b.NewTile(block, truths),
		psi: kernel.AlignedFloat32(block * f.stride), strips: kernel.AlignedFloat32(block * f.width),
		norms: make([]float64, block), slacks: make([]model.Slack, block), ids: make([]int32, max(block, b.NR)),
		rowOf: make([]int32, truths), rows: make([]int32, block+1),
		low: make([]float64, truths), high: make([]float64, truths), ends: make([]float32, 2*truths),
		better: make([]int32, truths), tally: make([]tally, truths),
		reference: make([]float64, truths), scored: make([]bool, truths),
		phi: kernel.AlignedFloat32(f.stride), rescore: make([]int32, 0, b.NR), scores: make([]float64, b.NR),
	}
	for i := range s.ids {
		s.ids[i] = int32(i)
	}
	return s
}

// sweep ranks a block of queries against the panels of it. With first, it also counts the
// candidates that each filter leaves.
func (s *sweeper) sweep(ctx context.Context, it item, first bool) {
	s.prepare(it)
	s.bucketKnown(it, first)
	mr, nr := s.backend.MR, s.backend.NR
	rows := (len(s.queries) + mr - 1) / mr * mr
	queries := int64(len(s.queries))
	for p := it.fromPanel; p < it.toPanel && ctx.Err() == nil; p++ {
		if p == it.fromPanel || p%blockPanels == 0 {
			s.setEnds(p / blockPanels)
		}
		panel, valid := s.f.panel(p)
		next := s.f.panels[min((p+1)*nr*s.f.width, len(s.f.panels)):min((p+2)*nr*s.f.width, len(s.f.panels))]
		s.backend.DotPanel(s.tile, s.strips, panel, s.f.width, s.rows[:rows+1], s.ends, s.better, valid, next)
		s.subtractKnown(s.known[s.byPanel[p-it.fromPanel]:s.byPanel[p-it.fromPanel+1]], nr)
		s.decide(p)
		lanes := int64(bits.OnesCount64(valid))
		s.done.Add(queries * lanes)
		s.run.truths.Add(int64(len(s.truths)) * lanes)
		if len(s.pending) > maxPending {
			s.decideByReference(ctx)
		}
	}
	s.decideByReference(ctx)
	if ctx.Err() == nil {
		s.addCounts()
	}
}

// prepare computes ψ of the block's queries and the intervals of their truths.
func (s *sweeper) prepare(it item) {
	f, mr := s.f, s.backend.MR
	s.queries = s.plan.queries[it.first:it.last]
	base := s.queries[0].first
	s.truths = s.plan.truths[base:s.queries[len(s.queries)-1].last]
	clear(s.psi)
	for i, q := range s.queries {
		psi := s.psi[i*f.stride : (i+1)*f.stride]
		s.slacks[i] = s.worker.Query(q.Query, psi[:f.width])
		s.norms[i] = norm(psi)
		for t := q.first; t < q.last; t++ {
			s.rowOf[t-base] = int32(i)
		}
		s.rows[i] = q.first - base
	}
	for i := len(s.queries); i < len(s.rows); i++ {
		s.rows[i] = int32(len(s.truths))
	}
	for row := 0; row < len(s.queries); row += mr {
		n := min(mr, len(s.queries)-row)
		kernel.PackRows(s.strips[row*f.width:(row+mr)*f.width], s.psi, f.stride, s.ids[row:row+n], f.width, mr)
	}
	clear(s.better[:len(s.truths)])
	clear(s.tally[:len(s.truths)])
	clear(s.scored[:len(s.truths)])
	s.pending = s.pending[:0]
	for t, tr := range s.truths {
		s.low[t], s.high[t] = s.truthInterval(int(s.rowOf[t]), tr.answer)
	}
}

// truthInterval bounds the reference score of a truth minus the constant of its query.
func (s *sweeper) truthInterval(row int, answer int32) (low, high float64) {
	f := s.f
	if i := int(answer) - f.first; i >= 0 && i < f.n {
		return s.interval(row, s.pairScore(row, f.rows, int32(i)), f.norms[i], f.sizes[i])
	}
	q := s.queries[row]
	clear(s.phi)
	size := s.worker.Features(q.Side, q.Relation, answer, s.phi[:f.width])
	return s.interval(row, s.pairScore(row, s.phi, 0), norm(s.phi), size)
}

func (s *sweeper) pairScore(row int, table []float32, i int32) float64 {
	var score [1]float64
	s.backend.PairDot(score[:], s.psi[row*s.f.stride:(row+1)*s.f.stride], table, s.f.stride, []int32{i})
	return score[0]
}

// interval bounds a candidate's reference score minus the constant of the query of row, given its
// dot product accumulated in float64, its ‖φ‖ and its size.
func (s *sweeper) interval(row int, dot, norm, size float64) (low, high float64) {
	band := s.band(row, kernel.PairError(s.f.stride), 0, norm, size) + 2*kernel.U64*math.Abs(dot)
	if !(band < math.Inf(1)) {
		return math.Inf(-1), math.Inf(1)
	}
	return dot - band, dot + band
}

// band bounds the distance of a computed dot product from the reference score minus the constant
// of the query, for candidates of at most the given norm and size. The product's own error is
// relative·‖ψ‖‖φ‖ + absolute; to it come the rounding of ψ and φ to float32 and the model's slack
// (docs/numerics.md, section 3). It is +Inf if the product is not finite.
func (s *sweeper) band(row int, relative, absolute, norm, size float64) float64 {
	product := s.norms[row] * norm
	if !(product < math.Inf(1)) {
		return math.Inf(1)
	}
	const rounding = 2*kernel.U32 + kernel.U32*kernel.U32
	underflow := 0x1p-149 * math.Sqrt(float64(s.f.width)) * (s.norms[row] + norm + 1)
	const outward = 1 + 1e-9 // for the rounding of this sum itself
	return ((relative+rounding)*product + absolute + underflow + s.slacks[row].At(size)) * outward
}

// tileBand is the band of the tiles' float32 scores over a block of panels.
func (s *sweeper) tileBand(row, block int) float64 {
	norm, size := s.f.blockNorms[block], s.f.blockSizes[block]
	if !(s.norms[row]*norm < kernel.DotOverflow) {
		return math.Inf(1)
	}
	relative, absolute := kernel.DotError(s.f.width)
	return s.band(row, relative, absolute, norm, size)
}

// setEnds widens the truths' intervals by the tile's band over a block of panels.
func (s *sweeper) setEnds(block int) {
	for row, q := range s.queries {
		band := s.tileBand(row, block)
		for t := s.rows[row]; t < s.rows[row]+q.last-q.first; t++ {
			if math.IsInf(band, 1) || math.IsInf(s.high[t], 1) {
				s.ends[2*t], s.ends[2*t+1] = float32(math.Inf(-1)), float32(math.Inf(1))
				continue
			}
			lo, hi := s.low[t]-band, s.high[t]+band
			s.ends[2*t] = kernel.RoundDown32(lo - 2*kernel.U64*math.Abs(lo))
			s.ends[2*t+1] = kernel.RoundUp32(hi + 2*kernel.U64*math.Abs(hi))
		}
	}
}

// bucketKnown sorts the known answers of the block's queries among the panels of it.
func (s *sweeper) bucketKnown(it item, count bool) {
	f, nr := s.f, s.backend.NR
	s.scratch = s.scratch[:0]
	panels := it.toPanel - it.fromPanel
	if cap(s.byPanel) < panels+2 {
		s.byPanel = make([]int32, panels+2)
	}
	s.byPanel = s.byPanel[:panels+2]
	clear(s.byPanel)
	starts := s.byPanel[1:]
	for row, q := range s.queries {
		known := s.index.Answers(q.Query)
		var removed [NumFilters]int32
		for i, e := range known.Entities {
			filters := filtersOf[known.Splits[i]]
			for fl := range NumFilters {
				removed[fl] += int32(filters >> fl & 1)
			}
			if e < int32(f.first) || e >= int32(f.first+f.n) {
				continue
			}
			at := f.place[int(e)-f.first]
			p := at/int32(nr) - int32(it.fromPanel)
			if p < 0 || p >= int32(panels) {
				continue
			}
			s.scratch = append(s.scratch, knownAnswer{p, uint16(row), uint8(at % int32(nr)), filters})
			starts[p+1]++
		}
		if count {
			s.countCandidates(q, known, removed)
		}
	}
	// A stable counting sort: starts[p] becomes the first place of panel p, then its end.
	for p := range panels {
		starts[p+1] += starts[p]
	}
	if cap(s.known) < len(s.scratch) {
		s.known = make([]knownAnswer, len(s.scratch), 2*len(s.scratch))
	}
	s.known = s.known[:len(s.scratch)]
	for _, k := range s.scratch {
		s.known[starts[k.panel]] = k
		starts[k.panel]++
	}
	// Every start has moved to its end: s.byPanel, one element before, has the starts.
}

// filtersOf holds, for every set of splits, the filters that remove an answer known from them.
var filtersOf = func() (table [1 << kg.NumSplits]uint8) {
	for splits := range table {
		for f := range NumFilters {
			if kg.SplitSet(splits)&f.Splits() != 0 {
				table[splits] |= 1 << f
			}
		}
	}
	return table
}()

// countCandidates counts what every filter leaves for the truths of q: the truth always stays.
func (s *sweeper) countCandidates(q query, known kg.Answers, removed [NumFilters]int32) {
	n := int32(s.model.Config().Entities)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.plan.truths[q.first:q.last] {
		filters := s.filtersOfAnswer(known, t.answer)
		for fl := range NumFilters {
			s.ranks[t.rank].Candidates[fl] = n - removed[fl] + int32(filters>>fl&1)
		}
	}
}

// filtersOfAnswer returns the filters that remove e.
func (s *sweeper) filtersOfAnswer(known kg.Answers, e int32) uint8 {
	if i, ok := slices.BinarySearch(known.Entities, e); ok {
		return filtersOf[known.Splits[i]]
	}
	return 0
}

// subtractKnown takes the known answers in a panel back out of the tile's counts. Those that the
// tile does not decide are left to decide.
func (s *sweeper) subtractKnown(known []knownAnswer, nr int) {
	for _, k := range known {
		score := s.tile.Scores[int(k.row)*nr+int(k.lane)]
		for t := s.rows[k.row]; t < s.rows[k.row+1]; t++ {
			if score > s.ends[2*t+1] {
				b := &s.tally[t].better
				b[Train] -= int32(k.filters >> Train & 1)
				b[All] -= int32(k.filters >> All & 1)
			}
		}
	}
}

// decide compares the candidates that the tile of panel p left undecided by their float64 dot
// products; those that are still undecided wait for decideByReference.
func (s *sweeper) decide(p int) {
	pairs := s.tile.Undecided[:2*s.tile.Pairs]
	for len(pairs) > 0 {
		// The pairs of one row stand together.
		row := s.rowOf[pairs[0]]
		n, lanes := 0, uint64(0)
		for n < len(pairs) && s.rowOf[pairs[n]] == row {
			m := s.withoutTruth(p, pairs[n], pairs[n+1])
			pairs[n+1] = m
			lanes |= m
			n += 2
		}
		if lanes != 0 {
			s.decideRow(p, row, lanes, pairs[:n])
		}
		pairs = pairs[n:]
	}
}

// withoutTruth clears the lane of truth t itself.
func (s *sweeper) withoutTruth(p int, t, mask uint64) uint64 {
	i := int(s.truths[t].answer) - s.f.first
	if i < 0 || i >= s.f.n {
		return mask
	}
	if lane := int(s.f.place[i]) - p*s.f.nr; lane >= 0 && lane < s.f.nr {
		mask &^= 1 << lane
	}
	return mask
}

func (s *sweeper) decideRow(p int, row int32, lanes uint64, pairs []uint64) {
	f := s.f
	s.rescore = s.rescore[:0]
	for m := lanes; m != 0; m &= m - 1 {
		s.rescore = append(s.rescore, f.order[p*f.nr+bits.TrailingZeros64(m)])
	}
	s.backend.PairDot(s.scores, s.psi[int(row)*f.stride:(int(row)+1)*f.stride], f.rows, f.stride, s.rescore)
	for i, m := 0, lanes; m != 0; i, m = i+1, m&(m-1) {
		local := s.rescore[i]
		entity := local + int32(f.first)
		low, high := s.interval(int(row), s.scores[i], f.norms[local], f.sizes[local])
		lane := uint64(1) << bits.TrailingZeros64(m)
		for j := 0; j < len(pairs); j += 2 {
			if pairs[j+1]&lane == 0 {
				continue
			}
			t := int32(pairs[j])
			s.undecided.Add(1)
			switch {
			case low > s.high[t]:
				s.count(row, t, entity, true)
			case high < s.low[t]:
			default:
				s.pending = append(s.pending, candidate{row, t, entity})
			}
		}
	}
}

// count adds a candidate that is better than truth t, or equal to it, under every filter that
// leaves it.
func (s *sweeper) count(row, t, entity int32, better bool) {
	filters := s.filtersOfAnswer(s.index.Answers(s.queries[row].Query), entity)
	for fl := range NumFilters {
		left := 1 - int32(filters>>fl&1)
		if better {
			s.tally[t].better[fl] += left
		} else {
			s.tally[t].equal[fl] += left
		}
	}
}

// decideByReference decides the pending candidates by their reference scores, each of them
// computed once for a query and once for all entities with the same parameters.
func (s *sweeper) decideByReference(ctx context.Context) {
	slices.SortFunc(s.pending, func(x, y candidate) int {
		return cmp.Or(cmp.Compare(x.row, y.row), cmp.Compare(s.rep(x.entity), s.rep(y.entity)), cmp.Compare(x.truth, y.truth))
	})
	row, rep, score := int32(-1), int32(-1), 0.0
	for i, c := range s.pending {
		if i%64 == 0 && ctx.Err() != nil {
			return
		}
		q := s.queries[c.row].Query
		s.referenced.Add(1)
		answer := s.truths[c.truth].answer
		if s.rep(c.entity) == s.rep(answer) {
			s.count(c.row, c.truth, c.entity, false)
			continue
		}
		if c.row != row || s.rep(c.entity) != rep {
			row, rep = c.row, s.rep(c.entity)
			score = s.worker.Reference(q, rep)
		}
		if !s.scored[c.truth] {
			s.reference[c.truth], s.scored[c.truth] = s.worker.Reference(q, answer), true
		}
		switch want := s.reference[c.truth]; {
		case score > want:
			s.count(c.row, c.truth, c.entity, true)
		case score == want:
			s.count(c.row, c.truth, c.entity, false)
		}
	}
	s.pending = s.pending[:0]
}

func (s *sweeper) rep(e int32) int32 {
	if s.reps == nil {
		return e
	}
	return s.reps[e]
}

// addCounts adds the block's counts to the result.
func (s *sweeper) addCounts() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for t, tr := range s.truths {
		r := &s.ranks[tr.rank]
		for fl := range NumFilters {
			r.Better[fl] += s.better[t] + s.tally[t].better[fl]
			r.Equal[fl] += s.tally[t].equal[fl]
		}
	}
}
