// The float32 screens of all four comparisons. L1, group norms and phases always use them; dot products
// use them where the tensor-core screens leave too many pairs undecided.
#include "device.cuh"

enum { Dot, L1, GroupNorm, Phase };

// Adds the next two terms to a score.
template <int COMPARE>
__device__ __forceinline__ float add_terms(float c, float x0, float x1, float y0, float y1) {
	if (COMPARE == Dot) return __fmaf_rn(x1, y1, __fmaf_rn(x0, y0, c));
	if (COMPARE == L1) return c - fabsf(x0 - y0) - fabsf(x1 - y1);
	if (COMPARE == GroupNorm) {
		float u = x0 - y0, v = x1 - y1;
		return c - root_approximate(__fmaf_rn(u, u, v * v));
	}
	return c - fabsf(__fmaf_rn(x0, y0, x1 * y1));
}

// A thread block of 256 threads computes tiles of 128 queries × 128 candidates, one after another. Each
// thread has 8 × 8 scores: queries and candidates 4t … 4t+3 and 64+4t … 64+4t+3. There are two buffers of
// 16 terms in shared memory; while one is in use, the next terms go through registers to the other.
// Scores are sums of chains of 128 terms. If scores fall as terms are added, a tile ends after the chain
// that makes all its candidates worse than every target.
template <int COMPARE>
struct SingleTile {
	static constexpr int B = 128, K = 16, chain = 128, pad = B + 4;

	struct Shared {
		alignas(16) float x[2][K][pad], y[2][K][pad];
		float bands[B], drop[B];
		int target_start[B + 1], counts[counters];
	};

	static __device__ __forceinline__ void count(const Screen& s) {
		SHARED(Shared, m);
		u32 thread = threadIdx.x, tx = thread % 16, ty = thread / 16;
		int query = blockIdx.x * B, tile = blockIdx.y * s.span, tiles = min(s.span, s.tiles - tile);
		if (thread <= B) m.target_start[thread] = s.target_start[query + thread];
		for (u32 i = thread; i < counters; i += 256) m.counts[i] = 0;

		// Each thread loads four terms of every 64th row.
		u32 row = thread / 4, term = thread % 4 * 4;
		float4 fx[2], fy[2];
		for (int now = tile; now < tile + tiles; now++) {
			const float* from_x = (const float*)s.psi + (u64)(query + row) * s.k + term;
			const float* from_y = (const float*)s.phi + (u64)(now * B + row) * s.k + term;
			auto fetch = [&](int k) {
#pragma unroll
				for (int i = 0; i < 2; i++) {
					fx[i] = *(const float4*)(from_x + (u64)i * 64 * s.k + k);
					fy[i] = *(const float4*)(from_y + (u64)i * 64 * s.k + k);
				}
			};
			auto store = [&](int to) {
#pragma unroll
				for (int i = 0; i < 2; i++) {
					u32 r = row + i * 64;
					m.x[to][term][r] = fx[i].x, m.x[to][term + 1][r] = fx[i].y;
					m.x[to][term + 2][r] = fx[i].z, m.x[to][term + 3][r] = fx[i].w;
					m.y[to][term][r] = fy[i].x, m.y[to][term + 1][r] = fy[i].y;
					m.y[to][term + 2][r] = fy[i].z, m.y[to][term + 3][r] = fy[i].w;
				}
			};
			float sum[8][8], c[8][8];
#pragma unroll
			for (int i = 0; i < 8; i++)
#pragma unroll
				for (int j = 0; j < 8; j++) sum[i][j] = c[i][j] = 0;
			fetch(0);
			__syncthreads(); // the previous tile no longer uses the buffers and the bands
			store(0);
			if (thread < B) {
				const Row& r = s.rows[query + thread];
				float w = band(r, s.blocks[now], s.limit, COMPARE == L1 || COMPARE == GroupNorm);
				m.bands[thread] = w;
				m.drop[thread] = __fadd_rd(r.low, -w);
			}
			__syncthreads();
			bool alive = true;
			for (int k = 0, buffer = 0; k < s.k; k += K, buffer ^= 1) {
				if (k + K < s.k) fetch(k + K);
#pragma unroll 2
				for (int t = 0; t < K; t += 2) {
					float a[2][8], b[2][8];
#pragma unroll
					for (int u = 0; u < 2; u++)
#pragma unroll
						for (int h = 0; h < 2; h++) {
							float4 v = *(const float4*)&m.x[buffer][t + u][h * 64 + ty * 4];
							float4 w = *(const float4*)&m.y[buffer][t + u][h * 64 + tx * 4];
							a[u][h * 4] = v.x, a[u][h * 4 + 1] = v.y, a[u][h * 4 + 2] = v.z, a[u][h * 4 + 3] = v.w;
							b[u][h * 4] = w.x, b[u][h * 4 + 1] = w.y, b[u][h * 4 + 2] = w.z, b[u][h * 4 + 3] = w.w;
						}
#pragma unroll
					for (int i = 0; i < 8; i++)
#pragma unroll
						for (int j = 0; j < 8; j++)
							c[i][j] = add_terms<COMPARE>(c[i][j], a[0][i], a[1][i], b[0][j], b[1][j]);
				}
				if ((k + K) % chain == 0 || k + K >= s.k) {
					bool open = false;
#pragma unroll
					for (int i = 0; i < 8; i++) {
						float least = m.drop[i / 4 * 64 + ty * 4 + i % 4];
#pragma unroll
						for (int j = 0; j < 8; j++) {
							sum[i][j] += c[i][j];
							c[i][j] = 0;
							open |= !(sum[i][j] < least);
						}
					}
					if (COMPARE != Dot) {
						alive = __syncthreads_or(open);
						if (!alive) break;
					}
				}
				if (k + K < s.k) {
					store(buffer ^ 1);
					__syncthreads();
				}
			}
			if (!alive) continue;
			int column = now * B + tx * 4;
			auto at = [=](int j) { return column + j / 4 * 64 + j % 4; };
			u32 valid = 0;
#pragma unroll
			for (int j = 0; j < 8; j++) valid |= (u32)(at(j) < s.candidates) << j;
#pragma unroll
			for (int i = 0; i < 8; i++) {
				__syncwarp();
				u32 r = i / 4 * 64 + ty * 4 + i % 4;
				tally<8, 16>(s, m.target_start[r], m.target_start[r + 1], m.bands[r], sum[i], at, valid, m.counts,
					m.target_start[0]);
			}
		}
		__syncthreads();
		for (u32 i = thread; i < (u32)min(counters, m.target_start[B] - m.target_start[0]); i += 256)
			if (m.counts[i] != 0) atomicAdd(&s.better[m.target_start[0] + i], m.counts[i]);
	}
};

extern "C" __global__ void __launch_bounds__(256) count_dot(const Screen s) { SingleTile<Dot>::count(s); }
extern "C" __global__ void __launch_bounds__(256) count_l1(const Screen s) { SingleTile<L1>::count(s); }
extern "C" __global__ void __launch_bounds__(256) count_group_norm(const Screen s) { SingleTile<GroupNorm>::count(s); }
extern "C" __global__ void __launch_bounds__(256) count_phase(const Screen s) { SingleTile<Phase>::count(s); }
