// Package asm holds machine code and nothing else: generated assembly and its Go stubs.
//
// It does not check arguments, allocate memory or choose kernels. The caller must pass valid pointers
// and correct sizes, and call only kernels whose instruction set the processor has. The end of a
// kernel's name says which instruction set the kernel needs:
//
//	AVX2        AVX2, FMA and POPCNT
//	AVXVNNI     as AVX2, and AVX-VNNI
//	AVX512      as AVX2, and AVX-512 F, BW, DQ and VL
//	AVX512VNNI  as AVX512, and VNNI
//	AVX512VBMI  as AVX512, and VNNI and VBMI
//	AVX512BF16  as AVX512, and AVX512_BF16
//	AMX         as AVX512, and AMX with TILE and INT8
//	AMXBF16     AMX with TILE and BF16
//
// The operating system must have granted the use of AMX.
//
// Names and signatures may change at any time. Use packages kernel, kernel/linalg and
// kernel/ceiling instead, which check arguments, choose kernels and have portable twins.
// docs/kernels.md describes the contract of the kernels.
//
// A call takes a bounded time, because the Go scheduler cannot interrupt it. A call scores one block
// of queries against one chunk of a panel (Int16 panels: against a whole panel), computes one item of
// a matrix product or eight rows of a small one, or passes once over a row, a small matrix or a short
// list of rows.
package asm

//go:generate go run -C gen . ..
