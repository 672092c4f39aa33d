// Computes φ and ψ of MQuinE and MQuadE from their stored parameters, with the same bits as
// model/mquine.go. Every entry of a product is one chain of fused multiply-adds over k from 0 in
// float64, and the result is rounded to float32 once. The slack is in docs/models/mquine.md,
// "Slack".
#include "device.cuh"

struct Construct {
	const float* entities; // rows of d (d + 1) / 2 packed entries
	const int* entity;     // entity of each row of out
	float* out;            // receives rows of k entries, filled up with zeros
	double *norms, *sizes; // receive upper bounds on ‖φ‖ and ‖E‖ for each row
	int n, d, k, unused;
};

struct Query {
	int anchor, relation, side; // side is 0 if the query asks for tails, 1 for heads
};

struct PairRow {
	double norm, slack[3];
};

struct ConstructQueries {
	const float *entities, *head, *tail, *cross; // cross is null for MQuadE
	const Query* queries;
	float* out;
	PairRow* rows;
	double kappa; // κ of the slack κ(a₀ + a₁n)²
	int n, d, k, unused;
};

constexpr int threads = 256;
constexpr double outward = 1 + 1e-9; // makes a computed norm an upper bound

struct Parts {
	double of[threads / 32];
};

// Returns the sum of the values of all threads to every thread.
__device__ double sum_of_block(double x) {
	SHARED(Parts, parts);
#pragma unroll
	for (int i = 16; i > 0; i /= 2) x += __shfl_xor_sync(0xffffffffu, x, i);
	if (threadIdx.x % 32 == 0) parts.of[threadIdx.x / 32] = x;
	__syncthreads();
	double sum = 0;
	for (int i = 0; i < threads / 32; i++) sum += parts.of[i];
	__syncthreads();
	return sum;
}

// Calls f(at, i, j) for this thread's share of the packed lower triangle.
template <typename F> __device__ __forceinline__ void each_packed(int d, F f) {
	int i = 0, end = 1; // row i ends before entry end
	for (int at = threadIdx.x; at < d * (d + 1) / 2; at += threads) {
		while (at >= end) i++, end += i + 1;
		f(at, i, at - (end - i - 1));
	}
}

// Writes the symmetric matrix of an entity to shared memory. Returns an upper bound on its norm.
__device__ double unpack(const float* row, double* to, int d) {
	double sum = 0;
	each_packed(d, [&](int at, int i, int j) {
		double v = (double)row[at];
		if (i == j) v *= 2;
		to[i * d + j] = to[j * d + i] = v;
		sum += i == j ? v * v : 2 * v * v;
	});
	return __dsqrt_rn(sum_of_block(sum)) * outward;
}

// Each thread block computes the features of an entity: pack(E) and pack(E²).
extern "C" __global__ void __launch_bounds__(threads) construct_features(const Construct c) {
	double* e = (double*)dynamic_shared();
	u32 row = blockIdx.x;
	int d = c.d, packed = d * (d + 1) / 2;
	const float* from = c.entities + (u64)c.entity[row] * packed;
	float* out = c.out + (u64)row * c.k;
	double size = unpack(from, e, d), sum = 0;
	each_packed(d, [&](int at, int i, int j) {
		double x = 0;
		for (int k = 0; k < d; k++) x = __fma_rn(e[i * d + k], e[k * d + j], x);
		float first = i == j ? 2 * from[at] : from[at], second = (float)x;
		out[at] = first, out[packed + at] = second;
		sum += (double)first * (double)first + (double)second * (double)second;
	});
	for (int t = 2 * packed + threadIdx.x; t < c.k; t += threads) out[t] = 0;
	sum = sum_of_block(sum);
	if (threadIdx.x == 0) c.norms[row] = __dsqrt_rn(sum) * outward, c.sizes[row] = size;
}

// Writes a matrix of the relation to shared memory, transposed or negated for the inverse relation.
// Returns an upper bound on its norm.
__device__ double load_relation(const float* from, float* to, int d, bool transposed, bool negative) {
	double sum = 0;
	for (int at = threadIdx.x; at < d * d; at += threads) {
		float v = from ? from[at] : 0;
		sum += (double)v * (double)v;
		to[transposed ? at % d * d + at / d : at] = negative ? -v : v;
	}
	return __dsqrt_rn(sum_of_block(sum)) * outward;
}

// to = h r
__device__ void multiply(double* to, const double* h, const float* r, int d) {
	for (int at = threadIdx.x; at < d * d; at += threads) {
		int i = at / d, j = at % d;
		double x = 0;
		for (int k = 0; k < d; k++) x = __fma_rn(h[i * d + k], (double)r[k * d + j], x);
		to[at] = x;
	}
	__syncthreads();
}

// Each thread block computes ψ of a query. A head query is the tail query of the inverse relation
// (Rᵗᵀ, Rʰᵀ, −Rᶜᵀ).
extern "C" __global__ void __launch_bounds__(threads) construct_queries(const ConstructQueries c) {
	int d = c.d, packed = d * (d + 1) / 2;
	double* h = (double*)dynamic_shared();
	double *a = h + d * d, *b = a + d * d;
	float* r = (float*)(b + d * d);
	Query q = c.queries[blockIdx.x];
	bool inverse = q.side != 0;
	u64 relation = (u64)q.relation * d * d;
	const float *head = (inverse ? c.tail : c.head) + relation, *tail = (inverse ? c.head : c.tail) + relation;

	double anchor_norm = unpack(c.entities + (u64)q.anchor * packed, h, d);
	double head_norm = load_relation(head, r, d, inverse, false);
	multiply(a, h, r, d);
	double cross_norm = load_relation(c.cross ? c.cross + relation : nullptr, r, d, inverse, inverse);
	multiply(b, h, r, d);
	double tail_norm = load_relation(tail, r, d, inverse, false);
	for (int at = threadIdx.x; at < d * d; at += threads) b[at] -= (double)r[at];
	__syncthreads();

	float* out = c.out + (u64)blockIdx.x * c.k;
	double sum = 0;
	each_packed(d, [&](int at, int i, int j) {
		double ba = 0, other = 0, bb = 0; // (BᵀA)_ij, (BᵀA)_ji, (BᵀB)_ij
		for (int k = 0; k < d; k++) {
			double bi = b[k * d + i], bj = b[k * d + j];
			ba = __fma_rn(bi, a[k * d + j], ba);
			other = __fma_rn(bj, a[k * d + i], other);
			bb = __fma_rn(bi, bj, bb);
		}
		float first = (float)(i == j ? -2 * ba : -2 * (ba + other)), second = (float)(i == j ? -bb : -2 * bb);
		out[at] = first, out[packed + at] = second;
		sum += (double)first * (double)first + (double)second * (double)second;
	});
	for (int t = 2 * packed + threadIdx.x; t < c.k; t += threads) out[t] = 0;
	sum = sum_of_block(sum);
	if (threadIdx.x == 0) {
		double a0 = anchor_norm * head_norm, a1 = tail_norm + anchor_norm * cross_norm;
		c.rows[blockIdx.x] = PairRow{
			__dsqrt_rn(sum) * outward, {c.kappa * a0 * a0, 2 * c.kappa * a0 * a1, c.kappa * a1 * a1}};
	}
}
