package synth

import (
	"fmt"
	"math/bits"

	"github.com/mquine/mquine/internal/proc"
	"github.com/mquine/mquine/internal/text"
)

// zipfMemory lists the least amounts of memory that Zipf needs. All sizes of c must be set.
func zipfMemory(c Config) []proc.Need {
	triples := int64(c.Train + c.Valid + c.Test)
	// The map of known triples has 17 bytes per slot. The number of slots is a power of two, and at
	// most 7/8 of them are full.
	places := int64(1) << bits.Len64(uint64(triples*8/7))
	const (
		perTriple = 12 + 4  // the triple and its planned relation
		perEntity = 33 + 90 // group, weights and urns; label and vocabulary
	)
	return []proc.Need{
		{For: "triples", Bytes: perTriple*triples + 17*places},
		{For: "entities", Bytes: perEntity * int64(c.Entities)},
	}
}

// familiesMemory lists the least amounts of memory that Families needs. The number of facts is
// proportional to the number of entities and grows with the number of relations.
func familiesMemory(c Config) []proc.Need {
	facts := int64(c.Entities) * (64 + 4*int64(c.Relations-int(core))) / 10
	const perFact = 300 // in two indexes, one of all splits and one of the training split
	return []proc.Need{{For: "facts", Bytes: perFact * facts}}
}

func checkMemory(kind string, c Config, needs []proc.Need) error {
	work := fmt.Sprintf("generating %s with %s entities", kind, text.Comma(c.Entities))
	return proc.CheckMemory(work, "ask for a smaller data set, or make more memory available", needs...)
}
