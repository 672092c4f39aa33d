package rank

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTieRules(t *testing.T) {
	r := Rank{Better: [NumFilters]int32{4}, Equal: [NumFilters]int32{3}}
	assert.Equal(t, 5.0, Optimistic.Rank(&r, None))
	assert.Equal(t, 8.0, Pessimistic.Rank(&r, None))
	assert.Equal(t, 6.5, Realistic.Rank(&r, None))
	assert.Equal(t, 7.0, Rounded.Rank(&r, None))
	r.Equal[None] = 4
	assert.Equal(t, 7.0, Rounded.Rank(&r, None))
	// Half of 2³¹ − 1 equal candidates is 2³⁰ if rounded up. Four candidates are better.
	r.Equal[None] = math.MaxInt32
	assert.Equal(t, 1073741829.0, Rounded.Rank(&r, None))
}

func TestSwitchNames(t *testing.T) {
	for sides := range NumSides {
		got, err := ParseSides(sides.String())
		require.NoError(t, err)
		assert.Equal(t, sides, got)
	}
	for ties := range NumTies {
		got, err := ParseTies(ties.String())
		require.NoError(t, err)
		assert.Equal(t, ties, got)
	}
	for f := range NumFilters {
		got, err := ParseFilter(f.String())
		require.NoError(t, err)
		assert.Equal(t, f, got)
	}
	_, err := ParseTies("random")
	assert.EqualError(t, err, `unknown tie rule "random": choose optimistic, pessimistic, realistic or rounded`)
	_, err = ParseSides("")
	assert.EqualError(t, err, `unknown sides "": choose tail, head, both or relation`)
	assert.Equal(t, "Ties(9)", fmt.Sprint(Ties(9)))
}
