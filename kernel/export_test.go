package kernel

// This file exports identifiers to the tests of package kernel_test.

// Falling reports whether scores of c never rise as coordinates are added.
func Falling(c Comparison) bool { return c.falling }

// ProductLimit is the limit of Dot and Phase.
const ProductLimit = productLimit

// ChunkOf returns the number of coordinates in a chain of a panel.
func ChunkOf(c Comparison) int { return c.chunk() }

// NewPanelScratchOf returns scratch memory of the least size for calls of p with the given numbers of
// strips and targets. floats, words and bytes allocate the memory.
func NewPanelScratchOf(
	p Panels, strips, targets int, floats func(n int) []float32, words func(n int) []uint64, bytes func(n int) []uint8,
) *PanelScratch {
	s := &PanelScratch{
		Scores: floats((strips*p.MR + p.spare) * p.NR), Undecided: words(2 * targets), active: bytes(strips),
	}
	if p.sums {
		s.sums = floats(2 * strips * p.MR * p.NR)
	}
	return s
}

// PanelChunk returns the number of coordinates in a chunk of vectors with k coordinates.
func PanelChunk(p Panels, k int) int { return p.chunkOf(k) }
