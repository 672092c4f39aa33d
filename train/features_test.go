package train

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/train/internal/traintest"
	"github.com/mquine/mquine/train/recipe"
)

// A step that scores all entities multiplies the table of entities in place if φ is the entity's row. All
// other steps copy or compute Φ.
func TestTableOfEntities(t *testing.T) {
	for _, c := range []struct {
		model     string
		negatives recipe.Negatives
		table     bool
	}{
		{"complex", recipe.KvsAll, true}, {"complex", recipe.OneVsAll, true}, {"tucker", recipe.KvsAll, true},
		{"complex", recipe.SharedNegatives, false}, {"complex", recipe.IndependentNegatives, false},
		{"transe-l1", recipe.KvsAll, false}, {"mquine", recipe.KvsAll, false}, {"cp", recipe.KvsAll, false},
	} {
		tr, err := NewTrainer(t.Context(), traintest.Recipe(func(r *recipe.Recipe) {
			r.Model, r.Negatives, r.NegativeCount, r.ZSamples = c.model, c.negatives, 5, 2
			r.Reciprocal, r.Filter = c.model == "tucker", true
		}), traintest.RandomGraph(12, 3, 64, 3), machineOf(t, 2))
		require.NoError(t, err)
		_, err = tr.Epoch(t.Context())
		require.NoError(t, err)
		s := tr.stepper
		require.Equal(t, c.table, &s.phi.Data[0] == &tr.model.Tensors()[0][0], "%s, %s", c.model, c.negatives)
	}
}
