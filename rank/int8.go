package rank

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/model"
)

// The int8 screen of dot products (docs/numerics.md, section 11): ψ and φ in coordinates in which
// bytes say most about them,
//
//	a = R(ψ ∘ 1/w),   b = R((φ − μ) ∘ w),   ψ·φ = ψ·μ + a·b
//
// with the candidates' mean μ, weights w that balance the entries' sizes in queries and candidates,
// and a rotation R that spreads large entries. What the screen leaves undecided is many times what
// float32 leaves, so it serves where few candidates score close to a truth.

// Screen is the arithmetic of the first stage of dot products. It changes no rank.
type Screen uint8

const (
	// AutoScreen is Int8Screen where the machine computes it fast and a sample of queries promises
	// that it decides nearly all candidates, else Float32Screen.
	AutoScreen Screen = iota
	// Float32Screen compares in float32.
	Float32Screen
	// Int8Screen compares bytes with scales.
	Int8Screen
)

// String returns "auto", "float32" or "int8".
func (s Screen) String() string { return [...]string{"auto", "float32", "int8"}[s] }

// int8For tells whether the int8 screen may be used for a tower.
func (s Screen) int8For(t model.Tower, b *kernel.Backend) bool {
	return t.Compare == kernel.Dot && 2*int8Words(t.Width) <= kernel.MaxInt8 && // pairs of bytes have twice the terms
		(s == Int8Screen || (s == AutoScreen && b.FastInt8()))
}

// spread is the number of dimensions that the rotation mixes, as a Hadamard matrix.
const spread = 16

// int8Width is a width padded to whole groups of spread.
func int8Width(width int) int { return (width + spread - 1) / spread * spread }

// int8Words is the number of terms of kernel.Int8 for a width.
func int8Words(width int) int { return int8Width(width) / kernel.WordBytes }

// int8Stride is the length in words of a row of coarse and fine codes, for single pairs.
func int8Stride(width int) int {
	const pad = kernel.Int8PairWidth
	return (2*int8Words(width) + pad - 1) / pad * pad
}

// coordinates are those of the int8 screen for one slice of candidates. Entry t of a vector goes to
// at[t].
type coordinates struct {
	at      []int32
	center  []float64 // μ
	forward []float64 // w, with a random sign, over the norm √spread of R's rows
	inverse []float64 // 1/w likewise
	norm    float64   // upper bound of ‖μ‖
}

// coordinates writes R((x − μ) ∘ w) of a candidate, or R(x ∘ 1/w) of a query, to out, padded with
// zeros to int8Width. The result is within 8·2⁻⁵³ of its size.
func (c *coordinates) candidate(out []float64, x []float32) {
	clear(out)
	for t, v := range x {
		out[c.at[t]] = (float64(v) - c.center[t]) * c.forward[t]
	}
	rotate(out)
}

func (c *coordinates) query(out []float64, x []float32) {
	clear(out)
	for t, v := range x {
		out[c.at[t]] = float64(v) * c.inverse[t]
	}
	rotate(out)
}

// rotate multiplies every group of spread entries with the Hadamard matrix of ±1.
func rotate(x []float64) {
	// Four numbers at a time stay in registers, for two of the four rounds.
	four := func(a, b, c, d float64) (float64, float64, float64, float64) {
		a, b, c, d = a+b, a-b, c+d, c-d
		return a + c, b + d, a - c, b - d
	}
	for ; len(x) >= spread; x = x[spread:] {
		g := (*[spread]float64)(x)
		g[0], g[1], g[2], g[3] = four(g[0], g[1], g[2], g[3])
		g[4], g[5], g[6], g[7] = four(g[4], g[5], g[6], g[7])
		g[8], g[9], g[10], g[11] = four(g[8], g[9], g[10], g[11])
		g[12], g[13], g[14], g[15] = four(g[12], g[13], g[14], g[15])
		g[0], g[4], g[8], g[12] = four(g[0], g[4], g[8], g[12])
		g[1], g[5], g[9], g[13] = four(g[1], g[5], g[9], g[13])
		g[2], g[6], g[10], g[14] = four(g[2], g[6], g[10], g[14])
		g[3], g[7], g[11], g[15] = four(g[3], g[7], g[11], g[15])
	}
}

// moments returns the mean of rows and the root mean square of what is left of them, or of the rows
// themselves.
func moments(rows [][]float32, width int, centred bool) (mean, rms []float64) {
	mean, rms = make([]float64, width), make([]float64, width)
	n := float64(len(rows))
	if centred {
		for _, row := range rows {
			for t, v := range row[:width] {
				mean[t] += float64(v) / n
			}
		}
	}
	for _, row := range rows {
		for t, v := range row[:width] {
			d := float64(v) - mean[t]
			rms[t] += d * d / n
		}
	}
	for t := range rms {
		rms[t] = math.Sqrt(rms[t])
	}
	return mean, rms
}

