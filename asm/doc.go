// Package asm is machine code and nothing else: generated assembly and its Go stubs.
//
// There are no checks, no allocation and no policy here: a caller passes pointers that stay
// valid, sizes that fit and only calls what cpuid allows (AVX2 kernels need AVX2 and FMA,
// AVX512 kernels F, BW, DQ and VL, AVX512VNNI kernels also VNNI, AMX kernels also tiles of bytes and AMXBF16
// kernels those of bfloat16, which the system must have granted). Names and signatures may change at
// any time. Use packages kernel and kernel/linalg, which have checks, dispatch and portable twins (of AMXBF16 in tests).
//
// A call is bounded in time, since the Go scheduler cannot interrupt it: a block of queries over
// one panel and a chunk of terms (Int16: all terms), one strip of eight rows, one pass over a small matrix, or a list of
// rows that the caller keeps short.
package asm

//go:generate go run -C gen . ..
