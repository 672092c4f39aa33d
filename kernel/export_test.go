package kernel

// This file exports identifiers to the tests of package kernel_test.

// Falling reports whether scores of c never rise as coordinates are added.
func Falling(c Comparison) bool { return c.falling }

// ProductLimit is the limit of Dot and Phase.
const ProductLimit = productLimit

// ChunkOf returns the number of coordinates in a chain of a panel.
func ChunkOf(c Comparison) int { return c.chunk() }

// PanelChunk returns the number of coordinates in a chunk of vectors with k coordinates.
func PanelChunk(p Panels, k int) int { return p.chunkOf(k) }
