// Defines, for tests, the parts of CUDA C++ that the kernels in ../../src use, so g++ can compile
// them. The threads of a thread block are fibers that switch at barriers and at the operations of a
// warp. Thread blocks run one after another.
#pragma once
#define MQUINE_STANDIN

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define SHARED(type, name) type& name = standin::shared<type>()

struct float4 {
	float x, y, z, w;
} __attribute__((aligned(16)));

struct Index {
	unsigned x, y, z;
};
extern Index threadIdx, blockIdx, gridDim;

namespace standin {

constexpr int max_threads = 1024;

// The values that the lanes of a warp exchange.
struct Warp {
	uint64_t value[32];
	uint32_t words[32][8];
};

extern unsigned char* dynamic;
extern int lost_bits; // the setting careless
Warp& warp();
unsigned lane();
// These return when all threads of the thread block, or all lanes of the mask, have arrived.
void block_barrier();
void warp_barrier(unsigned mask);
int block_or(int predicate);
void copy_async(void* to, const void* from);
void copy_commit();
void copy_wait(int groups);

// A kernel, which receives the address of its argument.
struct Registered {
	void (*run)(void (*)(), const void*);
	void (*kernel)();
	size_t size;
	long long launches;
};
std::map<std::string, Registered>& kernels();

struct Register {
	template <class A> Register(const char* name, void (*kernel)(A)) {
		auto run = [](void (*k)(), const void* p) { ((void (*)(A))k)(*(const A*)p); };
		kernels()[name] = {run, (void (*)())kernel, sizeof(A), 0};
	}
};

// Shared memory of a kernel. Thread blocks run one at a time; the memory is overwritten before each of
// them.
void* add_shared(size_t bytes);
template <class T> T& shared() {
	static T* memory = (T*)add_shared(sizeof(T));
	return *memory;
}

template <class T> T shuffle(unsigned mask, T v, unsigned from) {
	static_assert(sizeof(T) <= 8);
	memcpy(&warp().value[lane()], &v, sizeof v);
	warp_barrier(mask);
	if (!(mask >> from & 1)) {
		fprintf(stderr, "standin: a shuffle reads lane %u, which does not take part\n", from);
		abort();
	}
	memcpy(&v, &warp().value[from], sizeof v);
	warp_barrier(mask);
	return v;
}

} // namespace standin