// newCoordinates chooses coordinates from samples of ψ and φ.
func newCoordinates(psi, phi [][]float32, width int) *coordinates {
	c := &coordinates{at: make([]int32, width), forward: make([]float64, width), inverse: make([]float64, width)}
	mean, candidates := moments(phi, width, true)
	_, queries := moments(psi, width, false)
	c.center = mean
	const least = 1e-3 // of the mean: entries that the samples hardly show keep a sensible weight
	floor := func(rms []float64) float64 {
		sum := math.SmallestNonzeroFloat32
		for _, v := range rms {
			sum += v / float64(width)
		}
		return least * sum
	}
	floorQ, floorC := floor(queries), floor(candidates)
	groups := int8Width(width) / spread
	for t := range width {
		// Neighbours, which are often of one kind, go to different groups.
		c.at[t] = int32(t%groups*spread + t/groups)
		ratio := math.Sqrt(max(queries[t], floorQ) / max(candidates[t], floorC))
		// A power of two makes the products exact.
		w := math.Ldexp(1, int(math.Round(math.Log2(min(max(ratio, 0x1p-60), 0x1p60)))))
		w *= signOf(t)
		c.forward[t], c.inverse[t] = w/4, 1/(4*w) // √spread = 4
		c.norm += mean[t] * mean[t]
	}
	c.norm = math.Sqrt(c.norm) * outward
	return c
}

// signOf returns 1 or −1, as good as random, for dimension t.
func signOf(t int) float64 {
	if (uint32(t)*2654435761)>>31 == 1 {
		return -1
	}
	return 1
}

// step returns the scale of codes for entries of at most the given size.
func step(largest float64) float64 {
	if largest == 0 {
		return 1
	}
	return largest / 127
}

func largest(x []float64) (m float64) {
	for _, v := range x {
		if v = math.Abs(v); v > m {
			m = v
		}
	}
	return m
}

// rotation bounds the relative error of the coordinates: a difference and log₂ spread sums.
const rotation = 8 * kernel.U64

// mostUndecided is the share of the sampled pairs that the int8 screen may leave under AutoScreen.
// Such a pair costs the next stage some three times what a float32 panel needs for it, of which bytes
// save three quarters; and panels leave more than the sample, as a block shares one step.
const mostUndecided = 0.15

// sampleInt8 chooses the coordinates for the candidates of f, in a pass, and tells whether the int8
// screen should be used.
func (f *features) sampleInt8(c *crew, p pass) bool {
	width, screen, b := f.tower.Width, c.run.screen, c.run.backend
	if !screen.int8For(f.tower, b) {
		return false
	}
	const (
		queries, candidates = 128, 1024
		fewest              = 64 // queries that are worth the preparation
	)
	if screen == AutoScreen && p.last-p.first < fewest {
		return false
	}
	for _, n := range f.norms[:f.n] {
		if !(n < 0x1p60) { // far from where anything could overflow
			return false
		}
	}
	s := c.member(0)
	rows := make([]int32, 0, candidates)
	phi := make([][]float32, 0, candidates)
	for i := 0; i < f.n; i += (f.n + candidates - 1) / candidates {
		rows, phi = append(rows, int32(i)), append(phi, f.row(int32(i)))
	}
	var psi [][]float32
	var truths []float64 // the float64 scores of their first truths
	for i := p.first; i < p.last; i += (p.last - p.first + queries - 1) / queries {
		q := c.run.plan.queries[i]
		x := make([]float32, f.stride())
		s.worker.Query(q.Query, x[:width])
		if !(norm(x) < 0x1p60) {
			return false
		}
		clear(s.phi)
		s.worker.Features(q.Side, q.Relation, c.run.plan.truths[q.first].answer, s.phi[:width])
		b.Pair(kernel.Dot, s.scores, x, s.phi, f.stride(), s.ids[:1])
		psi, truths = append(psi, x), append(truths, s.scores[0])
	}
	f.coordinates = newCoordinates(psi, phi, width)
	if screen == Int8Screen {
		return true
	}

	// The share of the sampled pairs whose scores are too close to the truth's for bytes.
	x, coarse, fine := make([]float64, int8Width(width)), make([]float32, int8Words(width)), make([]float32, int8Words(width))
	norms, residuals, scores := make([]float64, len(phi)), make([]float64, len(phi)), make([]float64, len(phi))
	for j, row := range phi {
		f.coordinates.candidate(x, row[:width])
		norms[j] = norm64(x)
		residuals[j] = kernel.CodeInt8(coarse, fine, x, step(largest(x)), 0).Residual
	}
	undecided := 0
	for i, row := range psi {
		f.coordinates.query(x, row[:width])
		code := kernel.CodeInt8(coarse, fine, x, step(largest(x)), 0)
		b.Pair(kernel.Dot, scores, row, f.rows, f.stride(), rows)
		for j, score := range scores {
			if math.Abs(score-truths[i]) <= code.Residual*norms[j]+code.Norm*residuals[j] {
				undecided++
			}
		}
	}
	return float64(undecided) < mostUndecided*float64(len(psi)*len(phi))
}

