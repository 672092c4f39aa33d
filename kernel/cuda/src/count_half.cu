// The screen of dot products on tensor cores. Operands are fp16 with a power of two as the scale of each
// row; accumulators are float32. docs/numerics.md, "GPU screens", derives the band.
#include "device.cuh"

// A thread block of 256 threads, 8 warps, computes tiles of 128 queries × 128 candidates, one after
// another. Each warp has 64 × 32 scores. Operands pass through STAGES buffers in shared memory, 32
// terms at a time.
template <int STAGES>
struct HalfTile {
	static constexpr int BM = 128, BN = 128, BK = 32, WM = 64, WN = BN / 4, MI = WM / 16, NI = WN / 8;
	static constexpr int stage_bytes = (BM + BN) * BK * 2;

	// A row has 64 bytes in four pieces. The order of the pieces depends on the row, so the eight
	// rows that ldmatrix reads at a time are in different banks.
	static __device__ __forceinline__ u32 piece(u32 row, u32 p) { return row * 64 + ((p ^ (row >> 1 & 3)) << 4); }

	// Loads the terms of a tile from k on. Each thread loads one piece of every 64th row.
	static __device__ __forceinline__ void load(const Screen& s, byte* to, int query, int tile, int k) {
		u32 row = threadIdx.x / 4, p = threadIdx.x % 4;
		const half_bits* psi = (const half_bits*)s.psi + (u64)(query + row) * s.k + k + p * 8;
		const half_bits* phi = (const half_bits*)s.phi + (u64)(tile * BN + row) * s.k + k + p * 8;
		to += piece(row, p);
#pragma unroll
		for (int i = 0; i < BM / 64; i++, psi += 64 * s.k) copy_async(to + i * 64 * 64, psi);
#pragma unroll
		for (int i = 0; i < BN / 64; i++, phi += 64 * s.k) copy_async(to + (BM + i * 64) * 64, phi);
	}

	struct Shared {
		float bands[BN / block_candidates][BM];
		int target_start[BM + 1], counts[counters];
	};

	static __device__ __forceinline__ void count(const Screen& s) {
		SHARED(Shared, m);
		byte* buffers = dynamic_shared();
		u32 thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
		int query = blockIdx.x * BM, tile = blockIdx.y * s.span, tiles = min(s.span, s.tiles - tile);
		u32 wm = warp / 4 * WM, wn = warp % 4 * WN;
		// Loads run STAGES − 1 buffers ahead of the computation.
		int ahead = 0, ahead_tile = tile, ahead_k = 0;
		auto advance = [&]() {
			if (ahead_tile < tile + tiles) {
				load(s, buffers + ahead * stage_bytes, query, ahead_tile, ahead_k);
				ahead = ahead + 1 < STAGES ? ahead + 1 : 0;
				ahead_k += BK;
				if (ahead_k == s.k) ahead_k = 0, ahead_tile++;
			}
			copy_commit();
		};

		if (thread <= BM) m.target_start[thread] = s.target_start[query + thread];
		for (u32 i = thread; i < counters; i += 256) m.counts[i] = 0;
#pragma unroll
		for (int i = 0; i < STAGES - 1; i++) advance();
		float c[MI][NI][4];
		int k = 0, stage = 0;
		for (int now = tile; now < tile + tiles;) {
			copy_wait<STAGES - 2>();
			__syncthreads();
			advance();
			if (k == 0) {
				for (u32 i = thread; i < BM * (BN / block_candidates); i += 256)
					m.bands[i / BM][i % BM] = band(
						s.rows[query + i % BM], s.blocks[now * (BN / block_candidates) + i / BM], s.limit, false);
#pragma unroll
				for (int i = 0; i < MI; i++)
#pragma unroll
					for (int j = 0; j < NI; j++)
#pragma unroll
						for (int e = 0; e < 4; e++) c[i][j][e] = 0;
			}
			const byte* a = buffers + stage * stage_bytes;
			stage = stage + 1 < STAGES ? stage + 1 : 0;
			const byte* b = a + BM * 64;
#pragma unroll
			for (int kk = 0; kk < BK / 16; kk++) {
				u32 fa[MI][4], fb[NI / 2][4];
#pragma unroll
				for (int i = 0; i < MI; i++)
					load_matrices(fa[i], a + i * 16 * 64 + piece(wm + lane % 16, kk * 2 + lane / 16));
#pragma unroll
				for (int j = 0; j < NI / 2; j++)
					load_matrices(fb[j],
						b + j * 16 * 64 + piece(wn + lane % 8 + lane / 16 * 8, kk * 2 + lane / 8 % 2));
#pragma unroll
				for (int i = 0; i < MI; i++)
#pragma unroll
					for (int j = 0; j < NI; j++)
						multiply_add(c[i][j], fa[i], fb[j / 2][j % 2 * 2], fb[j / 2][j % 2 * 2 + 1]);
			}
			k += BK;
			if (k == s.k) {
				int column = now * BN + wn + lane % 4 * 2;
				auto at = [=](int j) { return column + j / 2 * 8 + j % 2; };
				float scale[2 * NI];
				u32 valid = 0;
#pragma unroll
				for (int j = 0; j < 2 * NI; j++) {
					scale[j] = s.scales[at(j)];
					valid |= (u32)(at(j) < s.candidates) << j;
				}
#pragma unroll
				for (int i = 0; i < 2 * MI; i++) {
					__syncwarp(); // also stops the compiler from loading more rows early, which would spill registers
					u32 row = wm + i * 8 + lane / 4;
					float by = s.rows[query + row].scale;
					float v[2 * NI];
#pragma unroll
					for (int j = 0; j < 2 * NI; j++) {
						int e = i % 2 * 2 + j % 2;
						v[j] = c[i / 2][j / 2][e] * by * scale[j];
					}
					tally<2 * NI, 4>(s, m.target_start[row], m.target_start[row + 1],
						m.bands[wn / block_candidates][row], v, at, valid, m.counts, m.target_start[0]);
				}
				k = 0;
				now++;
			}
		}
		__syncthreads();
		for (u32 i = thread; i < (u32)min(counters, m.target_start[BM] - m.target_start[0]); i += 256)
			if (m.counts[i] != 0) atomicAdd(&s.better[m.target_start[0] + i], m.counts[i]);
	}
};

extern "C" __global__ void __launch_bounds__(256, 2) count_half_128(const Screen s) {
	HalfTile<3>::count(s);
}
extern "C" __global__ void __launch_bounds__(256, 2) count_half_128_small(const Screen s) {
	HalfTile<2>::count(s);
}
