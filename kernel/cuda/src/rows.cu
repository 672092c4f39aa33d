// Describes the queries of a query block to the screens, given ψ and the intervals of the targets
// (docs/numerics.md, "GPU screens").
#include "device.cuh"

enum { Dot, L1, GroupNorm, Phase };

struct PairRow {
	double norm, slack[3];
};

struct Prepare {
	const float* psi; // rows of k entries
	const PairRow* queries;
	const float *centre, *scales; // for the tensor-core screens; null for the float32 screens
	const double* sizes;          // three norms of each row, from quantise
	const int* target_start;      // first target of each row, and one more entry
	const double* interval;       // low, high of each target
	Row* rows;                    // receives the rows, padded to whole tiles
	float* ends;                  // receives lo, hi of each target
	int n, padded, k, compare;
	double relative, absolute;  // error of the scores
	double rounding, subnormal; // effect of rounding ψ and φ to float32, for dot products
	double centring;            // error of ψ·μ relative to the sum of the magnitudes of its terms
};

constexpr double outward = 1 + 1e-9; // covers the rounding errors of computing a band

__device__ __forceinline__ float up(double x) { return __double2float_ru(x); }

// Each warp processes a row.
extern "C" __global__ void __launch_bounds__(256) prepare_rows(const Prepare p) {
	const double infinite = 1.0 / 0.0;
	int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
	if (row >= p.padded) return;
	Row r = {};
	r.low = INFINITE;
	if (row >= p.n) {
		if (lane == 0) p.rows[row] = r;
		return;
	}
	const PairRow q = p.queries[row];
	bool half = p.scales != nullptr, distance = p.compare == L1 || p.compare == GroupNorm;
	// ψ·μ, which the scores of centred candidates lack.
	double shift = 0, size = 0;
	if (half) {
		for (int t = lane; t < p.k; t += 32) {
			double x = (double)p.psi[(u64)row * p.k + t] * (double)p.centre[t];
			shift += x, size += fabs(x);
		}
#pragma unroll
		for (int i = 16; i > 0; i /= 2) {
			shift += __shfl_xor_sync(0xffffffffu, shift, i);
			size += __shfl_xor_sync(0xffffffffu, size, i);
		}
	}
	double absolute = p.absolute + p.centring * size, a3 = 0;
	if (p.compare == Dot) {
		a3 = (p.rounding * q.norm + p.subnormal) * outward;
		absolute += p.subnormal * (q.norm + 1);
	}
	if (!half && !distance) a3 += p.relative * q.norm * outward;
	for (int i = 0; i < 3; i++)
		r.s[i] = up((q.slack[i] + (i == 0 && !distance ? absolute : 0)) * (distance ? 1 + p.relative : 1) * outward);
	r.norm = up(q.norm);
	if (half) {
		const double* s = p.sizes + 3 * row; // ‖y‖, ‖y − ỹ‖, ‖ỹ‖
		r.a[0] = up(s[1] * outward), r.a[1] = up(s[2] * outward), r.a[2] = up(p.relative * s[2] * outward);
		r.norm = up(s[0]), r.scale = p.scales[row];
	}
	r.a[3] = up(a3 * outward);
	float low = INFINITE;
	for (int t = p.target_start[row] + lane; t < p.target_start[row + 1]; t += 32) {
		double from = p.interval[2 * t], to = p.interval[2 * t + 1], lo = from - shift, hi = to - shift;
		if (distance) lo = from * (1 + p.relative) - p.absolute, hi = to * (1 - p.relative) + p.absolute;
		lo -= 0x1p-50 * (fabs(from) + fabs(lo)), hi += 0x1p-50 * (fabs(to) + fabs(hi));
		if (!(lo > -infinite)) lo = -infinite;
		if (!(hi < infinite)) hi = infinite;
		float least = -up(-lo);
		p.ends[2 * t] = least, p.ends[2 * t + 1] = up(hi);
		low = least < low ? least : low;
	}
#pragma unroll
	for (int i = 16; i > 0; i /= 2) {
		float other = __shfl_xor_sync(0xffffffffu, low, i);
		low = other < low ? other : low;
	}
	r.low = low;
	if (lane == 0) p.rows[row] = r;
}