// norm64 returns an upper bound of ‖x‖; len(x) is a multiple of 4.
func norm64(x []float64) float64 {
	var a, b, c, d float64
	for ; len(x) >= 4; x = x[4:] {
		a, b, c, d = a+x[0]*x[0], b+x[1]*x[1], c+x[2]*x[2], d+x[3]*x[3]
	}
	return math.Sqrt(a+b+c+d) * outward
}

// packInt8 makes the panels of the int8 screen, in ascending order of the largest entry of b, which sets the
// step of a block.
func (f *features) packInt8(ctx context.Context, c *crew) error {
	width, n := f.tower.Width, f.n
	padded := int8Width(width)
	sizes, peaks := make([]float64, n), make([]float64, n)
	buffers := make([][]float64, len(c.sweepers))
	for w := range buffers {
		buffers[w] = make([]float64, padded)
	}
	const each = 256
	err := kernel.Parallel(ctx, len(c.sweepers), (n+each-1)/each, func(w, item int) {
		c.run.phases.enter(packPhase)
		for i := item * each; i < min((item+1)*each, n); i++ {
			f.coordinates.candidate(buffers[w], f.row(int32(i))[:width])
			sizes[i], peaks[i] = norm64(buffers[w])*(1+rotation), largest(buffers[w])
		}
	})
	if err != nil {
		return err
	}
	f.sortBy(peaks)
	perBlock := blockPanels * f.nr
	blocks := (n + perBlock - 1) / perBlock
	f.int8Blocks = make([]int8Block, blocks)
	words := int8Words(width)
	terms := make([]int32, words)
	for t := range terms {
		terms[t] = int32(t)
	}
	return kernel.Parallel(ctx, len(c.sweepers), blocks, func(w, block int) {
		c.run.phases.enter(packPhase)
		rows := f.order[block*perBlock : min((block+1)*perBlock, n)]
		b := &f.int8Blocks[block]
		for _, i := range rows {
			b.norm, b.step = max(b.norm, sizes[i]), max(b.step, peaks[i])
		}
		b.step = step(b.step)
		codes, lanes := f.codes(), make([]int32, f.nr)
		for at := 0; at < len(rows); at += f.nr {
			some := rows[at:min(at+f.nr, len(rows))]
			first := block*perBlock + at
			for j, i := range some {
				x, row := buffers[w], codes[(first+j)*int8Stride(width):]
				f.coordinates.candidate(x, f.row(i)[:width])
				code := kernel.CodeInt8(row[:words], row[words:2*words], x, b.step, 128)
				b.residual = max(b.residual, code.Residual+rotation*sizes[i])
				b.fineNorm, b.fineResidual = max(b.fineNorm, code.FineNorm), max(b.fineResidual, code.FineResidual+rotation*sizes[i])
				lanes[j] = int32(first + j)
			}
			panel, _ := f.panel(first / f.nr)
			kernel.PackRows(panel, codes, int8Stride(width), lanes[:len(some)], terms, f.nr)
		}
	})
}

// codes returns the rows of coarse and fine codes, [coarse, fine], by position. They use what the
// panels, of a quarter of a float32 panel's size, leave free.
func (f *features) codes() []float32 {
	return f.panels[(f.n+f.nr-1)/f.nr*f.nr*f.terms():]
}

// int8Block is what a block of panels shares: the step of the codes, and the largest ‖b‖,
// ‖b − coarse‖, ‖fine‖ and ‖b − coarse − fine‖.
type int8Block struct {
	step, norm, residual, fineNorm, fineResidual float64
}

// int8Query belongs to the codes of one row: their step, upper bounds of ‖a‖, ‖coarse‖,
// ‖a − coarse‖, ‖fine‖ and ‖a − coarse − fine‖, what the offset 128 of the candidates' bytes adds to
// a score and to one of fine codes, and ψ·μ.
type int8Query struct {
	step, size, norm, residual, fineNorm, fineResidual float64
	offset, fineOffset, center                         float64
}

