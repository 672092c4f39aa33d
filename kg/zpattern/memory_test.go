package zpattern

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mquine/mquine/internal/proc"
	"github.com/mquine/mquine/internal/proc/proctest"
	"github.com/mquine/mquine/kg"
)

// pairs returns a graph in which every entity is the head of the given number of triples. Their
// relations alternate.
func pairs(entities, each, relations int) *kg.Graph {
	g := &kg.Graph{Name: "pairs", Entities: kg.NewVocabulary(), Relations: kg.NewVocabulary()}
	for r := range relations {
		g.Relations.Add(strconv.Itoa(r))
	}
	g.Splits[kg.Train] = make([]kg.Triple, 0, entities*each)
	for e := range entities {
		g.Entities.Add(strconv.Itoa(e))
		for i := range each {
			tail := int32((e + i*i + 1) % entities)
			t := kg.Triple{Head: int32(e), Relation: int32((e*each + i) % relations), Tail: tail}
			g.Splits[kg.Train] = append(g.Splits[kg.Train], t)
		}
	}
	return g
}

func TestMemory(t *testing.T) {
	job := func(entities, each, relations, asked int) func(*testing.T) ([]proc.Need, func() error) {
		return func(t *testing.T) ([]proc.Need, func() error) {
			g := pairs(entities, each, relations)
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
		{Name: "a large training split", Prepare: job(50_000, 100, 1, 1000)},
		{Name: "many relations", Prepare: job(200_000, 10, 2_000, 1000)},
		{Name: "many values", Prepare: job(100_000, 10, 1, 1_000_000)},
	})
}

func TestCountRows(t *testing.T) {
	g := pairs(50, 7, 5)
	g.Splits[kg.Train] = append(g.Splits[kg.Train], g.Splits[kg.Train][:100]...) // repeats add no row
	rows := map[[3]int32]bool{}
	for _, t := range g.Splits[kg.Train] {
		rows[[3]int32{t.Relation, 0, t.Head}], rows[[3]int32{t.Relation, 1, t.Tail}] = true, true
	}
	assert.EqualValues(t, len(rows), countRows(g.Splits[kg.Train], 50, 5))
	assert.Zero(t, countRows(nil, 0, 0))
}

func TestTooLittleMemory(t *testing.T) {
	g := pairs(100_000, 10, 1)
	proctest.Leave(t, 40<<20)
	assert.EqualError(t, CheckMemory(g, 1_000_000, 2),
		"counting the Z-patterns of pairs needs about 82 MiB of memory "+
			"(index of the training triples 17 MiB, values 65 MiB), "+
			"but only 40 MiB is available (a limit of the test): make more memory available")
	assert.NoError(t, CheckMemory(g, 1000, 2))

	g.Splits[kg.Train] = make([]kg.Triple, 4_000_000)
	_, err := NewTripleReport(t.Context(), g, kg.Triple{}, Paper, 1)
	assert.ErrorContains(t, err, "index of the training triples 61 MiB")
}
