// Code that all kernels share. The language is CUDA C++ without headers, which NVRTC compiles on
// its own. Instructions without a name in C++ are functions with a PTX body. The stand-in driver,
// which runs the same sources on a CPU, has C++ bodies for them (MQUINE_STANDIN,
// kernel/cuda/standin).
#pragma once

typedef unsigned char byte;
typedef unsigned short half_bits; // the bits of an fp16 number
typedef unsigned int u32;
typedef unsigned long long u64;

// A target, and the position of a candidate or the index of a known answer.
struct Pair {
	u32 target, other;
};

#ifndef MQUINE_STANDIN

#define SHARED(type, name) __shared__ type name // shared memory of a thread block

extern __shared__ __align__(128) byte shared_memory[];
__device__ __forceinline__ byte* dynamic_shared() { return shared_memory; }

__device__ __forceinline__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

// Copies 16 bytes to shared memory asynchronously.
__device__ __forceinline__ void copy_async(void* to, const void* from) {
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
}
__device__ __forceinline__ void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most N groups of copies of this thread are unfinished.
template <int N> __device__ __forceinline__ void copy_wait() {
	asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

// Loads four 8 × 8 matrices of fp16. Lane l passes the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void load_matrices(u32 (&r)[4], const void* row) {
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
		: "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(row)) : "memory");
}

// d += a b, where a is 16 × 16 and b is 16 × 8 in fp16.
__device__ __forceinline__ void multiply_add(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
		"{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
		: "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Returns √x with a relative error of at most 2⁻²³ (PTX ISA, sqrt.approx.f32).
__device__ __forceinline__ float root_approximate(float x) {
	float y;
	asm("sqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
}

__device__ __forceinline__ half_bits to_half(float x) {
	half_bits h;
	asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
	return h;
}
__device__ __forceinline__ float from_half(half_bits h) {
	float x;
	asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
	return x;
}

#endif

#define INFINITE __int_as_float(0x7f800000)

// Describes a query to a screen. The error of the score of a candidate is at most
//
//     a · b + s[0] + s[1] n + s[2] n²    (a and b have four entries, n is the size of the candidate block).
//
// It is unbounded if the product of the norms (their sum, for distances) reaches `limit`.
struct Row {
	float a[4], s[3];
	float norm;
	float scale; // multiplies the scores of the query
	float low;   // the lowest lower end of its targets
	float unused[2];
};

// Describes 128 consecutive candidates.
struct CandidateBlock {
	float b[4], size, norm;
	float unused[2];
};
constexpr int block_candidates = 128;

// The argument of the screens. Rows of psi and phi have k entries; k is a multiple of 32 and at least 64.
// Rows of zeros fill up the last tile.
struct Screen {
	const void *psi, *phi;
	const Row* rows;
	const CandidateBlock* blocks;
	const float* scales;     // factors of the scores of each candidate; may be null for count_single
	const int* target_start; // first target of each row, and one more entry: the number of targets
	const float* ends;       // lo, hi of each target
	int* better;             // count of certainly better candidates of each target
	Pair* list;              // receives undecided (target, position) pairs
	u32* listed;             // number of these pairs, which may exceed
	u32 capacity;            // the length of the list
	int k;
	int candidates; // number of candidates; later positions are padding
	int tiles;      // number of tiles of candidates
	int span;       // number of tiles per thread block
	float limit;
};

// Bounds the error of the scores of a query in a candidate block, rounded up; +Inf if there is no bound.
__device__ __forceinline__ float band(const Row& r, const CandidateBlock& b, float limit, bool sum) {
	float w = __fmaf_ru(r.s[2], b.size, r.s[1]);
	w = __fmaf_ru(w, b.size, r.s[0]);
	for (int i = 0; i < 4; i++) w = __fmaf_ru(r.a[i], b.b[i], w);
	float reach = sum ? __fadd_ru(r.norm, b.norm) : __fmul_ru(r.norm, b.norm);
	return reach < limit && w < INFINITE ? w : INFINITE;
}

constexpr int counters = 512; // counts per tile of queries in shared memory, one per target

// Compares the scores v of a row with the thresholds of the row's targets. v[j] is the score of the
// candidate at position at(j). Bit j of valid is set if v[j] counts. LANES adjacent lanes share the
// row and call together. w is the band of the row. counts are the counters of the tile, from target
// `base` on.
template <int N, int LANES, typename At>
__device__ __forceinline__ void tally(
	const Screen& s, int from, int to, float w, const float (&v)[N], At at, u32 valid, int* counts, int base) {
	int lane = threadIdx.x % 32;
	u32 group = (LANES == 32 ? 0xffffffffu : (1u << (LANES % 32)) - 1) << (lane / LANES * LANES);
#pragma unroll 1
	for (int t = from; t < to; t++) {
		float lo = __fadd_rd(s.ends[2 * t], -w), hi = __fadd_ru(s.ends[2 * t + 1], w);
		u32 better = 0, undecided = 0;
#pragma unroll
		for (int j = 0; j < N; j++) {
			bool above = v[j] > hi, below = v[j] < lo;
			better |= (u32)above << j;
			undecided |= (u32)(!above && !below) << j;
		}
		int n = __popc(better & valid);
#pragma unroll
		for (int d = 1; d < LANES; d *= 2) n += __shfl_xor_sync(group, n, d);
		if (n > 0 && lane % LANES == 0) atomicAdd(t - base < counters ? &counts[t - base] : &s.better[t], n);
		undecided &= valid;
		if (undecided != 0) {
			u32 place = atomicAdd(s.listed, (u32)__popc(undecided));
#pragma unroll 1
			for (; undecided != 0; undecided &= undecided - 1, place++) {
				if (place < s.capacity) s.list[place] = Pair{(u32)t, (u32)at(__ffs(undecided) - 1)};
			}
		}
	}
}
