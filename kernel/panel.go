package kernel

import (
	"fmt"
	"unsafe"

	"github.com/mquine/mquine/asm"
)

// Panels scores strips of queries against panels of candidates, and counts, in one format: a comparison of
// float32 numbers (Backend.Panels), or dot products of codes (Backend.Int8Panels, Backend.Int16Panels). A word
// is a float32 number or four codes.
type Panels struct {
	// MR is the number of queries in a strip, NR that of candidates in a panel.
	MR, NR int
	// Multiple divides the number of coordinates of every call.
	Multiple int

	name     string
	psi, phi int // words of a coordinate
	chunk    int // coordinates in a chain; 0: all
	spare    int // rows of scores after the last query's that the kernel uses
	falling  bool
	kernel   panelFunc
}

// Panels returns the panels of a comparison of float32 numbers.
func (b *Backend) Panels(c Comparison) Panels {
	k := b.comparer(c)
	return Panels{
		MR: k.mr, NR: b.NR, Multiple: c.group,
		name: c.name, psi: c.psi, phi: c.phi, chunk: Chunk, falling: c.falling, kernel: k.panel,
	}
}

// PanelScratch is memory that a goroutine scores panels in, again and again.
type PanelScratch struct {
	// Scores[i*NR+j] is the float32 score of query i and candidate j; in a strip that was left early,
	// a value below the query's ExitBelow that is no less than the score.
	Scores []float32
	// Undecided holds Pairs pairs (target, mask of candidates that are not certainly on one side), in
	// the order of the targets.
	Undecided []uint64
	Pairs     int
	// Strips counts the strips that were to be scored, in chains of Chunk coordinates, and Dropped those
	// that were passed over because of ExitBelow.
	Strips, Dropped int64

	active []uint8
	args   asm.PanelArgs // kept here, since a kernel is called through a variable: it would escape
}

// NewPanelScratch returns scratch memory for up to queries queries with up to targets targets.
func (b *Backend) NewPanelScratch(queries, targets int) *PanelScratch {
	return &PanelScratch{
		Scores:    AlignedFloat32((queries + int16MR) * b.NR),
		Undecided: make([]uint64, 2*(targets+1)), active: make([]uint8, queries),
	}
}

// PanelCall is a number of queries in strips, a panel of candidates, and what to count.
type PanelCall struct {
	// K is the number of coordinates, a positive multiple of Multiple.
	K int
	// Strips holds the packed queries, [strips][K][MR] words (PackRows, PackTiles), and Panel the packed
	// candidates, [K][NR] words; a coordinate has as many words of each as the comparison says. Bit j of
	// ValidLanes is set if candidate j counts.
	Strips, Panel []uint32
	ValidLanes    uint64
	// TargetStart: the targets of query i are TargetStart[i] ≤ t < TargetStart[i+1].
	TargetStart []int32
	// Thresholds holds an interval lo ≤ hi for each target, with lo possibly −Inf and hi +Inf. Counts[t] goes up
	// by the number of valid candidates with a score > hi, and those with neither score > hi nor score < lo
	// become a pair in PanelScratch.Undecided.
	Thresholds []float32
	Counts     []int32
	// ExitBelow, if it is not nil, holds a score for each query: a strip whose scores are all less is not
	// computed to the end. It must not be above the lo of any of the query's targets. It is ignored
	// where a score may rise.
	ExitBelow []float32
	// Ahead is the memory wanted next: it is fetched into the L2 cache meanwhile.
	Ahead []uint32
}

// Score scores and counts.
func (p Panels) Score(s *PanelScratch, c *PanelCall) {
	n := (len(c.TargetStart) - 1) / p.MR
	p.check(s, c, n)
	s.args = asm.PanelArgs{
		PsiStride: c.K * p.psi * p.MR, Strips: n, Scores: &s.Scores[0], Active: &s.active[0],
		Thresholds: ptr(c.Thresholds), Counts: ptr(c.Counts), Undecided: &s.Undecided[0], ValidLanes: c.ValidLanes,
	}
	a := &s.args
	if p.falling && c.ExitBelow != nil {
		a.ExitBelow = &c.ExitBelow[0]
		for i := range s.active[:n] {
			s.active[i] = 1
		}
	}
	// An address, not a pointer: it may run past the end. The fetches are spread evenly, so that they
	// never take all of the few line buffers that L2 hits need too.
	a.Ahead = uintptr(unsafe.Pointer(&c.Panel[0]))
	if len(c.Ahead) > 0 {
		a.Ahead, a.Step = uintptr(unsafe.Pointer(&c.Ahead[0])), (4*len(c.Ahead)+n*c.K/4)/(n*c.K/4+1)
	}
	chunk := p.chunk
	if chunk == 0 {
		chunk = c.K
	}
	for from := 0; from < c.K; from += chunk {
		a.Psi, a.Phi = &c.Strips[from*p.psi*p.MR], &c.Panel[from*p.phi*p.NR]
		a.K, a.Add = min(chunk, c.K-from), from
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
		a.Ahead += uintptr(a.K / 4 * n * a.Step)
	}
}

// check panics unless the memory of a call with n strips fits.
func (p Panels) check(s *PanelScratch, c *PanelCall, n int) {
	fits := c.K >= 1 && c.K%p.Multiple == 0 && n >= 1 && n*p.MR == len(c.TargetStart)-1 && c.TargetStart[0] >= 0 &&
		len(c.Strips) >= n*c.K*p.psi*p.MR && len(c.Panel) >= c.K*p.phi*p.NR &&
		len(s.Scores) >= (n*p.MR+p.spare)*p.NR && len(s.active) >= n && (c.ExitBelow == nil || len(c.ExitBelow) >= n*p.MR)
	if fits {
		targets := int(c.TargetStart[n*p.MR])
		fits = len(c.Thresholds) >= 2*targets && len(c.Counts) >= targets && len(s.Undecided) >= 2*(targets+1)
	}
	if !fits {
		panic(fmt.Sprintf("kernel: panel of %s: K = %d, strips of %d words, a panel of %d, starts of %d queries, "+
			"%d thresholds, %d counts, room for %d scores and %d pairs, %d scores to exit below: too short",
			p.name, c.K, len(c.Strips), len(c.Panel), len(c.TargetStart)-1,
			len(c.Thresholds), len(c.Counts), len(s.Scores), len(s.Undecided)/2, len(c.ExitBelow)))
	}
}
