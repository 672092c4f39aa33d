package cuda

import (
	"fmt"
	"math"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/cuda/internal/shape"
)

// These constants determine the sizes of the operands of screens.
const (
	// BlockCandidates is the number of candidates that a CandidateBlock describes.
	BlockCandidates = 128
	// The numbers of queries and candidates are padded to multiples of QueryTile and CandidateTile.
	QueryTile     = shape.QueryTile
	CandidateTile = 256
)

// Row describes a query to a screen. The error of a candidate's score is at most A·B + S[0] + S[1]
// n + S[2] n², computed with upward rounding, where B and n = Size belong to the CandidateBlock
// (docs/numerics.md, "GPU screens"). The error is unbounded if the product of the norms (their sum,
// for distances) is not below Screen.Limit.
type Row struct {
	A    [4]float32
	S    [3]float32
	Norm float32
	// Scale multiplies the scores of the query.
	Scale float32
	// Low is the lowest lower end of the intervals of the query's targets.
	Low float32
	_   [2]float32
}

// CandidateBlock describes 128 consecutive candidates to a screen.
type CandidateBlock struct {
	B          [4]float32
	Size, Norm float32
	_          [2]float32
}

// Pair is a target and the position of a candidate or, among the undecided known answers, the index
// of a known answer.
type Pair struct {
	Target, Other uint32
}

// Screen is the argument of the screens. For every target, the screens count the candidates that
// are certainly better, and they list the (target, position) pairs that they cannot decide.
type Screen struct {
	// Psi and Phi have rows of K entries: fp16 for the tensor cores, otherwise float32. K is a
	// multiple of 32 and at least 64. Rows of zeros fill up the last tiles.
	Psi, Phi Pointer
	// Rows has a Row for each row of Psi, and Blocks has a CandidateBlock for every 128 rows of
	// Phi.
	Rows, Blocks Pointer
	// Scales (float32) contains a factor for the scores of each candidate. Only the tensor-core
	// screens use it.
	Scales Pointer
	// TargetStart (int32) contains the first target of each row of Psi and, as a last entry, the
	// number of targets.
	TargetStart Pointer
	// Ends contains lo and hi (float32) of every target.
	Ends Pointer
	// Better (int32) contains the count of each target, which the screen increases.
	Better Pointer
	// List has room for Capacity Pairs and receives the undecided ones. The screen increases Listed
	// (uint32) by their number. If Listed exceeds Capacity, pairs are lost and the launch must be
	// repeated with fewer candidates. A launch must have fewer than 2³² pairs of a target and a
	// candidate, because Listed would wrap around.
	List, Listed Pointer
	Capacity     uint32
	K            int32
	// Candidates is the number of candidates without padding.
	Candidates int32
	tiles      int32
	span       int32
	Limit      float32
}

// Screens holds the counting kernels of a device.
type Screens struct {
	device *Device
	half   [halfVariants]*function
	single [len(singleKernels)]*function
}

// These are the variants of the tensor-core screen.
const (
	Half128      = iota // three stages of operands in shared memory
	Half128Small        // two stages
	halfVariants
)

// HalfVariant returns the variant for a device: Half128, or Half128Small if two thread blocks of
// Half128 do not fit in the shared memory of a multiprocessor. They do not fit on cards with
// compute capability 8.6 or 8.9.
func (i Info) HalfVariant() int {
	const reserved = 1024 // bytes that the driver reserves per thread block; the static part is below 4 KiB
	if 2*(shape.Halves[Half128].Shared()+4096+reserved) <= i.SharedMemory+reserved {
		return Half128
	}
	return Half128Small
}

// singleKernels holds the names of the float32 screens, by the kind of their comparison.
var singleKernels = [...]string{
	kernel.KindDot: "count_dot", kernel.KindL1: "count_l1", kernel.KindGroupNorm: "count_group_norm",
	kernel.KindPhase: "count_phase",
}

// Supports reports whether devices have kernels for a comparison. Supported comparisons come first
// in kernel.Comparisons.
func Supports(c kernel.Comparison) bool { return int(c.Kind()) < len(singleKernels) }

// NewScreens compiles the tensor-core screens of dot products and the float32 screens of all
// supported comparisons for a device.
func NewScreens(d *Device) (*Screens, error) {
	s := &Screens{device: d}
	half, err := d.load("count_half")
	if err != nil {
		return nil, err
	}
	single, err := d.load("count_single")
	if err != nil {
		return nil, err
	}
	for i, h := range shape.Halves {
		if s.half[i], err = half.function(h.Name, shape.Threads, h.Shared()); err != nil {
			return nil, err
		}
	}
	for i, name := range singleKernels {
		if s.single[i], err = single.function(name, 256, 0); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Half launches a variant of the tensor-core screen for the given number of queries.
func (x *Screens) Half(s *Stream, variant int, a Screen, queries int) error {
	return x.launch(s, x.half[variant], a, queries)
}

// HalfError bounds the error of the scores that Half computes from k terms. The bound is relative
// times the product of the norms of the fp16 rows, plus absolute (docs/numerics.md, "GPU screens").
// relative is +Inf if k is too large for a bound.
func HalfError(k int) (relative, absolute float64) {
	p := (1.5*float64(k) + 2) * 0x1p-23
	if p >= 1 {
		return math.Inf(1), 0x1p-148
	}
	return p / (1 - p), 0x1p-148
}

// Single launches the float32 screen of a supported comparison for the given number of queries.
func (x *Screens) Single(s *Stream, c kernel.Comparison, a Screen, queries int) error {
	return x.launch(s, x.single[c.Kind()], a, queries)
}

func (x *Screens) launch(s *Stream, k *function, a Screen, queries int) error {
	if a.K < 64 || a.K%32 != 0 {
		return fmt.Errorf("cuda: screens need a multiple of 32 terms and at least 64, not %d", a.K)
	}
	blocks := (queries + QueryTile - 1) / QueryTile
	a.tiles = (a.Candidates + BlockCandidates - 1) / BlockCandidates
	// Launch enough thread blocks to keep the device busy until the end. Each processes several
	// tiles if there are more tiles.
	wanted := max(1, (8*x.device.Multiprocessors+blocks-1)/max(1, blocks))
	a.span = max(1, (a.tiles+int32(wanted)-1)/int32(wanted))
	launch(s, k, blocks, int((a.tiles+a.span-1)/a.span), a)
	return nil
}

// SingleError bounds the error of the scores that Single computes from k terms, as
// kernel.Backend.PanelError does for panels. Like panels, these kernels add up chains of
// kernel.Chunk terms. The relative error of their square root is below 2⁻²².
func SingleError(c kernel.Comparison, k int) (relative, absolute float64) {
	return c.PanelError(k, 0x1p-22)
}
