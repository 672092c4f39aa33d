package kg

import (
	"math/rand/v2"
	"testing"
)

func BenchmarkOpen(b *testing.B) {
	for _, name := range []string{"fb15k-237", "fb15k", "wn18rr"} {
		b.Run(name, func(b *testing.B) {
			realDataset(b, name)
			for b.Loop() {
				if _, err := Open(b.Context(), name); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkNewIndex(b *testing.B) {
	for _, name := range []string{"fb15k-237", "skewed"} {
		b.Run(name, func(b *testing.B) {
			g := benchmarkGraph(b, name)
			b.ReportAllocs()
			for b.Loop() {
				newIndex(b, g)
			}
		})
	}
}

// BenchmarkAnswers looks up the answers to queries of randomly drawn triples, so entities with many
// triples are often the anchors.
func BenchmarkAnswers(b *testing.B) {
	for _, name := range []string{"fb15k-237", "skewed"} {
		b.Run(name, func(b *testing.B) {
			g := benchmarkGraph(b, name)
			x := newIndex(b, g)
			rng := rand.New(rand.NewPCG(1, 2))
			queries := make([]Query, 1<<14)
			for i := range queries {
				triple := g.Splits[Train][rng.IntN(len(g.Splits[Train]))]
				queries[i], _ = triple.Query(Side(i % 2))
			}
			b.ReportAllocs()
			i, found := 0, 0
			for b.Loop() {
				found += len(x.Answers(queries[i%len(queries)]).Entities)
				i++
			}
			if found == 0 {
				b.Fatal("no query has an answer")
			}
		})
	}
}

// benchmarkGraph returns the data set with the given name. For "skewed", it generates a graph as
// large as YAGO3-10 in which few entities and relations have most of the triples.
func benchmarkGraph(b *testing.B, name string) *Graph {
	if name != "skewed" {
		return realDataset(b, name)
	}
	const entities, relations, triples = 123_182, 37, 1_089_040
	g := &Graph{Name: name, Entities: numberedLabels(entities), Relations: numberedLabels(relations)}
	rng := rand.New(rand.NewPCG(1, 1))
	skewed := func(n int) int32 {
		return int32(float64(n) * rng.Float64() * rng.Float64() * rng.Float64() * rng.Float64())
	}
	for range triples {
		g.Splits[Train] = append(g.Splits[Train], Triple{skewed(entities), skewed(relations), skewed(entities)})
	}
	return g
}
