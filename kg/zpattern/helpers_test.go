package zpattern

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kg"
)

// graphOf returns a graph with the given training triples.
func graphOf(entities, relations int, train []kg.Triple) *kg.Graph {
	g := &kg.Graph{Name: "test", Entities: kg.NewVocabulary(), Relations: kg.NewVocabulary()}
	for i := range entities {
		g.Entities.Add("e" + strconv.Itoa(i))
	}
	for i := range relations {
		g.Relations.Add("r" + strconv.Itoa(i))
	}
	g.Splits[kg.Train] = train
	return g
}

// randomTriples draws triples with repeats and loops. If skew is set, the first entities are hubs.
func randomTriples(rng *rand.Rand, n, entities, relations int, skew bool) []kg.Triple {
	entity := func() int32 {
		if skew {
			return int32(float64(entities) * rng.Float64() * rng.Float64())
		}
		return rng.Int32N(int32(entities))
	}
	triples := make([]kg.Triple, n)
	for i := range triples {
		triples[i] = kg.Triple{Head: entity(), Relation: rng.Int32N(int32(relations)), Tail: entity()}
	}
	return triples
}

// numConventions is the number of conventions.
const numConventions = Definition + 1

// enumeration finds patterns by brute force over all pairs of entities.
type enumeration struct {
	entities int32
	train    map[kg.Triple]bool
	counts   [numConventions]map[kg.Triple]int // counts that have been computed
}

func enumerate(g *kg.Graph) enumeration {
	e := enumeration{entities: int32(g.Entities.Len()), train: map[kg.Triple]bool{}}
	for c := range e.counts {
		e.counts[c] = map[kg.Triple]int{}
	}
	for _, t := range g.Splits[kg.Train] {
		e.train[t] = true
	}
	return e
}

func (e enumeration) patterns(t kg.Triple, c Convention) []Pattern {
	var found []Pattern
	for e2 := range e.entities {
		for e3 := range e.entities {
			p := Pattern{e2, e3}
			if c == Definition && e2 == e3 {
				continue
			}
			all := true
			for _, edge := range p.Triples(t) {
				all = all && e.train[edge]
			}
			if all {
				found = append(found, p)
			}
		}
	}
	return found
}

func (e enumeration) count(t kg.Triple, c Convention) int {
	n, ok := e.counts[c][t]
	if !ok {
		n = len(e.patterns(t, c))
		e.counts[c][t] = n
	}
	return n
}

// value computes the Value of a triple directly from the definitions.
func (e enumeration) value(t kg.Triple, side kg.Side, c Convention) Value {
	z := e.count(t, c)
	v := Value{Z: uint64(z)}
	for candidate := range e.entities {
		other := t
		if side == kg.Tail {
			other.Tail = candidate
		} else {
			other.Head = candidate
		}
		if e.train[other] {
			continue
		}
		if n := e.count(other, c); n >= z {
			v.Rank++
			if n > z {
				v.Above++
			}
		}
	}
	switch {
	case c == Paper && v.Rank <= 8, c == Definition && v.Rank < 10:
		v.Case = Easy
	case v.Above >= 10:
		v.Case = Hard
	default:
		v.Case = Neutral
	}
	return v
}

// union returns S_Z of a query and its candidates.
func (e enumeration) union(q kg.Query, candidates []int32) map[kg.Triple]bool {
	all := map[kg.Triple]bool{}
	for _, candidate := range candidates {
		t := q.Triple(candidate)
		for _, p := range e.patterns(t, Paper) {
			for _, edge := range p.Triples(t) {
				all[edge] = true
			}
		}
	}
	return all
}

// realGraph opens a benchmark data set in MQUINE_DATA. It skips the test if the data set is
// missing.
func realGraph(tb testing.TB, name string) *kg.Graph {
	tb.Helper()
	dir := os.Getenv("MQUINE_DATA")
	if dir == "" {
		tb.Skip("set MQUINE_DATA to the folder of the benchmark data sets to run this test")
	}
	if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
		tb.Skipf("MQUINE_DATA has no %s: fetch it with mquine data get %s", name, name)
	}
	g, err := kg.Open(context.Background(), name)
	require.NoError(tb, err)
	return g
}