// packInt8 codes ψ of the block's queries and packs them for the kernel.
func (s *sweeper) packInt8() {
	f, mr := s.f, s.backend.MR(kernel.Int8)
	width, words := f.tower.Width, f.terms()
	if len(s.int8) == 0 {
		s.int8 = make([]int8Query, len(s.norms))
	}
	stride := int8Stride(width)
	s.fine = s.strips[len(s.norms)*words:]
	s.rotated = slices.Grow(s.rotated[:0], int8Width(width))[:int8Width(width)]
	if len(s.words) < words {
		for t := len(s.words); t < words; t++ {
			s.words = append(s.words, int32(t))
		}
	}
	for first := 0; first < len(s.queries); first += mr {
		n := min(mr, len(s.queries)-first)
		for i := range n {
			row := first + i
			codes := s.fine[row*stride : (row+1)*stride]
			clear(codes)
			q := &s.int8[row]
			*q = int8Query{step: 1}
			if !(s.norms[row] < 0x1p60) { // its ends are infinite
				q.norm, q.size = math.Inf(1), math.Inf(1)
				continue
			}
			psi := s.row(row)[:width]
			f.coordinates.query(s.rotated, psi)
			q.step = step(largest(s.rotated))
			code := kernel.CodeInt8(codes[words:2*words], codes[:words], s.rotated, q.step, 0)
			q.size, q.norm, q.fineNorm = norm64(s.rotated)*(1+rotation), code.Norm, code.FineNorm
			q.residual, q.fineResidual = code.Residual+rotation*q.size, code.FineResidual+rotation*q.size
			q.offset, q.fineOffset = 128*float64(code.Sum), 128*float64(int64(code.Sum)+int64(code.FineSum))
			for t, v := range psi {
				q.center += float64(v) * f.coordinates.center[t]
			}
		}
		kernel.PackRows(s.strips[first*words:(first+mr)*words], s.fine[words:], stride, s.ids[first:first+n], s.words[:words], mr)
	}
}

// int8Band bounds |ψ·φ − s| for the candidates of a block, with the score s of coarse codes.
func (s *sweeper) int8Band(row, block int) float64 {
	q, b := &s.int8[row], &s.f.int8Blocks[block]
	return (q.residual*b.norm + q.norm*b.residual + s.centerError(row)) * outward
}

// fineBand is int8Band for fineScore.
func (s *sweeper) fineBand(row, block int) float64 {
	q, b := &s.int8[row], &s.f.int8Blocks[block]
	// The last term is for the rounding of the coarse sum to float32 and for fineScore's own.
	return (q.fineNorm*b.fineNorm + q.fineResidual*b.norm + (q.size+q.fineResidual)*b.fineResidual + s.centerError(row) +
		q.step*b.step*(kernel.U32+16*kernel.U64)*127*255*float64(int8Width(s.f.tower.Width)) + 4*kernel.U64*math.Abs(q.center)) * outward
}

// centerError bounds the error of ψ·μ.
func (s *sweeper) centerError(row int) float64 {
	return float64(s.f.tower.Width+4) * kernel.U64 * s.norms[row] * s.f.coordinates.norm
}

// fineScore joins the panel's score and one of single pairs, of [fine, coarse] with [coarse, fine].
func (s *sweeper) fineScore(row, block int, coarse float32, fine int32) float64 {
	q := &s.int8[row]
	sum := (float64(coarse) - q.offset) + (float64(fine)-q.fineOffset)/kernel.Fine
	return q.center + q.step*s.f.int8Blocks[block].step*sum
}

// int8Ends turns an interval of scores minus the query's constant into one of the kernel's sums.
func (s *sweeper) int8Ends(row, block int, lo, hi float64) (float64, float64) {
	q := &s.int8[row]
	step := q.step * s.f.int8Blocks[block].step
	lo, hi = (lo-q.center)/step+q.offset, (hi-q.center)/step+q.offset
	margin := 8 * kernel.U64 * ((max(math.Abs(lo), math.Abs(hi)) + math.Abs(q.offset)) + math.Abs(q.center)/step)
	return lo - margin, hi + margin
}

// sortBy puts the candidates in ascending order of a key, the order of the panels.
func (f *features) sortBy(key []float64) {
	for i := range f.n {
		f.order[i] = int32(i)
	}
	slices.SortFunc(f.order[:f.n], func(x, y int32) int { return cmp.Or(cmp.Compare(key[x], key[y]), cmp.Compare(x, y)) })
	for at, i := range f.order[:f.n] {
		f.place[i] = int32(at)
	}
}
