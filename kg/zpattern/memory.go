package zpattern

import (
	"fmt"
	"unsafe"

	"github.com/mquine/mquine/internal/proc"
	"github.com/mquine/mquine/kg"
)

// CheckMemory returns an error if the available memory cannot hold an index of g and the values of
// the given number of triples on the given number of sides.
func CheckMemory(g *kg.Graph, triples, sides int) error {
	work := fmt.Sprintf("counting the Z-patterns of %s", g.Name)
	return proc.CheckMemory(work, "make more memory available", memory(g, triples, sides)...)
}

func memory(g *kg.Graph, triples, sides int) []proc.Need {
	// A training triple needs an edge during construction and two answers in the index.
	const perTriple = int64(unsafe.Sizeof(edge(0)) + 2*4)
	const perOrder = 4 // the triples sorted by query
	return []proc.Need{
		{For: "index of the training triples", Bytes: perTriple * int64(len(g.Splits[kg.Train]))},
		{For: "values", Bytes: int64(triples) * (int64(sides)*int64(unsafe.Sizeof(Value{})) + perOrder)},
	}
}
