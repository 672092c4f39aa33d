// Package asm holds machine code and nothing else: generated assembly and its Go stubs.
//
// It does not check arguments, allocate memory or choose kernels. The caller must pass valid pointers
// and correct sizes, and call only kernels whose instruction set the processor has. The end of a
// kernel's name says which instruction set the kernel needs: AVX2 kernels need AVX2 and FMA, AVXVNNI
// kernels also AVX-VNNI, AVX512 kernels AVX-512 F, BW, DQ and VL, AVX512VNNI kernels also VNNI,
// AVX512BF16 kernels also AVX512_BF16, AMX kernels AVX-512 and AMX with TILE and INT8, and AMXBF16
// kernels AMX with TILE and BF16. The operating system must have granted the use of AMX.
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
