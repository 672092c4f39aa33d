package train

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/train/recipe"
)

// A matrix excludes the target and the training answers, whether it has more candidates than the query
// has answers, fewer, or all entities.
func TestExclude(t *testing.T) {
	for _, count := range []int{1, 2, 6, 14, 15} {
		c := func(c *recipe.Recipe) {
			c.Negatives, c.NegativeCount, c.Filter = recipe.SharedNegatives, count, true
		}
		p := preparerOf(t, c)
		entities := parameterTable{width: 1, values: make([]float32, 15)}
		s := &stepper{config: p.config, known: p.known, tables: []parameterTable{entities}}
		more := false // whether a query has more answers than there are candidates
		w, err := p.prepare(t.Context(), firstItems(40), 0, 0)
		require.NoError(t, err)
		for _, m := range w.matrices {
			for i := m.query; i < m.lastQuery; i++ {
				scores := make([]float32, m.lastRow-m.row)
				s.exclude(w, i, m, scores)
				known := p.known.Answers(w.queries[i])
				more = more || len(known.Entities) > len(scores)
				for k, e := range w.rows[m.row:m.lastRow] {
					require.Equal(t, e == w.answers[i] || isTrainAnswer(known, e), scores[k] == excluded)
				}
			}
		}
		require.True(t, more || count > 2)
	}
}
