package bench

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/ceiling"
)

// pairs measures the kernels that score a query against scattered rows of a table that exceeds the
// caches, as the float64 stage does with undecided pairs. With int8, the table has 48 rows of
// coarse and fine codes, like the undecided pairs of a panel in the second int8 stage, and with
// int16-l1 48 rows of two-byte codes. GB/s counts the rows.
func pairs(s *suite) []Benchmark {
	const rows = 256 // in a call
	var list []Benchmark
	add := func(
		backend *kernel.Backend, compare string, k, psi, phi, table int, quick bool, o operation,
		call func(x, table []float32, ids []int32),
	) {
		list = append(list, Benchmark{
			Name:  name("Pair", "tier", backend.Tier, "compare", compare, "k", k),
			Quick: quick && s.best(backend),
			run: func(_ context.Context, b *testing.B) error {
				o := o // a benchmark runs several times, and each run adds a limit
				o.limits = slices.Clone(o.limits)
				t, x := randoms(table*k*phi), randoms(k*psi)
				ids := make([]int32, 0, max(table, rows))
				for len(ids) < rows {
					ids = append(ids, shuffled(table)...)
				}
				at := 0
				o.call = func() {
					if at+rows > len(ids) {
						at = 0
					}
					call(x, t, ids[at:at+rows])
					at += rows
				}
				o.bytes = rows * float64(4*k*phi)
				if l := s.read(ceiling.Memory); l != nil && table*k*phi*4 >= outOfCache/2 {
					o.limits = append(o.limits, share{"pct-bandwidth", o.bytes, l})
				}
				o.measure(b)
				return nil
			},
		})
	}
	for _, backend := range s.backends {
		for _, k := range []int{352, 1504} { // 342 and 1,482, rounded up to whole PairWidths
			for _, c := range kernel.Comparisons() {
				o, out := operation{flops: rows * float64(k) * c.Flops()}, make([]float64, rows)
				if c == kernel.Dot {
					o.limits = []share{{"pct-peak", o.flops, newLimit(ceiling.FMA64(backend))}}
				}
				quick := k == 1504 && c == kernel.Dot
				psi, phi := c.Words()
				add(backend, c.String(), k, psi, phi, outOfCache/4/(k*phi), quick, o,
					func(x, table []float32, ids []int32) { backend.Pair(c, out, x, table, k*phi, ids) })
			}
			sums := make([]int32, rows)
			words := roundUp(k/2, kernel.CodePairWidth) // two-byte codes, or coarse and fine codes
			distances := operation{others: map[string]float64{"GOP/s": rows * float64(2*2*words) / 1e9}}
			add(backend, "int16-l1", words, 1, 1, 48, false, distances, func(x, table []float32, ids []int32) {
				backend.PairInt16L1(sums, kernel.Words(x), kernel.Words(table), words, ids)
			})
			if !backend.HasVNNI() {
				continue
			}
			ops := rows * float64(2*kernel.WordBytes*words)
			o := operation{
				others: map[string]float64{"GOP/s": ops / 1e9},
				limits: []share{{"pct-peak", ops, newLimit(ceiling.Int8(backend))}},
			}
			add(backend, "int8", words, 1, 1, 48, k == 1504, o, func(x, table []float32, ids []int32) {
				backend.PairInt8(sums, kernel.Words(x), kernel.Words(table), words, ids)
			})
		}
	}
	return list
}

// matrices measures the float64 kernels of the matrix models, on operands in the L1 cache, or in L2
// if three padded matrices exceed L1. GFLOP/s does not count padding.
func matrices(s *suite) []Benchmark {
	var list []Benchmark
	for _, backend := range s.backends {
		for _, d := range []int{18, 38, 64} {
			cube, square := float64(d*d*d), float64(d*d)
			n := kernel.LD(d) * kernel.LD(d)
			for _, kind := range []struct {
				name         string
				flops, bytes float64
				limit        *ceiling.Ceiling
				call         func(c, a, b, x []float64)
			}{
				{
					"MatMulFMA", 2 * cube, 24 * square, new(ceiling.FMA64(backend)),
					func(c, a, b, _ []float64) { backend.MatMulFMA(c, a, b, d) },
				},
				{
					"MatMul", 2 * cube, 24 * square, new(ceiling.MulAdd64(backend)),
					func(c, a, b, _ []float64) { backend.MatMul(c, a, b, d) },
				},
				{
					"Frobenius", 4 * square, 24 * square, nil,
					func(c, a, b, x []float64) { backend.Frobenius(a, b, x, d, c) },
				},
			} {
				list = append(list, Benchmark{
					Name:  name(kind.name, "tier", backend.Tier, "d", d),
					Quick: d == 38 && s.best(backend),
					run: func(_ context.Context, b *testing.B) error {
						c, x, y, z := kernel.AlignedFloat64(n), matrix(d), matrix(d), matrix(d)
						o := operation{call: func() { kind.call(c, x, y, z) }, flops: kind.flops, bytes: kind.bytes}
						if kind.limit != nil {
							o.limits = append(o.limits, share{"pct-peak", o.flops, newLimit(*kind.limit)})
						} else if l := s.read(ceiling.Holding(3 * 8 * n)); l != nil {
							o.limits = append(o.limits, share{"pct-bandwidth", o.bytes, l})
						}
						o.measure(b)
						return nil
					},
				})
			}
		}
	}
	return list
}

// packing measures how fast the rows of a table that exceeds the caches are interleaved into
// panels, as in a ranking before the first query. GB/s counts reads and writes.
func packing(s *suite) []Benchmark {
	var list []Benchmark
	widths := map[int]bool{}
	for _, backend := range s.backends {
		if widths[backend.NR] {
			continue // this tier runs the same Go code as another one
		}
		widths[backend.NR] = true
		for _, k := range []int{342, 1482} {
			list = append(list, Benchmark{
				Name:  name("PackRows", "width", backend.NR, "k", k),
				Quick: k == 1482 && s.best(backend),
				run: func(_ context.Context, b *testing.B) error {
					size := k * backend.NR
					panels := max(2, outOfCache/(4*size))
					table, packed := kernel.Words(randoms(panels*size)), kernel.AlignedWords(panels*size)
					ids, terms := shuffled(panels*backend.NR), make([]int32, k)
					for i := range terms {
						terms[i] = int32(i)
					}
					p := 0
					o := operation{
						call: func() {
							panel, rows := packed[p*size:(p+1)*size], ids[p*backend.NR:(p+1)*backend.NR]
							kernel.PackRows(panel, table, k, rows, terms, backend.NR)
							p = (p + 1) % panels
						},
						bytes: float64(2 * 4 * size),
					}
					for range panels {
						o.call() // the system allocates a page on the first write to it
					}
					if l := s.read(ceiling.Memory); l != nil {
						o.limits = append(o.limits, share{"pct-bandwidth", o.bytes, l})
					}
					o.measure(b)
					return nil
				},
			})
		}
	}
	return list
}

// matrix returns a d × d matrix of values in [0, 1), padded for the kernels.
func matrix(d int) []float64 {
	ld := kernel.LD(d)
	m := kernel.AlignedFloat64(ld * ld)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range d {
		for j := range d {
			m[i*ld+j] = rng.Float64()
		}
	}
	return m
}

// roundUp returns the least multiple of m that is at least n.
func roundUp(n, m int) int { return (n + m - 1) / m * m }

// shuffled returns a permutation of 0, …, n − 1.
func shuffled(n int) []int32 {
	ids := make([]int32, n)
	for i, at := range rand.New(rand.NewPCG(1, 1)).Perm(n) {
		ids[i] = int32(at)
	}
	return ids
}
