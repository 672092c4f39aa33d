package linalg

// The constants of this file decide how fast the kernels are. ProductChunk, sumLanes and rowChunk also decide how they
// round, and so the bytes of a training. The shapes of register tiles are in the tables of kernels.
const (
	// ProductChunk is the number of terms that a product adds up in one chain (its k-blocking). A strip of 8 rows, 8 KiB,
	// stays in the L1 cache, and the 24 strips of an item together with two panels in L2.
	ProductChunk = 256

	// floatStrips and splitStrips are the strips of an item of work: 24 strips of 8 rows and 256 terms are 192 KiB, 8
	// strips of 32 rows 256 KiB, so that they stay in L2 while panel after panel passes over them.
	floatStrips, splitStrips = 24, 8

	// itemColumns is the number of columns of an item of work: enough to use packed strips again, few enough that
	// all goroutines have items.
	itemColumns = 256

	// productBlock is the number of rows and of columns that are packed at once: a chunk of 4,096 vectors is 4 MiB.
	productBlock = 4096

	// blockEntries bounds what is packed at once, on several threads, to 8 MiB a factor (but at least a chunk): they meet
	// before and after each block, so that it has more than one chunk where vectors are few.
	blockEntries = 2 << 20

	// rowLanes is the number of entries in the widest vector register.
	rowLanes = 16

	// sumLanes is the number of lanes of a float32 sum, entry i in lane i mod sumLanes: two registers of AVX-512 and four of
	// AVX2, whose additions overlap. All tiers have as many, so that they round alike.
	sumLanes = 32

	// rowChunk is the number of entries in one call of a row's kernel. It bounds the time in which the scheduler cannot
	// interrupt it, and chains of float32 additions to 32 terms.
	rowChunk = 1024
)
