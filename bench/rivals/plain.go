package main

import (
	"context"
	"math"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/model"
)

// plainLoop scores with an idiomatic loop in Go without assembly, on all threads, with several
// partial sums.
type plainLoop struct{ *job }

// plainLoops holds the loop of each comparison that has one.
var plainLoops = map[model.Comparison]func(q, e []float32) float32{
	kernel.Dot: dot, kernel.L1: l1, kernel.GroupNorm: pairNorm,
}

func (p plainLoop) about() string { return "a loop in Go" }

func (p plainLoop) score(c, q []float32, m int) error {
	compare := plainLoops[p.tower.Compare]
	// A few candidates at a time stay in the cache for all queries in the block.
	const each = 16
	return kernel.Parallel(context.Background(), p.threads, (p.n+each-1)/each, func(_, item int) {
		for i := range m {
			query := q[i*p.stride:][:p.tower.Phi]
			for e := item * each; e < min((item+1)*each, p.n); e++ {
				c[i*p.n+e] = compare(query, p.phi[e*p.stride:][:p.tower.Phi])
			}
		}
	})
}

func dot(q, e []float32) float32 {
	var a, b, c, d float32
	for ; len(q) >= 4 && len(e) >= 4; q, e = q[4:], e[4:] {
		a += q[0] * e[0]
		b += q[1] * e[1]
		c += q[2] * e[2]
		d += q[3] * e[3]
	}
	for i, v := range q {
		a += v * e[i]
	}
	return (a + b) + (c + d)
}

func l1(q, e []float32) float32 {
	abs := func(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }
	var a, b, c, d float32
	for ; len(q) >= 4 && len(e) >= 4; q, e = q[4:], e[4:] {
		a += abs(q[0] - e[0])
		b += abs(q[1] - e[1])
		c += abs(q[2] - e[2])
		d += abs(q[3] - e[3])
	}
	for i, v := range q {
		a += abs(v - e[i])
	}
	return -((a + b) + (c + d))
}

// pairNorm returns minus the sum of the moduli of complex differences. A real part is followed by
// its imaginary part.
func pairNorm(q, e []float32) float32 {
	modulus := func(x, y float32) float32 { return float32(math.Sqrt(float64(x*x + y*y))) }
	var a, b float32
	for ; len(q) >= 4 && len(e) >= 4; q, e = q[4:], e[4:] {
		a += modulus(q[0]-e[0], q[1]-e[1])
		b += modulus(q[2]-e[2], q[3]-e[3])
	}
	if len(q) >= 2 && len(e) >= 2 {
		a += modulus(q[0]-e[0], q[1]-e[1])
	}
	return -(a + b)
}
