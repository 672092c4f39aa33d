// What the kernels share. The language is CUDA C++ without any header, which NVRTC compiles alone.
// Instructions that C++ has no name for are functions here, each with a PTX body and, for the tests
// that run the same sources on a processor, a C++ body (MQUINE_STANDIN, kernel/cuda/standin).
#pragma once

typedef unsigned char byte;
typedef unsigned short half_bits; // the bits of an fp16 number
typedef unsigned int u32;
typedef unsigned long long u64;

struct Pair { // of a list: a target, and a candidate's position or a known answer's index
	u32 target, other;
};

#ifndef MQUINE_STANDIN

#define SHARED(type, name) __shared__ type name // shared memory of a block

extern __shared__ __align__(128) byte shared_memory[];
__device__ __forceinline__ byte* dynamic_shared() { return shared_memory; }

__device__ __forceinline__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

// Copies 16 bytes to shared memory behind the thread's back.
__device__ __forceinline__ void copy_async(void* to, const void* from) {
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
}
__device__ __forceinline__ void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most N groups of the thread's copies are under way.
template <int N> __device__ __forceinline__ void copy_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

// Four 8 × 8 matrices of fp16; lane l names row l % 8 of matrix l / 8.
__device__ __forceinline__ void load_matrices(u32 (&r)[4], const void* row) {
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
		: "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(row)) : "memory");
}

// d += a b for a of 16 × 16 and b of 16 × 8 in fp16.
__device__ __forceinline__ void multiply_add(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
		: "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// A square root with a relative error of at most 2⁻²³ (PTX ISA, sqrt.approx.f32).
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

// What a screen knows about a query. A candidate of a block errs by at most
//
//     a · b + s[0] + s[1] n + s[2] n²    (a and b of four entries, n the block's size),
//
// or by anything, if the product of the norms (their sum, for distances) reaches `limit`.
struct Row {
	float a[4], s[3];
	float norm;
	float scale; // of the query's scores
	float low;   // the lowest lower end of its targets
	float unused[2];
};

// 128 candidates that follow one another.
struct Block {
	float b[4], size, norm;
	float unused[2];
};
constexpr int block_candidates = 128;

// The argument of the screens. Rows of psi and phi are k entries long, k a multiple of 32 and at least
// 64, and there are whole tiles of them, filled up with zeros.
struct Screen {
	const void *psi, *phi;
	const Row* rows;
	const Block* blocks;
	const float* scales; // of the candidates' scores; may be null for count_single
	const int* first;    // of each row, and one more: its first target
	const float* ends;   // lo, hi of each target
	int* better;         // of each target: the candidates that are certainly better go here
	Pair* list;          // undecided (target, position) pairs go here,
	u32* listed;         // this is their number, even if it exceeds
	u32 capacity;        // the list's room
	int k;
	int candidates;  // positions from here on are padding
	int tiles;       // of candidates, in all
	int span;        // tiles that one block of threads goes through
	float limit;
};

// The error of a query's score in a block, rounded up; +Inf where nothing is known.
__device__ __forceinline__ float band(const Row& r, const Block& b, float limit, bool sum) {
	float w = __fmaf_ru(r.s[2], b.size, r.s[1]);
	w = __fmaf_ru(w, b.size, r.s[0]);
	for (int i = 0; i < 4; i++) w = __fmaf_ru(r.a[i], b.b[i], w);
	float reach = sum ? __fadd_ru(r.norm, b.norm) : __fmul_ru(r.norm, b.norm);
	return reach < limit && w < INFINITE ? w : INFINITE;
}

constexpr int counters = 512; // targets of a tile of queries whose counts stay in shared memory

// Compares a row's scores v, of the candidates at the positions of `at`, with its targets. Bit j of valid
// says that v[j] counts. LANES neighbouring lanes share the row and call together; w is the row's
// band, and counts the tile's counters, from target `base` on.
template <int N, int LANES, typename At>
__device__ __forceinline__ void tally(const Screen& s, int from, int to, float w, const float (&v)[N], At at, u32 valid, int* counts, int base) {
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
