// Package synth generates knowledge graphs for demonstrations, tests and benchmarks.
//
// A graph of [Families] is small and contains regularities to learn: symmetric, inverse and
// composed relations, relations of all categories, and Z-patterns. A graph of [Zipf] has the skew
// of YAGO3-10 and can have any size. By default, it is as large as YAGO3-10.
//
// The same configuration gives the same graph, triple by triple, on every platform. All choices
// come from one PCG stream and use integers. The few floating-point expressions use only operations
// that IEEE 754 rounds correctly and that a compiler may not fuse.
package synth

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/mquine/mquine/kg"
)

// Config gives the sizes of a graph. A zero size means the generator's default. All other sizes are
// exact. Impossible sizes are an error.
type Config struct {
	Entities, Relations int
	// Train, Valid and Test are numbers of triples. All triples are distinct, and every entity and
	// every relation is in a training triple.
	Train, Valid, Test int
	Seed               uint64
}

// Largest is the largest allowed value of each size. It exceeds the sizes of Wikidata5M.
const Largest = 30_000_000

// check returns an error if a size is out of range.
func (c Config) check() error {
	for _, size := range []struct {
		n    int
		what string
	}{
		{c.Entities, "entities"},
		{c.Relations, "relations"},
		{c.Train, "training triples"},
		{c.Valid, "validation triples"},
		{c.Test, "test triples"},
	} {
		if size.n < 0 || size.n > Largest {
			return fmt.Errorf("cannot make %d %s: ask for 1 to %d, or 0 for the default", size.n, size.what, Largest)
		}
	}
	return nil
}

func setDefault(size *int, n int) {
	if *size == 0 {
		*size = n
	}
}

// random returns a source of random numbers. Every generator uses its own stream, so graphs of
// different generators with the same seed are independent.
func random(seed, stream uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, stream))
}

func shuffle[T any](rng *rand.Rand, s []T) {
	rng.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
}

// permutation returns 0, …, n-1 in random order.
func permutation(rng *rand.Rand, n int) []int32 {
	p := make([]int32, n)
	for i := range p {
		p[i] = int32(i)
	}
	shuffle(rng, p)
	return p
}

// digits returns the number of decimal digits of n−1, the largest of n identifiers.
func digits(n int) int { return len(fmt.Sprint(max(n-1, 0))) }

// pulse returns a function to call in every step of a long loop. The function checks ctx in the
// first and in every 4096th call.
func pulse(ctx context.Context) func() error {
	step := -1
	return func() error {
		if step++; step%4096 != 0 {
			return nil
		}
		return ctx.Err()
	}
}

// name adds label(0), …, label(n−1) to v.
func name(ctx context.Context, v *kg.Vocabulary, n int, label func(i int) string) error {
	check := pulse(ctx)
	for i := range n {
		if err := check(); err != nil {
			return err
		}
		v.Add(label(i))
	}
	return nil
}
