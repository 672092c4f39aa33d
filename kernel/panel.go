package kernel

import (
	"fmt"
	"unsafe"

	"github.com/mquine/mquine/asm"
)

// Panels scores strips of queries against panels of candidates in one format, and counts the
// candidates that are certainly better. The format is a comparison of float32 vectors
// (Backend.Panels) or of codes (Backend.Int8Panels, Backend.Int16Panels and others). A word is a float32
// value, four one-byte codes or two two-byte codes.
type Panels struct {
	// MR is the number of queries in a strip, and NR is the number of candidates in a panel.
	MR, NR int
	// Multiple must divide PanelCall.K, the number of coordinates.
	Multiple int

	name     string
	psi, phi int // words per coordinate in ψ and in φ
	chunk    int // coordinates per call of the kernel; 0 means all
	spare    int // rows of scores after the last query that the kernel uses as scratch memory
	falling  bool
	sums     bool // the kernel of at least one tier uses memory for sums (asm.PanelArgs.Sums)
	kernel   panelFunc
	pack     packFunc // packs a chunk of a strip
}

// packFunc is the signature of PackRows.
type packFunc func(dst, rows []uint32, stride int, ids, terms []int32, width int)

// Panels returns the panels of a comparison of float32 vectors.
func (b *Backend) Panels(c Comparison) Panels {
	k := b.comparer(c)
	return Panels{
		MR: k.mr, NR: b.NR, Multiple: c.group,
		name: c.name, psi: c.psi, phi: c.phi, chunk: c.chunk(), falling: c.falling,
		sums: c.second != nil || c.kind == KindGroupNormOf, kernel: k.panel, pack: PackRows,
	}
}

// Words returns the numbers of words per coordinate in ψ and in φ.
func (p Panels) Words() (psi, phi int) { return p.psi, p.phi }

// PanelScratch is the scratch memory and the result of Panels.Score. It belongs to one goroutine,
// which reuses it.
type PanelScratch struct {
	// Scores[i*NR+j] is the float32 score of query i and candidate j. If Score left the strip of
	// query i early, the entry is instead an upper bound on the score, and it is below the query's
	// ExitBelow.
	Scores []float32
	// Undecided holds pairs (target, mask) in the order of the targets; Pairs is their number. Bit
	// j of a mask is set if candidate j is undecided: neither certainly better than the target nor
	// certainly worse.
	Undecided []uint64
	Pairs     int
	// Strips counts the strips in all calls, once for each chain. Dropped counts the strips that
	// the kernel skipped because of ExitBelow.
	Strips, Dropped int64

	active []uint8
	sums   []float32     // asm.PanelArgs.Sums
	args   asm.PanelArgs // a field, because a local variable would escape: kernels are called through a variable
}

// NewPanelScratch returns scratch memory for calls with at most the given numbers of queries and
// targets.
func (b *Backend) NewPanelScratch(queries, targets int) *PanelScratch {
	return &PanelScratch{
		Scores:    AlignedFloat32((queries + int16MR) * b.NR),
		Undecided: make([]uint64, 2*targets), active: make([]uint8, queries),
	}
}

// chunkOf returns the number of coordinates in a chunk of vectors with k coordinates.
func (p Panels) chunkOf(k int) int {
	if p.chunk == 0 {
		return k
	}
	return p.chunk
}

// PackStrip packs strip s of n strips for PanelCall.Strips, from at most MR rows that ids lists. terms
// lists the words of a row in the order of the coordinates, as in PackRows; for Int8L1Panels and
// Int16Panels, it must be 0, 1, 2, …. Missing rows become zeros. The chunks of all strips follow one
// another, [chunk][strip][word][MR], so a call of the kernel reads consecutive memory.
func (p Panels) PackStrip(strips []uint32, s, n int, rows []uint32, stride int, ids, terms []int32) {
	if s < 0 || s >= n || len(terms)%(p.psi*p.Multiple) != 0 || len(strips) < n*len(terms)*p.MR {
		panic(fmt.Sprintf("kernel: PackStrip of %s: strip %d of %d, rows of %d words: room for %d words",
			p.name, s, n, len(terms), len(strips)))
	}
	chunk := p.chunkOf(len(terms)/p.psi) * p.psi
	for from := 0; from < len(terms); from += chunk {
		part := terms[from:min(from+chunk, len(terms))]
		p.pack(strips[(from*n+len(part)*s)*p.MR:], rows, stride, ids, part, p.MR)
	}
}

