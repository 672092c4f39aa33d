// Decides pairs one by one in float64, from the float32 ψ and φ: pairs that the screens left undecided,
// and known answers. The arithmetic and the bands are the same as in the pair stage on the CPU
// (docs/numerics.md, "The pair stage").
#include "device.cuh"

enum { Dot, L1, GroupNorm, Phase };

constexpr int filters = 3;

// Describes a query.
struct PairRow {
	double norm, slack[3];
};

// A known answer to the query of a row.
struct Known {
	u32 row, position;
	u32 filters; // bit f is set if filter f removes it
};

struct Decide {
	const float *psi, *phi; // rows of k entries, a multiple of 32
	const PairRow* rows;
	const double *norms, *sizes;     // of the candidate at each position
	const int *entity, *same;        // at each position: the entity, and the first one with the same parameters
	const int* target_start;         // first target of each row, and one more entry
	const int* target_row;           // row of each target
	const double* interval;          // low, high of each target
	const int *answer, *answer_same; // of each target: its entity, and the first one with the same parameters
	int *better, *equal;             // counts of each target; for decide_known, [filter][target]
	const Pair* list;                // pairs to decide or to score
	const u32* listed;               // number of pairs in list
	const Known* known;              // known answers to decide
	Pair* rest;                      // receives undecided pairs; for decide_known, (target, index)
	u32* rested;                     // number of these pairs, which may exceed
	double* scored;                  // receives low, high from score_targets and score_pairs
	u32 room;                        // the length of rest
	u32 count;                       // maximum number of pairs of list to process, or number of known answers
	int k, compare, targets;
	int unused;
	double relative;            // error of the scores
	double rounding, subnormal; // rounding of ψ and φ to float32: rounding ‖ψ‖‖φ‖ + subnormal (‖ψ‖ + ‖φ‖ + 1)
};

// Returns the score of a row of ψ and a row of φ in all lanes. It adds 32 chains in a tree.
__device__ double pair_score(const Decide& d, u32 row, u32 position) {
	const float* x = d.psi + (u64)row * d.k;
	const float* y = d.phi + (u64)position * d.k;
	u32 lane = threadIdx.x % 32;
	double sum = 0;
	if (d.compare == Dot) {
		for (int t = lane; t < d.k; t += 32) sum = __fma_rn((double)x[t], (double)y[t], sum);
	} else if (d.compare == L1) {
		for (int t = lane; t < d.k; t += 32) sum -= fabs((double)x[t] - (double)y[t]);
	} else {
		for (int t = 2 * lane; t < d.k; t += 64) {
			if (d.compare == GroupNorm) {
				double u = (double)x[t] - (double)y[t], v = (double)x[t + 1] - (double)y[t + 1];
				sum -= __dsqrt_rn(__fma_rn(u, u, v * v));
			} else {
				sum -= fabs(__fma_rn((double)x[t], (double)y[t], (double)x[t + 1] * (double)y[t + 1]));
			}
		}
	}
#pragma unroll
	for (int i = 16; i > 0; i /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, i);
	return sum;
}

// Returns half the width of the interval of a candidate. +Inf decides nothing.
__device__ double pair_band(const Decide& d, u32 row, u32 position, double score) {
	const double outward = 1 + 1e-9;
	const PairRow& r = d.rows[row];
	double norm = d.norms[position], n = d.sizes[position], w;
	if (d.compare == L1 || d.compare == GroupNorm) {
		w = d.relative * fabs(score) / (1 - d.relative);
	} else {
		w = (d.relative + d.rounding) * (r.norm * norm) + d.subnormal * (r.norm + norm + 1);
	}
	double slack = r.slack[0] + n * (r.slack[1] + n * r.slack[2]);
	w = (w + slack) * outward + 0x1p-52 * fabs(score);
	return w < 1.0 / 0.0 && r.norm < 1.0 / 0.0 ? w : 1.0 / 0.0;
}

// Writes the interval of the query of a target and a candidate to an entry of d.scored.
__device__ void write_interval(const Decide& d, Pair p, u32 entry) {
	const double infinite = 1.0 / 0.0;
	u32 row = d.target_row[p.target];
	double score = pair_score(d, row, p.other), w = pair_band(d, row, p.other, score);
	if (threadIdx.x % 32 != 0) return;
	d.scored[2 * entry] = w < infinite ? score - w : -infinite;
	d.scored[2 * entry + 1] = w < infinite ? score + w : infinite;
}

enum Verdict { Worse, Better, Equal, Open, Itself };

__device__ Verdict judge(const Decide& d, u32 position, int target, double score, double w) {
	if (d.entity[position] == d.answer[target]) return Itself;
	if (d.same[position] == d.answer_same[target]) return Equal;
	if (score - w > d.interval[2 * target + 1]) return Better;
	if (score + w < d.interval[2 * target]) return Worse;
	return Open;
}

__device__ void keep(const Decide& d, u32 target, u32 other) {
	u32 place = atomicAdd(d.rested, 1u);
	if (place < d.room) d.rest[place] = Pair{target, other};
}

// The warps of the grid share the entries of the list.
extern "C" __global__ void __launch_bounds__(256) decide_pairs(const Decide d) {
	u32 n = min(*d.listed, d.count), warps = gridDim.x * 8;
	for (u32 i = blockIdx.x * 8 + threadIdx.x / 32; i < n; i += warps) {
		Pair p = d.list[i];
		u32 row = d.target_row[p.target];
		double score = pair_score(d, row, p.other);
		if (threadIdx.x % 32 != 0) continue;
		switch (judge(d, p.other, p.target, score, pair_band(d, row, p.other, score))) {
		case Better: atomicAdd(&d.better[p.target], 1); break;
		case Equal: atomicAdd(&d.equal[p.target], 1); break;
		case Open: keep(d, p.target, p.other); break;
		default: break;
		}
	}
}

// The warps of the grid share the known answers. Each known answer is compared with all targets of its
// query.
extern "C" __global__ void __launch_bounds__(256) decide_known(const Decide d) {
	u32 warps = gridDim.x * 8, lane = threadIdx.x % 32;
	for (u32 i = blockIdx.x * 8 + threadIdx.x / 32; i < d.count; i += warps) {
		Known a = d.known[i];
		double score = pair_score(d, a.row, a.position);
		double w = pair_band(d, a.row, a.position, score);
		for (int t = d.target_start[a.row] + lane; t < d.target_start[a.row + 1]; t += 32) {
			Verdict v = judge(d, a.position, t, score, w);
			if (v == Open) keep(d, t, i);
			if (v != Better && v != Equal) continue;
			for (int f = 0; f < filters; f++)
				if (a.filters >> f & 1) atomicAdd(&(v == Better ? d.better : d.equal)[f * d.targets + t], 1);
		}
	}
}

// The warps of the grid share the entries of the list: a target and the position of its answer. A warp
// writes the interval of the target.
extern "C" __global__ void __launch_bounds__(256) score_targets(const Decide d) {
	u32 warps = gridDim.x * 8;
	for (u32 i = blockIdx.x * 8 + threadIdx.x / 32; i < d.count; i += warps)
		write_interval(d, d.list[i], d.list[i].target);
}

// Writes the intervals of the pairs that a screen listed, in the order of the list.
extern "C" __global__ void __launch_bounds__(256) score_pairs(const Decide d) {
	u32 n = min(*d.listed, d.count), warps = gridDim.x * 8;
	for (u32 i = blockIdx.x * 8 + threadIdx.x / 32; i < n; i += warps) write_interval(d, d.list[i], i);
}
