package synth

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mquine/mquine/internal/proc"
	"github.com/mquine/mquine/internal/proc/proctest"
)

func TestMemory(t *testing.T) {
	zipf := func(c Config) func(*testing.T) ([]proc.Need, func() error) {
		return func(t *testing.T) ([]proc.Need, func() error) {
			filled, err := zipfSizes(c)
			assert.NoError(t, err)
			return zipfMemory(filled), func() error { _, _, err := Zipf(t.Context(), c); return err }
		}
	}
	families := func(c Config) func(*testing.T) ([]proc.Need, func() error) {
		return func(t *testing.T) ([]proc.Need, func() error) {
			filled, err := familiesSizes(c)
			assert.NoError(t, err)
			return familiesMemory(filled), func() error { _, _, err := Families(t.Context(), c); return err }
		}
	}
	proctest.CompareEstimates(t, []proctest.Job{
		{Name: "zipf, many entities", Prepare: zipf(Config{Entities: 400_000, Train: 400_000})},
		{Name: "zipf, many triples", Prepare: zipf(Config{Entities: 50_000, Train: 1_500_000})},
		{Name: "families", Prepare: families(Config{Entities: 40_000})},
		{Name: "families, the fewest relations", Prepare: families(Config{Entities: 80_000, Relations: int(core)})},
	})
}

func TestTooLittleMemory(t *testing.T) {
	proctest.Leave(t, 100<<20)
	_, _, err := Zipf(t.Context(), Config{Entities: 3_000_000})
	assert.EqualError(t, err, "generating a graph like YAGO3-10 with 3,000,000 entities needs about 1.3 GiB of memory "+
		"(triples 949 MiB, entities 352 MiB), but only 100 MiB is available (a limit of the test): "+
		"ask for a smaller data set, or make more memory available")
	_, _, err = Families(t.Context(), Config{Entities: 200_000})
	assert.ErrorContains(t, err,
		"generating a families graph with 200,000 entities needs about 526 MiB of memory (facts 526 MiB), ")
	_, _, err = Families(t.Context(), Config{})
	assert.NoError(t, err)
}
