package recipe

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/model"
)

// Every model has valid defaults, and a dimension other than the general one.
func TestDefaultFor(t *testing.T) {
	for _, name := range model.Names() {
		c, err := DefaultFor(name)
		require.NoError(t, err)
		assert.Equal(t, name, c.Model)
		assert.NotEqual(t, Default().Dim, c.Dim, name)
	}
	_, err := DefaultFor("hole")
	assert.ErrorContains(t, err, `unknown model "hole"`)
}

func TestRecipeErrors(t *testing.T) {
	s, err := model.Lookup("rotate")
	require.NoError(t, err)
	saved := s.Recipe
	defer func() { s.Recipe = saved }()
	for want, recipe := range map[string]map[string]string{
		`the recipe of model rotate sets "droput", which is not a training option`: {"droput": "0"},
		`the recipe of model rotate sets dim to "0": must be`:                      {"dim": "0"},
		"model rotate does not support dura":                                       {"regulariser": "dura"},
	} {
		s.Recipe = recipe
		_, err := DefaultFor("rotate")
		assert.ErrorContains(t, err, want)
	}
}
