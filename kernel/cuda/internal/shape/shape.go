// Package shape defines the sizes of the kernels' thread blocks, tiles and shared memory. Package
// cuda uses it to launch kernels, and command gen uses it for its report.
package shape

// Threads is the number of threads in a thread block.
const Threads = 256

// QueryTile is the number of queries, and of candidates, in a tile of a screen.
const QueryTile = 128

// Half describes a tensor-core screen: the number of its stages of 32 terms in shared memory.
type Half struct {
	Name   string
	Stages int
}

// Halves lists the tensor-core screens.
var Halves = [...]Half{{"count_half_128", 3}, {"count_half_128_small", 2}}

// Shared returns the number of bytes of dynamic shared memory in a thread block.
func (h Half) Shared() int { return h.Stages * 2 * QueryTile * 64 }

// Towers returns the number of bytes of dynamic shared memory that construct_features and
// construct_queries need for d × d matrices. The first kernel stores one matrix in float64; the
// second stores three in float64 and one in float32.
func Towers(d int) (features, queries int) { return 8 * d * d, 28 * d * d }

// Dynamic returns the number of bytes of dynamic shared memory that a kernel needs. If the kernel
// works on matrices, they are d × d.
func Dynamic(kernel string, d int) int {
	features, queries := Towers(d)
	switch kernel {
	case "construct_features":
		return features
	case "construct_queries":
		return queries
	}
	for _, h := range Halves {
		if h.Name == kernel {
			return h.Shared()
		}
	}
	return 0
}