// PanelCall is the input to Panels.Score: strips of queries, a panel of candidates, and the targets
// to compare with.
type PanelCall struct {
	// K is the number of coordinates, a positive multiple of Panels.Multiple.
	K int
	// Strips holds the queries, which Panels.PackStrip packed, and Panel holds the packed candidates,
	// [K·phi][NR] words. Panels.Words returns phi. Bit j of ValidLanes is set if candidate j is valid.
	Strips, Panel []uint32
	ValidLanes    uint64
	// TargetStart has one entry per query and a final one: query i has the targets TargetStart[i] ≤
	// t < TargetStart[i+1]. The number of queries is a multiple of MR; queries that only fill up a
	// strip have no targets.
	TargetStart []int32
	// Thresholds holds an interval lo ≤ hi for each target; lo may be −Inf and hi +Inf. Score adds
	// to Counts[t] the number of valid candidates with score > hi. It adds a pair to
	// PanelScratch.Undecided if valid candidates have neither score > hi nor score < lo, for example
	// because a score is NaN.
	Thresholds []float32
	Counts     []int32
	// ExitBelow holds a score for each query, which is at most the lowest lo of the query's
	// targets. It may be nil. Score stops computing a strip when all the strip's scores are below
	// ExitBelow. Comparisons whose scores may rise with more coordinates ignore ExitBelow.
	ExitBelow []float32
	// Ahead is the memory that the next call reads. Score prefetches it into the L2 cache. It may
	// be empty.
	Ahead []uint32
}

// Score scores the queries of c against its panel and counts the candidates that are certainly
// better than each target. It panics if a slice of c or s is too short.
func (p Panels) Score(s *PanelScratch, c *PanelCall) {
	n := (len(c.TargetStart) - 1) / p.MR
	p.check(s, c, n)
	s.args = asm.PanelArgs{
		Strips: n, Group: p.Multiple, Scores: &s.Scores[0], Active: &s.active[0],
		Thresholds: ptr(c.Thresholds), Counts: ptr(c.Counts), Undecided: ptr(s.Undecided), ValidLanes: c.ValidLanes,
	}
	a := &s.args
	if p.falling && c.ExitBelow != nil {
		a.ExitBelow = &c.ExitBelow[0]
		for i := range s.active[:n] {
			s.active[i] = 1
		}
	}
	// This is an address rather than a pointer because it may run past the end. The prefetches are
	// spread evenly because a burst would occupy all of the few line buffers, and loads that hit L2
	// need them, too.
	a.Ahead = uintptr(unsafe.Pointer(&c.Panel[0]))
	if len(c.Ahead) > 0 {
		a.Ahead = uintptr(unsafe.Pointer(&c.Ahead[0]))
		a.AheadStride = (4*len(c.Ahead) + n*c.K/4) / (n*c.K/4 + 1)
	}
	if p.sums {
		a.Sums = s.roomForSums(2 * n * p.MR * p.NR)
	}
	chunk := p.chunkOf(c.K)
	for from := 0; from < c.K; from += chunk {
		a.K, a.Add = min(chunk, c.K-from), from
		a.Psi, a.PsiStride = &c.Strips[from*p.psi*p.MR*n], a.K*p.psi*p.MR
		a.Phi = &c.Panel[from*p.phi*p.NR]
		if from+a.K == c.K {
			a.TargetStart = &c.TargetStart[0]
		}
		if a.ExitBelow != nil {
			for _, active := range s.active[:n] {
				s.Dropped += int64(1 - active)
			}
		}
		s.Strips += int64(n)
		s.Pairs = p.kernel(a)
		a.Ahead += uintptr(a.K / 4 * n * a.AheadStride)
	}
}

// roomForSums returns the address of n values, aligned to 64 bytes. It allocates them if the scratch
// memory has fewer.
func (s *PanelScratch) roomForSums(n int) *float32 {
	if len(s.sums) < n {
		s.sums = AlignedFloat32(n)
	}
	return &s.sums[0]
}

// check panics unless the slices of a call with n strips are long enough.
func (p Panels) check(s *PanelScratch, c *PanelCall, n int) {
	fits := c.K >= 1 && c.K%p.Multiple == 0 && n >= 1 && n*p.MR == len(c.TargetStart)-1 && c.TargetStart[0] >= 0 &&
		len(c.Strips) >= n*c.K*p.psi*p.MR && len(c.Panel) >= c.K*p.phi*p.NR &&
		len(s.Scores) >= (n*p.MR+p.spare)*p.NR && len(s.active) >= n &&
		(c.ExitBelow == nil || len(c.ExitBelow) >= n*p.MR)
	if fits {
		targets := int(c.TargetStart[n*p.MR])
		fits = len(c.Thresholds) >= 2*targets && len(c.Counts) >= targets && len(s.Undecided) >= 2*targets
	}
	if !fits {
		panic(fmt.Sprintf("kernel: panel of %s: K = %d, strips of %d words, a panel of %d, starts of %d queries, "+
			"%d thresholds, %d counts, room for %d scores and %d pairs, %d scores to exit below: too short",
			p.name, c.K, len(c.Strips), len(c.Panel), len(c.TargetStart)-1,
			len(c.Thresholds), len(c.Counts), len(s.Scores), len(s.Undecided)/2, len(c.ExitBelow)))
	}
}
