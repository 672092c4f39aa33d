package zpattern

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mquine/mquine/internal/proc"
	"github.com/mquine/mquine/internal/proc/proctest"
	"github.com/mquine/mquine/kg"
)

// pairs returns a graph in which every entity is the head of the given number of triples.
func pairs(entities, each int) *kg.Graph {
	g := &kg.Graph{Name: "pairs", Entities: kg.NewVocabulary(), Relations: kg.NewVocabulary("r")}
	g.Splits[kg.Train] = make([]kg.Triple, 0, entities*each)
	for e := range entities {
		g.Entities.Add(strconv.Itoa(e))
		for i := range each {
			tail := int32((e + i*i + 1) % entities)
			g.Splits[kg.Train] = append(g.Splits[kg.Train], kg.Triple{Head: int32(e), Tail: tail})
		}
	}
	return g
}

func TestMemory(t *testing.T) {
	job := func(entities, each, asked int) func(*testing.T) ([]proc.Need, func() error) {
		return func(t *testing.T) ([]proc.Need, func() error) {
			g := pairs(entities, each)
			return memory(g, asked, 2), func() error {
				x, err := NewIndex(t.Context(), g)
				if err != nil {
					return err
				}
				var values [][]Value
				for _, side := range []kg.Side{kg.Tail, kg.Head} {
					v, err := x.Values(t.Context(), g.Splits[kg.Train][:asked], side, Paper, 2, nil)
					if err != nil {
						return err
					}
					values = append(values, v)
				}
				assert.Len(t, values, 2)
				return nil
			}
		}
	}
	proctest.CompareEstimates(t, []proctest.Job{
		{Name: "a large training split", Prepare: job(50_000, 100, 1000)},
		{Name: "many values", Prepare: job(100_000, 10, 1_000_000)},
	})
}

func TestTooLittleMemory(t *testing.T) {
	g := pairs(100_000, 10)
	proctest.Leave(t, 40<<20)
	assert.EqualError(t, CheckMemory(g, 1_000_000, 2),
		"counting the Z-patterns of pairs needs about 80 MiB of memory "+
			"(index of the training triples 15 MiB, values 65 MiB), "+
			"but only 40 MiB is available (a limit of the test): make more memory available")
	assert.NoError(t, CheckMemory(g, 1000, 2))

	g.Splits[kg.Train] = make([]kg.Triple, 4_000_000)
	_, err := NewTripleReport(t.Context(), g, kg.Triple{}, Paper, 1)
	assert.ErrorContains(t, err, "index of the training triples 61 MiB")
}
