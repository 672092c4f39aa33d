// Package synth makes knowledge graphs for demonstrations, tests and measurements of speed.
//
// [Families] is small and has regularities to learn: symmetric, inverse and composed relations,
// all relation categories, and Z-patterns. [Zipf] has any size asked for, by default the size and
// the skew of YAGO3-10.
//
// The same configuration gives the same graph, triple by triple, on every platform: all choices
// come from one PCG stream and are decided in integers; the few floating-point expressions use
// only operations that IEEE 754 rounds exactly, none of which a compiler may fuse.
package synth

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/mquine/mquine/kg"
)

// Config gives the size of a graph. A size of zero is left to the generator; every other size is
// met exactly, or the graph is refused.
type Config struct {
	Entities, Relations int
	// Train, Valid and Test are numbers of triples. No triple occurs twice, within a split or in
	// two splits, and every entity and relation occurs in a training triple.
	Train, Valid, Test int
	Seed               uint64
}

// Largest is the largest size of each kind, more than Wikidata5M has.
const Largest = 30_000_000

// check refuses sizes that are out of range.
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
			return fmt.Errorf("%d %s cannot be made: ask for 1 to %d, or 0 for the default", size.n, size.what, Largest)
		}
	}
	return nil
}

func setDefault(size *int, n int) {
	if *size == 0 {
		*size = n
	}
}

// random returns the generator's stream of choices; stream separates the generators, so that one
// seed does not tie their graphs together.
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

// digits returns the number of decimal digits of the largest of n numbers that count from 0.
func digits(n int) int { return len(fmt.Sprint(max(n-1, 0))) }

// pulse returns a function to be called at every step of a long loop, which returns ctx's error at
// the first step and every so many steps.
func pulse(ctx context.Context) func() error {
	step := -1
	return func() error {
		if step++; step%4096 != 0 {
			return nil
		}
		return ctx.Err()
	}
}

// name adds the labels of 0, …, n-1 to v.
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
