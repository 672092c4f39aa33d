package cuda

import (
	"fmt"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/cuda/internal/shape"
)

// Candidates of one Block, and the multiple that the numbers of queries and candidates are filled up
// to.
const (
	BlockCandidates = 128
	QueryTile       = shape.QueryTile
	CandidateTile   = 256
)

// Row is what a screen knows about a query (docs/numerics.md, "GPU screens"). The score of a candidate errs by at
// most A·B + S[0] + S[1] n + S[2] n², with B and the size n of the candidate's Block, computed with
// upward rounding; by anything, if the product of the norms (their sum, for distances) is not below
// Screen.Limit.
type Row struct {
	A    [4]float32
	S    [3]float32
	Norm float32
	// Scale multiplies the query's scores.
	Scale float32
	// Low is the lowest lower end of the query's targets.
	Low float32
	_   [2]float32
}

// Block is what a screen knows about 128 candidates that follow one another.
type Block struct {
	B          [4]float32
	Size, Norm float32
	_          [2]float32
}

// Pair is a target and a candidate's position or, in what DecideKnown leaves, a known answer's index.
type Pair struct {
	Target, Other uint32
}

// Screen is the argument of the screens, which count for every target the candidates that are
// certainly better, and list the (target, position) pairs that they cannot decide.
type Screen struct {
	// Psi and Phi have rows of K entries, K a multiple of 32 and at least 64: fp16 for the tensor cores,
	// else float32. The rows are filled up with zeros to whole tiles.
	Psi, Phi Pointer
	// Rows and Blocks have a Row for each row of Psi and a Block for every 128 of Phi.
	Rows, Blocks Pointer
	// Scales multiply the candidates' scores; float32, for the tensor cores only.
	Scales Pointer
	// First has the first target (int32) of each row of Psi, and one more: the number of targets.
	First Pointer
	// Ends holds lo, hi (float32) of every target.
	Ends Pointer
	// Better (int32, of each target) goes up.
	Better Pointer
	// List has room for Capacity Pairs. Listed (uint32) goes up by the number of pairs to be listed:
	// beyond Capacity they are lost, and the launch must be repeated with fewer queries.
	List, Listed Pointer
	Capacity     uint32
	K            int32
	// Candidates is their number, without what fills up the last tile.
	Candidates int32
	tiles      int32
	span       int32
	Limit      float32
}

// Screens are the counting kernels of a device.
type Screens struct {
	device *Device
	half   [halfVariants]*Kernel
	single [kernel.NumKinds]*Kernel
}

// Variants of the tensor-core screen.
const (
	Half128       = iota // 128 × 128 tiles, two blocks on a multiprocessor
	Half128Chains        // the same, chains of 256 terms added in float32
	Half256              // 128 × 256 tiles
	Half128Small         // as Half128, in two thirds of the shared memory
	halfVariants
)

// HalfVariant is the variant for a device: Half128, or Half128Small where two blocks of the former do
// not fit in the shared memory of a multiprocessor, as on cards of 8.6 and 8.9.
func (i Info) HalfVariant() int {
	const reserved = 1024 // by the driver, for each block; static is less than 4 KiB
	if 2*(shape.Halves[Half128].Shared()+4096+reserved) <= i.SharedMemory+reserved {
		return Half128
	}
	return Half128Small
}

// NewScreens compiles the screens of dot products on tensor cores, and all in float32, for a device.
func NewScreens(d *Device) (*Screens, error) {
	s := &Screens{device: d}
	half, err := d.Load("count_half")
	if err != nil {
		return nil, err
	}
	single, err := d.Load("count_single")
	if err != nil {
		return nil, err
	}
	for i, h := range shape.Halves {
		if s.half[i], err = half.Kernel(h.Name, shape.Threads, h.Shared()); err != nil {
			return nil, err
		}
	}
	for i, name := range [kernel.NumKinds]string{"count_dot", "count_l1", "count_group_norm", "count_phase"} {
		if s.single[i], err = single.Kernel(name, 256, 0); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Half launches a variant of the tensor-core screen over so many rows of queries.
func (x *Screens) Half(s *Stream, variant int, a Screen, queries int) error {
	return x.launch(s, x.half[variant], shape.Halves[variant].Tile, a, queries)
}

// HalfError bounds the error of Half's scores over k terms relative to the product of the norms of
// the fp16 rows, and absolutely (docs/numerics.md, "GPU screens").
func HalfError(variant, k int) (relative, absolute float64) {
	chain := shape.Halves[variant].Chain
	if chain == 0 || chain > k {
		chain = k
	}
	const unit = 0x1p-23
	perTerm := 1.5*float64(chain) + 2
	relative = perTerm * unit / (1 - perTerm*unit)
	chains := float64((k + chain - 1) / chain)
	if chains > 1 {
		relative += (chains - 1) * 0x1p-24 * (1 + relative) / (1 - chains*0x1p-24)
	}
	return relative, 0x1p-148
}

// Single launches the float32 screen of a comparison.
func (x *Screens) Single(s *Stream, c kernel.Comparison, a Screen, queries int) error {
	return x.launch(s, x.single[c.Kind()], BlockCandidates, a, queries)
}

func (x *Screens) launch(s *Stream, k *Kernel, tile int, a Screen, queries int) error {
	if a.K < 64 || a.K%32 != 0 {
		return fmt.Errorf("cuda: screens take a multiple of 32 terms and at least 64, not %d", a.K)
	}
	blocks := (queries + QueryTile - 1) / QueryTile
	a.tiles = (a.Candidates + int32(tile) - 1) / int32(tile)
	// Enough blocks for the device to be busy to the end, each with several tiles if there are more.
	wanted := max(1, (8*x.device.Multiprocessors+blocks-1)/max(1, blocks))
	a.span = max(1, (a.tiles+int32(wanted)-1)/int32(wanted))
	return launch(s, k, blocks, int((a.tiles+a.span-1)/a.span), &a)
}

// SingleError bounds the error of Single's scores over k terms, as kernel.Backend.PanelError does for
// panels: the kernels add up chains of kernel.Chunk terms, too, and their root errs by less than 2⁻²².
func SingleError(c kernel.Comparison, k int) (relative, absolute float64) {
	return c.PanelError(k, 0x1p-22)
}