inline unsigned char* dynamic_shared() { return standin::dynamic; }
inline void __syncthreads() { standin::block_barrier(); }
inline int __syncthreads_or(int p) { return standin::block_or(p); }
inline void __syncwarp(unsigned mask = 0xffffffffu) { standin::warp_barrier(mask); }
template <class T> T __shfl_xor_sync(unsigned mask, T v, unsigned d) {
	return standin::shuffle(mask, v, standin::lane() ^ d);
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(unsigned x) { return __builtin_ffs(x); }
template <class T> T atomicAdd(T* p, T v) { T old = *p; *p += v; return old; }
template <class T> T min(T a, T b) { return b < a ? b : a; }
template <class T> T max(T a, T b) { return a < b ? b : a; }

inline float __int_as_float(int i) { float f; memcpy(&f, &i, 4); return f; }
inline double __longlong_as_double(long long i) { double f; memcpy(&f, &i, 8); return f; }
inline long long __double_as_longlong(double f) { long long i; memcpy(&i, &f, 8); return i; }

// Directed roundings of results in long double, which are already rounded. Sometimes the result is
// one step further outward than necessary; the bounds allow that.
inline float round_up(long double x) {
	float f = (float)x;
	return (long double)f < x + fabsl(x) * 0x1p-60L ? nextafterf(f, INFINITY) : f;
}
inline float __fadd_ru(float a, float b) { return round_up((long double)a + b); }
inline float __fadd_rd(float a, float b) { return -__fadd_ru(-a, -b); }
inline float __fmul_ru(float a, float b) { return round_up((long double)a * b); }
inline float __fmaf_ru(float a, float b, float c) { return round_up((long double)a * b + c); }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float __double2float_ru(double x) {
	float f = (float)x;
	return (double)f < x ? nextafterf(f, INFINITY) : f;
}
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
inline double __dsqrt_rn(double x) { return sqrt(x); }

// The twins of the PTX functions in device.cuh.
inline void copy_async(void* to, const void* from) { standin::copy_async(to, from); }
inline void copy_commit() { standin::copy_commit(); }
template <int N> void copy_wait() { standin::copy_wait(N); }

inline unsigned short to_half(float x) { _Float16 h = (_Float16)x; unsigned short b; memcpy(&b, &h, 2); return b; }
inline float from_half(unsigned short b) {
	static const float* table = [] {
		float* t = new float[65536];
		for (int i = 0; i < 65536; i++) { unsigned short s = i; _Float16 h; memcpy(&h, &s, 2); t[i] = (float)h; }
		return t;
	}();
	return table[b];
}
// The result is too small by nearly 2⁻²², the ρ of docs/numerics.md: by 3 · 2⁻²⁴ before it is rounded.
inline float root_approximate(float x) { return (float)(sqrt((double)x) * (1 - 0x3p-24)); }

inline void load_matrices(unsigned (&r)[4], const void* row) {
	standin::Warp& w = standin::warp();
	w.value[standin::lane()] = (uint64_t)row;
	standin::warp_barrier(0xffffffffu);
	unsigned l = standin::lane();
	for (int i = 0; i < 4; i++) memcpy(&r[i], (const unsigned char*)w.value[8 * i + l / 4] + 4 * (l % 4), 4);
	standin::warp_barrier(0xffffffffu);
}

// The following functions round as badly as docs/numerics.md, "GPU screens", assumes that a tensor
// core may. It adds the 16 products in groups of four. For each group, it aligns the products and
// the accumulator to the largest of them, truncates them after 24 bits, and truncates the sum after
// 24 bits too.

// Returns the value of the 24th significant bit of x ≠ 0.
inline double last_bit(double x) {
	return __longlong_as_double((((__double_as_longlong(x) >> 52) & 0x7ff) - 23 + standin::lost_bits) << 52);
}

inline float add_truncated(float c, const double* products, int n) {
	double largest = fabs((double)c);
	for (int i = 0; i < n; i++) largest = fmax(largest, fabs(products[i]));
	if (largest == 0 || !(largest < INFINITY)) {
		double sum = c;
		for (int i = 0; i < n; i++) sum += products[i];
		return (float)sum;
	}
	// The conversions truncate: no quotient has more than 24 bits.
	double unit = last_bit(largest);
	long long sum = (long long)(c / unit);
	for (int i = 0; i < n; i++) sum += (long long)(products[i] / unit);
	if (sum == 0) return 0;
	double exact = (double)sum * unit, last = last_bit(exact);
	return (float)((double)(long long)(exact / last) * last);
}

inline void multiply_add(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
	standin::Warp& w = standin::warp();
	unsigned l = standin::lane(), mine[6] = {a[0], a[1], a[2], a[3], b0, b1};
	memcpy(w.words[l], mine, sizeof mine);
	standin::warp_barrier(0xffffffffu);
	auto half = [](unsigned word, int i) { return (double)from_half((unsigned short)(word >> 16 * i)); };
	for (int e = 0; e < 4; e++) {
		unsigned row = l / 4 + e / 2 * 8, column = l % 4 * 2 + e % 2;
		double p[16];
		for (int k = 0; k < 16; k++) {
			unsigned x = w.words[row % 8 * 4 + k % 8 / 2][row / 8 + k / 8 * 2];
			unsigned y = w.words[column * 4 + k % 8 / 2][4 + k / 8];
			p[k] = half(x, k % 2) * half(y, k % 2);
		}
		for (int k = 0; k < 16; k += 4) d[e] = add_truncated(d[e], p + k, 4);
	}
	standin::warp_barrier(0xffffffffu);
}
