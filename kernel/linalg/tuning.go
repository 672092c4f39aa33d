package linalg

// The constants in this file determine the speed of the kernels. ProductChunk, sumLanes and
// rowChunk also determine how the kernels round, so they affect the bytes of a trained model. The
// shapes of the microtiles are in the tables of kernels.
const (
	// ProductChunk is the number of terms that a product adds up in one chain: its k-blocking. A
	// strip of 8 rows takes up 8 KiB and stays in the L1 cache. The 24 strips of a work item and
	// two panels stay in L2.
	ProductChunk = 256

	// floatStrips, splitStrips, bfloat16Strips and tileStrips are the numbers of strips in a work
	// item. 24 strips of 8 rows and 256 terms take up 192 KiB, or 96 KiB in bfloat16. 8 split strips
	// of 32 rows take up 256 KiB, and so do 8 strips of 32 rows and tileChunk terms in bfloat16. They
	// stay in L2 while panel after panel passes over them.
	floatStrips, splitStrips, bfloat16Strips, tileStrips = 24, 8, 24, 8

	// itemColumns is the number of columns in a work item. It is large enough to reuse packed
	// strips and small enough to give every goroutine work items.
	itemColumns = 256

	// productBlock is the number of rows and of columns that are packed at a time. A chunk of 4,096
	// vectors takes up 4 MiB.
	productBlock = 4096

	// blockEntries is the number of entries of a factor that several threads pack at a time: 8 MiB,
	// or at least one chunk. The threads synchronise before and after each block, so small blocks
	// would be slow.
	blockEntries = 2 << 20

	// tileChunk is the number of terms of a chunk, and tileBlockEntries the number of entries of a
	// factor that are packed at a time, in products in bfloat16 with AMX. A panel of 32 columns and
	// 512 terms takes up 32 KiB of the L1 cache.
	tileChunk, tileBlockEntries = 512, 8 << 20

	// rowLanes is the number of entries in the widest vector register.
	rowLanes = 16

	// sumLanes is the number of lanes of a float32 sum; entry i goes to lane i mod sumLanes. The
	// lanes fill two registers with AVX-512 and four with AVX2, whose additions overlap. All tiers
	// have 32 lanes, so their roundings agree.
	sumLanes = 32

	// fewRows is the number of listed rows that a gradient of a distance takes at a time. Four to twelve
	// rows were equally fast on Zen 3, and 32 or more were up to four times as slow.
	fewRows = 8

	// rowChunk is the number of entries in one call of a row kernel. It bounds the time for which
	// the scheduler cannot interrupt a goroutine, and it limits float32 chains to 32 terms.
	rowChunk = 1024
)
