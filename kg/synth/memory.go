package synth

import (
	"fmt"
	"math/bits"

	"github.com/mquine/mquine/internal/proc"
	"github.com/mquine/mquine/internal/text"
)

// zipfMemory lists what Zipf is certain to allocate for sizes that are filled in.
func zipfMemory(c Config) []proc.Need {
	triples := int64(c.Train + c.Valid + c.Test)
	// The map of known triples has tables of a power of two, no more than 7/8 full, with 17 bytes a place.
	places := int64(1) << bits.Len64(uint64(triples*8/7))
	const (
		perTriple = 12 + 4  // itself and its relation
		perEntity = 33 + 90 // group, weights and urns; a label with its place in the vocabulary
	)
	return []proc.Need{
		{For: "triples", Bytes: perTriple*triples + 17*places},
		{For: "entities", Bytes: perEntity * int64(c.Entities)},
	}
}

// familiesMemory is zipfMemory for Families, which has facts in proportion to the entities, more with more relations.
func familiesMemory(c Config) []proc.Need {
	facts := int64(c.Entities) * (64 + 4*int64(c.Relations-int(core))) / 10
	const perFact = 300 // in the facts of all splits, with their queries, and in those of the training split
	return []proc.Need{{For: "facts", Bytes: perFact * facts}}
}

func checkMemory(kind string, c Config, needs []proc.Need) error {
	work := fmt.Sprintf("making %s of %s entities", kind, text.Comma(c.Entities))
	return proc.CheckMemory(work, "ask for a smaller data set, or give it more memory", needs...)
}
