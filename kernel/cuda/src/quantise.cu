// Converts float32 rows to fp16 operands for count_half. It centres the rows, balances them term by term,
// scales each row by a power of two, and bounds the rounding error of each row.
#include "device.cuh"

struct Quantise {
	const float* rows;   // rows of stride entries
	const float* centre; // subtracted from each row, or null
	const float* factor; // powers of two that multiply each term
	half_bits* out;      // receives rows of k entries
	float* scales;       // receives the factor that restores the size of each row
	double* sizes;       // receives three upper bounds per row: the norms of the balanced row, of its
	                     // rounding error, and of out · scale
	int n, width, stride, k;
};

__device__ __forceinline__ double balanced(const Quantise& q, u32 row, int t) {
	double x = q.rows[(u64)row * q.stride + t];
	if (q.centre) x -= (double)q.centre[t];
	return x * (double)q.factor[t];
}

__device__ __forceinline__ double sum_of_lanes(double x) {
#pragma unroll
	for (int i = 16; i > 0; i /= 2) x += __shfl_xor_sync(0xffffffffu, x, i);
	return x;
}

// Each warp processes a row. The largest entry becomes 2¹³ to 2¹⁴. Entries that would be subnormal
// in fp16 become 0, so the screen never reads a subnormal value. Scales are between 2⁻⁶³ and 2³⁷,
// so scores stay in the range of float32. Smaller rows lose more precision, which their sizes
// include. Larger rows get sizes of +Inf, and the screen decides nothing for them.
extern "C" __global__ void __launch_bounds__(256) quantise(const Quantise q) {
	u32 row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
	if (row >= (u32)q.n) return;
	double largest = 0, raw = 0;
	for (int t = lane; t < q.width; t += 32) {
		double x = fabs(balanced(q, row, t));
		largest = x > largest ? x : largest;
		double size = fabs((double)q.rows[(u64)row * q.stride + t]) + (q.centre ? fabs((double)q.centre[t]) : 0);
		raw += size * size * (double)q.factor[t] * (double)q.factor[t];
	}
#pragma unroll
	for (int i = 16; i > 0; i /= 2) {
		double other = __shfl_xor_sync(0xffffffffu, largest, i);
		largest = other > largest ? other : largest;
	}
	raw = sum_of_lanes(raw);
	// The exponent of the largest entry, from its bits, or 0 for a row of zeros.
	int exponent = largest > 0 ? (int)(__double_as_longlong(largest) >> 52) - 1023 : 0;
	bool usable = exponent <= 50;
	exponent = usable ? max(exponent, -50) : 0;
	double up = __longlong_as_double((long long)(1023 + 13 - exponent) << 52), down = 1 / up;
	double norm = 0, error = 0, rounded = 0;
	half_bits* out = q.out + (u64)row * q.k;
	for (int t = lane; t < q.k; t += 32) {
		half_bits h = 0;
		if (t < q.width && usable) {
			double x = balanced(q, row, t);
			h = to_half((float)(x * up));
			if ((h & 0x7c00) == 0) h = 0;
			double y = (double)from_half(h) * down;
			norm += x * x, error += (x - y) * (x - y), rounded += y * y;
		}
		out[t] = h;
	}
	norm = sum_of_lanes(norm), error = sum_of_lanes(error), rounded = sum_of_lanes(rounded);
	if (lane == 0) {
		const double outward = 1 + 1e-9, none = 1.0 / 0.0;
		// The subtraction of the centre was rounded too.
		double centring = q.centre ? 0x1p-52 * __dsqrt_rn(raw) : 0;
		q.scales[row] = (float)down;
		q.sizes[3 * row] = usable ? (__dsqrt_rn(norm) + centring) * outward : none;
		q.sizes[3 * row + 1] = usable ? (__dsqrt_rn(error) + centring) * outward : none;
		q.sizes[3 * row + 2] = usable ? __dsqrt_rn(rounded) * outward : none;
	}
}
