package kg

import (
	"math"

	"github.com/mquine/mquine/internal/compressed"
)

// limits bounds the size of the input, so a hostile or damaged file leads to an error instead of
// exhausting memory.
type limits struct {
	// triples bounds a split, and labels bounds a vocabulary.
	triples, labels int
	compressed.Limits
}

// defaultLimits keeps the number of triples below the limit of an Index, 2³² − 1.
var defaultLimits = limits{triples: 1 << 30, labels: math.MaxInt32, Limits: compressed.DefaultLimits}
