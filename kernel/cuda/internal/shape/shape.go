// Package shape has the sizes of the kernels' blocks of threads, for their launches and for the
// report on what fits on a multiprocessor.
package shape

// Threads of a block.
const Threads = 256

// QueryTile is the number of queries of a screen's tile.
const QueryTile = 128

// Half is a tensor-core screen: its tile of candidates, its stages of 32 terms in shared memory,
// and the terms that it adds up in one chain, 0 for all.
type Half struct {
	Name                string
	Tile, Stages, Chain int
}

// Halves are the tensor-core screens.
var Halves = [...]Half{
	{"count_half_128", 128, 3, 0}, {"count_half_128_chains", 128, 4, 256}, {"count_half_256", 256, 3, 0}, {"count_half_128_small", 128, 2, 0},
}

// Shared is the dynamic shared memory of a block in bytes.
func (h Half) Shared() int { return h.Stages * (QueryTile + h.Tile) * 64 }

// Towers are the bytes of dynamic shared memory of construct_features and construct_queries for
// d × d matrices: one in float64, and three and one in float32.
func Towers(d int) (features, queries int) { return 8 * d * d, 28 * d * d }

// Dynamic is the dynamic shared memory of a kernel in bytes, with d × d matrices where it takes
// such.
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
