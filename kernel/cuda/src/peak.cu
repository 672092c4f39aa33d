// The ceilings of a card: the rates of its units if nothing delays them. Only measurements use them.
#include "device.cuh"

struct Peak {
	void* memory;   // 4 bytes; for peak_copy 32 n bytes
	long long n;    // number of 16-byte pieces to copy
	int rounds, unused;
};

#ifndef MQUINE_STANDIN
__device__ __forceinline__ void multiply_add_tf32(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
	asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
		"{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
		: "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void multiply_add_int8(int (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
	asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
		"{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
		: "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#else
inline void multiply_add_tf32(float (&)[4], const u32 (&)[4], u32, u32) {}
inline void multiply_add_int8(int (&)[4], const u32 (&)[4], u32, u32) {}
#endif

constexpr int chains = 16;

// Operands have ordinary magnitudes, because the power that a card draws depends on them. Their bits are
// a hash of the number of the thread.
__device__ __forceinline__ u32 operand(u32 i) {
	u32 h = (blockIdx.x * 256 + threadIdx.x) * 2654435761u + i * 40503u;
	h ^= h >> 15;
	return (h & 0x83ff83ffu) | 0x38003800u; // two fp16 values of magnitude 0.5 to 1
}

// In a round, each warp does 16 multiply-adds of 16 × 8 × (16, 8 or 32).
#define PEAK_MMA(name, type, call) \
	{ \
		u32 a[4] = {operand(0), operand(1), operand(2), operand(3)}, b0 = operand(4), b1 = operand(5); \
		type d[chains][4] = {}; \
		for (int r = 0; r < p.rounds; r++) \
			_Pragma("unroll") for (int i = 0; i < chains; i++) call(d[i], a, b0, b1); \
		type sum = 0; \
		_Pragma("unroll") for (int i = 0; i < chains; i++) sum += d[i][0] + d[i][1] + d[i][2] + d[i][3]; \
		if (sum == (type)1234567) *(type*)p.memory = sum; \
	}

extern "C" __global__ void __launch_bounds__(256) peak_half(const Peak p) PEAK_MMA(half, float, multiply_add)
extern "C" __global__ void __launch_bounds__(256) peak_tf32(const Peak p) PEAK_MMA(tf32, float, multiply_add_tf32)
extern "C" __global__ void __launch_bounds__(256) peak_int8(const Peak p) PEAK_MMA(int8, int, multiply_add_int8)

// In a round, each thread does 64 fused multiply-adds.
extern "C" __global__ void __launch_bounds__(256) peak_fma(const Peak p) {
	float d[64], x = 0.5f + threadIdx.x * 1e-3f, y = 0.999f;
#pragma unroll
	for (int i = 0; i < 64; i++) d[i] = i;
	for (int r = 0; r < p.rounds; r++)
#pragma unroll
		for (int i = 0; i < 64; i++) d[i] = __fmaf_rn(d[i], y, x);
	float sum = 0;
#pragma unroll
	for (int i = 0; i < 64; i++) sum += d[i];
	if (sum == 1234567) *(float*)p.memory = sum;
}

// Copies n pieces of 16 bytes.
extern "C" __global__ void __launch_bounds__(256) peak_copy(const Peak p) {
	const float4* from = (const float4*)p.memory;
	float4* to = (float4*)p.memory + p.n;
	for (long long i = (long long)blockIdx.x * 256 + threadIdx.x; i < p.n; i += (long long)gridDim.x * 256)
		to[i] = from[i];
}
